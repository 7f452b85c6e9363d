"""Sources of rows that are read piece by piece: files, folders, Arrow datasets, memory maps and chunks."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgmm import io
from dgmm._extras import need
from dgmm._tables import check_complete, float_for, from_arrow, read
from dgmm._validation import check_weights, refuse_what_is_no_number

Piece = tuple[NDArray[Any], NDArray[np.float64] | None]
"""Rows, and their weights if they have any."""
BATCH = 1 << 16
"""Rows of a Parquet file or an Arrow dataset that are read at a time."""
BUFFER = 1 << 18
"""Bytes of a column of a Parquet file that are buffered."""


class Source(ABC):
    """Rows that can be read in order, as often as needed."""

    name: str
    """The name of the source in messages."""
    n_rows: int | None = None
    """The number of rows; None if it is unknown before a pass."""
    n_columns: int
    dtype: Any
    """float32, or float64 if the values need it."""
    names: list[str] | None = None

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        """Read all rows again, in order."""

    def learn(self) -> None:
        """Read the first piece to learn the number of columns and the type."""
        first = next((rows for rows, _ in self.pieces() if len(rows)), None)
        if first is None:
            raise ValueError(f"{self.name} has no rows")
        self.n_columns, self.dtype = first.shape[1], float_for(first.dtype)


class Matrix(Source):
    """An array in memory or a memory map."""

    def __init__(self, values: NDArray[Any], name: str = "X") -> None:
        refuse_what_is_no_number(name, values)
        if values.ndim != 2 or 0 in values.shape:
            raise ValueError(f"{name} has shape {values.shape}; it must have rows and columns")
        self.name, self.values = name, values
        self.n_rows, self.n_columns = values.shape
        self.dtype = float_for(values.dtype)

    def pieces(self) -> Iterator[Piece]:
        """Yield the whole array; a map is read only where it is accessed."""
        yield self.values, None


class Files(Source):
    """Files of the kinds that ``dgmm.io.read`` reads, concatenated; the files of a folder are sorted by name."""

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        columns: Sequence[str] | None = None,
        key: str | None = None,
        dtype: Any = None,
    ) -> None:
        self.paths = [file for path in map(Path, paths) for file in files_of(path)]
        if not self.paths:
            raise ValueError("no files were given; at least 1 is needed")
        self.name = str(self.paths[0]) if len(self.paths) == 1 else f"{self.paths[0]} and {len(self.paths) - 1} more"
        self.columns, self.key = columns, key
        self._stamps = [_stamp(path) for path in self.paths]
        self.learn()
        if dtype is not None:
            self.dtype = dtype

    def learn(self) -> None:
        """Open every file to learn its numbers of rows and columns."""
        heads = [self._head(path) for path in self.paths]
        self.n_columns, self.names = heads[0][1], heads[0][2]
        for path, (_, columns, names, _) in zip(self.paths[1:], heads[1:], strict=True):
            io.check_like(self.paths[0], (self.n_columns, self.names), path, (columns, names))
        self.n_rows = sum(rows for rows, *_ in heads)
        self.dtype = float_for(*(kind for *_, kind in heads))

    def _head(self, path: Path) -> tuple[int, int, list[str] | None, Any]:
        if path.suffix.lower() != ".parquet":
            values, names = self._whole(path)
            return (*values.shape, names, values.dtype)
        with _parquet(path) as file:
            rows = file.metadata.num_rows
            first = next(_batches(path, file, self.columns, 1), None)
        if first is None:
            raise io.DataFileError(f"{path} has no rows or no columns")
        values, names = first
        return rows, values.shape[1], names, values.dtype

    def _whole(self, path: Path) -> io.Rows:
        tabular = path.suffix.lower() in (".csv", ".parquet")
        return io.read(path, columns=self.columns if tabular else None, key=self.key)

    def pieces(self) -> Iterator[Piece]:
        """Read file after file; a file that has changed since the first pass is refused."""
        for path, stamp in zip(self.paths, self._stamps, strict=True):
            if _stamp(path) != stamp:
                raise io.DataFileError(f"{path} has changed; it must not change while it is read")
            if path.suffix.lower() != ".parquet":
                yield self._whole(path).values, None
                continue
            with _parquet(path) as file:
                for values, _ in _batches(path, file, self.columns, BATCH):
                    yield values, None


class ArrowDataset(Source):
    """An Arrow dataset, whose files may be anywhere."""

    name = "X"

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.learn()
        self.n_rows = dataset.count_rows()

    def pieces(self) -> Iterator[Piece]:
        """Scan the dataset again."""
        table = sys.modules["pyarrow"].Table
        for batch in self._dataset.to_batches(batch_size=BATCH):
            if batch.num_rows:
                values, names = from_arrow(self.name, table.from_batches([batch]))
                check_complete(self.name, values, names)
                self.names = names if len(set(names)) == len(names) == values.shape[1] else None
                yield values, None


class Chunks(Source):
    """A list of chunks, or a callable that returns a new iterable of them at each call.

    A chunk is an array or a table, or a pair of one and its weights.
    """

    name = "X"

    def __init__(self, given: Callable[[], Any] | Sequence[Any]) -> None:
        self._given = given
        self._last: Any = None

    def pieces(self) -> Iterator[Piece]:
        """Yield the chunks again, and release each before the next one is made."""
        numbers = count()  # enumerate would keep a reference to the chunk
        for chunk in self._chunks():
            piece = self._read(f"chunk {next(numbers)} of X", *parts_of_chunk(chunk))
            del chunk
            yield piece
            del piece

    def _chunks(self) -> Iterable[Any]:
        if not callable(self._given):
            return self._given
        chunks = self._given()
        if not isinstance(chunks, Iterable) or is_matrix(chunks):
            raise TypeError(f"X() returned {type(chunks).__name__}; it must return an iterable of chunks")
        if chunks is self._last and isinstance(chunks, Iterator):
            raise TypeError("X() returned the same iterator twice; it must return a new one each time")
        self._last = chunks
        return chunks

    def _read(self, name: str, rows: Any, weights: Any) -> Piece:
        values = np.asarray(read(name, rows).values)
        refuse_what_is_no_number(name, values)
        if values.ndim != 2:
            raise ValueError(f"{name} has shape {values.shape}; it must have rows and columns")
        if len(values) and hasattr(self, "n_columns") and values.shape[1] != self.n_columns:
            raise ValueError(f"{name} has {values.shape[1]} columns but the rows before it have {self.n_columns}")
        return values, check_weights(weights, len(values))


def is_matrix(value: Any) -> bool:
    """Whether a value has two dimensions."""
    return len(getattr(value, "shape", ())) == 2


def parts_of_chunk(chunk: Any) -> tuple[Any, Any]:
    """Return the rows of a chunk, and its weights or None."""
    return chunk if isinstance(chunk, tuple) and len(chunk) == 2 else (chunk, None)


def source_of(X: Any) -> Source | None:
    """The source from which ``X`` is read piece by piece, or None if it is an array or a table in memory."""
    source = pieces_of(X)
    if isinstance(source, Chunks):
        source.learn()
    return source


def pieces_of(X: Any) -> Source | None:
    """Like ``source_of``, but not even the first chunk is read yet."""
    if isinstance(X, Source):
        return X
    if isinstance(X, str | os.PathLike):
        return Files([X])
    if isinstance(X, list | tuple) and X and all(isinstance(path, str | os.PathLike) for path in X):
        return Files(X)
    if isinstance(X, getattr(sys.modules.get("pyarrow.dataset"), "Dataset", ())):
        return ArrowDataset(X)
    if isinstance(X, list | tuple) and X and is_matrix(parts_of_chunk(X[0])[0]):
        return Chunks(X)
    if isinstance(X, type):
        return None
    if callable(X) and not hasattr(X, "__array__"):
        return Chunks(X)
    once = (Iterator, getattr(sys.modules.get("pyarrow"), "RecordBatchReader", Iterator))
    if isinstance(X, once):
        raise TypeError(
            f"X is a {type(X).__name__}, which can be read only once, but several passes are needed: pass a function "
            "that returns a new one each time, such as the generator function itself, or a list of arrays; partial_fit "
            "and CoresetBuilder need only one pass"
        )
    return None


def files_of(path: Path) -> list[Path]:
    """Return the files of a folder, or the file itself."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in io.READERS)
    if not found:
        raise ValueError(f"{path} has no files that end in {', '.join(io.READERS)}")
    return found


def _stamp(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _parquet(path: Path) -> Any:
    parquet = need("pyarrow.parquet", "io", "reading .parquet files")
    with io.naming_damage(path):
        # Otherwise all columns of the file would be prefetched.
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER)


def _batches(path: Path, file: Any, columns: Sequence[str] | None, rows: int) -> Iterator[io.Rows]:
    """The rows of a Parquet file, some at a time."""
    with io.naming_damage(path):
        chosen = io.chosen_columns(path, file.schema_arrow, columns)
        if not chosen:
            return
        table = sys.modules["pyarrow"].Table
        for batch in file.iter_batches(batch_size=rows, columns=chosen, use_threads=False):
            values, names = from_arrow(str(path), table.from_batches([batch]).select(chosen))
            check_complete(str(path), values, names)
            yield io.Rows(values, names if len(set(names)) == len(names) == values.shape[1] else None)
