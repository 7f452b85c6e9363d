"""Coresets and AFK-MC2 as functions."""

import dgmm
import numpy as np
import pytest
from support import DTYPES, blobs


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_coreset_is_rows_of_the_data_with_weights(dtype):
    X = blobs(3000, 4, 5, dtype=dtype)
    coreset = dgmm.lightweight_coreset(X, 200, random_state=0)
    assert isinstance(coreset, dgmm.Coreset)
    points, weights, indices = coreset
    assert points.dtype == dtype
    np.testing.assert_array_equal(points, X[indices])
    squares = ((X - X.mean(axis=0, dtype=float)) ** 2).sum(axis=1)
    q = 0.5 / len(X) + 0.5 * squares / squares.sum()
    np.testing.assert_allclose(weights, 1 / (200 * q[indices]), rtol=1e-5)


def test_a_coreset_is_unbiased_for_the_quantization_error():
    X, weights = blobs(2000, 3, 5), np.random.default_rng(0).uniform(0, 3, size=2000)
    centers = X[:7]
    exact = dgmm.quantization_error(X, centers, sample_weight=weights)
    estimates = []
    for seed in range(400):
        coreset = dgmm.lightweight_coreset(X, 100, sample_weight=weights, random_state=seed)
        estimates.append(dgmm.quantization_error(coreset.points, centers, sample_weight=coreset.weights))
    deviation = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - exact) < 4 * deviation


def test_a_coreset_may_be_reused_for_several_models():
    X = blobs(5000, 3, 10)
    coreset = dgmm.lightweight_coreset(X, 800, random_state=0)
    for clusters in (5, 10):
        model = dgmm.DGMM(clusters, random_state=0).fit(coreset.points, sample_weight=coreset.weights)
        assert model.predict(X).max() < clusters


@pytest.mark.parametrize("dtype", DTYPES)
def test_seeds_are_distinct_rows_and_never_of_weight_zero(dtype):
    X = blobs(500, 3, 5, dtype=dtype)
    weights = (np.arange(500) % 3 > 0).astype(float)
    for chain_length in (1, 5, 50):
        centers, indices = dgmm.afkmc2(X, 40, chain_length=chain_length, sample_weight=weights, random_state=1)
        assert centers.dtype == dtype
        np.testing.assert_array_equal(centers, X[indices])
        assert len(np.unique(indices)) == 40
        assert (weights[indices] > 0).all()


def test_seeds_are_better_than_rows_at_random():
    X = blobs(4000, 5, 30, spread=0.05)
    rng = np.random.default_rng(0)
    seeded = np.mean([dgmm.quantization_error(X, dgmm.afkmc2(X, 30, random_state=s)[0]) for s in range(10)])
    drawn = np.mean([dgmm.quantization_error(X, X[rng.permutation(len(X))[:30]]) for _ in range(10)])
    assert seeded < drawn / 2


def test_the_meaning_of_a_seed_is_frozen():
    """These numbers may change only together with a line in the CHANGELOG that says so."""
    X = np.arange(60.0).reshape(20, 3) ** 2 % 17
    assert dgmm.afkmc2(X, 5, random_state=7)[1].tolist() == [6, 8, 9, 1, 10]
    assert dgmm.lightweight_coreset(X, 6, random_state=7).indices.tolist() == [0, 0, 2, 5, 16, 16]
