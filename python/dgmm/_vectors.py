"""Reads columns of vectors, such as embeddings, as matrices.

No table library is imported here: its values can exist only if it is imported already.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_alone(name: str, vectors: Sequence[Any], columns: Sequence[Any], how: str) -> None:
    """Refuse other columns next to a column of vectors, such as an id, which is hardly meant as a feature."""
    if vectors and len(columns) > 1:
        others = ", ".join([repr(column) for column in columns if column != vectors[0]][:5])
        raise ValueError(
            f"{name}: column {vectors[0]!r} holds vectors, but there are other columns: {others}; select it: {how}"
        )


def is_arrow_vectors(kind: Any) -> bool:
    """Whether an Arrow type is a list of numbers."""
    types = sys.modules["pyarrow"].types
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(lists and is_arrow_number(kind.value_type))


def is_arrow_number(kind: Any) -> bool:
    """Whether an Arrow type is a number type that NumPy has, too."""
    types = sys.modules["pyarrow"].types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def from_arrow(name: str, column: Any, values: Any) -> NDArray[Any]:
    """Read a column of Arrow lists."""
    compute = importlib.import_module("pyarrow.compute")
    lengths = compute.list_value_length(values).fill_null(-1)
    width = _width(name, column, lengths.to_numpy(**_copying(lengths)))
    # Chunk by chunk, because the offsets of a single chunk may not fit into 32 bits.
    chunks = values.chunks if hasattr(values, "chunks") else [values]
    parts = [chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, width) for chunk in chunks]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _copying(values: Any) -> dict[str, bool]:
    """The arguments of ``to_numpy`` that allow it to copy."""
    return {} if hasattr(values, "chunks") else {"zero_copy_only": False}


def is_polars_vectors(kind: Any) -> bool:
    """Whether a polars type is a list or an array of numbers."""
    polars = sys.modules["polars"]
    if not isinstance(kind, polars.List | polars.Array):
        return False
    return bool(kind.inner.is_numeric() or kind.inner == polars.Boolean)


def from_polars(name: str, column: Any, values: Any) -> NDArray[Any]:
    """Read a polars column of lists or arrays."""
    if isinstance(values.dtype, sys.modules["polars"].Array):
        values = values.arr.to_list()
    width = _width(name, column, values.list.len().cast(int).fill_null(-1).to_numpy())
    matrix: NDArray[Any] = values.explode().to_numpy().reshape(-1, width)
    return matrix


def is_pandas_vectors(values: Any) -> bool:
    """Whether a pandas column contains Arrow lists, or objects that include lists or arrays."""
    arrow = getattr(values.dtype, "pyarrow_dtype", None)
    if arrow is not None:
        return is_arrow_vectors(arrow)
    return isinstance(values.dtype, np.dtype) and values.dtype.kind == "O" and any(map(_is_vector, values))


def from_pandas(name: str, column: Any, values: Any) -> NDArray[Any]:
    """Read a pandas column for which ``is_pandas_vectors`` is true."""
    if hasattr(values.dtype, "pyarrow_dtype"):
        return from_arrow(name, column, sys.modules["pyarrow"].Array.from_pandas(values))
    lengths = [len(value) if _is_vector(value) else -1 for value in values]
    width = _width(name, column, np.asarray(lengths))
    joined = np.concatenate(values)
    if joined.ndim != 1 or joined.dtype.kind not in "fiubO":
        raise ValueError(f"{name}: column {column!r} holds arrays of {joined.dtype}; its vectors must hold numbers")
    if joined.dtype.kind == "O":  # None becomes NaN, and numbers such as Decimal become floats
        try:
            joined = joined.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: column {column!r}: its vectors must hold numbers ({error})") from error
    return joined.reshape(-1, width)


def _is_vector(value: Any) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _width(name: str, column: Any, lengths: NDArray[Any]) -> int:
    """The common length of all vectors; a length of -1 means that a vector is missing."""
    missing = np.flatnonzero(lengths < 0)
    if missing.size:
        raise ValueError(f"{name}: column {column!r} has no vector in row {missing[0]}; fill or drop such rows")
    width = int(lengths[0]) if lengths.size else 1
    other = np.flatnonzero(lengths != width)
    if other.size:
        raise ValueError(
            f"{name}: column {column!r} holds vectors of {width} numbers in row 0 but of {lengths[other[0]]} in row "
            f"{other[0]}; all must be equally long"
        )
    if not width:
        raise ValueError(f"{name}: column {column!r} holds empty vectors; they must have at least one number")
    return width
