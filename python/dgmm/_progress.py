"""What a fit tells the user: events for callbacks, a bar or log lines for ``verbose``, and warnings at its end."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dgmm import _core
from dgmm._warnings import ConvergenceWarning, EmptyClusterWarning, InterruptWarning, OversizedClusterWarning

if TYPE_CHECKING:
    from dgmm._base import Mixture

logger = logging.getLogger("dgmm")
# Without a handler Python would print this library's warnings to stderr.
logger.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Event:
    """What a fit has just done or, for the first two stages, is about to do.

    If a callback returns a true value, or raises StopIteration, the fit ends and keeps its best model so far (if there
    is none yet, the model after one iteration). Any other exception cancels the fit and is raised from it.
    """

    stage: str
    """"coreset", "seeding" or "em"."""
    run: int
    """The number of the run, from 0 to ``n_init - 1``."""
    iteration: int
    """The iteration that has ended, from 1; 0 before the first."""
    max_iter: int
    """The maximum number of iterations; 0 before the first iteration."""
    lower_bound: float
    """The lower bound F per unit of weight; NaN before the first iteration, like the next three fields."""
    change: float
    """The change that is compared with ``tol``; infinite in the first iteration."""
    variance: float
    """The variance of all clusters."""
    seconds: float
    """The time since the first iteration of this run began."""


Callback = Callable[[Event], object]


class Relay:
    """Passes the core's events to the listeners, each of which may stop the fit."""

    def __init__(self, listeners: Sequence[Callback]) -> None:
        self.listeners = listeners
        self.first_run = 0

    def __call__(self, stage: str, run: int, *fields: Any) -> bool:
        """Pass on an event, given as the fields of ``Event`` in order."""
        event = Event(stage, self.first_run + run, *fields)
        # Every listener is called, whatever the others return.
        answers = [bool(listener(event)) for listener in self.listeners]
        return any(answers)


class Log:
    """Writes one line per event to the logger "dgmm"."""

    def __init__(self, name: str, level: int = logging.INFO) -> None:
        self._name, self._level = name, level

    def __call__(self, event: Event) -> None:
        """Write the line."""
        if event.stage != "em":
            logger.log(self._level, "%s: run %d: %s", self._name, event.run, event.stage)
            return
        text = "%s: run %d: iteration %d of at most %d: lower bound %.6g, change %.3g, variance %.6g, %.2f s"
        values = (event.lower_bound, event.change, event.variance, event.seconds)
        logger.log(self._level, text, self._name, event.run, event.iteration, event.max_iter, *values)

    def close(self, complete: bool) -> None:
        """Do nothing: a log needs no closing."""


class Bar:
    """Shows one tqdm bar per run: the stage, the iterations, the bound, the change and the time left."""

    FORMAT = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"

    def __init__(self, name: str, tqdm: Any, max_iter: int, tol: float) -> None:
        self._name, self._tqdm, self._max_iter, self._tol = name, tqdm, max_iter, tol
        self._bar: Any = None
        self._run = 0
        self._last: Event | None = None

    def __call__(self, event: Event) -> None:
        """Update the bar."""
        if event.run != self._run:
            self.close(complete=True)
        if self._bar is None:
            # The total is given now, because a notebook's bar cannot change it later.
            self._bar = self._tqdm(total=self._max_iter, unit="it", bar_format=self.FORMAT)
            self._run, self._last = event.run, None
        run = f" {event.run + 1}" if event.run else ""
        self._bar.set_description_str(f"{self._name}{run} {event.stage}", refresh=False)
        if event.stage != "em":
            self._bar.refresh()
            return
        left = self._tqdm.format_interval(round(seconds_left(event, self._last, self._tol)))
        facts = {"F": f"{event.lower_bound:.6g}", "change": f"{event.change:.2g}", "left": f"about {left}"}
        self._bar.set_postfix(facts, refresh=False)
        self._bar.update(event.iteration - self._bar.n)
        self._last = event

    def close(self, complete: bool) -> None:
        """Close the bar; if the run is complete, its total becomes the number of iterations it took."""
        if self._bar is None:
            return
        if complete and self._last is not None:
            self._bar.total = self._bar.n
            facts = {"F": f"{self._last.lower_bound:.6g}", "change": f"{self._last.change:.2g}"}
            self._bar.set_postfix(facts, refresh=False)
        self._bar.close()
        self._bar = None


def seconds_left(event: Event, before: Event | None, tol: float) -> float:
    """Estimate the seconds until the change, at its current rate, falls to ``tol``, or until the last iteration.

    Parameters
    ----------
    event : Event
        The iteration that has just ended.
    before : Event or None
        The previous iteration.
    tol : float
        The change at which the fit stops.
    """
    most = float(event.max_iter - event.iteration)
    if before is not None and tol > 0 and 0 < event.change < before.change < math.inf:
        needed = math.log(tol / event.change) / math.log(event.change / before.change)
        most = min(most, max(0.0, math.ceil(needed)))
    return most * event.seconds / event.iteration


def reporter(name: str, verbose: int, max_iter: int, tol: float) -> Bar | Log | None:
    """What ``verbose`` asks for: 0 nothing, 1 a bar (log lines if tqdm is not installed), 2 or more log lines.

    With 0, log lines are still written if the logger's level is DEBUG.
    """
    if verbose <= 0:
        return Log(name, logging.DEBUG) if logger.isEnabledFor(logging.DEBUG) else None
    if verbose == 1:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return Log(name)
        return Bar(name, tqdm, max_iter, tol)
    return Log(name)


def tell_end(estimator: Mixture, fitted: _core.Fitted, n_rows: int, interrupted: bool, empty: int) -> None:
    """Log how the fit ended, and warn about what the user should know."""
    name, found = type(estimator).__name__, estimator._count - empty
    ending = "interrupted" if interrupted else "stopped" if fitted.stopped else ""
    ending = ending or ("converged" if fitted.converged else "not converged")
    text = "%s: %d clusters of %d rows in %.2f s, %s after %d iterations, lower bound %.6g"
    seconds = sum(fitted.seconds.values())
    values = (estimator._count, n_rows, seconds, ending, estimator.n_iter_, estimator.lower_bound_)
    logger.info(text, name, *values)
    if found < estimator._count:
        message = (
            f"{name} found {found} distinct clusters, but {estimator._count_name}={estimator._count} were requested: "
            "no row is nearest to the others, or X has too few distinct rows"
        )
        warnings.warn(message, EmptyClusterWarning, stacklevel=3)
    if fitted.oversized_clusters:
        bound, count = getattr(estimator, "max_size", None), fitted.oversized_clusters
        message = (
            f"{name} could not keep {count} of {estimator.n_clusters} clusters within max_size={bound}: rows cannot be "
            "split, and some weigh more than the space that is left"
        )
        warnings.warn(message, OversizedClusterWarning, stacklevel=3)
    if interrupted:
        message = f"{name} was interrupted and keeps its best model so far, after {estimator.n_iter_} iterations"
        warnings.warn(message, InterruptWarning, stacklevel=3)
    elif not (fitted.converged or fitted.stopped) and estimator.tol != 0:
        message = f"{name} did not converge in max_iter={estimator.max_iter} iterations: raise max_iter or tol"
        done = len(fitted.history["lower_bound"])
        if done < estimator.max_iter:
            message = f"{name} did not converge: the lower bound fell in iteration {done}; the best model is kept"
            message += "" if fitted.centers.itemsize == 8 else "; float64 tells clusters apart that are closer together"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)
