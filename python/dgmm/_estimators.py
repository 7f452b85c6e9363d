"""The estimators other than ``DGMM``: their parameters, and the settings that each passes to the core."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from dgmm import _core
from dgmm._base import Init, LabelSearch, Mixture, Stop
from dgmm._dgmm import DGMM, Truncated
from dgmm._mixture import GaussianMixture
from dgmm._progress import Callback
from dgmm._queries import Metric
from dgmm._reading import parts_of
from dgmm._validation import check_flag, check_int, check_max_size, check_weights

__all__ = ["DGMM", "VCGMM", "ExactGMM", "GaussianMixture", "KMeans"]


class VCGMM(Truncated):
    """The mixture of DGMM, with candidates from the neighbors of each row's clusters (vc-GMM).

    Each row tries the ``neighbors`` nearest clusters of each cluster that it keeps, as learned from the partition of
    the rows. Parameters and attributes that are not named here are those of ``DGMM``.

    Parameters
    ----------
    n_clusters : int
        M, the number of clusters.
    truncation : int or "auto"
        C', how many clusters each row keeps; "auto" is 5, or ``n_clusters`` if that is less.
    neighbors : int
        G, how many neighbors each cluster has, including itself.
    random_neighbor : bool
        Whether each row also tries one cluster drawn at random.
    tol : float
        As in ``DGMM``, but 1e-3 by default.
    refine : int
        As in ``DGMM``, but 0 by default.

    Examples
    --------
    >>> import numpy as np, dgmm
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> dgmm.VCGMM(20, neighbors=4, random_state=0).fit_predict(X).shape
    (1000,)
    """

    _system: ClassVar[str] = "VCGMM"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        truncation: int | Literal["auto"] = "auto",
        neighbors: int = 5,
        random_neighbor: bool = True,
        metric: Metric = "euclidean",
        init: Init = "auto",
        chain_length: int = 5,
        coreset_size: int | None = None,
        max_iter: int = 100,
        tol: float = 1e-3,
        refine: int = 0,
        stop: Stop = "per_dim",
        n_init: int = 1,
        warm_start: bool = False,
        labels: LabelSearch | None = "auto",
        memory_limit: int | str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callback: Callback | None = None,
        keep_on_interrupt: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.truncation = truncation
        self.neighbors = neighbors
        self.random_neighbor = random_neighbor
        self.metric = metric
        self.init = init
        self.chain_length = chain_length
        self.coreset_size = coreset_size
        self.max_iter = max_iter
        self.tol = tol
        self.refine = refine
        self.stop = stop
        self.n_init = n_init
        self.warm_start = warm_start
        self.labels = labels
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callback = callback
        self.keep_on_interrupt = keep_on_interrupt

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {
            "neighbors": check_int("neighbors", self.neighbors),
            "random_neighbor": check_flag("random_neighbor", self.random_neighbor),
        }


class ExactGMM(Mixture):
    """The mixture of DGMM, fitted by exact EM: in each iteration every row is compared with every cluster.

    Parameters and attributes are those of ``DGMM``, as far as they apply, but by default ``tol`` is 1e-3 and ``refine``
    is 0.

    Examples
    --------
    >>> import dgmm
    >>> model = dgmm.ExactGMM(2, random_state=0, tol=1e-6).fit([[0.0], [0.2], [5.0], [5.2]])
    >>> sorted(model.cluster_centers_.round(3).ravel().tolist()), round(model.variance_, 3)
    ([0.1, 5.1], 0.01)
    """

    _system: ClassVar[str] = "ExactGMM"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: Metric = "euclidean",
        init: Init = "auto",
        chain_length: int = 5,
        coreset_size: int | None = None,
        max_iter: int = 100,
        tol: float = 1e-3,
        refine: int = 0,
        stop: Stop = "per_dim",
        n_init: int = 1,
        warm_start: bool = False,
        labels: LabelSearch | None = "auto",
        memory_limit: int | str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callback: Callback | None = None,
        keep_on_interrupt: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.init = init
        self.chain_length = chain_length
        self.coreset_size = coreset_size
        self.max_iter = max_iter
        self.tol = tol
        self.refine = refine
        self.stop = stop
        self.n_init = n_init
        self.warm_start = warm_start
        self.labels = labels
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callback = callback
        self.keep_on_interrupt = keep_on_interrupt


class KMeans(Mixture):
    """k-means by Lloyd's algorithm: in each iteration every row is compared with every center and joins the nearest.

    The hard-assignment case of the mixture of DGMM. Parameters and attributes are those of ``DGMM``, as far as they
    apply, but by default ``tol`` is 1e-5, ``max_iter`` is 300 and ``refine`` is 0: the fit ends when the error falls by
    less than about 0.002 % per iteration. From the same start, scikit-learn's ``KMeans`` with default settings ends at
    the same error to 0.1 %.

    Empty clusters move to the rows farthest from their centers, each to a row with different values. scikit-learn does
    the same, but may choose equal rows, and removes the rows from the clusters that they were in.

    Examples
    --------
    >>> import dgmm
    >>> model = dgmm.KMeans(2, random_state=0).fit([[0.0], [0.2], [5.0], [5.2]])
    >>> sorted(model.cluster_centers_.round(3).ravel().tolist()), round(model.inertia_, 3)
    ([0.1, 5.1], 0.04)
    """

    _system: ClassVar[str] = "KMeans"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: Metric = "euclidean",
        init: Init = "auto",
        chain_length: int = 5,
        coreset_size: int | None = None,
        max_size: float | None = None,
        max_iter: int = 300,
        tol: float = 1e-5,
        refine: int = 0,
        stop: Stop = "per_dim",
        n_init: int = 1,
        warm_start: bool = False,
        labels: LabelSearch | None = "auto",
        memory_limit: int | str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callback: Callback | None = None,
        keep_on_interrupt: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.init = init
        self.chain_length = chain_length
        self.coreset_size = coreset_size
        self.max_size = max_size
        self.max_iter = max_iter
        self.tol = tol
        self.refine = refine
        self.stop = stop
        self.n_init = n_init
        self.warm_start = warm_start
        self.labels = labels
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callback = callback
        self.keep_on_interrupt = keep_on_interrupt

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"max_size": check_max_size("max_size", self.max_size)}

    def score(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the weighted sum of squared distances to the nearest centers, as in scikit-learn's KMeans."""
        check_is_fitted(self)
        centers, _, threads = self._model()
        metric = self._fitted_metric()
        parts = parts_of(X, sample_weight, centers.dtype)
        if parts is not None:
            errors = (_core.quantization_error(part.rows, part.weights, centers, metric, threads) for part in parts)
            return -float(sum(errors))
        rows = self._test_rows(X)
        return -_core.quantization_error(rows, check_weights(sample_weight, len(rows)), centers, metric, threads)

    def _posterior_width(self) -> int:
        return 1
