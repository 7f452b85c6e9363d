"""Estimators for Dask arrays and dataframes: rows stay on the workers, and results are lazy.

``DGMM``, ``VCGMM``, ``ExactGMM`` and ``KMeans`` have the parameters and attributes of those in ``dgmm``, and
``lightweight_coreset`` draws a coreset. With a ``distributed.Client`` they run on its cluster, otherwise on Dask's own
scheduler. Each partition is a shard of the fit: the same partitions give the same bits for any number of workers, and
the same bits as ``dgmm.shards.fit``.

>>> import dask.array as da
>>> import dgmm.dask
>>> X = da.random.default_rng(0).normal(size=(6000, 4), chunks=(1500, 4)).astype("float32")
>>> model = dgmm.dask.DGMM(20, random_state=0).fit(X)
>>> model.cluster_centers_.shape, model.labels_
((20, 4), dask.array<concatenate, shape=(6000,), dtype=int32, chunksize=(1500,), chunktype=numpy.ndarray>)
>>> model.predict(X)[:5].compute().shape
(5,)

Needs the extra "dask".
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dgmm import _core, _estimators
from dgmm._approximate import Scale
from dgmm._base import Mixture
from dgmm._columns import check_names, check_number
from dgmm._coreset import Coreset
from dgmm._dask_fleet import Fleet, check_workers, client_in_use
from dgmm._dask_partitions import Partitions, has_weight, is_collection, is_frame, partitions, single_columns
from dgmm._extras import need
from dgmm._progress import tell_end
from dgmm._queries import TopK
from dgmm._training import Training, check_elsewhere, empty_clusters
from dgmm._validation import check_int, check_seed, unchanged_on_error
from dgmm.shards import Shard, check_finite

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DGMM", "VCGMM", "ExactGMM", "KMeans", "lightweight_coreset"]


@dataclass(frozen=True)
class Query:
    """A method call of a fitted estimator, applied to each block of rows."""

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    width: tuple[int, ...]
    dtype: Any

    @property
    def __name__(self) -> str:
        """The name of the tasks in Dask."""
        return f"dgmm-{self.method}"

    @property
    def meta(self) -> Any:
        """The result for no rows."""
        if self.kwargs.get("sparse"):
            return need("scipy.sparse", None, "sparse=True").csr_matrix((0, *self.width), dtype=self.dtype)
        return np.empty((0, *self.width), dtype=self.dtype)

    def __call__(self, block: Any, model: Mixture) -> Any:
        """Call the method for a block."""
        if len(block) == 0:
            return self.meta
        answer = getattr(model, self.method)(block, *self.args, **self.kwargs)
        return np.hstack(answer) if isinstance(answer, TopK) else answer


class _OnDask(Mixture):
    """The estimators' methods for Dask collections. For arrays in memory they call those of ``dgmm``."""

    _plain: ClassVar[type[Mixture]]

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the clusters of X.

        Rows and their clusters stay on the workers. In each iteration the model is sent to each worker, and the sums
        over its rows are sent back: at most 12 bytes for each number of the centers in float32, and 16 bytes for each
        entry of S. If a worker is lost, the steps of its shards are repeated elsewhere, with the same bits.

        Parameters
        ----------
        X : dask.array.Array or dask.dataframe.DataFrame, of shape (n_samples, n_features)
            The rows. Each partition is a shard, ideally with a few hundred rows per cluster. Their lengths may differ
            and may be unknown. The rows are loaded once, and stay in the memory of the workers during the fit.
        y : ignored
            Present for compatibility with scikit-learn.
        sample_weight : float, dask array or series, or array-like of shape (n_samples,), optional
            Weights of the rows, 1 by default.

        Returns
        -------
        self
            ``labels_`` is a Dask array that is kept on the workers.
        """
        with unchanged_on_error(self):
            check_int("n_clusters", self.n_clusters)
            check_elsewhere(self)
            client = client_in_use()
            if client is not None:
                check_workers(client)
            with _naming_lost_partitions():
                parts = partitions(X, sample_weight)
                check_names(self, parts.names, reset=True)
                check_number(self, parts.columns, reset=True)
                check_int("n_clusters", self.n_clusters, most=parts.n_rows, most_is=f"n_samples={parts.n_rows}")
                fitted, interrupted, empty = (_fit_all if self.coreset_size is None else _fit_coreset)(self, parts)
            tell_end(self, fitted, parts.n_rows, interrupted, empty)  # its warnings may be errors
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from the next batch of a stream, which must be in memory. See ``dgmm.DGMM.partial_fit``."""
        if is_collection(X):
            raise TypeError(f"X is a {type(X).__name__}; a batch must be in memory: pass X.compute(), or call fit")
        return super().partial_fit(X, y, sample_weight)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit and return the distances of the rows of X to all centers, lazily."""
        return self.fit(X, y, sample_weight).transform(X)

    def predict(self, X: Any, method: Any = "auto", recall: float | None = None) -> Any:
        """Return the nearest center of each row; lazy for Dask collections. See ``dgmm.DGMM.predict``."""
        if not is_collection(X):
            return super().predict(X, method, recall)
        return self._lazily(X, "predict", np.int32, (), method, recall)

    def predict_proba(self, X: Any, sparse: bool = False) -> Any:
        """Return the posterior of each row over the clusters; lazy for Dask collections.

        With ``sparse=True`` the blocks of the result are of type ``scipy.sparse.csr_matrix``.
        """
        if not is_collection(X):
            return super().predict_proba(X, sparse=sparse)
        return self._lazily(X, "predict_proba", self._kind(), (len(self.cluster_centers_),), sparse=sparse)

    def top_k(self, X: Any, k: int, method: Any = "exact", recall: float | None = None) -> TopK:
        """Find the ``k`` nearest centers of each row; two lazy arrays for Dask collections."""
        if not is_collection(X):
            return super().top_k(X, k, method, recall)
        check_is_fitted(self)
        k = check_int("k", k, most=len(self.cluster_centers_), most_is=f"n_clusters={len(self.cluster_centers_)}")
        both = self._lazily(X, "top_k", np.float64, (2 * k,), k, method, recall)
        return TopK(both[:, :k].astype(np.int64), both[:, k:].astype(self._kind()))

    def transform(self, X: Any) -> Any:
        """Return the Euclidean distances of the rows to all centers; lazy for Dask collections."""
        if not is_collection(X):
            return super().transform(X)
        return self._lazily(X, "transform", self._kind(), (len(self.cluster_centers_),))

    def score_samples(self, X: Any) -> Any:
        """Return the log-density of each row; lazy for Dask collections."""
        if not is_collection(X):
            return super().score_samples(X)
        return self._lazily(X, "score_samples", np.float64, ())

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean log-density or, for KMeans, minus the quantization error."""
        if not is_collection(X):
            return super().score(X, y, sample_weight)
        check_is_fitted(self)
        parts, hard = partitions(X, sample_weight), self._plain is _estimators.KMeans
        fleet, model = Fleet([shard for _, shard in parts.shards()], self.n_threads), self._model()[:2]
        with fleet.nothing_left_on_error():
            pairs = np.array(fleet.gathered("score", score_of, [(*model, hard)] * len(fleet.shards)))
        total, weight = pairs.sum(axis=0)
        return float(-total if hard else total / weight)

    def to_local(self) -> Mixture:
        """Return a fitted estimator of ``dgmm`` with this model, without ``labels_``, for example to save it."""
        check_is_fitted(self)
        local = self._plain(**self.get_params(deep=False))
        for name in vars(self).keys() - {"labels_"}:
            setattr(local, name, vars(self)[name])
        return local

    def __getstate__(self) -> dict[str, Any]:
        """Leave out ``labels_``, which stay on the cluster."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "labels_"}

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a model."""
        return hasattr(self, "cluster_centers_")

    def _kind(self) -> Any:
        check_is_fitted(self)
        return self.cluster_centers_.dtype

    def _lazily(self, X: Any, method: str, dtype: Any, width: tuple[int, ...], *args: Any, **kwargs: Any) -> Any:
        """The results of a method of the model for the blocks of X, as a Dask array."""
        check_is_fitted(self)
        dask, array = need("dask", "dask", "dgmm.dask"), need("dask.array", "dask", "dgmm.dask")
        check_names(self, list(X.columns) if is_frame(X) else None, reset=False)
        check_number(self, X.shape[1] if not is_frame(X) else len(X.columns), reset=False)
        local = self.to_local().set_params(n_threads=self.n_threads or 1, callback=None)
        if not is_frame(X):
            vars(local).pop("feature_names_in_", None)  # blocks have no names; the warning was given above
        query = Query(method, args, kwargs, width, dtype)
        model = dask.delayed(local, pure=True)
        if is_frame(X):
            parts = [dask.delayed(query)(block, model) for block in X.to_delayed()]
            shaped = [array.from_delayed(part, (np.nan, *width), meta=query.meta) for part in parts]
            return array.concatenate(shaped)
        X = single_columns("X", X)
        shape = {"chunks": (X.chunks[0], width)} if width else {"drop_axis": 1}
        return array.map_blocks(query, X, model, dtype=dtype, meta=query.meta, **shape)


class DGMM(_OnDask, _estimators.DGMM):
    """``dgmm.DGMM`` for Dask arrays and dataframes.

    The parameters and attributes are those of ``dgmm.DGMM``, but ``labels_`` is a Dask array, ``init`` must not be
    callable and ``n_init`` must be 1. ``n_threads`` is the number per step; by default all steps together use the
    threads of the workers.
    """

    _plain = _estimators.DGMM


class VCGMM(_OnDask, _estimators.VCGMM):
    """``dgmm.VCGMM`` for Dask arrays and dataframes; see ``dgmm.dask.DGMM``."""

    _plain = _estimators.VCGMM


class ExactGMM(_OnDask, _estimators.ExactGMM):
    """``dgmm.ExactGMM`` for Dask arrays and dataframes; see ``dgmm.dask.DGMM``."""

    _plain = _estimators.ExactGMM


class KMeans(_OnDask, _estimators.KMeans):
    """``dgmm.KMeans`` for Dask arrays and dataframes; see ``dgmm.dask.DGMM``."""

    _plain = _estimators.KMeans


def lightweight_coreset(X: Any, size: int, *, sample_weight: Any = None, random_state: Any = None) -> Coreset:
    """Draw a lightweight coreset of a Dask array or dataframe into the memory of this process.

    Each partition contributes in proportion to its weight, with rows drawn as by ``dgmm.lightweight_coreset``. Weighted
    sums over the coreset are unbiased estimates of sums over X.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame, of shape (n_samples, n_features)
        The data.
    size : int
        The number of rows to draw.
    sample_weight : float, dask array or series, or array-like of shape (n_samples,), optional
        Weights of the rows, 1 by default.
    random_state : int, RandomState or None
        The seed; an int gives the same coreset each time.

    Returns
    -------
    Coreset
        With ``points``, ``weights`` and ``indices`` (the row numbers in X).

    Examples
    --------
    >>> import dask.array as da
    >>> import dgmm.dask
    >>> X = da.random.default_rng(0).normal(size=(6000, 4), chunks=(1500, 4))
    >>> dgmm.dask.lightweight_coreset(X, 50, random_state=0).points.shape
    (50, 4)
    """
    size, seed = check_int("size", size), check_seed(random_state)
    with _naming_lost_partitions():
        return _coreset(partitions(X, sample_weight), size, seed)


def _coreset(parts: Partitions, size: int, seed: int) -> Coreset:
    """Draw from each partition in proportion to its weight."""
    check_int("size", size, most=max(16 * parts.n_rows, 2**20))
    fleet = Fleet([shard for _, shard in parts.shards()], 1)
    with fleet.nothing_left_on_error():
        shares = np.array(fleet.gathered("weight", weight_of))
        if not shares.any():
            raise ValueError("sample_weight is zero for every row; at least one must be positive")
        drawn = np.random.default_rng(seed).multinomial(size, shares / shares.sum())
        several = fleet.gathered("coreset", draw, [(int(n), seed + i) for i, n in enumerate(drawn)])
    return Coreset(*(np.concatenate(same) for same in zip(*several, strict=True)))


def weight_of(shard: Shard) -> float:
    """The total weight of a shard."""
    return float(len(shard) if shard.sample_weight is None else shard.sample_weight.sum())


def draw(shard: Shard, size: int, seed: int) -> tuple[Any, Any, Any]:
    """Draw a part of a coreset from a shard."""
    if size == 0:
        return shard.rows[:0], np.empty(0), np.empty(0, dtype=np.int64)
    check_finite("X", shard.rows, shard.first_row)
    points, weights, indices = _core.lightweight_coreset(shard.rows, shard.sample_weight, size, seed % 2**64, 1)
    return points, weights, indices + shard.first_row


Outcome = tuple[_core.Fitted, bool, int]
"""The fit, whether Ctrl-C ended it, and how many clusters have no rows."""


def _fit_all(model: _OnDask, parts: Partitions) -> Outcome:
    earlier = model._earlier_centers(parts.columns)
    settings = model.get_params(deep=False) | {"callback": None, "random_state": check_seed(model.random_state)}
    plain = model._plain(**settings | ({} if earlier is None else {"init": earlier}))
    fleet, training = Fleet([shard for _, shard in parts.shards()], model.n_threads), Training(model)
    with fleet.nothing_left_on_error():
        fitted = training.run(plain, lambda: fleet.summary(plain, parts.n_rows), fleet.advance)
        model._keep(fitted)
        empty = _label(model, fleet, parts, exact=model.labels == "exact")
    return fitted, training.interrupted, empty


def _fit_coreset(model: _OnDask, parts: Partitions) -> Outcome:
    assert model.coreset_size is not None
    seed, began = check_seed(model.random_state), time.perf_counter()
    coreset = _coreset(parts, model.coreset_size, seed)
    drawn = time.perf_counter() - began
    settings = model._settings() | {"seed": seed, "coreset_size": None}
    starts = model._starts(coreset.points, settings)
    fitted, interrupted = model._run(coreset.points, coreset.weights, starts, settings)
    fitted.seconds["coreset"] = drawn
    model._keep(fitted)
    fleet = Fleet([shard for _, shard in parts.shards()], model.n_threads)
    with fleet.nothing_left_on_error():
        empty = fitted.empty_clusters if model.labels is None else _label(model, fleet, parts, exact=True)
    return fitted, interrupted, empty


def _label(model: _OnDask, fleet: Fleet, parts: Partitions, *, exact: bool) -> int:
    """Label the rows, and count the clusters without rows."""
    array, began = need("dask.array", "dask", "dgmm.dask"), time.perf_counter()
    labels = fleet.labels(*model._model()[:2], exact=exact)
    used = fleet.counts(labels, len(model.cluster_centers_)) > 0
    if exact:
        model.inertia_ = sum(
            fleet.gathered("error", error_of, [(model.cluster_centers_, model._fitted_metric())] * len(labels))
        )
    if model.labels is not None:
        lengths = [length for length in parts.lengths if length > 0]
        known = zip(labels, lengths, strict=True)
        model.labels_ = array.concatenate([array.from_delayed(part, (n,), dtype=np.int32) for part, n in known])
    model.seconds_["labels"] = time.perf_counter() - began
    return empty_clusters(model.cluster_centers_, used)


def error_of(shard: Shard, centers: Any, metric: str) -> float:
    """The exact quantization error of a shard."""
    rows = shard.rows.astype(centers.dtype, copy=False)
    return _core.quantization_error(rows, shard.sample_weight, centers, metric, 1) if has_weight(shard) else 0.0


def score_of(shard: Shard, centers: Any, variance: Scale, hard: bool) -> tuple[float, float]:
    """The weighted sum of squared distances, or of log-densities, of a shard, and its weight."""
    check_finite("X", shard.rows, shard.first_row)
    if hard:
        metric = variance[0] if isinstance(variance, tuple) else "euclidean"
        return error_of(shard, centers, metric), weight_of(shard)
    logs = _core.log_density(shard.rows.astype(centers.dtype, copy=False), centers, variance, 1)
    return float(logs.sum() if shard.sample_weight is None else logs @ shard.sample_weight), weight_of(shard)


@contextmanager
def _naming_lost_partitions() -> Iterator[None]:
    """Explain a task that Dask has cancelled: its input is lost and cannot be recomputed."""
    import concurrent.futures

    try:
        yield
    except concurrent.futures.CancelledError as error:
        lost = "X: partitions were lost and cannot be recomputed; were they scattered to a worker that is gone?"
        raise RuntimeError(f"{lost} ({error})") from error
