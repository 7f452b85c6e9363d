"""The benchmarks' data: how data sets are loaded, and the exact quantization error by which all are judged.

A name is `NAME.npy` or the array `X` of `NAME.npz` in the data folder. Bytes are scaled to [0, 1], a few tables whose
columns have different units are standardized, and all other data is raw; the results say what was done.
`made` needs no file, `cifar_patches` is cut from `cifar10.npz`.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import threadpoolctl
from numpy.typing import NDArray

STANDARDISED = frozenset({"covtype", "flights"})
PATCH, PATCHES_AN_IMAGE = 8, 8
SCRATCH_FLOATS = 1 << 22  # one block of distances in `exact_error`: 16 MB


@dataclass(frozen=True)
class Prepared:
    """A data set as every contender sees it: float32, C-contiguous, one .npy file in the run's own folder."""

    name: str
    path: str
    rows: int
    columns: int
    scaling: str

    @property
    def nbytes(self) -> int:
        return 4 * self.rows * self.columns

    def facts(self) -> dict[str, object]:
        facts = asdict(self)
        del facts["path"]
        return facts | {"bytes": self.nbytes}


def made(rows: int = 6_000, columns: int = 16, blobs: int = 60, seed: int = 0) -> NDArray[np.float32]:
    """Overlapping blobs of different sizes, for `--quick` and the tests."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(blobs, columns)) * 3
    labels = rng.choice(blobs, size=rows, p=rng.dirichlet(np.full(blobs, 2.0)))
    return (centers[labels] + rng.normal(size=(rows, columns))).astype(np.float32)


def standardize(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale columns to zero mean and unit variance; a constant column becomes zero."""
    mean = x.mean(axis=0, dtype=np.float64)
    deviation = x.std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1
    return ((x - mean) / deviation).astype(np.float32)


def image_patches(images: NDArray[np.uint8], seed: int = 0) -> NDArray[np.float32]:
    """Square windows at random places of R, G, B images of 32 x 32, scaled to [0, 1]."""
    planes = images.reshape(-1, 3, 32, 32)
    windows = np.lib.stride_tricks.sliding_window_view(planes, (PATCH, PATCH), axis=(2, 3))
    places = np.random.default_rng(seed).integers(0, 33 - PATCH, size=(2, len(planes) * PATCHES_AN_IMAGE))
    image = np.repeat(np.arange(len(planes)), PATCHES_AN_IMAGE)
    patches = windows[image, :, places[0], places[1]].reshape(len(image), -1)
    return patches.astype(np.float32) / 255


def read(name: str, folder: Path) -> NDArray[np.generic]:
    plain, packed = folder / f"{name}.npy", folder / f"{name}.npz"
    if plain.exists():
        return np.load(plain)
    if packed.exists():
        return np.load(packed)["X"]
    raise FileNotFoundError(f"no {name}.npy and no {name}.npz in the data folder")


def load(name: str, folder: Path) -> tuple[NDArray[np.float32], str]:
    """The array of a name as float32, and a description of its scaling."""
    if name == "made":
        return made(), "raw"
    if name == "cifar_patches":
        return image_patches(read("cifar10", folder)), "[0, 1]"
    x = read(name, folder)
    if x.ndim != 2:
        raise ValueError(f"{name} has {x.ndim} dimensions; rows and columns are expected")
    if x.dtype == np.uint8:
        return np.ascontiguousarray(x, dtype=np.float32) / np.float32(255), "[0, 1]"
    x = np.ascontiguousarray(x, dtype=np.float32)
    return (standardize(x), "standardized") if name in STANDARDISED else (x, "raw")


def prepare(name: str, folder: Path, scratch: Path) -> Prepared:
    """Load, scale and store a data set where the measuring processes read it."""
    x, scaling = load(name, folder)
    return store(name, x, scaling, scratch)


def store(name: str, x: NDArray[np.float32], scaling: str, scratch: Path) -> Prepared:
    path = scratch / f"{name}.npy"
    np.save(path, np.ascontiguousarray(x, dtype=np.float32))
    return Prepared(name, str(path), x.shape[0], x.shape[1], scaling)


def nearest(x: NDArray[np.float32], centers: NDArray[np.float32]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Exhaustive search: the nearest center of each row and its squared distance.

    Both sides are shifted by the centers' mean, so that |c|^2 - 2 x.c finds the winner without cancellation; the
    winner's distance is then computed again from differences in float64. Blocks of rows are shared among the CPUs.
    """
    shift = centers.mean(axis=0, dtype=np.float64)
    shifted = (centers - shift).astype(np.float32)
    half_norms = (0.5 * np.einsum("cd,cd->c", shifted, shifted, dtype=np.float64)).astype(np.float32)
    labels = np.empty(len(x), dtype=np.intp)
    squares = np.empty(len(x), dtype=np.float64)
    step = max(1, SCRATCH_FLOATS // max(len(centers), x.shape[1]))

    def search(start: int) -> None:
        rows = slice(start, min(start + step, len(x)))
        block = x[rows] - shift
        score = block.astype(np.float32) @ shifted.T
        np.subtract(half_norms, score, out=score)
        labels[rows] = score.argmin(axis=1)
        difference = x[rows] - centers[labels[rows]].astype(np.float64)
        squares[rows] = np.einsum("nd,nd->n", difference, difference)

    with threadpoolctl.threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(search, range(0, len(x), step)))
    return labels, squares


def exact_error(x: NDArray[np.float32], centers: NDArray[np.float32]) -> float:
    """The quantization error: the sum over all rows of the squared distance to the nearest center."""
    usable = np.isfinite(centers).all(axis=1)
    if not usable.any():
        return float("nan")
    return float(nearest(x, np.ascontiguousarray(centers[usable]))[1].sum())
