"""Small synthetic data in files of the public formats, for `--quick` and the tests."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sets import PLANE_SETS

ROWS = 600


def blobs(rows: int, columns: int, clusters: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-10, 10, size=(clusters, columns))
    points = centers[rng.integers(clusters, size=rows)] + rng.normal(scale=0.6, size=(rows, columns))
    return points.astype(np.float32), centers


def smooth_images(count: int, side: int, seed: int) -> NDArray[np.uint8]:
    """Bytes in R, G, B planes: a few waves of random direction per image, and noise."""
    rng = np.random.default_rng(seed)
    wave = rng.normal(scale=4 / side, size=(30, 2, 1, 1, 1))
    y, x = np.mgrid[:side, :side].astype(np.float64)
    kinds = np.sin(wave[:, 0] * x + wave[:, 1] * y + rng.uniform(0, 6, size=(30, 3, 1, 1)))
    images = 127 + 60 * kinds[rng.integers(30, size=count)] + rng.normal(scale=20, size=(count, 3, side, side))
    return np.clip(images, 0, 255).astype(np.uint8).reshape(count, -1)


def text_table(first: NDArray[np.generic], rows: NDArray[np.float32]) -> str:
    lines = ([f"{a:g}", *(f"{v:.5f}" for v in row)] for a, row in zip(first.astype(float), rows, strict=True))
    return "".join(",".join(line) + "\n" for line in lines)


def write_all(folder: Path) -> None:
    """Every data set of the experiments."""
    for k, name in enumerate(PLANE_SETS):
        clusters = {"s": 15, "a": 20 + 15 * (k - 4), "b": 100}[name[0]]
        points, centers = blobs(2_000, 2, clusters, k)
        np.savez(folder / f"{name}.npz", X=points, centers=centers)
    np.savez(folder / "kdd_bio.npz", X=blobs(4 * ROWS, 74, 60, 20)[0])
    np.savez(folder / "cifar10.npz", X=smooth_images(ROWS, 32, 21))
    np.save(folder / "glove50.npy", blobs(ROWS, 50, 40, 22)[0])
    rng = np.random.default_rng(23)
    song = blobs(ROWS, 90, 40, 24)[0]
    (folder / "YearPredictionMSD.txt").write_text(text_table(rng.integers(1922, 2012, size=ROWS), song))
    susy = blobs(ROWS, 18, 40, 25)[0]
    with gzip.open(folder / "SUSY.csv.gz", "wt") as stream:
        stream.write(text_table(rng.integers(2, size=ROWS), susy))
    for batch in (1, 2):
        images = smooth_images(150, 64, 25 + batch)
        content = {"data": images, "labels": [1] * len(images), "mean": images.mean(axis=0)}
        (folder / f"train_data_batch_{batch}").write_bytes(pickle.dumps(content))
