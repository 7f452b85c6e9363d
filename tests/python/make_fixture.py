"""Writes the model of tests/data that the Rust tests read: ``python tests/python/make_fixture.py``.

The other one is written by ``cargo run --features files --example save_model -- tests/data/from_rust.safetensors``.
Both are of format version 1 and stay as they are: later versions must be able to read them.
"""

from pathlib import Path

import dgmm
import numpy as np

DATA = Path(__file__).parents[1] / "data"


def rows() -> np.ndarray:
    """The rows as tests/files.rs makes them."""
    n, d = np.indices((200, 3))
    return ((n * (d + 7) % 16) / 16 + 8 * (n // (d + 2) % 3)).astype(np.float32)


if __name__ == "__main__":
    model = dgmm.KMeans(9, random_state=0, n_init=3).fit(rows())
    model.save(DATA / "from_python.safetensors")
