"""``max_size`` bounds the sizes of clusters."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import dgmm
import numpy as np
import pytest
from dgmm.cli import main
from sklearn.base import clone
from support import quiet_fit


def skewed(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Rows around centers, each with half as many as the one before; some rows are far out."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(scale=3, size=(12, columns))
    places = np.minimum(rng.geometric(0.5, size=rows) - 1, 11)
    scale = np.exp(0.35 * rng.normal(size=(rows, 1)))
    return (centers[places] + scale * rng.normal(size=(rows, columns))).astype(np.float32)


def sizes(model, weights=None) -> np.ndarray:
    """Masses of the clusters in multiples of their mean."""
    masses = np.bincount(model.labels_, weights, minlength=model.n_clusters)
    return masses / masses.mean()


X = skewed(6000, 6)
SYSTEMS = {
    "k-means": lambda **more: dgmm.KMeans(40, random_state=0, **more),
    "few": lambda **more: dgmm.DGMM(40, random_state=0, **more),
    "grouped": lambda **more: dgmm.DGMM(150, random_state=0, **more),
    "pointwise": lambda **more: dgmm.DGMM(100, engine="pointwise", random_state=0, **more),
    "exact labels": lambda **more: dgmm.DGMM(150, labels="exact", random_state=0, **more),
    "coreset": lambda **more: dgmm.DGMM(150, coreset_size=3000, random_state=0, **more),
}


def check_fit(model, rows, weights, bound):
    found = sizes(model, weights)
    assert found.max() <= bound * (1 + 1e-8)
    squares = ((rows - model.cluster_centers_[model.labels_]).astype(np.float64) ** 2).sum(1)
    assert model.inertia_ == pytest.approx(np.average(squares, weights=weights) * _total(weights), rel=1e-4)
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", SYSTEMS.values(), ids=SYSTEMS)
def test_a_loose_bound_is_kept_at_nearly_the_same_error(make, weighted):
    weights = np.random.default_rng(1).uniform(0.5, 1.5, len(X)) if weighted else None
    free = quiet_fit(make(), X, sample_weight=weights)
    model = quiet_fit(make(max_size=2.0), X, sample_weight=weights)
    check_fit(model, X, weights, 2.0)
    assert model.inertia_ <= 1.01 * free.inertia_


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", SYSTEMS.values(), ids=SYSTEMS)
def test_a_tight_bound_gives_even_sizes_where_rows_allow_it(make, weighted):
    # One cloud: separate groups of different size could not be divided evenly at the same error.
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=X.shape) * np.exp(0.2 * rng.normal(size=(len(X), 1)))).astype(np.float32)
    weights = rng.uniform(0.5, 1.5, len(X)) if weighted else None
    free = quiet_fit(make(), rows, sample_weight=weights)
    model = quiet_fit(make(max_size=1.2), rows, sample_weight=weights)
    assert check_fit(model, rows, weights, 1.2).std() <= 0.15
    assert model.inertia_ <= 1.03 * free.inertia_


def _total(weights):
    return len(X) if weights is None else weights.sum()


def test_centers_are_the_means_of_their_rows():
    model = quiet_fit(dgmm.KMeans(30, max_size=1.3, random_state=0), X.astype(np.float64))
    means = np.stack([X[model.labels_ == c].astype(np.float64).mean(0) for c in range(30)])
    np.testing.assert_allclose(model.cluster_centers_, means, rtol=1e-9, atol=1e-9)
    assert model.variance_ == pytest.approx(model.inertia_ / X.size)


def test_none_changes_no_bit_and_threads_change_none():
    plain, none = dgmm.DGMM(150, random_state=0), dgmm.DGMM(150, random_state=0, max_size=None)
    np.testing.assert_array_equal(quiet_fit(plain, X).cluster_centers_, quiet_fit(none, X).cluster_centers_)
    one, three = (quiet_fit(dgmm.DGMM(150, random_state=0, max_size=1.4, n_threads=n), X) for n in (1, 3))
    np.testing.assert_array_equal(one.labels_, three.labels_)
    np.testing.assert_array_equal(one.cluster_centers_, three.cluster_centers_)
    assert one.inertia_ == three.inertia_


def test_predict_goes_by_the_nearest_center():
    model = quiet_fit(dgmm.DGMM(150, random_state=0, max_size=1.2), X)
    squares = ((X[:300, None] - model.cluster_centers_[None]) ** 2).sum(2)
    nearest = np.take_along_axis(squares, model.predict(X[:300])[:, None].astype(int), 1)[:, 0]
    np.testing.assert_allclose(nearest, squares.min(1), rtol=1e-4)


def test_equal_rows_are_divided_among_clusters():
    same = np.vstack([np.ones((300, 2)), np.arange(200.0).reshape(100, 2)])
    for rows in (same, np.repeat(same, 10, axis=0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dgmm.EmptyClusterWarning)
            warnings.simplefilter("error", dgmm.OversizedClusterWarning)
            model = dgmm.KMeans(8, max_size=1.25, random_state=0).fit(rows)
        assert sizes(model).max() <= 1.25


def test_rows_that_cannot_be_divided_give_their_own_warning():
    weights = np.ones(len(X))
    weights[5] = 1000
    with pytest.warns(dgmm.OversizedClusterWarning, match=r"1 of 40 clusters within max_size=1.5: .* weigh more than"):
        model = dgmm.KMeans(40, max_size=1.5, random_state=0).fit(X, sample_weight=weights)
    mean = weights.sum() / 40
    assert np.sort(np.bincount(model.labels_, weights))[-2] <= 1.5 * mean * (1 + 1e-8)
    with pytest.warns(dgmm.OversizedClusterWarning, match="rows cannot be split"):
        model = dgmm.KMeans(3, max_size=1, random_state=0).fit(X[:10])
    assert sorted(np.bincount(model.labels_)) == [3, 3, 4]


@pytest.mark.parametrize("cls", [dgmm.DGMM, dgmm.KMeans])
@pytest.mark.parametrize("bad", [0.99, 0, -1.5, float("nan"), float("inf"), True, "2", [2.0]])
def test_bad_bounds_are_refused_by_name(cls, bad):
    kind = ValueError if isinstance(bad, int | float) and bad is not True else TypeError
    with pytest.raises(kind, match=r"max_size is .*; it must be None or a finite number, at least 1"):
        cls(4, max_size=bad).fit(X[:100])


@pytest.mark.parametrize("cls", [dgmm.VCGMM, dgmm.ExactGMM, dgmm.GaussianMixture])
def test_the_other_estimators_have_no_such_parameter(cls):
    with pytest.raises(TypeError, match="max_size"):
        cls(4, max_size=2.0)


def test_where_not_all_rows_are_at_hand_it_is_refused_by_name(tmp_path):
    model = dgmm.KMeans(4, max_size=2.0, random_state=0)
    with pytest.raises(
        ValueError, match=r"max_size is 2.0; it must be None for a fit over shards or with a checkpoint"
    ):
        model.fit(lambda: iter([X[:500], X[500:]]))
    with pytest.raises(
        ValueError, match=r"max_size is 2.0; it must be None for a fit over shards or with a checkpoint"
    ):
        clone(model).set_params(checkpoint=tmp_path / "state").fit(X)
    with pytest.raises(ValueError, match=r"max_size is 2.0; it must be None for partial_fit"):
        model.partial_fit(X)
    with pytest.raises(ValueError, match=r"max_size is 2.0; it must be None for a fit over shards"):
        dgmm.shards.fit(model, [dgmm.shards.Shard(X)])
    assert not hasattr(model, "cluster_centers_")


def test_it_is_a_parameter_as_any_other(tmp_path):
    model = quiet_fit(dgmm.DGMM(20, max_size=1.5, random_state=0), X)
    assert clone(model).get_params()["max_size"] == 1.5
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = dgmm.load(path)
    assert again.max_size == 1.5
    np.testing.assert_array_equal(again.labels_, model.labels_)
    np.testing.assert_array_equal(quiet_fit(again, X).labels_, model.labels_)
    table = dgmm.sweep(X, [10, 20], estimator=dgmm.KMeans, max_size=1.5, random_state=0)
    assert all(sizes(fitted).max() <= 1.5 for fitted in table.models)


def test_the_command_line_has_it(tmp_path, capsys):
    data, labels = tmp_path / "x.npy", tmp_path / "labels.npy"
    np.save(data, X)
    args = ["fit", str(data), "-k", "50", "--estimator", "kmeans", "--labels", str(labels), "--json", "--quiet"]
    assert main([*args, "--max-size", "1.5"]) == 0
    json.loads(capsys.readouterr().out)
    found = np.bincount(np.load(labels), minlength=50)
    assert found.max() <= 1.5 * len(X) / 50
    assert main([*args, "--max-size", "0.5"]) == 1
    assert "max_size is 0.5" in capsys.readouterr().err
    args[args.index("kmeans")] = "exactgmm"
    assert main([*args, "--max-size", "1.5"]) == 2
    assert "--max-size is not an option of the estimator exactgmm" in capsys.readouterr().err


def test_the_benchmark_runs(tmp_path):
    script = Path(__file__).parents[2] / "benches" / "mixtures" / "balance.py"
    command = [sys.executable, str(script), "--quick", "--output", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    results = json.loads((tmp_path / "balance.json").read_text())
    assert results["large"]["fits"]["DGMM, max_size=1.2"]["largest"] <= 1.2
    assert "| DGMM, max_size=2.0 |" in (tmp_path / "balance.md").read_text()


@pytest.mark.parametrize("cls", [dgmm.DGMM, dgmm.KMeans])
def test_with_cosine_it_is_refused_by_name(cls):
    with pytest.raises(ValueError, match=r"max_size is 2; it must be unset if metric is 'cosine'"):
        cls(4, max_size=2.0, metric="cosine").fit(X)
