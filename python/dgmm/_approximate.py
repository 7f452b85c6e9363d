"""Approximate search: the index of a model's centers, how far its searches go, and how often they were right."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dgmm import _core
from dgmm._validation import check_option, check_share

Method = Literal["auto", "exact", "approximate"]
Scale: TypeAlias = float | tuple[str, float] | tuple[str, NDArray[np.float64], NDArray[np.float64] | None]
"""The variance of a model; its metric and variance; or its covariance type, variances and weights."""

RECALL = 0.98
"""The default share of rows that must get the nearest cluster or one at most 1 % farther."""
ENOUGH_ROWS = 256
"""The minimum number of rows to learn from; until then, searches are exact."""
MOST_AUDITED = 1024
"""The maximum number of rows of a call that are also searched exactly; of few rows, at most an eighth."""
FARTHER = 1.5
"""The factor by which searches are extended, at least, if they did not go far enough."""


class Goal(NamedTuple):
    """What a search is tuned for."""

    recall: float
    k: int


class Tally(NamedTuple):
    """How many of the audited rows were right, and how many were audited."""

    right: int = 0
    checked: int = 0

    def plus(self, right: int, checked: int) -> Tally:
        """Count more rows."""
        return Tally(self.right + right, self.checked + checked)

    def share(self) -> float:
        """The share of rows that were right; 1 if none were audited."""
        return self.right / self.checked if self.checked else 1.0

    def is_clearly_below(self, recall: float) -> bool:
        """Whether the share is below ``recall`` by more than three standard errors."""
        wrong = self.checked - self.right
        error = math.sqrt(wrong * self.right / self.checked) if self.checked else 0.0
        return wrong - (1 - recall) * self.checked > 3 * error


class ApproximateSearch:
    """The approximate search of an estimator, and what it has learned.

    The index is neither pickled nor saved: the same index is built again when it is needed. How far to search is
    learned once and kept with the model, so that a saved model gives the same answers.
    """

    cluster_centers_: NDArray[Any]
    variance_: float
    approximate_reach_: dict[Goal, float | None]
    approximate_recall_: float
    _tallies: dict[Goal, Tally]
    _index: tuple[NDArray[Any], _core.Index]

    if TYPE_CHECKING:  # the estimators have it

        def _model(self) -> tuple[NDArray[Any], Scale, int | None]: ...

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the index."""
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_index"}

    def _forget_searches(self) -> None:
        """Drop what belongs to the previous model."""
        for name in ("approximate_reach_", "approximate_recall_", "_tallies", "_index"):
            vars(self).pop(name, None)

    def _goal(self, method: Method, recall: float | None, k: int = 1) -> Goal | None:
        """What an approximate search must reach; None for exact search."""
        check_option("method", method, get_args(Method))
        wanted = RECALL if recall is None else check_share("recall", recall)
        exact = method == "exact" or (method == "auto" and recall is None)
        return None if exact else Goal(wanted, k)

    def _search(self, rows: NDArray[Any], goal: Goal) -> tuple[_core.Index, float] | None:
        """The index and how far to search, which the first large call learns; None for exact search."""
        known = vars(self).get("approximate_reach_", {})
        if (goal in known and known[goal] is None) or (goal not in known and len(rows) < ENOUGH_ROWS):
            return None
        centers, variance, threads = self._model()
        of, index = vars(self).get("_index", (None, None))
        if index is None or of is not centers:
            index = _core.Index(centers, variance, threads)
            self._remember(centers, _index=(centers, index))
        if goal not in known:
            reach = _tuned(index, rows, goal, threads)
            self._remember(centers, approximate_reach_={**known, goal: reach})
        else:
            reach = known[goal]
        return None if reach is None else (index, reach)

    def _nearest(self, rows: NDArray[Any], goal: Goal) -> NDArray[np.int32]:
        """Labels by approximate search, audited on a sample of the rows."""
        centers, variance, threads = self._model()
        search = self._search(rows, goal)
        if search is None:
            self._remember(centers, approximate_recall_=vars(self).get("approximate_recall_", 1.0))
            return _core.predict(rows, centers, variance, threads)
        index, reach = search
        tallies, reaches = vars(self).get("_tallies", {}), vars(self).get("approximate_reach_", {})
        labels, right, checked = index.predict(rows, reach, _audited(len(rows)), threads)
        tally = tallies.get(goal, Tally()).plus(right, checked)
        if tally.is_clearly_below(goal.recall) and len(rows) >= ENOUGH_ROWS:
            learned = _tuned(index, rows, goal, threads)
            longer = None if learned is None else max(learned, FARTHER * reach)
            self._remember(centers, approximate_reach_={**reaches, goal: longer})
            labels, right, checked = index.predict(rows, longer, _audited(len(rows)), threads)
            tally = Tally(right, checked)
        self._remember(centers, _tallies={**tallies, goal: tally}, approximate_recall_=tally.share())
        return labels

    def _remember(self, centers: NDArray[Any], **attributes: Any) -> None:
        """Store what a search has learned, unless another thread has refitted the estimator since."""
        if self.cluster_centers_ is centers:
            vars(self).update(attributes)


def _audited(rows: int) -> int:
    """The number of rows of a call to audit."""
    return min(max(32, rows // 128), MOST_AUDITED, rows // 8)


def _tuned(index: _core.Index, rows: NDArray[Any], goal: Goal, threads: int | None) -> float | None:
    """How far to search; None if only exact search reaches the goal, or if it costs no more."""
    reach, seen = index.tune(rows, goal.k, goal.recall, threads)
    count = min(len(rows), MOST_AUDITED) * goal.k
    return None if Tally(round(seen * count), count).is_clearly_below(goal.recall) else reach
