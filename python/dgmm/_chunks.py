"""Data that come in chunks: what may be given for them, and how one is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dgmm._tables import read
from dgmm._validation import check_matrix, check_weights

Source: TypeAlias = Callable[[], Iterable[Any]]
"""Gives the chunks from the first to the last, each time that it is called."""
Chunk: TypeAlias = tuple[NDArray[Any], NDArray[np.float64] | None]
"""Rows and their weights."""


def chunk_source(name: str, value: Any) -> Source | None:
    """Where the chunks of the argument ``name`` come from; None if it is a single matrix.

    Chunks are given as a function without arguments that returns an iterable of them, such as a generator function, or
    as a list. What can be read only once is refused.
    """
    if hasattr(value, "__next__"):
        raise TypeError(
            f"{name} is an iterator, which can be read only once, and two passes are needed: pass a function that "
            f"returns a new one each time, such as the generator function itself, or a list of arrays; "
            "CoresetBuilder needs one pass only"
        )
    if callable(value) and not hasattr(value, "__array__"):
        return _calling(name, value)
    if isinstance(value, list | tuple) and len(value) and _is_matrix(_parts(value[0])[0]):
        return lambda: value
    return None


def _calling(name: str, make: Callable[[], Any]) -> Source:
    before: list[Any] = []

    def source() -> Iterable[Any]:
        chunks = make()
        if not isinstance(chunks, Iterable) or _is_matrix(chunks):
            raise TypeError(f"{name}() returned {type(chunks).__name__}; it must return an iterable of chunks")
        if hasattr(chunks, "__next__"):
            if any(chunks is other for other in before):
                raise TypeError(f"{name}() returned the same iterator twice; it must return a new one each time")
            before.append(chunks)
        return chunks

    return source


def _is_matrix(value: Any) -> bool:
    return len(getattr(value, "shape", ())) == 2


def _parts(chunk: Any) -> tuple[Any, Any]:
    return chunk if isinstance(chunk, tuple) and len(chunk) == 2 else (chunk, None)


def for_each_chunk(chunks: Iterable[Any], use: Callable[[int, Any, Any], None]) -> None:
    """Call ``use`` with number, rows and weights of each chunk, and let go of it before the next one is made."""
    numbers = count()  # enumerate would hold on to the chunk
    for chunk in chunks:
        X, sample_weight = _parts(chunk)
        del chunk
        use(next(numbers), X, sample_weight)
        del X, sample_weight


def read_chunk(name: str, X: Any, sample_weight: Any, dtype: Any) -> Chunk | None:
    """Return the rows and weights of one chunk; None if it has no rows."""
    values = read(name, X).values
    if _is_matrix(values) and values.shape[0] == 0:
        return None
    rows = check_matrix(name, values, dtype=dtype, finite=False)
    return rows, check_weights(sample_weight, len(rows))
