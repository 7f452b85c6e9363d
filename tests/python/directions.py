"""Rows that count by their directions, for tests of ``metric="cosine"``."""

import dgmm
import numpy as np
from support import blobs

ENGINES = {
    "DGMM": (dgmm.DGMM, {}),
    "DGMM grouped": (dgmm.DGMM, {"engine": "grouped"}),
    "DGMM pointwise": (dgmm.DGMM, {"engine": "pointwise"}),
    "VCGMM": (dgmm.VCGMM, {}),
    "ExactGMM": (dgmm.ExactGMM, {}),
    "KMeans": (dgmm.KMeans, {}),
}


def rows(count=3000, dim=6, clusters=25, dtype=np.float64, seed=0):
    """Rows around random directions, of lengths from 1e-3 to 1e3."""
    X = blobs(count, dim, clusters, seed=seed)
    lengths = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, size=(count, 1))
    return np.ascontiguousarray(X * lengths, dtype=dtype)


def unit(X):
    X = np.asarray(X, float)
    X = X / np.abs(X).max(axis=1, keepdims=True)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def cosines(X, centers):
    return unit(X) @ unit(centers).T


def zero_row(dtype):
    X = rows(400, 6, 5, dtype=dtype)
    X[17] = 0
    return X
