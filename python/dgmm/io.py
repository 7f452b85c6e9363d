"""Rows from files: .npy, .npz, .csv, .parquet, .fvecs and .bvecs.

What the command line reads, for use from Python too. Nothing that is read is ever run: pickled objects are refused.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dgmm._extras import need

__all__ = ["Rows", "read", "read_vector"]


class Rows(NamedTuple):
    """A matrix and, where the files have them, the names of its columns."""

    values: NDArray[Any]
    """The rows; a memory map where a single .npy file is used as it is."""
    names: list[str] | None
    """A name for each column, or None."""


def read(
    *paths: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    key: str | None = None,
    dtype: DTypeLike | None = None,
) -> Rows:
    r"""Read the rows of one or several files, one below the other.

    Parameters
    ----------
    paths : path
        Files; the ending of the name says what each is. ``.npy`` is mapped into memory, not copied. ``.csv`` may have a
        line of names at the top. A column of ``.parquet`` may hold lists, all of one length: vectors.
    columns : sequence of str, optional
        For ``.csv`` and ``.parquet``: the columns to take, by name or number from 0; all by default. Where a column of
        vectors has others beside it, one must choose.
    key : str, optional
        For ``.npz``: which array to take; not needed if there is one only, or one called X.
    dtype : dtype, optional
        Convert to this type.

    Returns
    -------
    Rows
        ``values`` and ``names``.

    Raises
    ------
    ValueError
        If a file is not what its name says, or the files do not fit together; it names the file.
    OSError
        If a file cannot be opened.

    Examples
    --------
    >>> import dgmm, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "points.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("height,width\n1.5,2\n3,4\n")
    ...     rows = dgmm.io.read(path)
    >>> rows.values.tolist(), rows.names
    ([[1.5, 2.0], [3.0, 4.0]], ['height', 'width'])
    """
    if not paths:
        raise ValueError("no files were given; at least 1 is needed")
    parts: list[Rows] = []
    for path in map(Path, paths):
        part = _one(path, columns, key)
        if part.values.ndim != 2:
            raise ValueError(f"{path} has an array of shape {part.values.shape}; it must have rows and columns")
        if part.values.dtype.kind not in "fiub":
            raise ValueError(f"{path} has values of type {part.values.dtype}; they must be numbers")
        if parts:
            _check_like(paths[0], parts[0], path, part)
        parts.append(part if dtype is None else part._replace(values=part.values.astype(dtype, copy=False)))
    values = parts[0].values if len(parts) == 1 else np.concatenate([part.values for part in parts])
    return Rows(values, parts[0].names)


def read_vector(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read a vector, such as weights, from a file of any kind that ``read`` reads: one dimension or one column."""
    values = _one(Path(path), None, None).values
    if values.ndim == 2 and 1 in values.shape:
        values = values.reshape(-1)
    if values.ndim != 1:
        raise ValueError(f"{path} has an array of shape {values.shape}; it must have one number a row")
    return values


def _one(path: Path, columns: Sequence[str] | None, key: str | None) -> Rows:
    kind = path.suffix.lower()
    if kind not in READERS:
        raise ValueError(f"{path} ends in {kind!r}; it must end in {', '.join(READERS)}")
    if columns is not None and kind not in (".csv", ".parquet"):
        raise ValueError(f"{path}: columns can be chosen of .csv and .parquet files only")
    if key is not None and kind != ".npz":
        raise ValueError(f"{path}: only .npz files have arrays to choose from, so key={key!r} has no meaning")
    with open(path, "rb"):
        pass  # what the system says of a file that cannot be opened is said in the same way for all kinds
    rows: Rows = READERS[kind](path, columns if columns is not None else key)
    return rows


def _check_like(first: Any, one: Rows, second: Any, other: Rows) -> None:
    if one.values.shape[1] != other.values.shape[1]:
        raise ValueError(f"{first} has {one.values.shape[1]} columns but {second} has {other.values.shape[1]}")
    if one.names is not None and other.names is not None and one.names != other.names:
        raise ValueError(f"the columns of {first} and {second} have different names or another order")


def _npy(path: Path, _: Any) -> Rows:
    try:
        return Rows(np.load(path, mmap_mode="r", allow_pickle=False), None)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is no .npy file of numbers, or is cut off: {error}") from error


def _npz(path: Path, key: str | None) -> Rows:
    try:
        with np.load(path, allow_pickle=False) as file:
            names = list(file.keys())
            key = key or (names[0] if len(names) == 1 else "X")
            if key not in names:
                raise ValueError(f"it has no array {key!r}; it has {', '.join(map(repr, names)) or 'none'}")
            return Rows(file[key], None)
    except (ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be used: {error}") from error


def _csv(path: Path, columns: Sequence[str] | None) -> Rows:
    with open(path, encoding="utf-8-sig") as file:
        try:
            fields = [field.strip().strip('"') for field in file.readline().rstrip("\n").split(",")]
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is no text in UTF-8: {error}") from error
    header = not all(_is_number(field) for field in fields)
    known = fields if header else [str(i) for i in range(len(fields))]
    chosen = [_place(path, name, known) for name in columns] if columns is not None else list(range(len(fields)))
    try:
        values = np.loadtxt(
            path, delimiter=",", skiprows=int(header), usecols=chosen, ndmin=2, comments=None, encoding="utf-8-sig",
            quotechar='"',
        )  # fmt: skip
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not len(values):
        raise ValueError(f"{path} has no rows")
    return Rows(values, [fields[i] for i in chosen] if header else None)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _place(path: Path, name: str, known: Sequence[str]) -> int:
    """Which column is meant, by its name or, if none is called so, its number."""
    if name in known:
        return known.index(name)
    if name.isdecimal() and int(name) < len(known):
        return int(name)
    raise ValueError(f"{path} has no column {name!r}; it has {', '.join(map(repr, known[:20]))}")


def _parquet(path: Path, columns: Sequence[str] | None) -> Rows:
    parquet = need("pyarrow.parquet", "io", "reading .parquet files")
    arrow = need("pyarrow", "io", "reading .parquet files")
    try:
        known = parquet.read_schema(path).names
        chosen = known if columns is None else [known[_place(path, name, known)] for name in columns]
        if columns is None:
            _check_one_kind(path, parquet.read_schema(path), arrow)
        table = parquet.read_table(path, columns=list(chosen))
    except arrow.ArrowException as error:
        raise ValueError(f"{path} is no .parquet file, or is damaged: {error}") from error
    blocks = [_column(path, name, table.column(name), arrow) for name in chosen]
    if not blocks or not table.num_rows:
        raise ValueError(f"{path} has no rows or no columns")
    names = [name for name, block in zip(chosen, blocks, strict=True) for _ in range(block.shape[1])]
    values = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
    return Rows(values, names if len(set(names)) == len(names) else None)


def _check_one_kind(path: Path, schema: Any, arrow: Any) -> None:
    """Refuse to take what stands beside a column of vectors, such as the numbers of rows, for more of their columns."""
    vectors = [field.name for field in schema if _is_lists(field.type, arrow)]
    if vectors and len(schema) > 1:
        others = ", ".join([repr(name) for name in schema.names if name != vectors[0]][:5])
        raise ValueError(f"{path} has the vectors {vectors[0]!r} and beside them {others}; choose columns to read")


def _is_lists(kind: Any, arrow: Any) -> bool:
    types = arrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _column(path: Path, name: str, column: Any, arrow: Any) -> NDArray[Any]:
    """A column as a matrix: of one column for numbers, of as many as the lists are long for lists."""
    lists = _is_lists(column.type, arrow)
    kind = column.type.value_type if lists else column.type
    if not (arrow.types.is_integer(kind) or arrow.types.is_floating(kind) or arrow.types.is_boolean(kind)):
        raise ValueError(f"{path}: column {name!r} is of type {column.type}; choose columns of numbers or vectors")
    joined = column.combine_chunks()
    rows = len(joined)
    values = joined.flatten() if lists else joined
    if joined.null_count or values.null_count:
        raise ValueError(f"{path}: column {name!r} has missing values")
    wide = 1
    if lists:
        compute = need("pyarrow.compute", "io", "reading .parquet files")
        lengths = compute.list_value_length(joined).unique().to_pylist()
        if len(lengths) > 1:
            raise ValueError(f"{path}: column {name!r} has vectors of {len(lengths)} different lengths")
        wide = lengths[0] if lengths else 0
    small = arrow.types.is_float32(kind) or arrow.types.is_float16(kind)
    matrix: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(rows, wide)
    return matrix.astype(np.float32 if small else np.float64, copy=False)


def _vecs(path: Path, item: Any) -> Rows:
    """Records of a little-endian int32, the number of columns, and so many items."""
    raw = np.fromfile(path, dtype=np.uint8)
    columns = int(raw[:4].view("<i4")[0]) if len(raw) >= 4 else 0
    record = 4 + columns * np.dtype(item).itemsize
    if columns < 1 or len(raw) % record:
        raise ValueError(f"{path} is no {path.suffix} file, or is cut off: {len(raw)} bytes, {columns} columns")
    records = raw.reshape(-1, record)
    if (np.ascontiguousarray(records[:, :4]).view("<i4") != columns).any():
        raise ValueError(f"{path} has rows of different lengths, or is no {path.suffix} file")
    return Rows(np.ascontiguousarray(records[:, 4:]).view(item).astype(np.float32, copy=False), None)


READERS: dict[str, Any] = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv,
    ".parquet": _parquet,
    ".fvecs": lambda path, _: _vecs(path, "<f4"),
    ".bvecs": lambda path, _: _vecs(path, "u1"),
}
