"""Rows in partitions, for tests of Dask."""

import numpy as np
import pytest
from support import blobs

da = pytest.importorskip("dask.array", reason="needs the extra `dask`")

LENGTHS = (700, 800, 300, 1100, 100)
ROWS = sum(LENGTHS)


def rows(dtype=np.float32):
    return blobs(ROWS, 4, 60, dtype=dtype)


def array(X=None, columns=(4,)):
    return da.from_array(rows() if X is None else X, chunks=(LENGTHS, columns))


def with_nan():
    X = rows()
    X[1777, 2] = np.nan
    return array(X)
