"""The parts of the method that are of use by themselves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dgmm import _core
from dgmm._reading import parts_of
from dgmm._validation import check_centers, check_int, check_matrix, check_seed, check_weights

__all__ = ["Coreset", "afkmc2", "lightweight_coreset", "quantization_error"]


class Coreset(NamedTuple):
    """A few weighted rows that stand for many."""

    points: NDArray[Any]
    """The rows drawn, of the type of X."""
    weights: NDArray[np.float64]
    """How many rows each stands for; on average they sum to the weight of X."""
    indices: NDArray[np.int64]
    """Which row of X each is; a row may be drawn more than once."""


def lightweight_coreset(
    X: ArrayLike, size: int, *, sample_weight: ArrayLike | None = None, random_state: Any = None
) -> Coreset:
    """Draw a lightweight coreset (Bachem, Lucic and Krause, 2018).

    Row y is drawn with probability q(y), half of it uniform and half in proportion to its squared distance to the mean,
    and gets the weight 1 / (size q(y)), so that weighted sums over the coreset are unbiased for sums over X. Two passes
    over the data.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The data.
    size : int
        How many rows to draw.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows, 1 by default.
    random_state : int, RandomState or None
        The seed; an int gives the same coreset each time.

    Returns
    -------
    Coreset
        With ``points``, ``weights`` and ``indices``.

    Examples
    --------
    >>> import numpy as np, dgmm
    >>> X = np.arange(2000.0).reshape(1000, 2)
    >>> coreset = dgmm.lightweight_coreset(X, 50, random_state=0)
    >>> coreset.points.shape, coreset.weights.shape
    ((50, 2), (50,))
    >>> bool((coreset.points == X[coreset.indices]).all())
    True
    """
    rows, weights = _rows_and_weights(X, sample_weight)
    # As the core says of coreset_size.
    size = check_int("size", size, most=max(16 * len(rows), 2**20))
    return Coreset(*_core.lightweight_coreset(rows, weights, size, check_seed(random_state), None))


def afkmc2(
    X: ArrayLike,
    n_clusters: int,
    *,
    chain_length: int = 5,
    sample_weight: ArrayLike | None = None,
    random_state: Any = None,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Choose first centers by AFK-MC2 (Bachem et al., 2016), which approximates k-means++ without its passes.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The data.
    n_clusters : int
        How many centers to choose, at most as many as there are rows.
    chain_length : int
        Steps of each Markov chain; the longer, the closer to k-means++.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows, 1 by default.
    random_state : int, RandomState or None
        The seed; an int gives the same centers each time.

    Returns
    -------
    centers : ndarray of shape (n_clusters, n_features)
        The chosen rows.
    indices : ndarray of shape (n_clusters,)
        Which rows of X they are.

    Examples
    --------
    >>> import numpy as np, dgmm
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> centers, indices = dgmm.afkmc2(X, 10, random_state=0)
    >>> bool((centers == X[indices]).all())
    True
    """
    rows, weights = _rows_and_weights(X, sample_weight)
    n_clusters = check_int("n_clusters", n_clusters, most=len(rows), most_is=f"n_samples={len(rows)}")
    chain_length = check_int("chain_length", chain_length)
    return _core.afkmc2(rows, weights, n_clusters, chain_length, check_seed(random_state), None)


def quantization_error(X: ArrayLike, centers: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Sum the squared distances of the rows to their nearest centers, exactly.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The data, in memory or anything that is read in pieces, as ``DGMM.fit`` takes it.
    centers : array-like of shape (n_clusters, n_features)
        The centers; they are read in the type of X.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows, 1 by default.

    Returns
    -------
    float
        The weighted sum.

    Examples
    --------
    >>> import dgmm
    >>> dgmm.quantization_error([[0.0], [2.0], [9.0]], [[1.0], [9.0]])
    2.0
    """
    parts = parts_of(X, sample_weight)
    if parts is not None:
        errors = []
        for part in parts:
            like = check_centers("centers", centers, None, part.rows)
            errors.append(_core.quantization_error(part.rows, part.weights, like, None))
        return float(sum(errors))
    rows, weights = _rows_and_weights(X, sample_weight)
    return _core.quantization_error(rows, weights, check_centers("centers", centers, None, rows), None)


def _rows_and_weights(X: ArrayLike, sample_weight: ArrayLike | None) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
    rows = check_matrix("X", X)
    return rows, check_weights(sample_weight, len(rows))
