"""Parts of the method as functions: AFK-MC2 and the quantization error."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dgmm import _core
from dgmm._queries import Metric
from dgmm._reading import parts_of
from dgmm._validation import check_centers, check_int, check_matrix, check_option, check_seed, check_weights

__all__ = ["afkmc2", "quantization_error"]


def afkmc2(
    X: ArrayLike,
    n_clusters: int,
    *,
    chain_length: int = 5,
    sample_weight: ArrayLike | None = None,
    random_state: Any = None,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Choose initial centers by AFK-MC2 (Bachem et al., 2016), which approximates k-means++ without a pass per center.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The data.
    n_clusters : int
        The number of centers, at most the number of rows.
    chain_length : int
        The number of steps of each Markov chain; longer chains are closer to k-means++.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows, 1 by default.
    random_state : int, RandomState or None
        The seed; an int gives the same centers each time.

    Returns
    -------
    centers : ndarray of shape (n_clusters, n_features)
        The chosen rows.
    indices : ndarray of shape (n_clusters,)
        Their row numbers in X.

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


def quantization_error(
    X: ArrayLike, centers: ArrayLike, *, sample_weight: ArrayLike | None = None, metric: Metric = "euclidean"
) -> float:
    """Sum the squared distances of the rows to their nearest centers, exactly.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The data, in memory or read piece by piece, as in ``DGMM.fit``.
    centers : array-like of shape (n_clusters, n_features)
        The centers; they are converted to the type of X.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows, 1 by default.
    metric : {"euclidean", "cosine"}
        "cosine": rows and centers are normalized, so squared distances are 2 - 2 cos.

    Returns
    -------
    float
        The weighted sum.

    Examples
    --------
    >>> import dgmm
    >>> dgmm.quantization_error([[0.0], [2.0], [9.0]], [[1.0], [9.0]])
    2.0
    >>> round(dgmm.quantization_error([[3.0, 0.0], [0.0, 5.0]], [[1.0, 0.0]], metric="cosine"), 6)
    2.0
    """
    check_option("metric", metric, get_args(Metric))
    parts = parts_of(X, sample_weight)
    if parts is not None:
        errors = []
        for part in parts:
            like = check_centers("centers", centers, None, part.rows)
            errors.append(_core.quantization_error(part.rows, part.weights, like, metric, None))
        return float(sum(errors))
    rows, weights = _rows_and_weights(X, sample_weight)
    return _core.quantization_error(rows, weights, check_centers("centers", centers, None, rows), metric, None)


def _rows_and_weights(X: ArrayLike, sample_weight: ArrayLike | None) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
    rows = check_matrix("X", X)
    return rows, check_weights(sample_weight, len(rows))
