"""The base class of the estimators: fitting, saving, and everything else that does not depend on their parameters."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from dgmm import _core
from dgmm._columns import check_names
from dgmm._progress import Bar, Callback, Log, Relay, reporter, tell_end
from dgmm._queries import Metric, Queries
from dgmm._reading import streamed
from dgmm._report import facts_of_fit
from dgmm._sources import Matrix, Source
from dgmm._validation import (
    check_auto,
    check_bytes,
    check_callable,
    check_centers,
    check_flag,
    check_int,
    check_option,
    check_path,
    check_rows,
    check_seed,
    check_tolerance,
    check_weights,
    unchanged_on_error,
)
from dgmm._warnings import IgnoredSettingWarning

if TYPE_CHECKING:
    from typing_extensions import Self

InitName = Literal["auto", "afk-mc2", "hierarchical", "k-means++", "random"]
Init = InitName | ArrayLike | Callable[..., ArrayLike]
Stop = Literal["per_dim", "relative"]
LabelSearch = Literal["auto", "exact", "approximate"]
FEW_ROWS = 2048
"""Fits of this many rows are too fast for a checkpoint to be useful."""


class Mixture(Queries, ClassNamePrefixFeaturesOutMixin, ClusterMixin, BaseEstimator):
    """A mixture of equally likely isotropic Gaussians with one variance; k-means is its hard-assignment case.

    With ``metric="cosine"``, a mixture of von Mises-Fisher distributions with one concentration.
    """

    _system: ClassVar[str]
    _count_name: ClassVar[str] = "n_clusters"
    _init_name: ClassVar[str] = "init"
    _has_stop: ClassVar[bool] = True
    _goes_by_distance: ClassVar[bool] = True
    _named_tolerances: ClassVar[dict[str, float]] = {}

    n_clusters: int
    metric: Metric
    init: Init
    chain_length: int
    coreset_size: int | None
    max_iter: int
    tol: float | Literal["auto", "quick"]
    stop: Stop
    n_init: int
    warm_start: bool
    memory_limit: int | str | None
    checkpoint: str | os.PathLike[str] | None
    labels: LabelSearch | None
    random_state: Any
    n_threads: int | None
    verbose: int
    callback: Callback | None
    keep_on_interrupt: bool

    cluster_centers_: NDArray[Any]
    variance_: float
    concentration_: float
    labels_: NDArray[np.int32]
    inertia_: float
    lower_bound_: float
    n_iter_: int
    converged_: bool
    history_: dict[str, NDArray[Any]]
    n_distance_evals_: dict[str, int]
    seconds_: dict[str, float]
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    cluster_masses_: NDArray[np.float64]
    n_samples_seen_: int
    weight_seen_: float
    _batches: list[tuple[NDArray[Any], NDArray[np.float64] | None]]
    _rows_fitted: int
    _facts: dict[str, Any]

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the clusters of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data: an array, a pandas, polars or Arrow table whose columns are all numeric or whose only column
            holds vectors of equal length, a tensor in CPU memory, or anything else with ``__dlpack__`` or
            ``__array__``. float32 or float64 in C order, as in arrays and memory-mapped files, is used in place;
            everything else is copied into one such array: bool, float16 and integers of at most 16 bits as float32,
            which represents them exactly, other types as float64. Or rows that are read piece by piece: the path of a
            file or a folder, a list of paths, an Arrow dataset, or chunks of rows (or pairs of rows and weights), as a
            list or as a function that returns a new iterable of them at each call.
        y : ignored
            Present for compatibility with scikit-learn.
        sample_weight : float or array-like of shape (n_samples,), optional
            Weights of the rows, 1 by default. A row of weight 0 counts as absent.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            settings = self._settings()
            check_callable("callback", self.callback)
            check_flag("keep_on_interrupt", self.keep_on_interrupt)
            check_int("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, least=0)
            limit = check_bytes("memory_limit", self.memory_limit)
            check_path("checkpoint", self.checkpoint)
            check_flag("warm_start", self.warm_start)
            source = streamed(X, limit)
            if source is not None:
                self._fit_source(source, check_weights(sample_weight, source.n_rows), limit)
                return self
            rows = check_rows(self, X, reset=True)
            check_int(self._count_name, self._count, most=len(rows), most_is=f"n_samples={len(rows)}")
            weights = check_weights(sample_weight, len(rows))
            if self.checkpoint is not None and len(rows) > FEW_ROWS:
                self._fit_source(Matrix(rows), weights, limit, whole=limit is None)
                return self
            if limit is not None:
                sizes = _core.shards_within(settings, rows.shape[1], rows.itemsize, limit)
                settings["shard_rows"], settings["sample_rows"] = sizes
            fitted, interrupted = self._run(rows, weights, self._starts(rows, settings), settings)
            self._keep(fitted)
            self._facts = facts_of_fit(rows)
            tell_end(self, fitted, len(rows), interrupted, fitted.empty_clusters)  # its warnings may be errors
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from the next batch of a stream.

        Until there are 64 rows per cluster, batches are kept and refitted as by ``fit`` whenever their number of rows
        has doubled, so the numbering of clusters may change. The first batch needs at least ``n_clusters`` rows. From
        then on each batch is used once: its rows find their clusters, and centers move toward the means of their rows,
        while what was learned from earlier batches decays (stepwise EM, with a step of (w / W)^0.9 for a batch of
        weight w where W is the total weight so far, this batch included). A cluster that receives hardly any rows is
        moved to a row far from all centers. Memory is that of the model, however long the stream is. After ``fit``, or
        for a model that was loaded from a file, the stream continues from there.

        ``labels_``, ``inertia_``, ``lower_bound_`` and ``history_`` are those of the last batch, before the model
        learned from it (or of the rows that were refitted). ``n_iter_`` counts the iterations of the last fit and the
        batches after it. The next call continues from ``n_samples_seen_``, ``weight_seen_`` and ``cluster_masses_``,
        the decayed share of the rows that each cluster has.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows of the batch.
        y : ignored
            Present for compatibility with scikit-learn.
        sample_weight : float or array-like of shape (n_samples,), optional
            Weights of the rows, 1 by default.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np, dgmm
        >>> rng = np.random.default_rng(0)
        >>> model = dgmm.DGMM(50, random_state=0)
        >>> for _ in range(20):
        ...     _ = model.partial_fit(rng.normal(size=(1000, 4)).astype("float32"))
        >>> model.n_samples_seen_, model.cluster_centers_.shape
        (20000, (50, 4))
        """
        from dgmm._partial_fit import partial_fit

        with unchanged_on_error(self):
            partial_fit(self, X, sample_weight)
        return self

    def _fit_source(
        self, source: Source, weights: NDArray[np.float64] | None, limit: int | None, *, whole: bool = False
    ) -> None:
        """Fit rows that are read shard by shard."""
        from dgmm._out_of_core import fit

        check_names(self, source.names, reset=True)
        if source.n_rows is not None:
            check_int(self._count_name, self._count, most=source.n_rows, most_is=f"n_samples={source.n_rows}")
        fit(self, source, weights, limit, whole=whole)

    def fit_predict(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> NDArray[np.int32]:
        """Fit and return ``labels_``.

        With ``labels="auto"`` they come from the fit's own search. If that is truncated, as in DGMM and VCGMM, a few
        percent of the rows may get a different nearby cluster than from ``predict(X)``; with ``labels="exact"`` they
        agree.
        """
        if self.labels is None:
            raise ValueError("labels is None; for fit_predict it must be 'auto' or 'exact' or 'approximate'")
        return self.fit(X, y, sample_weight).labels_

    def fit_transform(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> NDArray[Any]:
        """Fit and return the distances of the rows of X to all centers."""
        return self.fit(X, y, sample_weight)._distances(X)

    def save(self, path: str | os.PathLike[str], *, labels: bool = True) -> None:
        """Write the fitted estimator to a file, which ``dgmm.load`` and the Rust crate read.

        The file is in the safetensors format, contains no code, and is moved into place when it is complete and on
        disk: readers see either the old file or the new one, even if several processes save to one path at once. A
        symbolic link is followed, and the permissions of a file that is replaced are kept. A callback, a callable
        ``init`` and a RandomState cannot be saved; a warning says so.

        Parameters
        ----------
        path : path
            The file, which must end in ".safetensors". An existing file is replaced.
        labels : bool
            Whether to save ``labels_``, four bytes per row of the data.
        """
        from dgmm._files import save

        check_is_fitted(self)
        save(self, path, labels=labels)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state from a pickle; parameters that its version did not have get their defaults."""
        super().__setstate__({**type(self)().get_params(deep=False), **state})

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _count(self) -> int:
        """The number of clusters that was requested."""
        return self.n_clusters

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    def _settings(self) -> dict[str, Any]:
        """Check the parameters and return them as settings for the core."""
        settings = {
            "system": self._system,
            "n_clusters": check_int(self._count_name, self._count),
            "metric": check_option("metric", self.metric, get_args(Metric)) if self._goes_by_distance else None,
            "chain_length": check_int("chain_length", self.chain_length),
            "coreset_size": None if self.coreset_size is None else check_int("coreset_size", self.coreset_size),
            "max_iter": check_int("max_iter", self.max_iter),
            "tol": check_tolerance("tol", self.tol, self._named_tolerances),
            "stop": check_option("stop", self.stop, get_args(Stop)) if self._has_stop else None,
            "refine": check_auto("refine", getattr(self, "refine", "auto"), least=0),
            "n_init": check_int("n_init", self.n_init),
            "labels": "none",
            "n_threads": None if self.n_threads is None else check_int("n_threads", self.n_threads),
            "seed": check_seed(self.random_state),
        }
        if self.labels is not None:
            settings["labels"] = check_option("labels", self.labels, get_args(LabelSearch), "None or ")
        start = self._named_start()
        return settings if start is None else settings | {"init": start}

    def _named_start(self) -> str | None:
        """Check ``init`` as far as that is possible without rows; return None for an array or a callable."""
        if not (isinstance(self.init, str) or self.init is None or np.isscalar(self.init)):
            return None
        allowed = "an array of shape (n_clusters, n_features), a callable or "
        return check_option("init", self.init, get_args(InitName), allowed)

    def _reporter(self) -> Bar | Log | None:
        """What shows progress. If the core chooses the tolerance, 5e-4 stands in for it to predict the time left."""
        tol = check_tolerance("tol", self.tol, self._named_tolerances)
        return reporter(type(self).__name__, int(self.verbose), int(self.max_iter), 5e-4 if tol is None else tol)

    def _starts(self, rows: NDArray[Any], settings: dict[str, Any]) -> Sequence[NDArray[Any] | None]:
        """The centers to start from: one entry per call of the core, None if the core chooses them."""
        n_clusters, n_init = settings["n_clusters"], settings["n_init"]
        earlier = self._earlier_centers(rows.shape[1])
        if earlier is not None:
            settings["n_init"] = 1
            return [earlier.astype(rows.dtype, copy=False)]
        if isinstance(self.init, str):
            return [None]
        settings["n_init"] = 1
        if callable(self.init):
            rng = np.random.RandomState(settings["seed"] % 2**32)
            drawn = (self.init(rows, n_clusters, random_state=rng) for _ in range(n_init))
            return [check_centers("init(X, n_clusters, random_state)", start, n_clusters, rows) for start in drawn]
        if n_init > 1:
            same = f"{self._init_name} is an array, so all runs would be the same"
            warnings.warn(f"{same}: making one run instead of n_init={n_init}", IgnoredSettingWarning, stacklevel=3)
        return [check_centers(self._init_name, self.init, n_clusters, rows)]

    def _start_by(self, init: InitName) -> None:
        """Use a named initialization."""
        self.init = init

    def _earlier_centers(self, columns: int) -> NDArray[Any] | None:
        """The centers for a warm start, if there is an earlier fit of the same sizes."""
        if not check_flag("warm_start", self.warm_start):
            return None
        earlier: NDArray[Any] | None = getattr(self, "cluster_centers_", None)
        return earlier if earlier is not None and earlier.shape == (self._count, columns) else None

    def _run(
        self,
        rows: NDArray[Any],
        weights: NDArray[np.float64] | None,
        starts: Sequence[NDArray[Any] | None],
        settings: dict[str, Any],
    ) -> tuple[_core.Fitted, bool]:
        """Fit from each start; return the fit with the highest lower bound, and whether Ctrl-C ended it."""
        shown = self._reporter()
        relay = Relay([listener for listener in (shown, self.callback) if listener is not None])
        best: _core.Fitted | None = None
        interrupted = False
        try:
            for relay.first_run, start in enumerate(starts):
                try:
                    heard = relay if relay.listeners else None
                    fitted = _core.fit(rows, weights, start, settings, heard, bool(self.keep_on_interrupt))
                except KeyboardInterrupt:
                    if best is None or not self.keep_on_interrupt:
                        raise
                    interrupted = True
                    break
                if best is None or fitted.lower_bound > best.lower_bound:
                    best = fitted
                interrupted = fitted.interrupted
                if fitted.stopped or interrupted:
                    break
        finally:
            if shown is not None:
                shown.close(complete=best is not None)
        assert best is not None
        return best, interrupted

    def _keep(self, fitted: _core.Fitted) -> None:
        self.cluster_centers_ = fitted.centers
        self._keep_scale(fitted.variance, fitted.concentration)
        for name in ("labels_", "cluster_masses_", "n_samples_seen_", "weight_seen_", "_batches"):
            self.__dict__.pop(name, None)
        if fitted.labels is not None:
            self.labels_ = fitted.labels
        self.inertia_ = fitted.inertia
        self.lower_bound_ = fitted.lower_bound
        self.converged_ = fitted.converged
        self.history_ = fitted.history
        self.n_iter_ = len(fitted.history["lower_bound"])
        self.n_distance_evals_ = fitted.evaluations
        self.seconds_ = fitted.seconds
        self._forget_searches()

    def _keep_scale(self, variance: float, concentration: float | None) -> None:
        """Keep the variance, and the concentration of a model that compares directions."""
        self.variance_ = variance
        self.__dict__.pop("concentration_", None)
        if concentration is not None:
            self.concentration_ = concentration

    def _file_facts(self) -> dict[str, str]:
        """Return what a file must tell the crate besides the centers and the variance."""
        return {}

    def _check_restored(self, metadata: Mapping[str, str]) -> None:
        """Check the attributes that a file has besides the centers and the variance."""
