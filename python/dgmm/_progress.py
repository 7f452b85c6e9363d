"""What a fit tells while it runs: events for callbacks, a bar or log lines for ``verbose``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger("dgmm")


@dataclass(frozen=True)
class Event:
    """What a fit has just done, or (for the first two stages) is about to do.

    A callback that returns something true, or raises StopIteration, ends the fit, which then keeps what it has.
    Any other exception cancels the fit and is raised from it.
    """

    stage: str
    """"coreset", "seeding" or "em"."""
    run: int
    """Which of ``n_init`` runs, from 0."""
    iteration: int
    """Which iteration has ended, from 1; 0 before the first."""
    max_iter: int
    """The most iterations there can be; 0 before the first."""
    lower_bound: float
    """The lower bound F per unit of weight; NaN before the first iteration, as are the next three."""
    change: float
    """What is compared with ``tol``; infinite in the first iteration."""
    variance: float
    """The variance that all clusters share."""
    seconds: float
    """Since the first iteration of this run began."""


Callback = Callable[[Event], object]


class Relay:
    """Takes the core's events and hands them to the listeners, of which any may stop the fit."""

    def __init__(self, listeners: Sequence[Callback]) -> None:
        self.listeners = listeners
        self.first_run = 0

    def __call__(self, stage: str, run: int, *fields: Any) -> bool:
        """Hear of an event, given as the fields of ``Event`` in order."""
        event = Event(stage, self.first_run + run, *fields)
        # Each listener hears of it, whatever the others answer.
        answers = [bool(listener(event)) for listener in self.listeners]
        return any(answers)


class Log:
    """Writes a line an event to the logger "dgmm"."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, event: Event) -> None:
        """Write the line."""
        if event.stage != "em":
            logger.info("%s: run %d: %s", self._name, event.run, event.stage)
            return
        text = "%s: run %d: iteration %d of at most %d: lower bound %.6g, change %.3g, variance %.6g, %.2f s"
        values = (event.lower_bound, event.change, event.variance, event.seconds)
        logger.info(text, self._name, event.run, event.iteration, event.max_iter, *values)

    def close(self) -> None:
        """Nothing is open."""


class Bar:
    """Shows a tqdm bar a run."""

    def __init__(self, name: str, tqdm: Any) -> None:
        self._name, self._tqdm, self._bar, self._run = name, tqdm, None, 0

    def __call__(self, event: Event) -> None:
        """Move the bar."""
        if event.run != self._run:
            self.close()
        if self._bar is None:
            self._bar, self._run = self._tqdm(desc=self._name, unit="it"), event.run
        bar: Any = self._bar
        if event.stage == "em":
            bar.total = event.max_iter
            bar.set_postfix(F=f"{event.lower_bound:.6g}", change=f"{event.change:.2g}", refresh=False)
            bar.update(event.iteration - bar.n)
        else:
            bar.set_postfix_str(event.stage)

    def close(self) -> None:
        """Leave the bar as it is and forget it."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def reporter(name: str, verbose: int) -> Bar | Log | None:
    """What ``verbose`` asks for: 0 nothing, 1 a bar (log lines where tqdm is not installed), 2 and more log lines."""
    if verbose <= 0:
        return None
    if verbose == 1:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return Log(name)
        return Bar(name, tqdm)
    return Log(name)
