"""Rows of a stream, builders and chunks, for tests of coresets."""

import dgmm
import numpy as np


def skewed(rows, dim=4, *, seed=0, dtype=np.float32):
    """Most rows in a few tight clusters, some far away: sizes and spreads differ by orders of magnitude."""
    rng = np.random.default_rng(seed)
    shares = rng.pareto(1.0, size=20) + 0.01
    centers = rng.standard_normal((20, dim)) * rng.pareto(1.5, size=(20, 1)) * 3
    kinds = rng.choice(20, p=shares / shares.sum(), size=rows)
    return (centers[kinds] + 0.1 * rng.standard_normal((rows, dim))).astype(dtype)


def built(X, size, *, weights=None, cut=1000, **parameters):
    builder = dgmm.CoresetBuilder(size, **parameters)
    for start in range(0, len(X), cut):
        part = slice(start, start + cut)
        builder.add(X[part], None if weights is None else weights[part])
    return builder


def chunks_of(X, cut, weights=None):
    def chunks():
        for start in range(0, len(X), cut):
            part = slice(start, start + cut)
            yield X[part] if weights is None else (X[part], weights[part])

    return chunks


def assert_same(a, b):
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, other)
