"""Reads tables and arrays of other libraries as NumPy arrays: pandas, polars, Arrow and anything with DLPack.

None of these libraries is imported here: their values can exist only if they are imported already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dgmm import _vectors

CPU_DEVICES = (1, 3, 11, 13)
"""DLPack's numbers for memory that the CPU can read: its own, and memory pinned or managed by CUDA and ROCm."""
BLOCK = 4096
"""Rows that are copied from columns at a time, so that they stay in the cache."""


class Read(NamedTuple):
    """The result of reading a value."""

    values: Any
    """An array, without a copy where possible, or the value itself if it is neither a table nor a foreign array."""
    names: list[Any] | None
    """The names of the columns, if it is a table that has a name for each."""


def read(name: str, value: Any) -> Read:
    """Read the argument called ``name``, which may be a table, an array of another library or anything else.

    A table must have columns of numbers, or a single column of equally long vectors. Errors about other columns and
    about missing values name the column.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{name} has masked values; no value may be missing: fill or drop them")
    if isinstance(value, np.ndarray):
        return Read(value, None)
    for library, kind, reader in READERS:
        if isinstance(value, getattr(sys.modules.get(library), kind, ())):
            table: Any = value
            values, names = reader(name, table)
            check_complete(name, values, names)
            return Read(values, names if len(names) == table.shape[1] else None)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return Read(_from_dlpack(name, value), None)
    # Values with a dtype are left to scikit-learn, which knows the types of pandas.
    hidden = hasattr(value, "__array__") and not hasattr(value, "dtype")
    return Read(np.asarray(value) if hidden else value, None)


def check_complete(name: str, values: NDArray[Any], names: Sequence[Any]) -> None:
    """Refuse columns with missing or infinite values; the error names the column."""
    with np.errstate(all="ignore"):
        suspects = np.flatnonzero(~np.isfinite(values.sum(axis=0)))
    for column in suspects:
        bad = np.flatnonzero(~np.isfinite(values[:, column]))
        if len(bad):
            raise ValueError(
                f"{name}: column {names[int(column)]!r} has {len(bad)} values that are missing (NaN) or infinite, "
                f"the first in row {bad[0]}; every value must be finite: fill or drop them"
            )


def _refuse(name: str, column: Any, kind: Any, reason: object = "") -> ValueError:
    text = f"{name}: column {column!r} has type {kind}; every column must hold numbers"
    return ValueError(f"{text} ({reason})" if reason else text)


def float_for(*dtypes: Any) -> Any:
    """float32 if it represents all values of these types exactly, like integers of 16 bits; otherwise float64."""
    return np.float32 if all(np.can_cast(dtype, np.float32) for dtype in dtypes) else np.float64


def _numpy_type(kind: Any) -> Any:
    """The NumPy type of a pandas type, which may be nullable."""
    kind = getattr(kind, "numpy_dtype", kind)
    return kind if isinstance(kind, np.dtype) else np.dtype(object)


def _gather(columns: Sequence[NDArray[Any]], rows: int, dtype: Any) -> NDArray[Any]:
    """Write columns side by side into one array in C order."""
    out: NDArray[Any] = np.empty((rows, len(columns)), dtype=dtype)
    for start in range(0, rows, BLOCK):
        block = slice(start, start + BLOCK)
        for j, column in enumerate(columns):
            out[block, j] = column[block]
    return out


def _from_pandas(name: str, frame: Any) -> tuple[NDArray[Any], list[Any]]:
    numeric = sys.modules["pandas"].api.types.is_numeric_dtype
    names, kinds = list(frame.columns), list(frame.dtypes)
    dtype = float_for(*(_numpy_type(kind) for kind in kinds))
    if len(kinds) and all(kind == np.dtype(dtype) for kind in kinds):
        return frame.to_numpy(), names
    vectors = [column for j, column in enumerate(names) if _vectors.is_pandas_vectors(frame.iloc[:, j])]
    _vectors.check_alone(name, vectors, names, f"{name}[{vectors[:1]}]")
    if vectors:
        matrix = _vectors.from_pandas(name, names[0], frame.iloc[:, 0])
        return matrix, names * matrix.shape[1]
    columns = []
    for j, (column, kind) in enumerate(zip(names, kinds, strict=True)):
        code = getattr(kind, "kind", "")
        objects = isinstance(kind, np.dtype) and code == "O"
        if not (numeric(kind) or objects) or code == "c":
            raise _refuse(name, column, kind)
        # Numbers as strings are refused; older versions of pandas store strings as objects.
        if objects and (words := [value for value in frame.iloc[:, j] if isinstance(value, str)]):
            raise _refuse(name, column, kind, f"it holds {words[0]!r}")
        try:
            missing = {} if isinstance(kind, np.dtype) else {"na_value": np.nan}
            columns.append(frame.iloc[:, j].to_numpy(dtype=dtype, **missing))
        except (TypeError, ValueError) as error:
            raise _refuse(name, column, kind, error) from error
    return _gather(columns, len(frame), dtype), names


def _from_polars(name: str, frame: Any) -> tuple[NDArray[Any], list[Any]]:
    polars = sys.modules["polars"]
    names = list(frame.columns)
    vectors = [column for column, kind in frame.schema.items() if _vectors.is_polars_vectors(kind)]
    _vectors.check_alone(name, vectors, names, f"{name}[{vectors[:1]}]")
    if vectors:
        matrix = _vectors.from_polars(name, names[0], frame[names[0]])
        return matrix, names * matrix.shape[1]
    for column, kind in frame.schema.items():
        if not (kind.is_numeric() or kind == polars.Boolean):
            raise _refuse(name, column, kind)
    dtype = float_for(*(series.clear().to_numpy().dtype for series in frame))
    wanted = polars.Float32 if dtype is np.float32 else polars.Float64
    if any(kind != wanted for kind in frame.schema.values()):
        frame = frame.cast(wanted)
    return frame.to_numpy(order="c"), names


def _from_lazy(name: str, frame: Any) -> Any:
    raise TypeError(f"{name} is a polars LazyFrame, which has no rows yet: pass {name}.collect()")


def _from_arrow(name: str, table: Any) -> tuple[NDArray[Any], list[Any]]:
    vectors = [field.name for field in table.schema if _vectors.is_arrow_vectors(field.type)]
    _vectors.check_alone(name, vectors, table.schema.names, f"{name}.select({vectors[:1]})")
    return from_arrow(name, table)


def from_arrow(name: str, table: Any) -> tuple[NDArray[Any], list[Any]]:
    """Read an Arrow table: columns of numbers and of vectors, side by side. Missing values become NaN.

    The names are those of the columns; the name of a column of vectors is repeated for every entry.
    """
    names, types = list(table.schema.names), sys.modules["pyarrow"].types
    kinds = []
    for field in table.schema:
        if types.is_decimal(field.type):
            kinds.append(np.dtype(np.float64))
        elif _vectors.is_arrow_number(field.type):
            kinds.append(np.dtype(field.type.to_pandas_dtype()))
        elif not _vectors.is_arrow_vectors(field.type):
            raise _refuse(name, field.name, field.type)
    if len(kinds) == len(names):
        columns = [_arrow_column(table.column(j)) for j in range(len(names))]
        return _gather(columns, table.num_rows, float_for(*kinds)), names
    blocks = [
        _vectors.from_arrow(name, field.name, table.column(j))
        if _vectors.is_arrow_vectors(field.type)
        else _arrow_column(table.column(j)).reshape(-1, 1)
        for j, field in enumerate(table.schema)
    ]
    names = [column for column, block in zip(names, blocks, strict=True) for _ in range(block.shape[1])]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1), names


def _arrow_column(column: Any) -> NDArray[Any]:
    if sys.modules["pyarrow"].types.is_decimal(column.type):
        column = column.cast("float64")
    chunked = hasattr(column, "chunks")
    values: NDArray[Any] = column.to_numpy() if chunked else column.to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype == object else values


def _from_dlpack(name: str, value: Any) -> NDArray[Any]:
    device = int(value.__dlpack_device__()[0])
    if device not in CPU_DEVICES:
        where = getattr(value, "device", f"a device of DLPack type {device}")
        raise TypeError(f"{name} is on {where}; it must be in CPU memory: pass {name}.cpu() or similar")
    try:
        return np.from_dlpack(value)
    except Exception as error:  # libraries raise all kinds of errors
        if not hasattr(value, "__array__"):
            raise TypeError(f"{name} cannot be read through DLPack: {error}") from error
    try:
        return np.asarray(value)
    except Exception as error:
        raise TypeError(f"{name} cannot be read as an array: {error}") from error


# Library, class, and the function that returns the values and a name for each of their columns.
READERS: list[tuple[str, str, Callable[[str, Any], tuple[NDArray[Any], list[Any]]]]] = [
    ("pandas", "DataFrame", _from_pandas),
    ("polars", "DataFrame", _from_polars),
    ("polars", "LazyFrame", _from_lazy),
    ("pyarrow", "Table", _from_arrow),
    ("pyarrow", "RecordBatch", _from_arrow),
]
