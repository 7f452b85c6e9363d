"""Rows that are read piece by piece: files, folders, datasets of Arrow, memory maps, and whatever a callable gives."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgmm import _vectors, io
from dgmm._extras import need
from dgmm._tables import check_complete, float_for, from_arrow, read
from dgmm._validation import check_weights, refuse_what_is_no_number

Piece = tuple[NDArray[Any], NDArray[np.float64] | None]
"""Rows, and their weights where they come with them."""
BATCH = 1 << 16
"""Rows that are read from a Parquet file at a time ..."""
BUFFER = 1 << 18
"""... and bytes of a column of it."""


class Source(ABC):
    """Rows that can be read in order, as often as needed."""

    name: str
    """What messages call it."""
    n_rows: int | None = None
    """None where only a pass will tell."""
    n_columns: int
    dtype: Any
    """float32 or float64, whichever holds its values."""
    names: list[str] | None = None

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        """Read all rows once more, in order."""

    def learn(self) -> None:
        """Look at the first piece, for what is not known without it."""
        first = next(iter(self.pieces()), None)
        if first is None or not len(first[0]):
            raise ValueError(f"{self.name} has no rows")
        self.n_columns, self.dtype = first[0].shape[1], float_for(first[0].dtype)


class Matrix(Source):
    """An array in memory, or a map of one that is not."""

    def __init__(self, values: NDArray[Any], name: str = "X") -> None:
        refuse_what_is_no_number(name, values)
        if values.ndim != 2 or 0 in values.shape:
            raise ValueError(f"{name} has shape {values.shape}; it must have rows and columns")
        self.name, self.values = name, values
        self.n_rows, self.n_columns = values.shape
        self.dtype = float_for(values.dtype)

    def pieces(self) -> Iterator[Piece]:
        """Give the whole array, of which no more is read than is looked at."""
        yield self.values, None


class Files(Source):
    """Files of the kinds that ``dgmm.io.read`` knows, one below the other; those of a folder by their names."""

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
        self.name = str(self.paths[0]) if len(self.paths) == 1 else f"{self.paths[0]} and {len(self.paths) - 1} others"
        self.columns, self.key = columns, key
        self._stamps = [_stamp(path) for path in self.paths]
        self.learn()
        if dtype is not None:
            self.dtype = dtype

    def learn(self) -> None:
        """Open every file for its number of rows and columns."""
        heads = [self._head(path) for path in self.paths]
        self.n_columns, self.names = heads[0][1], heads[0][2]
        for path, (_, columns, names, _) in zip(self.paths[1:], heads[1:], strict=True):
            if columns != self.n_columns:
                raise ValueError(f"{self.paths[0]} has {self.n_columns} columns but {path} has {columns}")
            if names is not None and self.names is not None and names != self.names:
                raise ValueError(f"the columns of {self.paths[0]} and {path} have different names or another order")
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
        """Read file after file; one that has changed since the first time is refused."""
        for path, stamp in zip(self.paths, self._stamps, strict=True):
            if _stamp(path) != stamp:
                raise io.DataFileError(f"{path} has changed while it was read; it must stay as it is until the end")
            if path.suffix.lower() != ".parquet":
                yield self._whole(path).values, None
                continue
            with _parquet(path) as file:
                for values, _ in _batches(path, file, self.columns, BATCH):
                    yield values, None


class ArrowDataset(Source):
    """A dataset of Arrow, whose files may be anywhere."""

    name = "X"

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.learn()
        self.n_rows = dataset.count_rows()

    def pieces(self) -> Iterator[Piece]:
        """Scan it once more."""
        table = sys.modules["pyarrow"].Table
        for batch in self._dataset.to_batches(batch_size=BATCH):
            if batch.num_rows:
                values, names = from_arrow(self.name, table.from_batches([batch]))
                check_complete(self.name, values, names)
                self.names = names if len(set(names)) == len(names) == values.shape[1] else None
                yield values, None


class Chunks(Source):
    """What a callable gives: each call a new iterator over arrays, or pairs of an array and weights."""

    name = "X()"

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._last: Any = None
        self.learn()

    def pieces(self) -> Iterator[Piece]:
        """Ask for the chunks once more."""
        chunks = iter(self._make())
        if chunks is self._last:
            raise TypeError(
                "X gives the same iterator at each call; it must give a new one, as rows are read several times"
            )
        self._last = chunks
        for i, chunk in enumerate(chunks):
            rows, weights = chunk if isinstance(chunk, tuple) else (chunk, None)
            values = np.asarray(read(f"X()[{i}]", rows).values)
            refuse_what_is_no_number(f"X()[{i}]", values)
            if values.ndim != 2:
                raise ValueError(f"X()[{i}] has shape {values.shape}; it must have rows and columns")
            if hasattr(self, "n_columns") and values.shape[1] != self.n_columns:
                raise ValueError(f"X()[0] has {self.n_columns} columns but X()[{i}] has {values.shape[1]}")
            if len(values):
                yield values, check_weights(weights, len(values))


def source_of(X: Any) -> Source | None:
    """What ``X`` is to be read from piece by piece, or None if it is an array or a table in memory."""
    if isinstance(X, Source):
        return X
    if isinstance(X, str | os.PathLike):
        return Files([X])
    if isinstance(X, list | tuple) and X and all(isinstance(path, str | os.PathLike) for path in X):
        return Files(X)
    if isinstance(X, getattr(sys.modules.get("pyarrow.dataset"), "Dataset", ())):
        return ArrowDataset(X)
    if isinstance(X, type):
        return None
    if callable(X) and not hasattr(X, "__array__"):
        return Chunks(X)
    once = (Iterator, getattr(sys.modules.get("pyarrow"), "RecordBatchReader", Iterator))
    if isinstance(X, once):
        raise TypeError(
            f"X is a {type(X).__name__}, which can be read once, but a fit reads the rows several times: pass a "
            "callable that gives a new one at each call"
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
        # Otherwise all columns of the file would be fetched ahead.
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER)


def _batches(path: Path, file: Any, columns: Sequence[str] | None, rows: int) -> Iterator[io.Rows]:
    """The rows of a Parquet file, some at a time."""
    with io.naming_damage(path):
        known = file.schema_arrow.names
        if columns is None:
            vectors = [field.name for field in file.schema_arrow if _vectors.is_arrow_vectors(field.type)]
            _vectors.check_alone(str(path), vectors, known, f"columns={vectors[:1]}")
        chosen = known if columns is None else [known[io.place(path, name, known)] for name in columns]
        if not chosen:
            return
        table = sys.modules["pyarrow"].Table
        for batch in file.iter_batches(batch_size=rows, columns=chosen, use_threads=False):
            values, names = from_arrow(str(path), table.from_batches([batch]).select(chosen))
            check_complete(str(path), values, names)
            yield io.Rows(values, names if len(set(names)) == len(names) == values.shape[1] else None)
