"""What the commands write: the ending of a file's name says how, and an unknown one is refused before the work."""

from __future__ import annotations

import csv
import importlib
import io
import os
from collections.abc import Mapping, Sequence
from errno import ENOENT
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgmm._atomic import check_writable, replacing
from dgmm._extras import need

MODEL = (".safetensors",)
TABLE = (".csv",)
VECTOR = (".npy", ".csv", ".txt", ".parquet")
BLOCK = 65_536
"""Lines that are made into text at a time."""


class UsageError(ValueError):
    """Options that do not go together, or a value that an option does not have."""


def pictures() -> tuple[str, ...]:
    """Return the endings of the pictures that matplotlib can write, which shows none on a screen from now on."""
    need("matplotlib", "plot", "the picture").use("Agg")
    bases = importlib.import_module("matplotlib.backend_bases")
    return tuple(f".{kind}" for kind in sorted(bases.FigureCanvasBase.get_supported_filetypes()))


def check_outputs(*outputs: tuple[str, Path | None, Sequence[str]], inputs: Sequence[Any] = ()) -> None:
    """Say before the work, not after it, that a file cannot be written: for each an option, its value and endings.

    None of ``inputs``, the files that are read, is replaced.
    """
    seen: dict[str, str] = {}
    read = {os.path.realpath(path) for path in inputs}
    for option, path, endings in outputs:
        if path is None:
            continue
        kind = path.suffix.lower()
        if kind not in endings:
            allowed = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
            raise UsageError(f"{option} is {str(path)!r}; it must end in {allowed}")
        other = seen.setdefault(os.path.realpath(path), option)
        if other != option:
            raise UsageError(f"{other} and {option} name the same file, {str(path)!r}")
        if os.path.realpath(path) in read:
            raise UsageError(f"{option} is {str(path)!r}, which is read; it must be another file")
        if not path.parent.is_dir():
            raise FileNotFoundError(ENOENT, "its folder does not exist", str(path))
        check_writable(path)
        if kind == ".safetensors":
            need("safetensors", "io", "saving a model")
        if kind == ".parquet":
            need("pyarrow", "io", "writing .parquet files")


def write_vector(path: Path, values: NDArray[Any], name: str) -> None:
    """Write one number per row: as .npy, as .txt without a name, as .csv or .parquet with one."""
    kind = path.suffix.lower()
    with replacing(path) as file:
        if kind == ".npy":
            # Not by np.save, which does not notice that the end of a small array has not fitted on the disk.
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(values))
            file.write(np.ascontiguousarray(values).data)
        elif kind == ".parquet":
            arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
            parquet.write_table(arrow.table({name: values}), file)
        else:
            if kind == ".csv":
                file.write(f"{name}\n".encode())
            for start in range(0, len(values), BLOCK):
                lines = values[start : start + BLOCK].astype(str).tolist()
                file.write("".join(f"{line}\n" for line in lines).encode())


def write_table(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a small table as .csv."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([list(columns), *zip(*columns.values(), strict=True)])
    with replacing(path) as file:
        file.write(text.getvalue().encode())


def write_picture(path: Path, figure: Any, **options: Any) -> None:
    """Write a figure of matplotlib."""
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), **options)
