"""Output files of the commands: the extension determines the format and is checked before the work begins."""

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
"""The number of lines that are formatted at a time."""


class UsageError(ValueError):
    """Options that contradict each other, or an invalid value of an option."""


def pictures() -> tuple[str, ...]:
    """Return the extensions of the pictures that matplotlib can write, and turn off its windows."""
    need("matplotlib", "plot", "the picture").use("Agg")
    bases = importlib.import_module("matplotlib.backend_bases")
    return tuple(f".{kind}" for kind in sorted(bases.FigureCanvasBase.get_supported_filetypes()))


def check_outputs(*outputs: tuple[str, Path | None, Sequence[str]], inputs: Sequence[Any] = ()) -> None:
    """Check before the work that the outputs can be written: for each the option, its value and the allowed extensions.

    Outputs that would replace one of ``inputs`` are refused.
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
            raise UsageError(f"{option} is {str(path)!r}, which is an input; it must be another file")
        if not path.parent.is_dir():
            raise FileNotFoundError(ENOENT, "its folder does not exist", str(path))
        check_writable(path)
        if kind == ".parquet":
            need("pyarrow", "io", "writing .parquet files")


def write_vector(path: Path, values: NDArray[Any], name: str) -> None:
    """Write one number per row as .npy or .txt, or as .csv or .parquet with the name of the column."""
    kind = path.suffix.lower()
    with replacing(path) as file:
        if kind == ".npy":
            # Not np.save, which does not notice if the disk is too full for the end of a small array.
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
