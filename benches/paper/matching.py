"""Compares the centers of a fit with those of another, or with the true ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


def squared_distances(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.float64]:
    """The squared distances of all pairs, relative to a common mean, so that no digits are lost far from 0."""
    shift = b.mean(axis=0, dtype=np.float64)
    a, b = a - shift, b - shift
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.maximum(squares, 0.0)


def matched_rmse(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    """The root mean squared distance between centers, with the pairing of `a` and `b` that minimizes it."""
    squares = squared_distances(a, b)
    pairs = linear_sum_assignment(squares)
    return float(np.sqrt(squares[pairs].mean()))
