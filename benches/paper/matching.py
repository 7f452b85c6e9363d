"""Centers of one fit beside those of another, or the true ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


def squared_distances(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.float64]:
    """All pairs; by differences from a common mean, so that data far from the origin lose nothing."""
    shift = b.mean(axis=0, dtype=np.float64)
    a, b = a - shift, b - shift
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.maximum(squares, 0.0)


def matched_rmse(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    """The root mean squared distance between centers, each of `a` paired with one of `b` so that it is least."""
    squares = squared_distances(a, b)
    pairs = linear_sum_assignment(squares)
    return float(np.sqrt(squares[pairs].mean()))
