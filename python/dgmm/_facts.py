"""What is noted of a fit for its report."""

from __future__ import annotations

import sys
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

LOOKED_AT = 64
"""Rows that tell one set of data from another."""


def facts_of_fit(rows: NDArray[Any]) -> dict[str, Any]:
    """Note which rows were fitted, and the memory that the process has needed so far."""
    return {"fingerprint": fingerprint(rows), "peak_bytes": peak_bytes()}


def fingerprint(rows: NDArray[Any]) -> int:
    """Return a number that is the same for the same rows, and hardly ever for others."""
    some = rows[np.linspace(0, len(rows) - 1, min(LOOKED_AT, len(rows))).astype(np.intp)]
    return zlib.crc32(np.ascontiguousarray(some).tobytes(), len(rows))


def peak_bytes() -> int | None:
    """Return the most memory that this process has held at once; None on systems that do not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
