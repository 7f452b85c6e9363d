"""The log line and the warnings at the end of a fit."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from dgmm import _core
from dgmm._progress import logger
from dgmm._warnings import ConvergenceWarning, EmptyClusterWarning, InterruptWarning, OversizedClusterWarning

if TYPE_CHECKING:
    from dgmm._base import Mixture


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
