"""The parts of a fit over shards, for any engine that can call functions where the rows are.

A *round* is broadcast; each *shard* of rows takes a step, keeps its new *memberships* (the clusters of its rows) and
returns *statistics*; these are merged in the order of the shards, and a *trainer* turns the sum into the next round.
Rounds, memberships, statistics and summaries can be pickled. The same rows in the same shards give the same bits,
wherever and in whatever order the steps run.

>>> import numpy as np, dgmm
>>> from dgmm import shards
>>> X = np.random.default_rng(0).normal(size=(3000, 4)).astype("float32")
>>> estimator = dgmm.DGMM(50, random_state=0)
>>> parts = [shards.Shard(X[i : i + 1000], first_row=i) for i in range(0, 3000, 1000)]
>>> trainer = shards.Trainer(estimator, shards.merge_summaries([part.summarize(estimator, 3000) for part in parts]))
>>> memberships = [None] * 3
>>> while not trainer.finished:
...     steps = [part.step(trainer.round, known) for part, known in zip(parts, memberships)]
...     memberships = [kept for _, kept in steps]
...     progress = trainer.absorb(shards.merge([statistics for statistics, _ in steps]))
>>> labels = np.concatenate([kept.labels() for kept in memberships])
>>> model = trainer.to_estimator(labels)
>>> model.converged_, model.cluster_centers_.shape
(True, (50, 4))

``dgmm.shards.fit`` is this loop, and ``dgmm.dask`` and ``dgmm.spark`` run it on a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dgmm import _core
from dgmm._base import Mixture
from dgmm._core import Memberships, Round, Statistics, Summary
from dgmm._progress import tell_end
from dgmm._training import Training, empty_clusters, settings_of, start
from dgmm._validation import check_int, check_matrix, check_weights

__all__ = ["Memberships", "Round", "Shard", "Statistics", "Summary", "Trainer", "fit", "merge", "merge_summaries"]


class Shard:
    """Rows of a fit, with their weights and the number of the first row in the whole data set.

    Parameters
    ----------
    rows : array-like of shape (n_rows, n_features)
        float32 or float64 in C order is used in place, anything else is copied. ``summarize`` checks that all values
        are finite.
    sample_weight : float or array-like of shape (n_rows,), optional
        Weights of the rows, 1 by default.
    first_row : int
        How many rows come before these in the whole data set. The shards of a fit need different numbers: otherwise
        their rows would draw the same random numbers.
    """

    def __init__(self, rows: ArrayLike, sample_weight: ArrayLike | None = None, first_row: int = 0) -> None:
        self.first_row = check_int("first_row", first_row, least=0)
        self.rows = check_matrix("rows", rows, finite=False)
        self.sample_weight = check_weights(sample_weight, len(self.rows))

    @classmethod
    def of_checked(cls, rows: NDArray[Any], sample_weight: NDArray[np.float64] | None, first_row: int) -> Shard:
        """Make a shard from rows and weights that were checked before."""
        shard = cls.__new__(cls)
        shard.rows, shard.sample_weight, shard.first_row = rows, sample_weight, first_row
        return shard

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __sizeof__(self) -> int:
        """Return the bytes of rows and weights, by which engines decide where to run a step."""
        return self.rows.nbytes + (0 if self.sample_weight is None else self.sample_weight.nbytes)

    def __repr__(self) -> str:
        """Describe the rows."""
        last = self.first_row + len(self)
        return f"Shard of rows {self.first_row} to {last} with {self.rows.shape[1]} columns of {self.rows.dtype}"

    def summarize(self, estimator: Mixture, n_rows: int | None = None) -> Summary:
        """Summarize these rows for the start of a fit: their number, their moments and a sample of them.

        Parameters
        ----------
        estimator : DGMM, VCGMM, ExactGMM, KMeans or GaussianMixture
            The settings of the fit. Its ``random_state`` must be an integer, so that all shards draw from one stream.
        n_rows : int, optional
            The number of rows of all shards. Without it, each shard draws a sample of full size, until they are merged.
        """
        settings = settings_of(estimator)
        if not isinstance(estimator.random_state, int | np.integer):
            raise TypeError(f"random_state is {estimator.random_state!r}; fits over shards need an integer")
        total = None if n_rows is None else check_int("n_rows", n_rows, least=len(self))
        return _core.summarize(self.rows, self.sample_weight, self.first_row, settings, total)

    def step(
        self, round: Round, memberships: Memberships | None = None, *, n_threads: int | None = None
    ) -> tuple[Statistics, Memberships]:
        """Take a step of EM.

        Parameters
        ----------
        round : Round
            The round that the trainer broadcasts.
        memberships : Memberships, optional
            Those of the previous step; None in the first.
        n_threads : int, optional
            The number of threads, by default as many as the process may use. Results do not depend on it.

        Returns
        -------
        statistics : Statistics
            Sums over the rows, which can be merged.
        memberships : Memberships
            The clusters of the rows, for the next step.
        """
        threads = None if n_threads is None else check_int("n_threads", n_threads)
        return _core.step(self.rows, self.sample_weight, self.first_row, round, memberships, threads)


def merge(statistics: Sequence[Statistics]) -> Statistics:
    """Merge the statistics of shards, given in the order of the shards.

    Neighbors are merged first, level by level: (0, 1), (2, 3), then ((0, 1), (2, 3)) and so on. An engine that merges
    pairs of neighbors in this order gets the same bits, wherever it does so.
    """
    return _core.merge(list(statistics), None)


def merge_summaries(summaries: Sequence[Summary]) -> Summary:
    """Merge the summaries of shards, given in the order of the shards."""
    return _core.merge_summaries(list(summaries), None)


class Trainer:
    """Trains a model in rounds: broadcast ``round``, take a step over each shard, and ``absorb`` the merged statistics.

    Parameters
    ----------
    estimator : DGMM, VCGMM, ExactGMM, KMeans or GaussianMixture
        The settings of the fit; the estimator is not changed.
    summary : Summary
        The merged summary of all shards, which the fit starts from.
    """

    def __init__(self, estimator: Mixture, summary: Summary) -> None:
        self._estimator = estimator
        self.core = start(estimator, summary, None)

    @property
    def round(self) -> Round:
        """The round to broadcast."""
        return self.core.round

    @property
    def finished(self) -> bool:
        """Whether the training has ended."""
        return self.core.finished

    @property
    def fitted(self) -> _core.Fitted:
        """The current model, and the history of the training so far."""
        return self.core.fitted

    def absorb(self, statistics: Statistics) -> dict[str, Any]:
        """Process the merged statistics of all shards and make the next round.

        Returns
        -------
        progress : dict
            "stage" is "iterated", "measured" (the variance was computed again), "refining" (a round of refinement
            begins, or there will be none) or "finished". "iterated" comes with "iteration", "lower_bound", "change",
            "variance", "seconds" and "rows", and "refining" with "moved", the number of clusters that were moved.
        """
        return self.core.absorb(statistics)

    def stop(self) -> None:
        """End the training after one last round, which only finds the clusters of the rows."""
        self.core.stop()

    def to_estimator(self, labels: NDArray[np.int32] | None = None) -> Mixture:
        """Return a fitted estimator with the current model.

        Parameters
        ----------
        labels : array of shape (n_samples,), optional
            The labels of all rows, which become ``labels_``.
        """
        model = type(self._estimator)(**self._estimator.get_params(deep=False))
        model._keep(self.fitted)
        model.n_features_in_ = model.cluster_centers_.shape[1]
        if labels is not None:
            model.labels_ = np.asarray(labels, dtype=np.int32)
        return model


def fit(estimator: Mixture, shards: Sequence[Shard]) -> Mixture:
    """Fit the rows of shards in this process, and return a fitted copy of the estimator.

    Parameters
    ----------
    estimator : DGMM, VCGMM, ExactGMM, KMeans or GaussianMixture
        The settings. ``random_state`` must be an integer.
    shards : sequence of Shard
        The shards, in the order of their rows.

    Examples
    --------
    >>> import numpy as np, dgmm
    >>> from dgmm import shards
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> halves = [shards.Shard(X[:1000]), shards.Shard(X[1000:], first_row=1000)]
    >>> shards.fit(dgmm.KMeans(10, random_state=0), halves).labels_.shape
    (2000,)
    """
    if not shards:
        raise ValueError("shards is empty; it must contain at least one shard")
    known: list[Memberships | None] = [None] * len(shards)
    total = sum(map(len, shards))

    def summarized() -> Summary:
        return merge_summaries([shard.summarize(estimator, total) for shard in shards])

    def advance(round: Round) -> Statistics:
        sums = []
        for i, shard in enumerate(shards):
            statistics, known[i] = shard.step(round, known[i], n_threads=estimator.n_threads)
            sums.append(statistics)
        return merge(sums)

    settings_of(estimator)
    training = Training(estimator)
    fitted = training.run(estimator, summarized, advance)
    model = type(estimator)(**estimator.get_params(deep=False))
    model._keep(fitted)
    model.n_features_in_ = model.cluster_centers_.shape[1]
    model.labels_ = np.concatenate([kept.labels() for kept in known if kept is not None])
    used = np.bincount(model.labels_, minlength=len(model.cluster_centers_)) > 0
    tell_end(model, fitted, total, training.interrupted, empty_clusters(model.cluster_centers_, used))
    return model


def check_finite(name: str, rows: NDArray[Any], first_row: int) -> None:
    """Refuse values that are not finite; the error gives the number of the row in the whole data set."""
    with np.errstate(all="ignore"):
        if np.isfinite(rows.sum()):
            return
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        row, column = bad[0]
        value = "NaN" if np.isnan(rows[row, column]) else rows[row, column]
        raise ValueError(f"{name}[{first_row + row}, {column}] is {value}; every value must be finite")
