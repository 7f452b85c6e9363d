"""Libraries without a Python interface, through the program in `rust/`, which clocks its own fits.

cargo build --release --manifest-path benches/peers/rust/Cargo.toml
"""

from __future__ import annotations

import re
import resource
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).resolve().parent / "rust"
PROGRAM = FOLDER / "target" / "release" / "peers"
if not PROGRAM.is_file():
    raise ImportError("benches/peers/rust is not built")
VERSION = ", ".join(re.findall(r'^(?:fastkmeans-rs|linfa) = "=([\d.]+)"', (FOLDER / "Cargo.toml").read_text(), re.M))


def fit(library: str, x: NDArray[np.float32], clusters: int, seed: int) -> tuple[NDArray[np.float32], dict[str, Any]]:
    """The centers, and the seconds of the fit alone. Threads are those of the environment and of the process."""
    with tempfile.TemporaryDirectory() as folder:
        rows, centers = Path(folder) / "rows.f32", Path(folder) / "centers.f32"
        x.astype("<f4").tofile(rows)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [PROGRAM, library, rows, str(x.shape[1]), str(clusters), str(seed), centers]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        facts = {"seconds": float(done.stdout), "cpu_seconds": cpu, "peak_bytes": None}
        return np.fromfile(centers, "<f4").reshape(-1, x.shape[1]), facts
