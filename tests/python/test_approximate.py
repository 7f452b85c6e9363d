"""Approximate search: as good as requested, learned once, the same for every thread, copy and file."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import dgmm
import numpy as np
import pytest
from dgmm._approximate import Tally
from sklearn.base import clone
from support import ALL, DTYPES, blobs, quiet_fit

CLUSTERS = 3000


def made(dtype=np.float32, dim=3, scale=0.3):
    """A model of many centers, and rows around them."""
    rng = np.random.default_rng(3)
    centers = rng.uniform(-9, 9, size=(CLUSTERS, dim)).astype(dtype)
    X = (centers[rng.integers(CLUSTERS, size=20_000)] + rng.normal(scale=scale, size=(20_000, dim))).astype(dtype)
    return quiet_fit(dgmm.DGMM(CLUSTERS, init=centers, max_iter=1), X), X


def right(model, X, labels):
    """Which rows have the nearest cluster, or one at most 1 % farther."""
    near = model.top_k(X, 1).distances[:, 0]
    return np.linalg.norm(X - model.cluster_centers_[labels], axis=1) <= 1.01 * near + 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
def test_approximate_labels_are_as_good_as_asked_for_and_say_how_good(dtype):
    model, X = made(dtype)
    labels = model.predict(X, method="approximate")
    assert labels.dtype == np.int32
    assert right(model, X, labels).mean() > 0.975
    assert model.approximate_recall_ == pytest.approx(right(model, X, labels).mean(), abs=0.03)
    assert model.approximate_reach_[0.98, 1] > 0
    for threads in (1, 3):
        model.set_params(n_threads=threads)
        np.testing.assert_array_equal(model.predict(X, method="approximate"), labels)


def test_a_recall_asks_for_approximate_search_and_the_default_is_exact():
    model, X = made()
    np.testing.assert_array_equal(model.predict(X), model.predict(X, method="exact", recall=0.5))
    assert not hasattr(model, "approximate_reach_")
    model.predict(X, recall=0.9)
    model.predict(X, recall=0.999)
    assert model.approximate_reach_[0.9, 1] < model.approximate_reach_[0.999, 1]


@pytest.mark.parametrize("recall", [0, -1.0, 1.01, np.nan, "much", True])
def test_a_recall_is_a_share(recall):
    model = quiet_fit(dgmm.KMeans(2, random_state=0), blobs(60, 3, 2))
    with pytest.raises((TypeError, ValueError), match=r"recall is .*; it must be a number above 0 and at most 1"):
        model.predict(blobs(60, 3, 2), recall=recall)


def test_rows_have_the_same_labels_in_one_call_and_in_many():
    model, X = made()
    whole = model.predict(X, method="approximate")
    reach = dict(model.approximate_reach_)
    parts = [model.predict(X[start : start + 777], method="approximate") for start in range(0, len(X), 777)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert model.approximate_reach_ == reach


def test_few_rows_are_searched_exactly_until_more_have_come():
    model, X = made()
    np.testing.assert_array_equal(model.predict(X[:100], method="approximate"), model.predict(X[:100]))
    assert not hasattr(model, "approximate_reach_")
    assert model.approximate_recall_ == 1
    model.predict(X[:300], method="approximate")
    assert model.predict(X[:1], method="approximate").shape == (1,)
    assert set(model.approximate_reach_) == {(0.98, 1)}


@pytest.mark.parametrize("cls", ALL)
def test_few_clusters_are_searched_exactly(cls):
    X = blobs(400, 3, 4)
    model = quiet_fit(cls(4, random_state=0), X)
    np.testing.assert_array_equal(model.predict(X, method="approximate"), model.predict(X))
    assert model.approximate_recall_ == 1
    assert model.approximate_reach_ == {(0.98, 1): None}


def test_rows_unlike_the_first_ones_look_farther():
    model, X = made(dim=12, scale=0.05)
    model.predict(X, method="approximate")
    short = model.approximate_reach_[0.98, 1]
    between = np.random.default_rng(0).uniform(-9, 9, size=(20_000, 12)).astype(np.float32)
    labels = model.predict(between, method="approximate")
    long = model.approximate_reach_[0.98, 1]
    assert long is None or long > short
    assert right(model, between, labels).mean() > 0.97
    assert model.approximate_recall_ > 0.97


def test_a_share_is_clearly_below_only_beyond_chance():
    assert not Tally().is_clearly_below(1.0)
    assert not Tally(97, 100).is_clearly_below(0.98)
    assert not Tally(995, 1000).is_clearly_below(1.0)
    assert Tally(900, 1000).is_clearly_below(0.98)
    assert Tally(0, 100).is_clearly_below(0.1)


def test_a_saved_copied_or_pickled_model_answers_as_before(tmp_path):
    model, X = made()
    labels = model.predict(X, method="approximate")
    model.predict(X, recall=0.9)
    model.save(tmp_path / "model.safetensors")
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), dgmm.load(tmp_path / "model.safetensors")):
        assert not hasattr(again, "_index")
        assert again.approximate_reach_ == model.approximate_reach_
        assert again.approximate_recall_ == model.approximate_recall_
        np.testing.assert_array_equal(again.predict(X[:40], method="approximate"), labels[:40])
        np.testing.assert_array_equal(again.predict(X, method="approximate"), labels)
    assert not hasattr(clone(model), "approximate_reach_")


@pytest.mark.parametrize("cls", ALL)
def test_a_refit_forgets_what_searches_have_learned(cls):
    X = blobs(600, 3, 4)
    model = quiet_fit(cls(4, random_state=0), X)
    model.predict(X, method="approximate")
    assert {"approximate_reach_", "approximate_recall_", "_index"} <= vars(model).keys()
    quiet_fit(model, X)
    assert not {"approximate_reach_", "approximate_recall_", "_index", "_tallies"} & vars(model).keys()


def test_threads_may_search_at_once():
    model, X = made()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: model.predict(X[: 5000 + i], method="approximate"), range(16)))
    # Calls that began before there was a reach have learned their own, from other rows.
    assert all(right(model, X[: len(labels)], labels).mean() > 0.97 for labels in found)
    assert model.predict(X, method="approximate").shape == (20_000,)


def test_new_centers_are_searched_by_a_new_index():
    model, X = made()
    model.predict(X, method="approximate")
    model.cluster_centers_ = np.ascontiguousarray(model.cluster_centers_[::-1])
    labels = model.predict(X, method="approximate")
    assert right(model, X, labels).mean() > 0.97


def test_near_clusters_can_be_found_approximately():
    model, X = made()
    exact, found = model.top_k(X, 5), model.top_k(X, 5, method="approximate")
    assert found.indices.dtype == np.int64
    assert (found.distances <= 1.01 * exact.distances + 1e-6).mean() > 0.97
    assert (np.diff(found.distances, axis=1) >= 0).all()
    assert model.approximate_reach_[0.98, 5] > 0
    again = model.top_k(X[:50], 5, method="approximate")
    np.testing.assert_array_equal(again.indices, found.indices[:50])
    many = model.top_k(X[:300], 17, method="approximate")
    np.testing.assert_array_equal(many.indices, model.top_k(X[:300], 17).indices)
