"""Readers of the data sets' files. An error describes the problem in one sentence that names the file."""

from __future__ import annotations

import gzip
import pickle
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]


class DataError(Exception):
    """A data set that cannot be used, and why."""


class MissingDataError(DataError):
    """A data set whose files are missing."""


class MalformedDataError(DataError):
    """A file that is not in the expected format."""


def malformed(path: Path, seen: str, expected: str) -> NoReturn:
    raise MalformedDataError(f"{path.name} {seen}; expected {expected}")


def check_rows(path: Path, rows: NDArray[Any], columns: int | None, expected: str) -> None:
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        malformed(path, f"holds {rows.dtype} of shape {rows.shape}", expected)
    if columns is not None and rows.shape[1] != columns:
        malformed(path, f"has {rows.shape[1]} columns", expected)
    if len(rows) == 0:
        malformed(path, "has no rows", expected)
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        malformed(path, f"has a value that is not finite in row {row + 1}", expected)


def read_npz(path: Path, columns: int, expected: str) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file, which must include X."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (BadZipFile, ValueError, OSError, EOFError, KeyError, zlib.error) as error:
        malformed(path, f"does not read as .npz ({error})", expected)
    if "X" not in arrays:
        malformed(path, f"holds {sorted(arrays)} and no array X", expected)
    check_rows(path, arrays["X"], columns, expected)
    return arrays


def read_npy(path: Path, columns: int, expected: str) -> NDArray[Any]:
    try:
        rows = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        malformed(path, f"does not read as .npy ({error})", expected)
    check_rows(path, rows, columns, expected)
    return rows


def read_table(path: Path, columns: int, skip: int, expected: str, delimiter: str | None = ",") -> Rows:
    """A text file of numbers, compressed (.gz) or not, without its first `skip` columns, which are not features."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="ascii") as lines:
            rows = np.loadtxt(lines, dtype=np.float32, delimiter=delimiter, ndmin=2)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        malformed(path, f"does not read as a table of numbers ({error})", expected)
    check_rows(path, rows, columns, expected)
    return np.ascontiguousarray(rows[:, skip:])


class ArraysOnly(pickle.Unpickler):
    """Reads pickled dictionaries of arrays and plain values; other pickles could run any code."""

    ALLOWED = frozenset(
        {
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("_codecs", "encode"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def read_batch(path: Path, columns: int, expected: str) -> NDArray[np.uint8]:
    """The images of one batch file of CIFAR-10 or ImageNet 64 x 64, pickled or .npz: `data`, bytes, R, G, B planes."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                batch: Any = {name: archive[name] for name in archive.files if name == "data"}
        else:
            with path.open("rb") as stream:
                batch = ArraysOnly(stream, encoding="bytes").load()
    except Exception as error:  # noqa: BLE001  broken pickles raise anything at all
        malformed(path, f"does not read as a batch of images ({error})", expected)
    images = next((batch[key] for key in ("data", b"data") if key in batch), None) if isinstance(batch, dict) else None
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        malformed(path, "has no array of bytes named data", expected)
    check_rows(path, images, columns, expected)
    return images


def read_batches(paths: list[Path], columns: int, expected: str) -> Rows:
    """All images of several batch files, scaled to [0, 1]."""

    def scaled() -> Iterator[Rows]:
        for path in paths:
            yield unit_bytes(read_batch(path, columns, expected))

    return np.concatenate(list(scaled()))


def unit_bytes(images: NDArray[Any]) -> Rows:
    """Bytes scaled to [0, 1]."""
    return np.ascontiguousarray(images, dtype=np.float32) / np.float32(255)
