"""Turns the system's errors about missing memory into a MemoryError."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_errors() -> Iterator[None]:
    """Raise a MemoryError if a memory map or a thread fails for lack of memory."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        raise MemoryError(f"not enough memory to read: {error}") from error
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        raise MemoryError("not enough memory for a thread: the system cannot start more threads") from error


def return_freed_memory() -> None:
    """Return freed memory to the system, if the C library keeps it and can (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)
