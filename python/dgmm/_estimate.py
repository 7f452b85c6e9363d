"""Predicts the cost of a fit: seconds from a small fit on this machine, bytes from the sizes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dgmm import _core
from dgmm._base import Mixture
from dgmm._coreset import lightweight_coreset
from dgmm._estimators import DGMM
from dgmm._validation import check_int

__all__ = ["Estimate", "estimate"]

TRIAL_NUMBERS = 2**21
"""About how many numbers the small fit reads."""
TRIAL_ROWS, TRIAL_CLUSTERS = 4096, 256
"""The fewest rows and clusters of the small fit, unless the fit has fewer: enough for the same engine and start."""


class Estimate(NamedTuple):
    """The expected cost of a fit."""

    seconds: float
    """The time that it takes."""
    bytes: int
    """The peak memory that it needs on top of its input."""
    data_bytes: int
    """The memory of its input."""
    stages: dict[str, float]
    """The seconds of "coreset", "seeding", "em" and "labels"."""
    n_iter: int
    """The assumed number of iterations in each run."""

    def __str__(self) -> str:
        """Return the estimate in one line."""
        return (
            f"about {self.seconds:.3g} s and {_size(self.bytes)} above the data's {_size(self.data_bytes)}, "
            f"if it takes {self.n_iter} iterations"
        )


def estimate(
    n_rows: int,
    n_columns: int,
    n_clusters: int,
    *,
    estimator: type[Mixture] = DGMM,
    dtype: DTypeLike = np.float32,
    **settings: Any,
) -> Estimate:
    """Predict the time and the memory of a fit before it runs.

    A small fit to synthetic data is timed, with the same number of columns and the same settings but fewer rows and
    clusters, and its time is scaled up. This takes about a second. How many iterations your data needs is not known in
    advance; the number of the small fit is used. Memory is computed from the sizes.

    Parameters
    ----------
    n_rows, n_columns, n_clusters : int
        The sizes of the fit.
    estimator : class
        DGMM, VCGMM, ExactGMM, KMeans or GaussianMixture.
    dtype : dtype
        The type of the data, float32 or float64.
    **settings
        Parameters of the estimator, such as ``coreset_size``, ``max_iter``, ``n_init`` or ``n_threads``.

    Returns
    -------
    Estimate
        ``seconds`` and ``bytes``, the seconds of each stage, and the assumptions.

    Examples
    --------
    >>> import dgmm
    >>> cost = dgmm.estimate(100_000, 16, 500)
    >>> cost.data_bytes, cost.bytes > 0, cost.seconds > 0
    (6400000, True, True)
    """
    if not (isinstance(estimator, type) and issubclass(estimator, Mixture)):
        raise TypeError(f"estimator is {estimator!r}; it must be an estimator of dgmm, such as dgmm.DGMM")
    rows, columns = check_int("n_rows", n_rows), check_int("n_columns", n_columns)
    clusters = check_int("n_clusters", n_clusters, most=rows, most_is=f"n_rows={rows}")
    kind = np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise ValueError(f"dtype is {kind}; it must be float32 or float64")
    model = estimator(clusters, **settings)
    if model.random_state is None:
        model.set_params(random_state=0)
    fitted = rows if model.coreset_size is None else min(rows, model.coreset_size)
    seeding, em, n_iter = _timed(model, fitted, columns, kind)
    stages = {"coreset": 0.0, "seeding": seeding, "em": em, "labels": 0.0}
    if model.coreset_size is not None:
        stages |= _timed_coreset(model, rows, columns, kind)
    memory = plan_of(model, rows, columns, kind)["bytes"]
    return Estimate(sum(stages.values()), memory, rows * columns * kind.itemsize, stages, n_iter)


def plan_of(model: Mixture, rows: int, columns: int, kind: np.dtype[Any]) -> dict[str, Any]:
    """Ask the core for the plan of a fit of this many rows."""
    return _core.plan(model._settings(), rows, columns, kind.itemsize)


def _timed(model: Mixture, rows: int, columns: int, kind: np.dtype[Any]) -> tuple[float, float, int]:
    """Seconds of seeding and of EM in all runs, and the iterations of one run."""
    clusters, truncation = model._count, getattr(model, "truncation", 1)
    small_rows = min(rows, max(TRIAL_NUMBERS // columns, TRIAL_ROWS))
    least = max(TRIAL_CLUSTERS, truncation if isinstance(truncation, int) else 1)
    small_clusters = min(clusters, max(least, round(clusters * small_rows / rows)), small_rows)
    small_rows = min(rows, max(small_rows, 4 * small_clusters))
    trial = type(model)(**model.get_params(deep=False))
    trial.set_params(coreset_size=None, n_init=1, verbose=0, callback=None, random_state=0)
    trial.set_params(**{model._count_name: small_clusters})
    plan = plan_of(model, rows, columns, kind)
    init: Any = plan["init"] if isinstance(model.init, str) else "random"
    trial._start_by(init)
    X = _made(small_rows, columns, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [trial.fit(X).seconds_]
        if sum(fits[0].values()) < 0.5:  # the first fit of a process also warms it up
            fits.append(trial.fit(X).seconds_)
    more_rows, more_clusters = rows / small_rows, clusters / small_clusters
    em = min(fit["em"] for fit in fits) * more_rows * (more_clusters if plan["search"] == "exhaustive" else 1.0)
    growth = _seeding_growth(init, more_rows, more_clusters)
    return model.n_init * growth * min(fit["seeding"] for fit in fits), model.n_init * em, trial.n_iter_


def _timed_coreset(model: Mixture, rows: int, columns: int, kind: np.dtype[Any]) -> dict[str, float]:
    """Seconds of drawing the coreset, and of labeling all rows afterwards."""
    X = _made(min(rows, max(TRIAL_NUMBERS // columns, TRIAL_ROWS)), columns, kind)
    drawn = _fastest(lambda: lightweight_coreset(X, len(X) // 10 + 1, random_state=0))
    centers = X[: min(model._count, 1024)]
    labels = 0.0
    if model.labels is not None:
        labels = _fastest(lambda: _core.predict(X, centers, 1.0, model.n_threads)) * model._count / len(centers)
    return {"coreset": drawn * rows / len(X), "labels": labels * rows / len(X)}


def _fastest(work: Callable[[], object]) -> float:
    """The fewest seconds of three calls; the first call of a process also warms it up."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _seeding_growth(init: str, rows: float, clusters: float) -> float:
    """How many times longer seeding takes with that many times the rows and clusters."""
    growth = {
        "random": rows,
        "auto": rows * clusters,
        "k-means++": rows * clusters,
        "afk-mc2": max(rows, clusters**2),
        # Measured; between reading the rows and the coarse search of O(N M^(1/2) D).
        "hierarchical": rows * clusters**0.3,
    }
    return float(growth[init])


def _made(rows: int, columns: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """Synthetic rows of different norms whose columns have decreasing variance, like most data after PCA."""
    rng = np.random.default_rng(0)
    scale = np.exp(0.5 * rng.standard_normal((rows, 1), dtype=np.float32))
    made = rng.standard_normal((rows, columns), dtype=np.float32) * scale / (1 + np.arange(columns))
    return np.asarray(made, dtype=kind)


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
