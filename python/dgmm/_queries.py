"""The methods of fitted models: labels, distances, densities, posteriors, samples, information criteria, the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, cast, overload

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from dgmm import _core
from dgmm._approximate import ApproximateSearch, Method, Scale
from dgmm._directions import around
from dgmm._reading import by_parts
from dgmm._report import Report, make_report
from dgmm._validation import check_flag, check_int, check_rows, check_seed, check_weight_values, check_weights

if TYPE_CHECKING:
    from dgmm._base import Mixture

Metric = Literal["euclidean", "cosine"]
DENSE_LIMIT = 2**27
"""The most entries of a dense array that ``predict_proba`` returns: 1 GiB of float64."""
NEIGHBORS = 16
"""How many neighbors ``centroid_neighbors_`` has for each cluster."""
ENTRIES_AT_ONCE = 2**22
"""How many posteriors are computed at a time while a matrix is filled."""

CSR: TypeAlias = Any
"""A ``scipy.sparse.csr_matrix``; SciPy ships no types."""


class TopK(NamedTuple):
    """The nearest clusters of each row, nearest first."""

    indices: NDArray[np.int64]
    """The indices of the clusters."""
    distances: NDArray[Any]
    """Euclidean distances to their centers, as from ``transform``; with ``metric="cosine"`` between unit vectors."""


class Queries(ApproximateSearch, TransformerMixin):
    """The methods of an estimator that need a fitted model."""

    __metadata_request__predict: ClassVar[dict[str, Any]] = {"method": UNUSED, "recall": UNUSED}

    _count_name: ClassVar[str]

    n_threads: int | None
    concentration_: float

    @by_parts
    def predict(self, X: ArrayLike, method: Method = "auto", recall: float | None = None) -> NDArray[np.int32]:
        """Return the nearest center of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are converted to the type of the centers.
        method : {"auto", "exact", "approximate"}
            "exact" compares each row with every center. "approximate" searches the coarse cells of centers around each
            row, first in eight bits, and computes the best few distances exactly. With thousands of clusters it is
            several times as fast on a CPU with AVX2, and faster still with AVX-512 VNNI (on other CPUs it is "exact"),
            but it may miss the nearest center. The first call with at least 256 rows learns from a sample of them how
            far to search (``approximate_reach_``); later calls use what it learned. Each call compares another small
            sample with exact search: ``approximate_recall_`` is the share that was right over all calls, and if it
            falls clearly below ``recall``, the search is extended. If exact search costs no more, as with fewer than
            256 clusters, it is used instead. "auto" is "exact", or "approximate" if ``recall`` is given.
        recall : float, optional
            The share of rows that must get the nearest cluster or one at most 1 % farther, above 0 and at most 1;
            0.98 by default. Exact search ignores it.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        goal = self._goal(method, recall, 1)
        rows = self._test_rows(X)
        return _core.predict(rows, *self._model()) if goal is None else self._nearest(rows, goal)

    @by_parts
    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the Euclidean distances of the rows to all centers, an (n_samples, n_clusters) array.

        With ``metric="cosine"`` they are distances between unit vectors, sqrt(2 - 2 cos).
        """
        return self._distances(X)

    @by_parts
    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the log-density of each row under the mixture of all clusters.

        With ``metric="cosine"`` it is the density of the row's direction on the unit sphere.
        """
        check_is_fitted(self)
        return _core.log_density(self._test_rows(X), *self._model())

    def score(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean log-density of the rows, weighted by ``sample_weight``."""
        logs = self.score_samples(X)
        weights = check_weights(sample_weight, len(logs))
        if weights is not None:
            check_weight_values(weights)
            weights = np.ldexp(weights, -np.frexp(weights.max())[1])  # an exact scaling, so that their sum is finite
        return float(np.average(logs, weights=weights))

    @by_parts
    def top_k(self, X: ArrayLike, k: int, method: Method = "exact", recall: float | None = None) -> TopK:
        """Find the ``k`` nearest centers of each row and the distances to them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        k : int
            The number of centers per row, at most ``n_clusters``.
        method : {"exact", "approximate", "auto"}
            As in ``predict``. "approximate" may miss some of the clusters, but the distances to those it finds are
            exact; it is not audited. For ``k`` above 16 the search is exact.
        recall : float, optional
            The share of the nearest clusters that must be found, or others at most 1 % farther; 0.98 by default.

        Returns
        -------
        TopK
            ``indices`` and Euclidean ``distances``, both of shape (n_samples, k), nearest first.
        """
        check_is_fitted(self)
        centers, variance, threads = self._model()
        k = check_int("k", k, most=len(centers), most_is=f"{self._count_name}={len(centers)}")
        goal = self._goal(method, recall, k)
        rows = self._test_rows(X)
        search = None if goal is None else self._search(rows, goal)
        if search is None:
            indices, squares = _core.top_k(rows, centers, variance, k, threads)
        else:
            index, reach = search
            indices, squares = index.top_k(rows, k, reach, threads)
        return TopK(indices, np.sqrt(squares, out=squares))

    @overload
    def predict_proba(self, X: ArrayLike, sparse: Literal[False] = False) -> NDArray[Any]: ...
    @overload
    def predict_proba(self, X: ArrayLike, sparse: bool) -> CSR: ...
    @by_parts
    def predict_proba(self, X: ArrayLike, sparse: bool = False) -> Any:
        """Return the posterior probability of every cluster for each row.

        For ExactGMM it is exact. For DGMM, VCGMM and GaussianMixture it is 0 except for the ``truncation`` nearest (or
        most likely) clusters, which are found exactly; with "auto" these are at least 5. For KMeans it is 1 for the
        nearest cluster.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        sparse : bool
            With False the result is a dense array of at most 2**27 entries (1 GiB of float64); more raise an error.
            With True only the entries above 0 are kept, without a limit.

        Returns
        -------
        posteriors : ndarray or scipy.sparse.csr_matrix, of shape (n_samples, n_clusters)
            The same values either way.

        Examples
        --------
        >>> import numpy as np, dgmm
        >>> X = np.random.default_rng(0).normal(size=(1000, 3))
        >>> model = dgmm.DGMM(100, truncation=4, random_state=0).fit(X)
        >>> soft = model.predict_proba(X, sparse=True)
        >>> soft.shape, soft.format, soft.nnz <= 4 * 1000
        ((1000, 100), 'csr', True)
        >>> bool((soft.toarray() == model.predict_proba(X)).all())
        True
        """
        check_is_fitted(self)
        sparse = check_flag("sparse", sparse)
        rows = self._test_rows(X)
        shape = (len(rows), len(self.cluster_centers_))
        if sparse:
            return self._sparse_posteriors(rows)
        if shape[0] * shape[1] > DENSE_LIMIT:
            raise ValueError(
                f"X has {shape[0]} rows and there are {shape[1]} clusters; predict_proba makes at most {DENSE_LIMIT} "
                "dense entries: pass sparse=True, or fewer rows at a time"
            )
        dense: NDArray[Any] = np.zeros(shape, dtype=rows.dtype)
        for part in self._parts(rows):
            np.put_along_axis(dense[part], *self._posteriors(rows[part]), axis=1)
        return dense

    def _parts(self, rows: NDArray[Any]) -> list[slice]:
        """Split rows into slices that are processed together."""
        step = max(1, ENTRIES_AT_ONCE // self._posterior_width())
        return [slice(start, start + step) for start in range(0, len(rows), step)]

    def _posteriors(self, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
        centers, variance, threads = self._model()
        return _core.posteriors(rows, centers, variance, self._posterior_width(), threads)

    def _sparse_posteriors(self, rows: NDArray[Any]) -> CSR:
        """The entries above 0, some rows at a time: otherwise an exact mixture would briefly need N x M entries."""
        parts = [self._sparse_block(rows[part]) for part in self._parts(rows)]
        return parts[0] if len(parts) == 1 else scipy.sparse.vstack(parts, format="csr")

    def _sparse_block(self, rows: NDArray[Any]) -> CSR:
        indices, posteriors = self._posteriors(rows)
        starts = np.arange(0, posteriors.size + 1, posteriors.shape[1])
        shape = (len(rows), len(self.cluster_centers_))
        block = scipy.sparse.csr_matrix((posteriors.ravel(), indices.ravel(), starts), shape=shape)
        block.eliminate_zeros()
        block.sort_indices()
        return block

    @property
    def centroid_neighbors_(self) -> NDArray[np.int64]:
        """The clusters with the nearest centers to each cluster, nearest first, without the cluster itself.

        The shape is (n_clusters, min(16, n_clusters - 1)). Computed exactly on first access, by comparing all centers
        with each other in blocks, without an n_clusters x n_clusters array.
        """
        check_is_fitted(self)
        centers, variance, threads = self._model()
        known: NDArray[np.int64] | None
        of, known = vars(self).get("_neighbors", (None, None))
        if known is not None and of is centers:
            return known
        width = min(NEIGHBORS, len(centers) - 1)
        indices, _ = _core.top_k(centers, centers, variance, width + 1, threads)
        others = indices != np.arange(len(centers))[:, None]
        # If many centers coincide, a cluster may be missing from its own nearest: then the last one is dropped.
        others[others.all(axis=1), -1] = False
        found: NDArray[np.int64] = indices[others].reshape(len(centers), width)
        self._neighbors = (centers, found)
        return found

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Draw rows from the mixture.

        With ``metric="cosine"`` they are unit vectors, drawn by the method of Wood ("Simulation of the von Mises Fisher
        distribution", Communications in Statistics, 1994).

        Parameters
        ----------
        n_samples : int
            The number of rows.
        random_state : int, RandomState or None
            The seed; an int gives the same rows each time.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
            The rows, in the type of the centers.
        labels : ndarray of shape (n_samples,)
            The cluster that each row was drawn from.

        Examples
        --------
        >>> import dgmm
        >>> model = dgmm.ExactGMM(2, random_state=0).fit([[0.0], [0.2], [5.0], [5.2]])
        >>> rows, labels = model.sample(100, random_state=0)
        >>> rows.shape, labels.shape
        ((100, 1), (100,))
        """
        check_is_fitted(self)
        n_samples = check_int("n_samples", n_samples)
        rng = np.random.default_rng(check_seed(random_state))
        centers = self.cluster_centers_
        labels = rng.integers(len(centers), size=n_samples, dtype=np.int32)
        if self._fitted_metric() == "cosine":
            return around(centers[labels], self.concentration_, rng), labels
        rows = rng.standard_normal((n_samples, centers.shape[1]), dtype=centers.dtype.type)
        rows *= centers.dtype.type(np.sqrt(self.variance_))
        rows += centers[labels]
        return rows, labels

    def bic(self, X: ArrayLike) -> float:
        """Return the Bayesian information criterion of the mixture on X; lower is better.

        The mixture has ``n_clusters * n_features + 1`` free parameters: the centers and the variance. With
        ``metric="cosine"`` each center has one less, because its length is 1. ``GaussianMixture`` counts its variances
        and learned weights. The log-likelihood is that of all clusters, as in ``score_samples``.
        """
        logs = self.score_samples(X)
        return float(self._parameters() * np.log(len(logs)) - 2 * logs.sum())

    def aic(self, X: ArrayLike) -> float:
        """Return the Akaike information criterion of the mixture on X, counted as in ``bic``; lower is better."""
        logs = self.score_samples(X)
        return float(2 * self._parameters() - 2 * logs.sum())

    def _parameters(self) -> int:
        fixed = len(self.cluster_centers_) if self._fitted_metric() == "cosine" else 0
        return int(self.cluster_centers_.size) - fixed + 1

    def report(self, X: ArrayLike | None = None, *, sample_size: int = 10_000, random_state: Any = 0) -> Report:
        """Report how the fit went and, given X, how close it is to exact search.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), optional
            Rows, of which a sample is audited. If they are the rows of the fit, ``labels_`` is compared with exact
            search, otherwise the result of ``predict``.
        sample_size : int
            The maximum number of rows of X that are compared with every center.
        random_state : int, RandomState or None
            The seed of the sample.

        Returns
        -------
        Report
            Print it, or use ``to_dict()`` or ``to_html()``; notebooks display it.

        Examples
        --------
        >>> import numpy as np, dgmm
        >>> X = np.random.default_rng(0).normal(size=(2000, 3))
        >>> report = dgmm.DGMM(100, random_state=0).fit(X).report(X)
        >>> report.to_dict()["clusters"]["n_clusters"]
        100
        >>> 0.9 < report.to_dict()["audit"]["true_nearest"] <= 1
        True
        """
        check_is_fitted(self)
        sample_size = check_int("sample_size", sample_size)
        rows = None if X is None else self._test_rows(X)
        return make_report(cast("Mixture", self), rows, sample_size, check_seed(random_state))

    def _posterior_width(self) -> int:
        """How many clusters have a posterior above 0 for each row."""
        return len(self.cluster_centers_)

    def _fitted_metric(self) -> Metric:
        """Return the metric of the fitted model, whatever the parameter is now."""
        return "cosine" if "concentration_" in vars(self) else "euclidean"

    def _model(self) -> tuple[NDArray[Any], Scale, int | None]:
        threads = None if self.n_threads is None else check_int("n_threads", self.n_threads)
        metric = self._fitted_metric()
        scale: Scale = self.variance_ if metric == "euclidean" else (metric, self.variance_)
        return self.cluster_centers_, scale, threads

    def _test_rows(self, X: ArrayLike) -> NDArray[Any]:
        return check_rows(self, X, reset=False, dtype=self.cluster_centers_.dtype.type)

    def _distances(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        squares = _core.distances(self._test_rows(X), *self._model())
        return np.sqrt(squares, out=squares)
