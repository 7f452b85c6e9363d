"""``metric="cosine"``: only the directions of rows matter, exactly, for any norms."""

import itertools
import pickle

import dgmm
import numpy as np
import pytest
from directions import ENGINES, cosines, rows, unit, zero_row
from scipy.special import ive, logsumexp
from support import ALL, DTYPES, quiet_fit


def spherical_k_means(X, centers, iterations):
    """Lloyd's algorithm for unit vectors, as plain as it can be."""
    Y, mu = unit(X), unit(centers)
    for _ in range(iterations):
        labels = (Y @ mu.T).argmax(axis=1)
        for c in range(len(mu)):
            total = Y[labels == c].sum(axis=0)
            mu[c] = total / np.linalg.norm(total)
    return mu, (Y @ mu.T).argmax(axis=1)


def log_constant(dim, kappa):
    """log C_D(kappa) + kappa, by SciPy's Bessel function."""
    order = dim / 2 - 1
    return order * np.log(kappa) - dim / 2 * np.log(2 * np.pi) - np.log(ive(order, kappa))


@pytest.mark.parametrize("dtype", DTYPES)
def test_k_means_is_spherical_k_means(dtype):
    X = rows(dtype=dtype)
    start = X[:25]
    model = quiet_fit(dgmm.KMeans(25, metric="cosine", init=start, max_iter=7, tol=0), X)
    centers, labels = spherical_k_means(X, start, 7)
    np.testing.assert_allclose(model.cluster_centers_, centers, atol=1e-12 if dtype is np.float64 else 2e-6)
    assert (model.labels_ == labels).mean() > (0.9999 if dtype is np.float64 else 0.999)
    near = cosines(X, model.cluster_centers_).max(axis=1)
    np.testing.assert_allclose(model.inertia_, (2 - 2 * near).sum(), rtol=1e-5 if dtype is np.float32 else 1e-10)


def test_exact_em_is_that_of_von_mises_fisher():
    X = rows(1500, 5, 6)
    start = X[:6]
    Y, mu, kappa = unit(X), unit(start), None
    first = quiet_fit(dgmm.ExactGMM(6, metric="cosine", init=start, max_iter=1, tol=0), X)
    # The start of kappa is the model's own: 1 over the variance of the directions.
    kappa = 1 / Y.var(axis=0).mean()
    for _ in range(6):
        logs = kappa * Y @ mu.T
        q = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        bound = (logsumexp(logs, axis=1) - kappa).mean() + log_constant(5, kappa) - np.log(6)
        if kappa == 1 / Y.var(axis=0).mean():
            np.testing.assert_allclose(first.history_["lower_bound"][0], bound, rtol=1e-9)
        sums = q.T @ Y
        mu = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        resultant = np.linalg.norm(sums, axis=1).sum() / len(Y)
        kappa = solved(5, resultant)
    model = quiet_fit(dgmm.ExactGMM(6, metric="cosine", init=start, max_iter=6, tol=0), X)
    np.testing.assert_allclose(model.cluster_centers_, mu, atol=1e-8)
    np.testing.assert_allclose(model.concentration_, kappa, rtol=1e-8)
    assert model.variance_ == pytest.approx(1 / model.concentration_)
    soft = kappa * Y @ mu.T
    np.testing.assert_allclose(model.predict_proba(X), np.exp(soft - logsumexp(soft, axis=1, keepdims=True)), atol=1e-6)


def solved(dim, resultant):
    """The concentration at which the mean resultant length is the given one, by bisection."""
    low, high = 1e-9, 1e9
    for _ in range(300):
        middle = np.sqrt(low * high)
        ratio = ive(dim / 2, middle) / ive(dim / 2 - 1, middle)
        low, high = (middle, high) if ratio < resultant else (low, middle)
    return low


@pytest.mark.parametrize(
    ("dim", "kappa"), list(itertools.product([1, 2, 3, 10, 50, 257, 1000], [1e-3, 0.5, 7.0, 300.0, 1e4, 1e7]))
)
def test_densities_have_the_constant_of_scipy(dim, kappa):
    with np.errstate(divide="ignore"):
        expected = log_constant(dim, kappa)
    if not np.isfinite(expected):
        pytest.skip("SciPy's Bessel function underflows here")
    model = dgmm.KMeans(1, metric="cosine").fit(np.ones((2, dim)))
    model._keep_scale(1 / kappa, kappa)
    assert model.score_samples(np.full((1, dim), 3.0))[0] == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_the_density_of_a_mixture_integrates_to_one():
    model = quiet_fit(dgmm.ExactGMM(3, metric="cosine", random_state=0), rows(500, 2, 3))
    angles = np.linspace(0, 2 * np.pi, 20_001)[:-1]
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    total = np.exp(model.score_samples(circle)).mean() * 2 * np.pi
    assert total == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_answers_are_those_of_the_cosine(name, dtype):
    cls, settings = ENGINES[name]
    X = rows(dtype=dtype)
    model = quiet_fit(cls(25, metric="cosine", random_state=1, **settings), X)
    exact = cosines(X, model.cluster_centers_)
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_.astype(float), axis=1), 1, atol=1e-6)
    labels = model.predict(X)
    apart = exact.max(axis=1) - exact[np.arange(len(X)), labels]
    assert apart.max() < (1e-6 if dtype is np.float32 else 1e-14)
    assert (model.labels_ == labels).mean() > 0.9
    distances = np.sqrt(np.maximum(2 - 2 * exact, 0))
    np.testing.assert_allclose(model.transform(X), distances, atol=1e-5 if dtype is np.float32 else 1e-7)
    top = model.top_k(X, 3)
    np.testing.assert_allclose(top.distances, np.sort(distances, axis=1)[:, :3], atol=1e-5)
    logs = model.concentration_ * (exact - 1)
    expected = logsumexp(logs, axis=1) - np.log(25) + log_constant(6, model.concentration_)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-9, atol=2e-4 if dtype is np.float32 else 1e-9)
    bounds = model.history_["lower_bound"]
    assert (np.diff(bounds) > -1e-5).all(), "F never falls"
    error = dgmm.quantization_error(X, model.cluster_centers_, metric="cosine")
    np.testing.assert_allclose(error, (2 - 2 * exact.max(axis=1)).sum(), rtol=1e-4)
    # The length of the centers does not matter either.
    longer = dgmm.quantization_error(X, 7 * model.cluster_centers_, metric="cosine")
    np.testing.assert_allclose(longer, error, rtol=1e-5)


@pytest.mark.parametrize("name", ENGINES)
def test_scale_changes_nothing(name):
    cls, settings = ENGINES[name]
    X = rows(dtype=np.float32)
    model = quiet_fit(cls(40, metric="cosine", random_state=2, **settings), X)
    powers = 2.0 ** np.random.default_rng(5).integers(-60, 60, size=(len(X), 1))
    scaled = quiet_fit(cls(40, metric="cosine", random_state=2, **settings), (X * powers).astype(np.float32))
    np.testing.assert_array_equal(scaled.cluster_centers_, model.cluster_centers_)
    np.testing.assert_array_equal(scaled.labels_, model.labels_)
    assert (scaled.lower_bound_, scaled.inertia_) == (model.lower_bound_, model.inertia_)
    wild = X * 10.0 ** np.random.default_rng(6).uniform(-27, 27, size=(len(X), 1)).astype(np.float32)
    assert np.isfinite(wild).all()
    changed = model.predict(wild) != model.predict(X)
    margin = np.sort(cosines(X, model.cluster_centers_), axis=1)
    assert (margin[changed, -1] - margin[changed, -2] < 1e-6).all()
    assert changed.mean() < 0.002


@pytest.mark.parametrize("name", ENGINES)
def test_threads_change_no_bit(name):
    cls, settings = ENGINES[name]
    X = rows(6000, dtype=np.float32)
    one, three = (quiet_fit(cls(60, metric="cosine", random_state=3, n_threads=n, **settings), X) for n in (1, 3))
    np.testing.assert_array_equal(one.cluster_centers_, three.cluster_centers_)
    np.testing.assert_array_equal(one.labels_, three.labels_)
    assert (one.lower_bound_, one.concentration_) == (three.lower_bound_, three.concentration_)


def test_the_grouped_engine_is_as_good_as_lloyd():
    X = rows(20_000, 16, 300, dtype=np.float32)
    fast = quiet_fit(dgmm.DGMM(300, metric="cosine", random_state=0), X)
    slow = quiet_fit(dgmm.KMeans(300, metric="cosine", random_state=0, max_iter=15), X)
    mean = [cosines(X, m.cluster_centers_).max(axis=1).mean() for m in (fast, slow)]
    assert mean[0] > mean[1] - 0.002


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cls", ALL)
def test_a_row_of_zeros_is_refused_and_nothing_changes(cls, dtype):
    X, message = zero_row(dtype), r'row 17 of X is all zeros: metric="cosine" needs rows with a direction'
    model = cls(5, metric="cosine", random_state=0)
    with pytest.raises(ValueError, match=message):
        model.fit(X)
    assert not hasattr(model, "cluster_centers_")
    model = quiet_fit(model, np.delete(X, 17, axis=0))
    before = pickle.dumps(model)
    for ask in (
        model.predict,
        model.transform,
        model.score_samples,
        model.predict_proba,
        model.fit,
        model.partial_fit,
        lambda X: model.top_k(X, 2),
        lambda X: model.predict(X, method="approximate"),
        lambda X: dgmm.quantization_error(X, model.cluster_centers_, metric="cosine"),
    ):
        with pytest.raises(ValueError, match=message):
            ask(X)
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match="row 2"):
        cls(5, metric="cosine", init=np.vstack([np.eye(6)[:2], np.zeros((1, 6)), np.eye(6)[:2]])).fit(X[:10])


@pytest.mark.parametrize("cls", ALL)
def test_another_metric_is_refused_by_name(cls):
    allowed = "metric is 'manhattan'; it must be .*'euclidean'.*'cosine'"
    with pytest.raises(ValueError, match=allowed):
        cls(5, metric="manhattan").fit(rows(100))
    with pytest.raises(ValueError, match=allowed):
        dgmm.quantization_error(rows(10), rows(3), metric="manhattan")
    with pytest.raises(ValueError, match=r"NaN|nan|finite"):
        cls(5, metric="cosine").fit(np.where(np.arange(600).reshape(100, 6) == 77, np.nan, rows(100)))


@pytest.mark.parametrize("cls", ALL)
def test_directions_in_one_column_and_equal_rows(cls):
    X = np.array([[1.0], [2.0], [-3.0], [4.0], [-0.5]])
    model = quiet_fit(cls(2, metric="cosine", random_state=0), X)
    assert sorted(model.cluster_centers_.ravel().tolist()) == [-1, 1]
    assert model.concentration_ == pytest.approx(1e12) or cls is not dgmm.KMeans
    assert model.predict(X)[0] == model.predict(X)[1] != model.predict(X)[2]
    same = quiet_fit(cls(1, metric="cosine"), np.outer([1.0, 2, 3], [3.0, 4]))
    np.testing.assert_allclose(same.cluster_centers_, [[0.6, 0.8]], atol=1e-15)
    assert same.concentration_ == pytest.approx(1e12)
    opposite = quiet_fit(cls(1, metric="cosine"), [[1.0, 0.0], [-1.0, 0.0]])
    assert np.linalg.norm(opposite.cluster_centers_) == pytest.approx(1)
    assert np.isfinite(opposite.lower_bound_)


@pytest.mark.parametrize("dim", [1, 2, 3, 20])
def test_samples_follow_the_distribution(dim):
    model = dgmm.KMeans(1, metric="cosine").fit(np.ones((2, dim)))
    for kappa in (0.5, 20.0, 1e6):
        model._keep_scale(1 / kappa, kappa)
        drawn, labels = model.sample(20_000, random_state=0)
        np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, atol=1e-9)
        ratio = ive(dim / 2, kappa) / ive(dim / 2 - 1, kappa)
        along = drawn @ model.cluster_centers_[0]
        assert abs(along.mean() - ratio) < 5 * along.std() / np.sqrt(len(along)) + 1e-9
        assert labels.tolist() == [0] * 20_000
        assert drawn.dtype == model.cluster_centers_.dtype


def test_every_check_of_scikit_learn_that_has_no_zero_rows_passes():
    from sklearn.utils.estimator_checks import check_clustering, check_estimators_pickle, check_fit_idempotent

    for check in (check_clustering, check_estimators_pickle, check_fit_idempotent):
        for cls in (dgmm.DGMM, dgmm.KMeans):
            check(cls.__name__, cls(metric="cosine"))
