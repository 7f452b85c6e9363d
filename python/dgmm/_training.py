"""The loop of a fit over shards, wherever its steps are taken: progress, early ends, and what is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgmm import _core
from dgmm._base import Mixture
from dgmm._progress import Relay, reporter
from dgmm._validation import check_callable, check_flag, check_int

Advance = Callable[[_core.Round], _core.Statistics]
"""Takes a step over every shard, which keeps its new memberships, and gives the merged statistics."""


def settings_of(estimator: Any) -> dict[str, Any]:
    """Check the parameters of an estimator and return what the core is to know of them, for a fit over shards.

    Parameters that such a fit does not have are refused by name.
    """
    if not isinstance(estimator, Mixture):
        raise TypeError(f"estimator is {estimator!r}; it must be a dgmm.DGMM, VCGMM, ExactGMM or KMeans")
    settings = estimator._settings()
    if settings["n_init"] != 1:
        raise ValueError(f"n_init is {estimator.n_init!r}; a fit over shards makes one run, so it must be 1")
    if not isinstance(estimator.init, str):
        kind = type(estimator.init).__name__
        raise ValueError(f"init is a {kind}; a fit over shards chooses its own start, so it must be a name")
    check_callable("callback", estimator.callback)
    check_flag("keep_on_interrupt", estimator.keep_on_interrupt)
    check_int("verbose", int(estimator.verbose), least=0)
    return settings


class Training:
    """One fit: tells the listeners, asks them whether to go on, and heeds Ctrl-C."""

    def __init__(self, estimator: Mixture) -> None:
        self._estimator = estimator
        tol = 1e-3 if estimator.tol == "auto" else float(estimator.tol)
        self._shown = reporter(type(estimator).__name__, int(estimator.verbose), int(estimator.max_iter), tol)
        self._relay = Relay([listener for listener in (self._shown, estimator.callback) if listener is not None])
        self._seconds = {"coreset": 0.0, "seeding": 0.0, "em": 0.0, "labels": 0.0}
        self.interrupted = False

    def run(self, start: Callable[[], _core.Trainer], advance: Advance) -> _core.Fitted:
        """Start, go on until nothing is left to do, and return the model and how it went."""
        complete = False
        try:
            fitted = self._run(start, advance)
            complete = True
        finally:
            if self._shown is not None:
                self._shown.close(complete=complete)
        return fitted

    def _run(self, start: Callable[[], _core.Trainer], advance: Advance) -> _core.Fitted:
        began = time.perf_counter()
        once = self._stops("seeding", 0, 0, *[math.nan] * 4)
        trainer = start()
        self._seconds["seeding"] = time.perf_counter() - began
        began, max_iter = time.perf_counter(), 1 if once else int(self._estimator.max_iter)
        has_model = False
        while not trainer.finished:
            try:
                progress = trainer.absorb(advance(trainer.round))
                if progress["stage"] != "iterated":
                    continue
                has_model = True
                values = (progress[name] for name in ("lower_bound", "change", "variance", "seconds"))
                if self._stops("em", progress["iteration"], max_iter, *values) or once:
                    trainer.stop()
            except KeyboardInterrupt:
                if self.interrupted or not (has_model and self._estimator.keep_on_interrupt):
                    raise
                self.interrupted = True
                trainer.stop()
        self._seconds["em"] = time.perf_counter() - began
        fitted = trainer.fitted
        fitted.seconds.update(self._seconds)
        return fitted

    def _stops(self, stage: str, *fields: Any) -> bool:
        try:
            return self._relay(stage, 0, *fields)
        except StopIteration:
            return True


def tree(parts: Sequence[Any], merge: Callable[[Any, Any], Any]) -> Any:
    """Merge neighbors level by level: the order of ``dgmm.shards.merge``, in which sums have the same bits anywhere."""
    level = list(parts)
    while len(level) > 1:
        pairs = [merge(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


def empty_clusters(centers: NDArray[Any], used: NDArray[np.bool_]) -> int:
    """Count the clusters that are no row's label, or share their center with one that is."""
    return len(centers) - len(np.unique(centers[used], axis=0))
