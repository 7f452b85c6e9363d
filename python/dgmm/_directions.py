"""Unit vectors: the directions of rows, and draws from the von Mises-Fisher distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def unit(rows: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of the rows, scaled to length 1."""
    wide = rows.astype(np.float64)
    wide /= np.abs(wide).max(axis=1, keepdims=True)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    return wide.astype(rows.dtype)


def around(directions: NDArray[Any], concentration: float, rng: np.random.Generator) -> NDArray[Any]:
    """Draw one unit vector around each of the given directions, in their type.

    The cosine w of the angle to the direction has the density exp(k w) (1 - w^2)^((D - 3) / 2), from which Wood (1994)
    draws by rejection; the rest of the vector is uniform in the orthogonal space. Computing 1 - w instead of w keeps
    the digits of narrow distributions.
    """
    count, dim = directions.shape
    mu = directions.astype(np.float64)
    if dim == 1:
        same = rng.random(count) * (1 + np.exp(-2 * concentration)) < 1
        return np.where(same[:, None], mu, -mu).astype(directions.dtype)
    apart = _one_minus_cosines(count, dim, concentration, rng)[:, None]
    across = rng.standard_normal((count, dim))
    across -= (across * mu).sum(axis=1, keepdims=True) * mu
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    return ((1 - apart) * mu + np.sqrt(apart * (2 - apart)) * across).astype(directions.dtype)


def _one_minus_cosines(count: int, dim: int, k: float, rng: np.random.Generator) -> NDArray[np.float64]:
    width = dim - 1
    # b of Wood's envelope, without the cancellation of sqrt(4 k^2 + width^2) - 2 k.
    b = width / (2 * k + np.hypot(2 * k, width))
    # x = (1 - b) / (1 + b), of which 1 - x^2 = 4 b / (1 + b)^2.
    x, rest = (1 - b) / (1 + b), 4 * b / (1 + b) ** 2
    out = np.empty(count)
    todo = np.arange(count)
    while todo.size:
        z = rng.beta(width / 2, width / 2, size=todo.size)
        # 1 - w, with w = (1 - (1 + b) z) / (1 - (1 - b) z).
        apart = 2 * b * z / (1 - (1 - b) * z)
        # k w + width log(1 - x w) is at most k x + width log(1 - x^2); 1 - x w = 1 - x + x (1 - w).
        gain = k * ((1 - x) - apart) + width * np.log((2 * b / (1 + b) + x * apart) / rest)
        taken = gain >= np.log(rng.random(todo.size))
        out[todo[taken]] = apart[taken]
        todo = todo[~taken]
    return out
