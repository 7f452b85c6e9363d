"""Data, plain versions of the algorithms, and functions that other processes run."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import dgmm
import numpy as np
from sklearn.exceptions import ConvergenceWarning

ALL = [dgmm.DGMM, dgmm.VCGMM, dgmm.ExactGMM, dgmm.KMeans]
DTYPES = [np.float32, np.float64]
# With few clusters DGMM's "auto" compares rows with all of them; tests of its engines name the engine.
SYSTEMS = {
    "DGMM pointwise": partial(dgmm.DGMM, engine="pointwise"),
    "DGMM grouped": partial(dgmm.DGMM, engine="grouped"),
    **{cls.__name__: cls for cls in ALL},
}


def exhaustive(cls: type, n_clusters: int, **parameters: Any) -> Any:
    """An estimator that compares rows with all clusters, so that nothing is random after the start."""
    if cls is dgmm.DGMM:
        parameters = {"truncation": n_clusters, "engine": "pointwise"} | parameters
    if cls is dgmm.VCGMM:
        parameters = {"truncation": n_clusters, "random_neighbor": False} | parameters
    return cls(n_clusters, **parameters)


def blobs(rows: int, dim: int, clusters: int, *, seed: int = 0, spread: float = 0.3, dtype: Any = np.float64) -> Any:
    """Rows around ``clusters`` random points."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-3, 3, size=(clusters, dim))
    X = centers[rng.integers(clusters, size=rows)] + spread * rng.standard_normal((rows, dim))
    return np.ascontiguousarray(X, dtype=dtype)


def s1(seed: int = 1) -> tuple[Any, Any]:
    """Data by the recipe of the S1 set (Fränti and Virmajoki, 2006): 5000 rows, 15 round clusters of about equal size.

    Centers lie in a square of side 10**6, no two nearer than 165,000. With the standard deviation used here about 9 %
    of the rows are nearer to a row of another cluster than to their own center, as in S1, the easiest of its family.
    """
    rng = np.random.default_rng(seed)
    centers: list[Any] = []
    while len(centers) < 15:
        new = rng.uniform(100_000, 900_000, size=2)
        if all(np.linalg.norm(new - other) > 165_000 for other in centers):
            centers.append(new)
    kinds = np.arange(5000) % 15
    return np.array(centers)[kinds] + 30_000 * rng.standard_normal((5000, 2)), np.array(centers)


def squared_distances(X: Any, centers: Any) -> Any:
    """Squared distances, computed from differences in float64."""
    return ((np.asarray(X, float)[:, None, :] - np.asarray(centers, float)[None]) ** 2).sum(axis=2)


def lower_bound(squares: Any, variance: float, dim: int, weights: Any, hard: bool) -> Any:
    """F per unit of weight, from the formula, and the logs of the rows' sums."""
    least = squares.min(axis=1)
    logs = -least / (2 * variance)
    if not hard:
        logs = logs + np.log(np.exp(-(squares - least[:, None]) / (2 * variance)).sum(axis=1))
    constant = -np.log(squares.shape[1]) - dim / 2 * np.log(2 * np.pi * variance)
    return constant + np.average(logs, weights=weights)


def dense_em(X: Any, start: Any, iterations: int, *, weights: Any = None, hard: bool = False) -> dict[str, Any]:
    """EM of the mixture as the paper states it, with an N x M array, in float64."""
    X, centers = np.asarray(X, float), np.asarray(start, float).copy()
    rows, dim = X.shape
    weights = np.ones(rows) if weights is None else np.asarray(weights, float)
    mean = np.average(X, axis=0, weights=weights)
    variance = np.average(((X - mean) ** 2).sum(axis=1), weights=weights) / dim
    bounds, variances = [], []
    for _ in range(iterations):
        squares = squared_distances(X, centers)
        bounds.append(lower_bound(squares, variance, dim, weights, hard))
        if hard:
            posterior = np.eye(len(centers))[squares.argmin(axis=1)]
        else:
            posterior = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / (2 * variance))
            posterior /= posterior.sum(axis=1, keepdims=True)
        posterior *= weights[:, None]
        centers = posterior.T @ X / posterior.sum(axis=0)[:, None]
        variance = (posterior * squared_distances(X, centers)).sum() / (dim * weights.sum())
        variances.append(variance)
    return {"centers": centers, "variance": variance, "lower_bound": np.array(bounds), "variances": np.array(variances)}


def damaged(content: bytes, number: int, seed: int = 0) -> list[bytes]:
    """Copies of ``content`` with a bit flipped, a range overwritten, cut out or doubled, or the end missing."""
    rng = np.random.default_rng(seed)
    copies = []
    for i in range(number):
        start, more = int(rng.integers(len(content))), int(rng.integers(1, 17))
        piece = content[start : start + more]
        if i % 5 == 0:
            new = content[:start]
        else:
            flipped = bytes([piece[0] ^ 1 << int(rng.integers(8))]) + piece[1:]
            instead = (flipped, rng.bytes(len(piece)), b"", 2 * piece)[i % 5 - 1]
            new = content[:start] + instead + content[start + more :]
        copies.append(new)
    return copies


def quiet_fit(model: Any, X: Any, sample_weight: Any = None) -> Any:
    """Fit without the warning about a fixed number of iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, sample_weight=sample_weight)


def fit_in_child(seed: int) -> tuple[Any, Any]:
    """A small fit with several threads, for other processes to run."""
    model = quiet_fit(dgmm.DGMM(12, random_state=seed, n_threads=2, max_iter=10), blobs(5000, 4, 12))
    return model.cluster_centers_, model.predict(blobs(100, 4, 12, seed=1))
