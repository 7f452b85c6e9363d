"""Facts about a fit that are recorded for its report."""

from __future__ import annotations

import sys
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

LOOKED_AT = 64
"""How many rows the fingerprint of the data uses."""


def facts_of_fit(rows: NDArray[Any]) -> dict[str, Any]:
    """Record which rows were fitted, and the peak memory of the process so far."""
    return {"fingerprint": fingerprint(rows), "peak_bytes": peak_bytes()}


def fingerprint(rows: NDArray[Any]) -> int:
    """Return a checksum that identifies the rows."""
    some = rows[np.linspace(0, len(rows) - 1, min(LOOKED_AT, len(rows))).astype(np.intp)]
    return zlib.crc32(np.ascontiguousarray(some).tobytes(), len(rows))


def peak_bytes() -> int | None:
    """Return the peak memory of this process; None on systems that do not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
