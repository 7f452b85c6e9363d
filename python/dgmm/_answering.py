"""The answers of every fitted model: nearest clusters, distances and densities."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from dgmm import _core
from dgmm._nearby import ApproximateSearch, Method, Scale
from dgmm._reading import by_parts
from dgmm._validation import check_int, check_rows, check_weight_values, check_weights

Metric = Literal["euclidean", "cosine"]


class Answering(ApproximateSearch, TransformerMixin):
    """Labels, distances and densities under the model of an estimator."""

    __metadata_request__predict: ClassVar[dict[str, Any]] = {"method": UNUSED, "recall": UNUSED}

    n_threads: int | None

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
