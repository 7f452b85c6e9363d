"""Where the method is exact it equals plain versions of itself, and scikit-learn."""

import dgmm
import numpy as np
import pytest
import sklearn.cluster
from hypothesis import given
from hypothesis import strategies as st
from support import ALL, DTYPES, blobs, dense_em, exhaustive, lower_bound, quiet_fit, squared_distances

TOLERANCE = {np.float32: 1e-5, np.float64: 1e-10}
SOFT = [dgmm.DGMM, dgmm.VCGMM, dgmm.ExactGMM]


def assert_close(actual, expected, tolerance):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cls", SOFT)
def test_with_all_clusters_kept_the_fit_is_dense_em(cls, dtype, weighted):
    X = blobs(3000, 6, 20, spread=1.0, dtype=dtype)
    weights = np.random.default_rng(1).uniform(0, 3, size=len(X)) if weighted else None
    start = X[:20].copy()
    model = quiet_fit(exhaustive(cls, 20, init=start, max_iter=8, tol=0), X, weights)
    expected = dense_em(X, start, 8, weights=weights)
    assert model.n_iter_ == 8
    assert_close(model.cluster_centers_, expected["centers"], TOLERANCE[dtype])
    assert_close(model.variance_, expected["variance"], TOLERANCE[dtype])
    assert_close(model.history_["lower_bound"], expected["lower_bound"], TOLERANCE[dtype])
    assert_close(model.history_["variance"], expected["variances"], TOLERANCE[dtype])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_k_means_equals_scikit_learn_label_for_label(dtype, weighted):
    X = blobs(4000, 5, 25, spread=0.8, dtype=dtype)
    weights = np.random.default_rng(2).uniform(0.5, 2, size=len(X)) if weighted else None
    start = X[:25].copy()
    ours = quiet_fit(dgmm.KMeans(25, init=start, tol=0, max_iter=300), X, weights)
    theirs = sklearn.cluster.KMeans(25, init=start, n_init=1, tol=0, max_iter=300, algorithm="lloyd")
    theirs.fit(X, sample_weight=weights)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert_close(ours.cluster_centers_, theirs.cluster_centers_, TOLERANCE[dtype])
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-5)


@pytest.mark.parametrize("clusters", [8, 50])
def test_k_means_by_default_ends_at_the_error_of_scikit_learn(clusters):
    X = blobs(10_000, 6, 30, spread=2.0, dtype=np.float32)
    start = X[np.random.default_rng(clusters).choice(len(X), clusters, replace=False)]
    ours = dgmm.KMeans(clusters, init=start).fit(X)
    theirs = sklearn.cluster.KMeans(clusters, init=start, n_init=1).fit(X)
    assert ours.converged_
    assert ours.n_iter_ <= 1.1 * theirs.n_iter_
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cls", ALL)
def test_answers_of_a_model_are_those_of_the_formulas(cls, dtype):
    X, new = blobs(600, 4, 9, spread=0.7, dtype=dtype), blobs(700, 4, 9, seed=5, spread=0.7, dtype=dtype)
    model = quiet_fit(cls(9, random_state=0), X)
    squares = squared_distances(new, model.cluster_centers_)
    order = np.argsort(squares, axis=1, kind="stable")
    tolerance = 10 * TOLERANCE[dtype]

    np.testing.assert_array_equal(model.predict(new), order[:, 0])
    np.testing.assert_array_equal(model.predict(new, method="exact"), order[:, 0])
    assert_close(model.transform(new), np.sqrt(squares), tolerance)
    nearest = model.top_k(new, 4)
    np.testing.assert_array_equal(nearest.indices, order[:, :4])
    assert_close(nearest.distances, np.sqrt(np.take_along_axis(squares, order[:, :4], 1)), tolerance)

    width = {dgmm.KMeans: 1, dgmm.ExactGMM: 9}.get(cls, 5)
    posterior = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / (2 * model.variance_))
    np.put_along_axis(posterior, order[:, width:], 0, axis=1)
    posterior /= posterior.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(new), posterior, atol=100 * tolerance)

    logs = [lower_bound(row[None], model.variance_, 4, None, hard=False) for row in squares]
    assert_close(model.score_samples(new), np.array(logs), tolerance)
    error = squares.min(axis=1).sum()
    expected = -error if cls is dgmm.KMeans else np.mean(logs)
    assert model.score(new) == pytest.approx(expected, rel=tolerance)
    assert dgmm.quantization_error(new, model.cluster_centers_) == pytest.approx(error, rel=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cls", ALL)
def test_labels_and_inertia_belong_to_the_returned_centers(cls, dtype):
    X = blobs(3000, 3, 12, dtype=dtype)
    weights = np.random.default_rng(0).uniform(0, 2, size=len(X))
    model = quiet_fit(exhaustive(cls, 12, random_state=0, max_iter=4, tol=0), X, weights)
    squares = squared_distances(X, model.cluster_centers_)
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    inertia = weights @ squares[np.arange(len(X)), model.labels_]
    assert model.inertia_ == pytest.approx(inertia, rel=10 * TOLERANCE[dtype])


@given(
    rows=st.integers(1, 70),
    dim=st.integers(1, 40),
    clusters=st.integers(1, 40),
    single=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_quantization_error_is_the_sum_of_least_squares(rows, dim, clusters, single, seed):
    rng = np.random.default_rng(seed)
    X, centers = rng.standard_normal((rows, dim)), rng.standard_normal((clusters, dim))
    weights = rng.integers(0, 4, size=rows) + (np.arange(rows) == 0)
    if single:
        X, centers = X.astype(np.float32), centers.astype(np.float32)
    expected = weights @ squared_distances(X, centers).min(axis=1)
    actual = dgmm.quantization_error(X, centers, sample_weight=weights)
    assert actual == pytest.approx(expected, rel=1e-4 if single else 1e-10)
