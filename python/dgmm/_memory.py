"""Running out of memory, which is a MemoryError however the system says it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn what maps and threads raise where there is no memory for them into a MemoryError."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        raise MemoryError(f"not enough memory to read: {error}") from error
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        raise MemoryError("not enough memory for a thread: the system starts no more of them") from error
