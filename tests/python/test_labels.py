"""The labels of a fit, by ``labels``."""

import pickle

import dgmm
import numpy as np
import pytest
from support import ALL, blobs, quiet_fit


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("coreset_size", [None, 800])
@pytest.mark.parametrize("cls", ALL)
def test_exact_labels_are_those_of_predict(cls, coreset_size, weighted):
    X, weights = blobs(3000, 3, 200), np.arange(3000) % 3 + 0.5 if weighted else None
    model = cls(150, labels="exact", coreset_size=coreset_size, random_state=0, max_iter=3)
    quiet_fit(model, X, weights)
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    error = dgmm.quantization_error(X, model.cluster_centers_, sample_weight=weights)
    assert model.inertia_ == pytest.approx(error, rel=1e-9)
    assert model.seconds_["labels"] > 0


@pytest.mark.parametrize("coreset", [False, True])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("engine", ["auto", "grouped", "pointwise"])
@pytest.mark.parametrize("cls", ALL)
def test_exact_labels_are_those_of_predict_where_centers_are_equally_near(cls, engine, dtype, metric, coreset):
    if (metric == "cosine" and cls is dgmm.GaussianMixture) or (
        engine != "auto" and "engine" not in cls().get_params()
    ):
        pytest.skip("has no such setting")
    settings = {"metric": metric} if metric == "cosine" else {}
    if engine != "auto":
        settings["engine"] = engine
    for seed in range(3):
        rng = np.random.default_rng(seed)
        few = rng.standard_normal((7, 3))
        # A lattice far from 0; more clusters than distinct rows; in the large data copies are not taken together.
        lattice, copies = rng.integers(0, 4, (300, 8)) + 1000.1, few[rng.integers(0, 7, 60)]
        for X, clusters in (lattice, 130), (lattice[:40], 30), (copies, 20), (few[rng.integers(0, 7, 2500)], 20):
            size = {"coreset_size": len(X) * 3 // 4} if coreset else {}
            model = cls(clusters, labels="exact", random_state=seed, max_iter=3, **settings, **size)
            quiet_fit(model, X.astype(dtype))
            np.testing.assert_array_equal(model.labels_, model.predict(X.astype(dtype)))


@pytest.mark.parametrize("rows", [60, 3000])
@pytest.mark.parametrize("cls", ALL)
def test_which_labels_does_not_change_the_model(cls, rows):
    X = blobs(rows, 3, 40)
    fits = [quiet_fit(cls(30, labels=labels, random_state=0), X) for labels in ("auto", "exact", "approximate", None)]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.cluster_centers_, fits[0].cluster_centers_)
        assert fit.lower_bound_ == fits[0].lower_bound_
    np.testing.assert_array_equal(fits[0].labels_, fits[2].labels_)
    assert fits[3].inertia_ == fits[0].inertia_


def test_a_coreset_fit_labels_all_rows_exactly_unless_told_otherwise():
    X = blobs(20_000, 3, 2000, spread=0.1).astype(np.float32)
    exact = quiet_fit(dgmm.DGMM(1000, coreset_size=5000, random_state=0), X)
    np.testing.assert_array_equal(exact.labels_, exact.predict(X))
    near = quiet_fit(dgmm.DGMM(1000, coreset_size=5000, random_state=0, labels="approximate"), X)
    np.testing.assert_array_equal(near.cluster_centers_, exact.cluster_centers_)
    assert 0.9 < (near.labels_ == exact.labels_).mean() < 1
    distances = np.linalg.norm(X - near.cluster_centers_[near.labels_], axis=1)
    assert (distances <= 1.01 * exact.top_k(X, 1).distances[:, 0] + 1e-6).mean() > 0.97
    assert near.inertia_ == pytest.approx((distances.astype(float) ** 2).sum(), rel=1e-4)
    none = quiet_fit(dgmm.DGMM(1000, coreset_size=5000, random_state=0, labels=None), X)
    np.testing.assert_array_equal(none.cluster_centers_, exact.cluster_centers_)
    assert none.seconds_["labels"] == 0
    assert none.inertia_ < exact.inertia_  # that of the coreset, which the centers were fitted to


@pytest.mark.parametrize("cls", ALL)
def test_a_fit_without_labels_can_do_all_that_needs_none(cls, tmp_path):
    X = blobs(500, 3, 5)
    model = quiet_fit(cls(5, labels=None, random_state=0, verbose=2), X)
    assert not hasattr(model, "labels_")
    assert model.predict(X).shape == (500,)
    assert "n_clusters" in str(model.report(X).to_dict()["clusters"])
    assert str(model.report())
    assert model.report(X).to_html()
    model.save(tmp_path / "m.safetensors")
    for again in (dgmm.load(tmp_path / "m.safetensors"), pickle.loads(pickle.dumps(model))):
        assert again.labels is None
        assert not hasattr(again, "labels_")
    with pytest.raises(ValueError, match="labels is None"):
        model.fit_predict(X)
    with pytest.raises(ValueError, match="model has no labels_"):
        dgmm.plot.cluster_sizes(model)
    assert len(dgmm.sweep(X, [2, 3], estimator=cls, labels=None, coreset_size=100)["inertia"]) == 2
    assert dgmm.estimate(10_000, 3, 5, estimator=cls, coreset_size=1000, labels=None).stages["labels"] == 0


def test_a_refit_without_labels_drops_those_of_the_fit_before():
    model = quiet_fit(dgmm.KMeans(3, random_state=0), blobs(100, 3, 3))
    assert not hasattr(quiet_fit(model.set_params(labels=None), blobs(90, 3, 3)), "labels_")


@pytest.mark.parametrize("labels", ["nearest", "none", 1, True])
def test_other_labels_are_refused(labels):
    wanted = r"labels is .*; it must be None or 'auto' or 'exact' or 'approximate'"
    with pytest.raises((TypeError, ValueError), match=wanted):
        dgmm.DGMM(2, labels=labels).fit(blobs(60, 3, 2))
