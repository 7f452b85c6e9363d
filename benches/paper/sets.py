"""The data sets of the experiments: their files, formats, and public sources.

CIFAR-10 and ImageNet are scaled to [0, 1], everything else is raw. `cifar10-held-out` is CIFAR-10's training images
without 10,000 of them, which are kept to measure errors on; `patches` are cut from CIFAR-10.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from readers import (
    DataError,
    MalformedDataError,
    MissingDataError,
    Rows,
    malformed,
    read_batch,
    read_batches,
    read_npy,
    read_npz,
    read_table,
    unit_bytes,
)
from shared import image_patches

HELD_OUT = 0.2  # of CIFAR-10's 50,000 training images: 10,000, as many as its test set has
IMAGE, IMAGE_64 = 3 * 32 * 32, 3 * 64 * 64
PLANE_SETS = ("s1", "s2", "s3", "s4", "a1", "a2", "a3", "birch1")


@dataclass(frozen=True)
class DataSet:
    name: str
    rows: Rows
    held_out: Rows | None = None
    centers: NDArray[Any] | None = None

    def facts(self) -> dict[str, int]:
        facts = {"rows": len(self.rows), "columns": self.rows.shape[1]}
        return facts if self.held_out is None else facts | {"held_out": len(self.held_out)}


@dataclass(frozen=True)
class Source:
    """`files`: any one of these patterns is enough; `expected` and `origin` tell users how to get it.

    `shape` is that of the public data, for estimates of time only.
    """

    title: str
    files: tuple[str, ...]
    expected: str
    origin: str
    load: Callable[[list[Path], str], DataSet]
    shape: tuple[int, int]


def load_kdd(paths: list[Path], expected: str) -> DataSet:
    if paths[0].suffix == ".npz":
        return DataSet("kdd", float_rows(read_npz(paths[0], 74, expected)["X"]))
    return DataSet("kdd", read_table(paths[0], 77, 3, expected, delimiter=None))


def images(paths: list[Path], expected: str) -> NDArray[np.uint8]:
    if paths[0].suffix != ".npz":
        return np.concatenate([read_batch(path, IMAGE, expected) for path in paths])
    found = read_npz(paths[0], IMAGE, expected)["X"]
    if found.dtype != np.uint8:
        malformed(paths[0], f"holds {found.dtype}", expected)
    return found


def load_cifar(paths: list[Path], expected: str) -> DataSet:
    return DataSet("cifar10", unit_bytes(images(paths, expected)))


def load_cifar_held_out(paths: list[Path], expected: str) -> DataSet:
    rows = unit_bytes(images(paths, expected))
    order = np.random.default_rng(0).permutation(len(rows))
    kept = len(rows) - round(HELD_OUT * len(rows))
    return DataSet("cifar10-held-out", rows[np.sort(order[:kept])], rows[np.sort(order[kept:])])


def load_patches(paths: list[Path], expected: str) -> DataSet:
    return DataSet("patches", image_patches(images(paths, expected)))


def load_song(paths: list[Path], expected: str) -> DataSet:
    if paths[0].suffix == ".npz":
        return DataSet("song", float_rows(read_npz(paths[0], 90, expected)["X"]))
    return DataSet("song", read_table(paths[0], 91, 1, expected))


def load_susy(paths: list[Path], expected: str) -> DataSet:
    return DataSet("susy", read_table(paths[0], 19, 1, expected))


def load_imagenet(paths: list[Path], expected: str) -> DataSet:
    return DataSet("imagenet64", read_batches(paths, IMAGE_64, expected))


def load_glove(paths: list[Path], expected: str) -> DataSet:
    return DataSet("glove50", float_rows(read_npy(paths[0], 50, expected)))


def load_plane(paths: list[Path], expected: str) -> DataSet:
    arrays = read_npz(paths[0], 2, expected)
    centers = arrays.get("centers")
    if centers is None or centers.ndim != 2 or centers.shape[1] != 2 or not np.isfinite(centers).all():
        malformed(paths[0], "has no array of true centers with two columns", expected)
    return DataSet(paths[0].stem, float_rows(arrays["X"]), centers=centers.astype(np.float64))


def float_rows(rows: NDArray[Any]) -> Rows:
    return np.ascontiguousarray(rows, dtype=np.float32)


_CIFAR = ("cifar10.npz", "cifar-10-batches-py/data_batch_[1-5]", "data_batch_[1-5]")
_CIFAR_EXPECTED = "X, 50,000 x 3,072 bytes (R, G, B planes), or the five pickled training batches"
_CIFAR_ORIGIN = "https://www.cs.toronto.edu/~kriz/cifar.html"
_PLANE_ORIGIN = "https://cs.joensuu.fi/sipu/datasets/"

SOURCES: dict[str, Source] = {
    "kdd": Source(
        "KDD",
        ("kdd_bio.npz", "bio_train.dat"),
        "X, 74 columns, or the public text: block, example, class and 74 features a line",
        "the protein homology task of KDD Cup 2004, https://osmot.cs.cornell.edu/kddcup/",
        load_kdd,
        (145_751, 74),
    ),
    "cifar10": Source("CIFAR-10", _CIFAR, _CIFAR_EXPECTED, _CIFAR_ORIGIN, load_cifar, (50_000, IMAGE)),
    "cifar10-held-out": Source(
        "CIFAR-10, held out", _CIFAR, _CIFAR_EXPECTED, _CIFAR_ORIGIN, load_cifar_held_out, (40_000, IMAGE)
    ),
    "patches": Source("patches of CIFAR-10", _CIFAR, _CIFAR_EXPECTED, _CIFAR_ORIGIN, load_patches, (400_000, 192)),
    "song": Source(
        "SONG",
        ("YearPredictionMSD.txt", "song.npz"),
        "91 numbers per line, separated by commas: the year and 90 features; or X, 90 columns: a sample of the rows",
        "https://archive.ics.uci.edu/dataset/203/yearpredictionmsd",
        load_song,
        (515_345, 90),
    ),
    "susy": Source(
        "SUSY",
        ("SUSY.csv.gz",),
        "19 numbers a line, separated by commas: the class and 18 features",
        "https://archive.ics.uci.edu/dataset/279/susy",
        load_susy,
        (5_000_000, 18),
    ),
    "imagenet64": Source(
        "ImageNet 64 x 64",
        ("train_data_batch_*", "Imagenet64_train*/train_data_batch_*"),
        "batch files with an array data of bytes, 12,288 columns (R, G, B planes)",
        "https://image-net.org/download-images.php (downsampled, 64 x 64)",
        load_imagenet,
        (1_281_167, IMAGE_64),
    ),
    "glove50": Source(
        "GloVe",
        ("glove50.npy",),
        "400,000 x 50 float32",
        "benches/peers/get_data.py brings it",
        load_glove,
        (400_000, 50),
    ),
    **{
        name: Source(
            name.upper(), (f"{name}.npz",), "X and centers, two columns each", _PLANE_ORIGIN, load_plane, (5_000, 2)
        )
        for name in PLANE_SETS
    },
}


class Library:
    """Loads data sets by name and keeps the last one for the next trials."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._last: DataSet | None = None

    def load(self, name: str) -> DataSet:
        if self._last is None or self._last.name != name:
            self._last = None
            source = SOURCES[name]
            try:
                self._last = source.load(self.find(name), source.expected)
            except MalformedDataError as error:
                raise MalformedDataError(f"{source.title}: {error}. The public data: {source.origin}") from error
        return self._last

    def find(self, name: str) -> list[Path]:
        """The files of a data set: those of the first pattern that any file matches."""
        source = SOURCES[name]
        for pattern in source.files:
            paths = sorted(self.folder.glob(pattern)) if self.folder is not None else []
            if paths:
                return paths
        wanted = " or ".join(source.files)
        raise MissingDataError(
            f"{source.title}: no {wanted} in the data folder; expected {source.expected}. "
            f"The public data: {source.origin}"
        )


__all__ = ["PLANE_SETS", "SOURCES", "DataError", "DataSet", "Library", "MalformedDataError", "MissingDataError"]
