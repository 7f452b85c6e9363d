"""A fitted model answers queries by the formulas, without unnecessary large arrays."""

import subprocess
import sys

import dgmm
import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from support import ALL, DTYPES, blobs, quiet_fit, squared_distances


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cls", ALL)
def test_sparse_memberships_are_the_dense_ones_without_their_zeros(cls, dtype, monkeypatch):
    monkeypatch.setattr("dgmm._queries.ENTRIES_AT_ONCE", 700)  # several blocks
    X = blobs(500, 3, 12, dtype=dtype)
    model = quiet_fit(cls(12, random_state=0), X)
    dense, sparse = model.predict_proba(X), model.predict_proba(X, sparse=True)
    assert isinstance(sparse, scipy.sparse.csr_matrix)
    assert sparse.dtype == dense.dtype == dtype
    assert sparse.has_canonical_format
    assert sparse.nnz == np.count_nonzero(dense)
    np.testing.assert_array_equal(sparse.toarray(), dense)
    np.testing.assert_allclose(sparse.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(sparse.argmax(axis=1)).ravel(), model.predict(X))


@pytest.mark.parametrize("cls", [dgmm.DGMM, dgmm.VCGMM])
def test_memberships_are_truncated_as_in_the_fit(cls):
    X = blobs(400, 3, 30, spread=2.0)
    model = quiet_fit(cls(30, truncation=3, random_state=0), X)
    sparse = model.predict_proba(X, sparse=True)
    assert np.diff(sparse.indptr).max() == 3
    squares = squared_distances(X, model.cluster_centers_)
    nearest = np.sort(np.argsort(squares, axis=1)[:, :3], axis=1)
    rows = np.flatnonzero(np.diff(sparse.indptr) == 3)
    np.testing.assert_array_equal(np.stack([sparse.getrow(n).indices for n in rows]), nearest[rows])


def test_dense_memberships_have_a_limit_that_names_the_way_out(monkeypatch):
    X = blobs(100, 2, 3)
    model = dgmm.KMeans(3, random_state=0).fit(X)
    monkeypatch.setattr("dgmm._queries.DENSE_LIMIT", 299)
    with pytest.raises(ValueError, match=r"100 rows .* 3 clusters.*at most 299 dense entries: pass sparse=True"):
        model.predict_proba(X)
    assert model.predict_proba(X, sparse=True).shape == (100, 3)
    assert model.predict_proba(X[:99]).shape == (99, 3)
    with pytest.raises(TypeError, match="sparse is 'yes'; it must be True or False"):
        model.predict_proba(X, sparse="yes")


MEMORY = """
import resource, sys, warnings
import numpy as np, dgmm
warnings.simplefilter("ignore")
X = np.random.default_rng(0).standard_normal((60_000, 4), dtype=np.float32)
model = dgmm.DGMM(2000, max_iter=2, random_state=0, n_threads=2).fit(X)
model.predict_proba(X[:3000], sparse=True)
unit = 1 if sys.platform == "darwin" else 1024
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
model.predict_proba(X, sparse=True), model.centroid_neighbors_, model.report(X).to_html(), model.bic(X)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no resource module")
def test_no_array_of_rows_by_clusters_is_made():
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 60_000 * 2000 * 4 / 4


@pytest.mark.parametrize("cls", ALL)
def test_distances_to_the_nearest_are_the_distances(cls):
    X = blobs(200, 3, 9)
    model = quiet_fit(cls(9, random_state=0), X)
    found = model.top_k(X, 4)
    distances = np.sqrt(squared_distances(X, model.cluster_centers_))
    np.testing.assert_allclose(found.distances, np.sort(distances, axis=1)[:, :4], atol=1e-9)
    np.testing.assert_allclose(np.take_along_axis(distances, found.indices, axis=1), found.distances, atol=1e-9)


@pytest.mark.parametrize("cls", ALL)
def test_neighbors_of_centers_are_exact(cls):
    model = quiet_fit(cls(40, random_state=0), blobs(1000, 3, 40))
    squares = squared_distances(model.cluster_centers_, model.cluster_centers_)
    np.fill_diagonal(squares, np.inf)
    found = model.centroid_neighbors_
    assert found.shape == (40, 16)
    np.testing.assert_array_equal(found, np.argsort(squares, axis=1)[:, :16])
    assert model.centroid_neighbors_ is found
    model.fit(blobs(1000, 3, 40, seed=1))
    assert model.centroid_neighbors_ is not found
    assert not hasattr(clone(model), "centroid_neighbors_")


@pytest.mark.parametrize("clusters", [1, 2, 5])
def test_there_are_fewer_neighbors_where_there_are_fewer_clusters(clusters):
    model = quiet_fit(dgmm.KMeans(clusters, random_state=0), blobs(100, 3, 5))
    assert model.centroid_neighbors_.shape == (clusters, clusters - 1)


def test_centers_that_coincide_are_neighbors_of_each_other_and_never_of_themselves():
    X = np.repeat([[0.0, 1.0], [2.0, 3.0]], 30, axis=0)
    model = quiet_fit(dgmm.KMeans(25, random_state=0), X)
    found = model.centroid_neighbors_
    assert found.shape == (25, 16)
    assert not (found == np.arange(25)[:, None]).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cls", ALL)
def test_samples_come_from_the_mixture(cls, dtype):
    X = blobs(2000, 3, 4, dtype=dtype)
    model = quiet_fit(cls(4, n_init=5, random_state=0), X)
    rows, labels = model.sample(20_000, random_state=1)
    assert rows.shape == (20_000, 3)
    assert rows.dtype == dtype
    assert labels.dtype == np.int32
    np.testing.assert_allclose(np.bincount(labels, minlength=4) / 20_000, 0.25, atol=0.02)
    residues = rows - model.cluster_centers_[labels]
    np.testing.assert_allclose(residues.mean(axis=0), 0, atol=0.02)
    assert residues.var() == pytest.approx(model.variance_, rel=0.03)
    again, _ = model.sample(20_000, random_state=1)
    np.testing.assert_array_equal(again, rows)
    assert not np.array_equal(model.sample(20_000, random_state=2)[0], rows)


@pytest.mark.parametrize("cls", ALL)
def test_criteria_count_centers_and_variance(cls):
    X = blobs(300, 3, 4)
    model = quiet_fit(cls(4, random_state=0), X)
    likelihood = model.score_samples(X).sum()
    assert model.bic(X) == pytest.approx(13 * np.log(300) - 2 * likelihood)
    assert model.aic(X) == pytest.approx(2 * 13 - 2 * likelihood)


def test_the_criterion_finds_the_number_of_clusters():
    X = blobs(3000, 2, 6, spread=0.1, seed=3)
    found = {m: quiet_fit(dgmm.ExactGMM(m, n_init=10, random_state=0), X).bic(X) for m in range(2, 12)}
    assert min(found, key=found.__getitem__) == 6


@pytest.mark.parametrize("cls", ALL)
def test_nothing_is_answered_before_a_fit(cls):
    model = cls()
    for ask in (
        lambda: model.predict_proba([[0.0]], sparse=True),
        lambda: model.sample(),
        lambda: model.bic([[0.0]]),
        lambda: model.aic([[0.0]]),
        lambda: model.report(),
        lambda: model.centroid_neighbors_,
    ):
        with pytest.raises(NotFittedError):
            ask()


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda m: m.sample(0), ValueError, "n_samples is 0; .*at least 1"),
        (lambda m: m.sample(2.5), TypeError, "n_samples is 2.5; .*an integer"),
        (lambda m: m.sample(1, random_state="x"), TypeError, "random_state is 'x'"),
        (lambda m: m.bic([[1.0]]), ValueError, "1 features.*3 features"),
        (lambda m: m.report(sample_size=0), ValueError, "sample_size is 0; .*at least 1"),
        (lambda m: m.report([[1.0]]), ValueError, "1 features.*3 features"),
    ],
)
def test_bad_questions_are_refused(ask, error, words):
    model = quiet_fit(dgmm.KMeans(4, random_state=0), blobs(50, 3, 4))
    with pytest.raises(error, match=words):
        ask(model)
