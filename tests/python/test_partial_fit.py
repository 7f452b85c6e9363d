"""Learning from a stream: the effect of batches, the state between them, and invalid batches."""

from __future__ import annotations

import pickle
from pathlib import Path

import dgmm
import numpy as np
import pytest
from sklearn.cluster import MiniBatchKMeans
from test_out_of_core import rows

ESTIMATORS = [dgmm.DGMM, dgmm.VCGMM, dgmm.ExactGMM, dgmm.KMeans]


def learned(estimator: type[dgmm.DGMM], X: np.ndarray, n_clusters: int, batch: int, **settings: object) -> dgmm.DGMM:
    model = estimator(n_clusters, random_state=0, **settings)
    for start in range(0, len(X), batch):
        model.partial_fit(X[start : start + batch])
    return model


@pytest.mark.parametrize("n_clusters", [40, 300])
@pytest.mark.parametrize("estimator", [dgmm.DGMM, dgmm.KMeans])
def test_one_epoch_is_better_than_mini_batch_k_means(estimator: type[dgmm.DGMM], n_clusters: int) -> None:
    rng = np.random.default_rng(0)
    centers = rng.normal(scale=2, size=(900, 8))
    X = (centers[rng.integers(900, size=60_000)] + rng.normal(size=(60_000, 8))).astype("float32")
    model = learned(estimator, X, n_clusters, 2000)
    peer = MiniBatchKMeans(n_clusters, random_state=0, n_init=3)
    for start in range(0, len(X), 2000):
        peer.partial_fit(X[start : start + 2000])
    error = dgmm.quantization_error(X, model.cluster_centers_)
    assert error < dgmm.quantization_error(X, peer.cluster_centers_.astype("float32"))
    assert model.n_samples_seen_ == 60_000
    assert not hasattr(model, "_batches")  # nothing is kept of the rows


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_stream_converges_to_the_clusters(estimator: type[dgmm.DGMM], dtype: str) -> None:
    rng = np.random.default_rng(1)
    truth = rng.uniform(-50, 50, size=(12, 3)) + 1000
    X = (truth[rng.integers(12, size=24_000)] + rng.normal(size=(24_000, 3))).astype(dtype)
    model = learned(estimator, X, 12, 1000, n_init=5)
    assert model.cluster_centers_.dtype == dtype
    nearest = np.linalg.norm(truth[:, None] - model.cluster_centers_[None], axis=2).min(axis=1)
    assert nearest.max() < 0.2
    np.testing.assert_allclose(model.cluster_masses_.sum(), 1, rtol=0.1)
    assert 0.8 < model.variance_ < 1.2 or estimator is dgmm.KMeans


def test_the_stream_may_move_and_dead_clusters_are_born_again() -> None:
    rng = np.random.default_rng(2)
    here, there = rng.normal(size=(8, 2)) * 30, rng.normal(size=(8, 2)) * 30 + 500
    batch = lambda centers: (centers[rng.integers(8, size=800)] + rng.normal(size=(800, 2))).astype("float32")  # noqa: E731
    model = dgmm.KMeans(16, random_state=0)
    for _ in range(10):
        model.partial_fit(batch(here))
    for _ in range(120):
        model.partial_fit(batch(there))
    X = batch(there)
    assert dgmm.quantization_error(X, model.cluster_centers_) / len(X) < 4
    assert len(np.unique(model.predict(X))) >= 8


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_threads_pickles_and_files_change_no_bit(estimator: type[dgmm.DGMM], tmp_path: Path) -> None:
    X = rows(15_000, 5)
    plain = learned(estimator, X, 120, 1500)
    np.testing.assert_array_equal(
        learned(estimator, X, 120, 1500, n_threads=3).cluster_centers_, plain.cluster_centers_
    )
    for through in ("pickle", "file"):
        seen = 6000 if through == "pickle" else 9000
        model = learned(estimator, X[:seen], 120, 1500)
        assert hasattr(model, "_batches") == (seen < 64 * 120)
        if through == "pickle":
            model = pickle.loads(pickle.dumps(model))
        else:
            model.save(tmp_path / "model.safetensors")
            model = dgmm.load(tmp_path / "model.safetensors")
        for start in range(seen, 15_000, 1500):
            model.partial_fit(X[start : start + 1500])
        np.testing.assert_array_equal(model.cluster_centers_, plain.cluster_centers_)
        assert model.n_samples_seen_ == 15_000


def test_a_stream_goes_on_after_a_fit_and_a_fit_begins_anew() -> None:
    X = rows(20_000, 4)
    model = dgmm.DGMM(120, random_state=0).fit(X[:10_000])
    before = dgmm.quantization_error(X[10_000:], model.cluster_centers_)
    model.partial_fit(X[10_000:])
    assert model.n_samples_seen_ == 20_000
    assert dgmm.quantization_error(X[10_000:], model.cluster_centers_) < before
    assert not hasattr(model.fit(X), "n_samples_seen_")
    np.testing.assert_array_equal(model.cluster_centers_, dgmm.DGMM(120, random_state=0).fit(X).cluster_centers_)


def test_weights_count_and_weight_zero_does_not() -> None:
    X = rows(6000, 3)
    weights = np.ones(3000)
    weights[::2] = 0
    one = dgmm.KMeans(20, random_state=0).fit(X[:3000]).partial_fit(X[3000:], sample_weight=weights)
    two = dgmm.KMeans(20, random_state=0).fit(X[:3000]).partial_fit(X[3001::2])
    np.testing.assert_allclose(one.cluster_centers_, two.cluster_centers_, rtol=1e-5, atol=1e-5)
    heavy = dgmm.KMeans(20, random_state=0).fit(X[:3000]).partial_fit(X[3000:], sample_weight=1e300)
    assert np.isfinite(heavy.cluster_centers_).all()
    assert heavy.weight_seen_ > 1e303


def test_bad_batches_are_named_and_change_nothing() -> None:
    X = rows(3000, 4)
    model = dgmm.DGMM(30, random_state=0)
    with pytest.raises(ValueError, match=r"n_clusters is 30; it must be .* at most n_samples=20"):
        model.partial_fit(X[:20])
    assert not hasattr(model, "cluster_centers_")
    model.partial_fit(X)
    before = pickle.dumps(model)
    bad = X.copy()
    bad[7, 1] = np.inf
    for batch, words in (
        (bad, "X contains infinity|X\\[7, 1\\]"),
        (X[:, :3], "X has 3 features"),
        (X[:0], "0 sample"),
        (X * np.float32(1e19), "span"),
    ):
        with pytest.raises(ValueError, match=words):
            model.partial_fit(batch)
    with pytest.raises(ValueError, match="sample_weight"):
        model.partial_fit(X, sample_weight=np.full(3000, -1.0))
    with pytest.raises(TypeError, match="one batch in memory"):
        model.partial_fit(lambda: [X])
    with pytest.raises(ValueError, match="clusters"):
        model.set_params(n_clusters=31).partial_fit(X)
    assert pickle.dumps(model.set_params(n_clusters=30)) == before
    # One row is enough once there is a model.
    assert model.partial_fit(X[:1]).n_samples_seen_ == 3001
