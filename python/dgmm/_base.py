"""What the estimators have in common: everything but their parameters."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from dgmm import _core
from dgmm._columns import check_names
from dgmm._facts import facts_of_fit
from dgmm._nearby import ApproximateSearch, Method, Scale
from dgmm._progress import Callback, Relay, logger, reporter
from dgmm._reading import by_parts, streamed
from dgmm._sources import Matrix, Source
from dgmm._validation import (
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
    check_weight_values,
    check_weights,
    unchanged_on_error,
)
from dgmm._warnings import (
    ConvergenceWarning,
    EmptyClusterWarning,
    IgnoredSettingWarning,
    InterruptWarning,
    OversizedClusterWarning,
)

if TYPE_CHECKING:
    from typing_extensions import Self

InitName = Literal["auto", "afk-mc2", "hierarchical", "k-means++", "random"]
Init = InitName | ArrayLike | Callable[..., ArrayLike]
Stop = Literal["per_dim", "relative"]
LabelSearch = Literal["auto", "exact", "approximate"]
Metric = Literal["euclidean", "cosine"]
FEW_ROWS = 2048
"""Rows that are fitted too fast for a checkpoint to be of use."""


class Mixture(ApproximateSearch, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """A mixture of equally likely isotropic Gaussians that share one variance; k-means is its hard case.

    With ``metric="cosine"``, of von Mises-Fisher distributions that share one concentration.
    """

    __metadata_request__predict: ClassVar[dict[str, Any]] = {"method": UNUSED, "recall": UNUSED}
    _system: ClassVar[str]
    _count_name: ClassVar[str] = "n_clusters"
    _has_stop: ClassVar[bool] = True
    _goes_by_distance: ClassVar[bool] = True

    n_clusters: int
    metric: Metric
    init: Init
    chain_length: int
    coreset_size: int | None
    max_iter: int
    tol: float | Literal["auto"]
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
            The data: an array, a table of pandas, polars or Arrow whose columns are all numbers or whose only column
            holds equally long vectors, a tensor in memory of the CPU, or anything else with ``__dlpack__`` or
            ``__array__``. float32 or float64 in C order, as arrays and memory-mapped files have it, is used where it
            is; everything else is copied into one such array: bool, float16 and integers of at most 16 bits as float32,
            which holds them exactly, other types as float64. Or rows that are elsewhere and are read in pieces: the
            path of a file or a folder, a list of paths, a dataset of Arrow, or a callable that gives a new iterator
            over chunks of rows (or pairs of rows and weights) at each call.
        y : ignored
            Here because scikit-learn passes it.
        sample_weight : float or array-like of shape (n_samples,), optional
            How often each row counts; 1 by default. A row of weight 0 counts as absent.

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
            self._tell(fitted, len(rows), interrupted, fitted.empty_clusters)  # its warnings may be errors
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from the next batch of a stream.

        Until there are 64 rows per cluster, batches are kept, and fitted anew as ``fit`` does whenever their rows have
        doubled, so clusters may change their numbers. The first one needs at least ``n_clusters`` rows. From then on
        rows look for their clusters once, and centers move toward the means of theirs: what was learned from earlier
        batches decays (stepwise EM, with a step of (w / W)^0.9 for a batch of weight w after W in all). A cluster that
        hardly any row comes to is born again on a row far from all centers. What is kept has the size of the model,
        however long the stream is. After ``fit``, or for a model that was read from a file, the stream goes on from
        there.

        ``labels_``, ``inertia_``, ``lower_bound_`` and ``history_`` are those of the last batch, before it was learned
        from (or of the rows that were fitted anew); ``n_iter_`` counts the iterations of the last fit and the batches
        after it; ``n_samples_seen_``, ``weight_seen_`` and ``cluster_masses_``, the decayed share of the rows that each
        cluster has, are what the next call goes on with.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows of the batch.
        y : ignored
            Here because scikit-learn passes it.
        sample_weight : float or array-like of shape (n_samples,), optional
            How often each row counts; 1 by default.

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

        With ``labels="auto"`` they come from the fit's own search. Where that is truncated, as in DGMM and VCGMM, a few
        percent of the rows may have another near cluster than ``predict(X)`` says; ``labels="exact"`` gives its labels.
        """
        if self.labels is None:
            raise ValueError("labels is None, so that fit makes no labels; fit_predict needs 'auto' or another search")
        return self.fit(X, y, sample_weight).labels_

    def fit_transform(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> NDArray[Any]:
        """Fit and return the distances of the rows of X to all centers."""
        return self.fit(X, y, sample_weight)._distances(X)

    @by_parts
    def predict(self, X: ArrayLike, method: Method = "auto", recall: float | None = None) -> NDArray[np.int32]:
        """Say which center is the nearest to each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are read in the type of the centers.
        method : {"auto", "exact", "approximate"}
            "exact" compares each row with every center. "approximate" looks in the coarse cells of centers around a
            row: first in eight bits, and at the best few exactly. That is many times as fast for some thousand
            clusters and more, but may miss the nearest one. The first call with at least 256 rows learns from a
            sample of them how far to look (``approximate_reach_``); later calls are as fast per row, whatever their
            number of rows. Each call compares another small sample with exact search: ``approximate_recall_`` is the
            share that was right over all calls, and where it falls clearly below ``recall``, rows look farther. Where
            exact search costs no more, as with few clusters, it is used. "auto" is "exact", but "approximate" if
            ``recall`` is given.
        recall : float, optional
            The share of rows that must get the nearest cluster or one at most 1 % farther, above 0 and at most 1;
            0.98 by default. Exact search needs none.

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
        """Measure the Euclidean distances of the rows to all centers, an (n_samples, n_clusters) array.

        With ``metric="cosine"`` they are those between unit vectors, sqrt(2 - 2 cos).
        """
        return self._distances(X)

    @by_parts
    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Give the log-density of each row under the mixture, from all clusters.

        With ``metric="cosine"`` it is that of the row's direction, on the unit sphere.
        """
        check_is_fitted(self)
        return _core.log_density(self._test_rows(X), *self._model())

    def score(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Give the mean log-density of the rows, weighted by ``sample_weight``."""
        logs = self.score_samples(X)
        weights = check_weights(sample_weight, len(logs))
        if weights is not None:
            check_weight_values(weights)
            weights = np.ldexp(weights, -np.frexp(weights.max())[1])  # an exact scaling, so that their sum is finite
        return float(np.average(logs, weights=weights))

    def save(self, path: str | os.PathLike[str], *, labels: bool = True) -> None:
        """Write the fitted estimator to a file, which ``dgmm.load`` and the Rust crate read.

        The file is in the safetensors format, holds no code and is put in place when it is complete and on the disk:
        whoever reads sees the old file or the new one, also if several save to one path at once. A symbolic link is
        followed, and the permissions of a file that is replaced are kept. A callback, a callable ``init`` and a
        RandomState cannot be kept; a warning says so.

        Parameters
        ----------
        path : path
            The file, which must end in ".safetensors". One that is there is replaced.
        labels : bool
            Whether to keep ``labels_``, four bytes for each row of the data.
        """
        from dgmm._files import save

        check_is_fitted(self)
        save(self, path, labels=labels)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a pickle; parameters that its version did not have are as they are by default."""
        super().__setstate__({**type(self)().get_params(deep=False), **state})

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _count(self) -> int:
        """The number of clusters that were asked for."""
        return self.n_clusters

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    def _posterior_width(self) -> int:
        """How many clusters of a row have a posterior above 0."""
        return len(self.cluster_centers_)

    def _settings(self) -> dict[str, Any]:
        """Check the parameters and return what the core is to know of them."""
        settings = {
            "system": self._system,
            "n_clusters": check_int(self._count_name, self._count),
            "metric": check_option("metric", self.metric, get_args(Metric)) if self._goes_by_distance else None,
            "chain_length": check_int("chain_length", self.chain_length),
            "coreset_size": None if self.coreset_size is None else check_int("coreset_size", self.coreset_size),
            "max_iter": check_int("max_iter", self.max_iter),
            "tol": check_tolerance("tol", self.tol),
            "stop": check_option("stop", self.stop, get_args(Stop)) if self._has_stop else None,
            "n_init": check_int("n_init", self.n_init),
            "labels": "none",
            "n_threads": None if self.n_threads is None else check_int("n_threads", self.n_threads),
            "seed": check_seed(self.random_state),
        }
        if self.labels is not None:
            settings["labels"] = check_option("labels", self.labels, get_args(LabelSearch), "None or ")
        if isinstance(self.init, str) or self.init is None or np.isscalar(self.init):
            allowed = "an array of shape (n_clusters, n_features), a callable or "
            settings["init"] = check_option("init", self.init, get_args(InitName), allowed)
        return settings

    def _starts(self, rows: NDArray[Any], settings: dict[str, Any]) -> Sequence[NDArray[Any] | None]:
        """Where the runs start: one entry a call of the core, None for a start that the core chooses itself."""
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
            message = f"init is an array, so all runs would be the same: making one run instead of n_init={n_init}"
            warnings.warn(message, IgnoredSettingWarning, stacklevel=3)
        return [check_centers("init", self.init, n_clusters, rows)]

    def _earlier_centers(self, columns: int) -> NDArray[Any] | None:
        """Where a warm start begins, if there is a fit of the same sizes before it."""
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
        # Where the core chooses the tolerance, the time left is reckoned with the smallest that it chooses.
        tol = 1e-3 if settings["tol"] is None else settings["tol"]
        shown = reporter(type(self).__name__, int(self.verbose), settings["max_iter"], tol)
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

    def _tell(self, fitted: _core.Fitted, n_rows: int, interrupted: bool, empty: int) -> None:
        """Log how the fit ended, and warn of what the user should know."""
        name, found = type(self).__name__, self._count - empty
        ending = "interrupted" if interrupted else "stopped" if fitted.stopped else ""
        ending = ending or ("converged" if fitted.converged else "not converged")
        text = "%s: %d clusters of %d rows in %.2f s, %s after %d iterations, lower bound %.6g"
        seconds = sum(fitted.seconds.values())
        values = (self._count, n_rows, seconds, ending, self.n_iter_, self.lower_bound_)
        logger.info(text, name, *values)
        if found < self._count:
            message = (
                f"{name} found {found} distinct clusters where {self._count_name}={self._count} were asked for: no "
                "row is nearest to the others, or X has too few distinct rows"
            )
            warnings.warn(message, EmptyClusterWarning, stacklevel=3)
        if fitted.oversized_clusters:
            bound, count = getattr(self, "max_size", None), fitted.oversized_clusters
            message = (
                f"{name} could not keep max_size={bound} in {count} of {self.n_clusters} clusters: rows are whole, and "
                "some weigh more than the room that is left for them"
            )
            warnings.warn(message, OversizedClusterWarning, stacklevel=3)
        if interrupted:
            message = f"{name} was interrupted and keeps its best model so far, of {self.n_iter_} iterations"
            warnings.warn(message, InterruptWarning, stacklevel=3)
        elif not (fitted.converged or fitted.stopped) and self.tol != 0:
            message = f"{name} did not converge in max_iter={self.max_iter} iterations: raise max_iter or tol"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)

    def _file_facts(self) -> dict[str, str]:
        """Return what the crate must know of a file beside centers and variance."""
        return {}

    def _check_restored(self) -> None:
        """Refuse what a file says beside centers and variance, if it is not of them."""

    def _fitted_metric(self) -> Metric:
        """What the fitted model compares rows by, whatever the parameter says by now."""
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
