"""Fits, predicts, saves and loads random small cases for a given time, and compares with plain NumPy.

``python benches/soak/soak.py --seconds 600`` writes ``results/soak.json``. A case that fails is printed with its
number; ``--case NUMBER`` runs it alone.

Memory is measured every 500 cases, and its growth counts from case 2,000 on, when modules are loaded and caches are
filled. There are two measures: the resident memory of the process, which includes what the allocator keeps for reuse,
and the memory in use (on Linux with glibc), which is where a leak would show. Fits run in threads, each of which may
have its own arena, whose size is that of its largest case so far, so the resident memory grows ever more slowly.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import platform
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import dgmm
import numpy as np

RESULTS = Path(__file__).parent / "results" / "soak.json"
SYSTEMS = (dgmm.DGMM, dgmm.VCGMM, dgmm.ExactGMM, dgmm.KMeans)
KINDS = ("normal", "duplicates", "constant", "far from 0", "heavy tails")
# Cases between two measurements of the memory, and cases before its growth counts.
EVERY, WARM_UP = 500, 2000
# The difference that a search by products may miss, relative to the squared norms.
ROUNDING = {"float32": 1e-3, "float64": 1e-9}


def rows_of(rng: np.random.Generator, dtype: str) -> np.ndarray:
    """Data of a random kind, size and unit."""
    shape = (int(rng.integers(2, 300)), int(rng.integers(1, 12)))
    kind = KINDS[rng.integers(len(KINDS))]
    X = rng.standard_normal(shape)
    if kind == "duplicates":
        X = X.round()
    elif kind == "constant":
        X = np.full(shape, rng.standard_normal())
    elif kind == "far from 0":
        X = X + 1000
    elif kind == "heavy tails":
        X = X * np.exp(rng.standard_normal((shape[0], 1)))
    return (X * 10.0 ** rng.integers(-12, 13)).astype(dtype)


def estimator(rng: np.random.Generator, rows: int) -> Any:
    """Any of the four, with random settings."""
    clusters = int(rng.integers(1, min(rows, 120) + 1))
    settings: dict[str, Any] = {
        "random_state": int(rng.integers(2**32)),
        "max_iter": int(rng.integers(1, 12)),
        "n_threads": int(rng.integers(1, 3)),
        "init": str(rng.choice(["auto", "k-means++", "afk-mc2", "hierarchical", "random"])),
    }
    cls = SYSTEMS[rng.integers(len(SYSTEMS))]
    if cls is dgmm.DGMM:
        settings["engine"] = str(rng.choice(["auto", "pointwise", "grouped"]))
    return cls(clusters, **settings)


def compare(model: Any, X: np.ndarray) -> None:
    """Labels, distances and densities against their definitions."""
    centers = np.asarray(model.cluster_centers_, float)
    Y = np.asarray(X, float)
    squares = ((Y[:, None] - centers[None]) ** 2).sum(axis=2)
    scale = max(((Y - Y.mean(axis=0)) ** 2).sum(axis=1).max(), squares.max(), np.finfo(float).tiny)
    slack = ROUNDING[X.dtype.name] * scale
    labels = model.predict(X)
    assert labels.min() >= 0 and labels.max() < len(centers), "a label is out of range"
    assert (squares[np.arange(len(X)), labels] <= squares.min(axis=1) + slack).all(), "not the nearest cluster"
    assert np.isfinite(model.lower_bound_) and model.variance_ > 0, "F or the variance is not finite"
    np.testing.assert_allclose(model.transform(X) ** 2, squares, atol=slack, rtol=1e-3)
    assert (model.labels_ >= 0).all() and (model.labels_ < len(centers)).all(), "a label of the fit is out of range"


def check(number: int, folder: Path) -> None:
    """One case, which is determined by its number."""
    rng = np.random.default_rng(number)
    X = rows_of(rng, str(rng.choice(["float32", "float64"])))
    weights = rng.choice([0.5, 1.0, 2.0], size=len(X)) if rng.random() < 0.3 else None
    before = X.copy()
    try:
        model = estimator(rng, len(X)).fit(X, sample_weight=weights)
    except ValueError as error:
        # Values whose squares overflow the type are refused.
        if "span" in str(error):
            return
        raise
    np.testing.assert_array_equal(X, before)
    compare(model, X)
    if number % 4 == 0:
        path = folder / "model.safetensors"
        model.save(path)
        again = dgmm.load(path)
        np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


def resident() -> int:
    """The resident memory of the process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Heap(ctypes.Structure):
    """What glibc's ``mallinfo2`` returns."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks mapped usmblks fsmblks used free keepcost".split()  # noqa: SIM905
    )


def fill_caches() -> None:
    """Fills NumPy's cache: up to seven freed arrays of each size below 1 KiB, which it keeps for reuse.

    Random shapes would fill it little by little, which looks like a leak.
    """
    for size in range(1, 1024):
        arrays = [np.empty(size, "u1") for _ in range(8)]
        del arrays


def in_use() -> int | None:
    """Bytes allocated and not freed by C, Rust and NumPy; None if the system cannot tell."""
    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None) if os.name == "posix" else None
    if mallinfo2 is None:
        return None
    mallinfo2.restype = Heap
    heap = mallinfo2()
    return int(heap.used + heap.mapped)


def growth(memory: list[int]) -> float | None:
    """The relative growth from the first value after the warm-up to the last."""
    settled = memory[WARM_UP // EVERY - 1 :]
    return round(settled[-1] / settled[0] - 1, 5) if len(settled) > 1 else None


def soak(seconds: float, most: int, first: int) -> dict[str, Any]:
    """Checks cases one after another, until the time is up or their number is reached."""
    failures: list[int] = []
    memory: dict[str, list[int]] = {"resident": [], "in_use": []}
    fill_caches()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        count = 0
        while count < most and time.monotonic() - start < seconds:
            try:
                check(first + count, Path(name))
            except Exception:  # noqa: BLE001 - each is a failure of its own
                failures.append(first + count)
                print(f"case {first + count}:\n{traceback.format_exc()}", flush=True)
            count += 1
            if count % EVERY == 0:
                gc.collect()
                memory["resident"].append(resident())
                used = in_use()
                if used is not None:
                    memory["in_use"].append(used)
    return {
        "cases": count,
        "failures": failures,
        "seconds": round(time.monotonic() - start, 1),
        "arenas": os.environ.get("MALLOC_ARENA_MAX", "default"),
        "warm_up": WARM_UP,
        "growth": {measure: growth(values) for measure, values in memory.items()},
        f"bytes_every_{EVERY}_cases": memory,
        "version": dgmm.__version__,
        "machine": platform.machine(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cases", type=int, default=10**9, help="stop after this many cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="run this case alone")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.case is not None:
        with tempfile.TemporaryDirectory() as name:
            check(arguments.case, Path(name))
        return 0
    result = soak(arguments.seconds, arguments.cases, arguments.first)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{result['cases']} cases, {len(result['failures'])} failures, growth of memory {result['growth']}")
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
