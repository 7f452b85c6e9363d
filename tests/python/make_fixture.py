"""Writes the models of tests/data that later versions must read: ``python tests/python/make_fixture.py``.

``from_python.safetensors`` is what the Rust tests read. ``ESTIMATOR-VERSION.safetensors`` and ``.pkl`` are of each
minor version: they are made once, when it is released, and kept.

The other one is written by ``cargo run --features files --example save_model -- tests/data/from_rust.safetensors``.
Both are of format version 1 and stay as they are: later versions must be able to read them.
"""

import pickle
from pathlib import Path

import dgmm
import numpy as np

DATA = Path(__file__).parents[1] / "data"


def rows() -> np.ndarray:
    """The rows as tests/files.rs makes them."""
    n, d = np.indices((200, 3))
    return ((n * (d + 7) % 16) / 16 + 8 * (n // (d + 2) % 3)).astype(np.float32)


NAMES = ("DGMM", "VCGMM", "ExactGMM", "KMeans", "GaussianMixture", "DGMM-cosine")


def fitted(name: str) -> dgmm.DGMM:
    """The model of an estimator that the fixtures hold: float32 for some of them, float64 for the others."""
    estimator, _, metric = name.partition("-")
    dtype = np.float32 if estimator in ("DGMM", "KMeans") else np.float64
    settings = {"metric": metric} if metric else {}
    # A row of zeros has no direction.
    values = rows().astype(dtype) + (1 if metric else 0)
    return getattr(dgmm, estimator)(9, random_state=0, n_threads=1, **settings).fit(values)


def write_version() -> None:
    """Writes the fixtures of this version, unless they exist."""
    version = ".".join(dgmm.__version__.split(".")[:2])
    for name in NAMES:
        path = DATA / f"{name}-{version}.safetensors"
        if not path.exists():
            model = fitted(name)
            model.save(path)
            path.with_suffix(".pkl").write_bytes(pickle.dumps(model, protocol=4))


if __name__ == "__main__":
    write_version()
    model = dgmm.KMeans(9, random_state=0, n_init=3).fit(rows())
    model.save(DATA / "from_python.safetensors")
