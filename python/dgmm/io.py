"""Reads rows from files: .npy, .npz, .csv, .parquet, .fvecs and .bvecs.

The command line reads the same formats. Reading never runs code: pickled objects are refused.
"""

from __future__ import annotations

import csv
import errno
import itertools
import math
import os
import zipfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dgmm import _vectors
from dgmm._extras import need
from dgmm._memory import memory_errors
from dgmm._tables import check_complete, from_arrow

__all__ = ["DataFileError", "Rows", "read", "read_vector"]

MISSING = ("", "na", "n/a", "none", "null")
"""Missing values in .csv files; they do not make the first line a header."""


class DataFileError(ValueError):
    """A file does not contain readable rows of numbers. The message names the file."""


class Rows(NamedTuple):
    """A matrix and, if the files have them, the names of its columns."""

    values: NDArray[Any]
    """The rows; a memory map if they are those of a single .npy, .fvecs or .bvecs file."""
    names: list[str] | None
    """The name of each column, or None."""


def read(
    *paths: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    key: str | None = None,
    dtype: DTypeLike | None = None,
) -> Rows:
    r"""Read the rows of one or several files and concatenate them.

    Parameters
    ----------
    paths : path
        Files; the extension determines the format. ``.npy``, ``.fvecs`` and ``.bvecs`` are mapped into memory, not
        copied. ``.csv`` has commas between its cells and may have a header line; blank lines are skipped. A column of
        ``.parquet`` may contain equally long vectors.
    columns : sequence of str, optional
        For ``.csv`` and ``.parquet``: the columns to read, by name or number from 0; all by default. If there are other
        columns next to a column of vectors, you must choose.
    key : str, optional
        For ``.npz``: the array to read; not needed if there is only one, or one called X.
    dtype : dtype, optional
        The type to convert the values to.

    Returns
    -------
    Rows
        ``values`` and ``names``.

    Raises
    ------
    DataFileError
        If a file is damaged or not what its extension says; the message names the file and, for .csv, the line. It is a
        ValueError.
    ValueError
        If the files do not fit together, or an argument does not fit the files.
    OSError
        If a file cannot be opened or read.

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
    if columns is not None and not len(columns):
        raise ValueError("columns is empty; it must contain at least one name")
    parts: list[Rows] = []
    for path in map(Path, paths):
        part = _one(path, columns, key)
        if part.values.ndim != 2:
            raise DataFileError(f"{path} has an array of shape {part.values.shape}; it must have rows and columns")
        if parts:
            check_like(paths[0], (parts[0].values.shape[1], parts[0].names), path, (part.values.shape[1], part.names))
        parts.append(part if dtype is None else part._replace(values=part.values.astype(dtype, copy=False)))
    values = parts[0].values if len(parts) == 1 else np.concatenate([part.values for part in parts])
    return Rows(values, parts[0].names)


def read_vector(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read a vector, such as weights, from a file that ``read`` can read: with one dimension or one column."""
    values = _one(Path(path), None, None).values
    if values.ndim == 2 and 1 in values.shape:
        values = values.reshape(-1)
    if values.ndim != 1:
        raise DataFileError(f"{path} has an array of shape {values.shape}; it must have one number per row")
    return values


def _one(path: Path, columns: Sequence[str] | None, key: str | None) -> Rows:
    kind = path.suffix.lower()
    if kind not in READERS:
        raise ValueError(f"{path} ends in {kind!r}; it must end in {', '.join(READERS)}")
    if columns is not None and kind not in (".csv", ".parquet"):
        raise ValueError(f"{path}: columns is {columns!r}; it must be None except for .csv and .parquet files")
    if key is not None and kind != ".npz":
        raise ValueError(f"{path}: key is {key!r}; it must be None except for .npz files")
    with open(path, "rb"):
        pass  # so that a file that cannot be opened gives the same error for all kinds
    with naming_damage(path), memory_errors():
        rows: Rows = READERS[kind](path, columns if columns is not None else key)
    return rows


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """Turn whatever a library raises for a damaged file into a DataFileError."""
    try:
        yield
    except (DataFileError, ImportError, MemoryError):
        raise
    except OSError as error:
        # Without a number, a library raised it; EINVAL means a position beyond the end of the file.
        if error.errno in (None, errno.EINVAL):
            raise _damaged(path, error) from error
        error.filename = error.filename or str(path)
        raise
    except Exception as error:  # libraries raise almost anything for a damaged file
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataFileError:
    said = " ".join(str(getattr(error, "strerror", None) or error).splitlines()) or type(error).__name__
    return DataFileError(said if str(path) in said else f"{path} is damaged or not a {path.suffix} file: {said}")


Columns = tuple[int, list[str] | None]
"""The number of columns of a file, and their names if it has any."""


def check_like(first: Any, one: Columns, second: Any, other: Columns) -> None:
    """Check that the columns of two files can be concatenated."""
    if one[0] != other[0]:
        raise ValueError(f"{first} has {one[0]} columns but {second} has {other[0]}")
    if one[1] is not None and other[1] is not None and one[1] != other[1]:
        raise ValueError(f"the columns of {first} and {second} have different names or another order")


def _npy(path: Path, _: Any) -> Rows:
    with open(path, "rb") as file:
        header = _npy_header(path, file)
        start = file.tell()
    _check_size(path, header, path.stat().st_size - start)
    return Rows(np.memmap(path, mode="r", offset=start, **header._asdict()), None)


def _npz(path: Path, key: str | None) -> Rows:
    with zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist()}
        key = key or (next(iter(members)) if len(members) == 1 else "X")
        if key not in members:
            known = ", ".join(map(repr, members)) or "none"
            raise DataFileError(f"{path} has no array {key!r}; it has {known}")
        with archive.open(members[key]) as file:
            header = _npy_header(path, file)
            content = file.read()
    _check_size(path, header, len(content))
    return Rows(np.frombuffer(content, header.dtype).reshape(header.shape, order=header.order), None)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    order: Any
    dtype: np.dtype[Any]


def _npy_header(path: Path, file: IO[bytes]) -> _Header:
    """Read the header of an array, and refuse arrays of anything but numbers."""
    version = np.lib.format.read_magic(file)
    if version > (3, 0):
        raise DataFileError(f"{path} has version {version} of the .npy format; it must be at most (3, 0)")
    read_header = np.lib.format.read_array_header_1_0 if version < (2, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(file)
    if dtype.kind not in "fiub":
        raise DataFileError(f"{path} has values of type {dtype}; they must be numbers")
    return _Header(shape, "F" if fortran else "C", dtype)


def _check_size(path: Path, header: _Header, size: int) -> None:
    wanted = math.prod(header.shape) * header.dtype.itemsize
    if wanted != size:
        what = f"an array of shape {header.shape} and type {header.dtype}"
        raise DataFileError(f"{path} is damaged: {what} has {wanted} bytes, but the file has {size}")
    if not size:
        raise DataFileError(f"{path} has no rows: its array has shape {header.shape}")


def _csv(path: Path, columns: Sequence[str] | None) -> Rows:
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, skipinitialspace=True, strict=True)
        try:
            return _csv_rows(path, lines, columns)
        except csv.Error as error:
            raise DataFileError(f"{path}, line {lines.line_num}: {error}") from error
        except UnicodeDecodeError as error:
            raise DataFileError(f"{path} is not text in UTF-8: {error}") from error


def _csv_rows(path: Path, lines: Any, columns: Sequence[str] | None) -> Rows:
    first: list[str] = next((cells for cells in lines if cells and (len(cells) > 1 or cells[0].strip())), [])
    if not first:
        raise DataFileError(f"{path} has no rows")
    at, width = lines.line_num, len(first)
    fields = [cell.strip() for cell in first]
    header = not all(_is_number(field) or field.lower() in MISSING for field in fields)
    known = fields if header else [str(i) for i in range(width)]
    chosen = range(width) if columns is None else [place(path, name, known) for name in columns]
    values = array("d")
    rest: Iterator[list[str]] = lines if header else itertools.chain([first], lines)
    for cells in rest:
        if len(cells) != width:
            if not "".join(cells).strip() and len(cells) < 2:
                continue  # a blank line
            raise DataFileError(f"{path}, line {lines.line_num}: {len(cells)} cells, but line {at} has {width}")
        taken = cells if columns is None else [cells[i] for i in chosen]
        try:
            if "_" in "".join(taken):
                raise ValueError("float accepts underscores, but they are not numbers in a file")
            values.extend(map(float, taken))
        except ValueError:
            wrong = next(i for i in chosen if not _is_number(cells[i]))
            where = f"{path}, line {lines.line_num}, column {known[wrong]!r}"
            raise DataFileError(f"{where}: {cells[wrong][:40]!r} is not a number") from None
    if not values:
        raise DataFileError(f"{path} has no rows")
    matrix = np.frombuffer(values, dtype=np.float64).reshape(-1, len(chosen))
    return Rows(matrix, [fields[i] for i in chosen] if header else None)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def place(path: Path, name: str, known: Sequence[str]) -> int:
    """Find a column by its name or, if there is no such name, by its number."""
    if name in known:
        return known.index(name)
    if name.isdecimal() and int(name) < len(known):
        return int(name)
    raise DataFileError(f"{path} has no column {name!r}; it has {', '.join(map(repr, known[:20]))}")


def _parquet(path: Path, columns: Sequence[str] | None) -> Rows:
    parquet = need("pyarrow.parquet", "io", "reading .parquet files")
    with parquet.ParquetFile(path) as file:
        chosen = chosen_columns(path, file.schema_arrow, columns)
        table = file.read(columns=chosen).select(chosen)
    if not table.num_rows or not chosen:
        raise DataFileError(f"{path} has no rows or no columns")
    values, names = from_arrow(str(path), table)
    check_complete(str(path), values, names)
    return Rows(values, names if len(set(names)) == len(names) else None)


def chosen_columns(path: Path, schema: Any, columns: Sequence[str] | None) -> list[str]:
    """Return the names of the columns to read from a Parquet file with this schema."""
    known: list[str] = schema.names
    if columns is not None:
        return [known[place(path, name, known)] for name in columns]
    vectors = [field.name for field in schema if _vectors.is_arrow_vectors(field.type)]
    _vectors.check_alone(str(path), vectors, known, f"columns={vectors[:1]}")
    return known


def _vecs(path: Path, item: str) -> Rows:
    """Map records that consist of a little-endian int32, the number of columns, and as many items."""
    with open(path, "rb") as file:
        columns = int.from_bytes(file.read(4), "little", signed=True)
    record = np.dtype([("columns", "<i4"), ("values", item, (max(columns, 1),))])
    size = path.stat().st_size
    if columns < 1 or size % record.itemsize:
        what = f"{size} bytes are not whole rows of {columns} columns"
        raise DataFileError(f"{path} is damaged or not a {path.suffix} file: {what}")
    records = np.memmap(path, mode="r", dtype=record)
    other = np.flatnonzero(records["columns"] != columns)
    if other.size:
        row = other[0]
        raise DataFileError(f"{path}: row {row} has {records['columns'][row]} columns, but row 0 has {columns}")
    return Rows(records["values"], None)


READERS: dict[str, Any] = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv,
    ".parquet": _parquet,
    ".fvecs": lambda path, _: _vecs(path, "<f4"),
    ".bvecs": lambda path, _: _vecs(path, "u1"),
}
