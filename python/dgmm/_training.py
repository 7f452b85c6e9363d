"""The loop of a fit over shards, wherever the steps run: progress, early ends, and the result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgmm import _core
from dgmm._base import Mixture
from dgmm._progress import Relay
from dgmm._validation import check_callable, check_centers, check_flag, check_int

Advance = Callable[[_core.Round], _core.Statistics]
"""Takes a step over every shard, which keeps its new memberships, and returns the merged statistics."""


def settings_of(estimator: Any) -> dict[str, Any]:
    """Check the parameters of an estimator for a fit over shards, and return them as settings for the core.

    Errors name the parameters that such a fit does not support.
    """
    if not isinstance(estimator, Mixture):
        raise TypeError(f"estimator is {estimator!r}; it must be an estimator of dgmm, such as dgmm.DGMM()")
    settings = estimator._settings()
    if settings["n_init"] != 1:
        raise ValueError(f"n_init is {estimator.n_init!r}; it must be 1 for a fit over shards, which makes one run")
    if settings.get("max_size") is not None:
        raise ValueError(
            f"max_size is {settings['max_size']!r}; it must be None for a fit over shards or with a checkpoint, which "
            "never has all labels at once"
        )
    if callable(estimator.init):
        raise TypeError(
            "init is callable; it must be a name or an array for a fit over shards, which never has all rows at once"
        )
    check_callable("callback", estimator.callback)
    check_flag("keep_on_interrupt", estimator.keep_on_interrupt)
    check_int("verbose", int(estimator.verbose), least=0)
    return settings


def check_elsewhere(estimator: Any) -> None:
    """Check the parameters of a fit on a cluster, and refuse those that only a fit on one machine supports."""
    settings_of(estimator)
    for name in ("checkpoint", "memory_limit"):
        if getattr(estimator, name) is not None:
            value = getattr(estimator, name)
            raise ValueError(f"{name} is {value!r}; it must be None for a fit on a cluster")


def start(
    estimator: Mixture,
    summary: _core.Summary,
    heard: Callable[..., object] | None,
    settings: dict[str, Any] | None = None,
) -> _core.Trainer:
    """Begin a fit of the summarized rows, with the centers that ``init`` gives or names."""
    centers = None
    if not isinstance(estimator.init, str):
        like = np.empty((0, summary.n_columns), dtype=np.float32 if summary.itemsize == 4 else np.float64)
        centers = check_centers(estimator._init_name, estimator.init, estimator._count, like)
    return _core.Trainer(settings or settings_of(estimator), summary, centers, heard)


class Training:
    """One fit: calls the listeners, stops if one of them says so, and handles Ctrl-C."""

    def __init__(self, estimator: Mixture) -> None:
        self._estimator = estimator
        self._shown = estimator._reporter()
        self._relay = Relay([listener for listener in (self._shown, estimator.callback) if listener is not None])
        self._seconds = {"coreset": 0.0, "seeding": 0.0, "em": 0.0, "labels": 0.0}
        self.interrupted = False

    def run(self, plain: Mixture, summarize: Callable[[], _core.Summary], advance: Advance) -> _core.Fitted:
        """Fit with the settings of ``plain``, whose seed is a number; return the model and how it went."""
        return self.run_from(lambda heard: start(plain, summarize(), heard), advance)

    def run_from(
        self,
        begin: Callable[[Callable[..., object] | None], _core.Trainer],
        advance: Advance,
        after: Callable[[_core.Trainer], None] = lambda _: None,
    ) -> _core.Fitted:
        """Fit with the trainer that ``begin`` makes, which gets the listener for its first iterations.

        ``after`` is called with the trainer after it has absorbed the statistics of a round.
        """
        complete = False
        try:
            fitted = self._run(begin, advance, after)
            complete = True
        finally:
            if self._shown is not None:
                self._shown.close(complete=complete)
        return fitted

    def _run(self, begin: Callable[..., _core.Trainer], advance: Advance, after: Callable[..., None]) -> _core.Fitted:
        began, max_iter = time.perf_counter(), int(self._estimator.max_iter)
        once = self._stops("seeding", 0, 0, *[math.nan] * 4)
        heard = (lambda *event: True) if once else self._relay if self._relay.listeners else None
        trainer = begin(heard)
        # The trainer's first iterations use a sample of the rows.
        early = max(trainer.fitted.history["seconds"], default=0.0)
        self._seconds["seeding"] = time.perf_counter() - began - early
        began = time.perf_counter() - early
        has_model = False
        while not trainer.finished:
            try:
                progress = trainer.absorb(advance(trainer.round))
                if progress["stage"] == "iterated":
                    has_model = True
                    values = (progress[name] for name in ("lower_bound", "change", "variance", "seconds"))
                    if self._stops("em", progress["iteration"], max_iter, *values) or once:
                        trainer.stop()
                after(trainer)
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


class Pairwise:
    """Merges the results of shards one by one, in the order of ``tree``, and holds only a few at a time."""

    def __init__(self, merge: Callable[[Any, Any], Any]) -> None:
        self._merge = merge
        self._parts: list[tuple[int, Any]] = []

    def add(self, part: Any) -> None:
        """Add the result of the next shard."""
        count = 1
        while self._parts and self._parts[-1][0] == count:
            part, count = self._merge(self._parts.pop()[1], part), 2 * count
        self._parts.append((count, part))

    def finish(self) -> Any:
        """Return the merged result of all shards."""
        part = self._parts.pop()[1]
        while self._parts:
            part = self._merge(self._parts.pop()[1], part)
        return part


def tree(parts: Sequence[Any], merge: Callable[[Any, Any], Any]) -> Any:
    """Merge neighbors level by level, the order of ``dgmm.shards.merge``, so that sums have the same bits anywhere."""
    level = list(parts)
    while len(level) > 1:
        pairs = [merge(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


def empty_clusters(centers: NDArray[Any], used: NDArray[np.bool_]) -> int:
    """Count the clusters that are no row's label, or share their center with one that is."""
    return len(centers) - len(np.unique(centers[used], axis=0))
