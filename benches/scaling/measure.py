"""Measures the cost of a fit over shards on this machine: CPU seconds and bytes of each part, through the public API.

The machine may be shared, so times are CPU seconds (`time.process_time`) of one thread, medians of several turns. Wall
seconds of a plain fit are measured, too.
"""

from __future__ import annotations

import pickle
import statistics
import time
from collections.abc import Callable
from typing import Any

import dgmm
import numpy as np
from dgmm import shards

# Rows, clusters, columns. Constants are fitted on every other size, and checked on those between.
SIZES = [
    (100_000, 200, 16),
    (100_000, 1000, 64),
    (200_000, 500, 128),
    (200_000, 2000, 32),
    (400_000, 4000, 64),
    (400_000, 1000, 128),
    (800_000, 500, 32),
    (800_000, 4000, 32),
    (1_600_000, 8000, 16),
    (1_600_000, 2000, 64),
    (800_000, 8000, 128),
    (1_600_000, 500, 16),
]
# Far beyond the others, with given centers to start from: only checked.
FAR = [(600_000, 60_000, 32), (300_000, 100_000, 64)]
MATRIX = 1024
# Enough that several iterations use all rows and S is filled: half of them use the sample.
LONG = {"max_iter": 12, "tol": 1e-9}


def made(rows: int, columns: int, seed: int = 0) -> Any:
    """Rows around 5,000 points whose columns have decreasing variance, like most data after PCA."""
    rng = np.random.default_rng(seed)
    places = rng.standard_normal((5000, columns), dtype=np.float32)
    out = np.empty((rows, columns), dtype=np.float32)
    for start in range(0, rows, 100_000):
        part = out[start : start + 100_000]
        rng.standard_normal(dtype=np.float32, out=part)
        part += 2 * places[rng.integers(len(places), size=len(part))]
    out /= np.sqrt(1 + np.arange(columns, dtype=np.float32))
    return out


def cpu(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median CPU seconds of a call, and what it returned."""
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        result = run()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds), result


def dense_flops(repeats: int) -> float:
    """Multiplications and additions per second of NumPy's float32 matrix product, with one thread."""
    from threadpoolctl import threadpool_limits

    a, b = made(8 * MATRIX, MATRIX), made(MATRIX, MATRIX, 1)
    with threadpool_limits(1):
        a @ b.T
        seconds, _ = cpu(lambda: a @ b.T, 3 * repeats)
    return float(2 * a.shape[0] * MATRIX * MATRIX / seconds)


def parts_of(size: tuple[int, int, int], repeats: int, *, far: bool = False) -> dict[str, Any]:
    """CPU seconds of the parts of a fit with one shard and one thread, and the bytes that would travel."""
    rows, clusters, columns = size
    X = made(rows, columns)
    begin: Any = X[np.random.default_rng(1).choice(rows, clusters, replace=False)] if far else "auto"
    estimator = dgmm.DGMM(clusters, random_state=0, n_threads=1, init=begin, **LONG)
    shard = shards.Shard(X)
    found: dict[str, Any] = {"rows": rows, "clusters": clusters, "columns": columns}
    found["summary"], summary = cpu(lambda: shard.summarize(estimator, rows), repeats)
    found["start"], trainer = cpu(lambda: shards.Trainer(estimator, summary), 1 if rows * clusters > 10**9 else 3)
    sampled = trainer.fitted.history["rows"]
    found["sample_rows"], found["sample_iterations"] = int(max(sampled, default=rows)), len(sampled)
    first = trainer.round
    found["first_look"], (sums, known) = cpu(lambda: shard.step(first, n_threads=1), 1 if far else repeats)
    # The count of a step excludes how rows find their cells; with given centers the count of the start includes it.
    found["first_evaluations"] = sums.distance_evals / rows
    found["cells_counted"] = trainer.fitted.evaluations["seeding"] / rows if far else None
    trainer.absorb(sums)
    iterations, evaluations, absorbed, passes = [], [], [], 1
    while not trainer.finished and passes < 5:
        seconds, (sums, known) = cpu(lambda r=trainer.round, k=known: shard.step(r, k, n_threads=1), repeats)
        iterations.append(seconds)
        evaluations.append(sums.distance_evals / rows)
        found["round_bytes"] = len(pickle.dumps(trainer.round))
        found["statistics_bytes"] = len(pickle.dumps(sums))
        found["memberships_bytes"] = len(pickle.dumps(known))
        found["merge"], _ = cpu(lambda s=sums: shards.merge([s, s]), repeats)
        found["encode"], _ = cpu(lambda s=sums: pickle.loads(pickle.dumps(s)), repeats)
        absorbed.append(cpu(lambda s=sums: trainer.absorb(s), 1)[0])
        passes += 1
    found["iteration"] = statistics.median(iterations)
    found["evaluations"] = statistics.median(evaluations)
    found["absorb"] = statistics.median(absorbed)
    if not far:
        found |= plain_fit(X, clusters)
    return found


def plain_fit(X: Any, clusters: int) -> dict[str, Any]:
    """Wall seconds of an iteration over all rows in a plain fit with two threads, and of the whole fit."""
    began = time.perf_counter()
    model = dgmm.DGMM(clusters, random_state=0, n_threads=2).fit(X)
    seconds = time.perf_counter() - began
    history = model.history_
    steps = np.diff(history["seconds"])[np.asarray(history["rows"])[1:] == len(X)]
    passes = int(np.sum(np.asarray(history["rows"]) == len(X)))
    return {"wall_iteration": float(np.median(steps)), "wall_fit": seconds, "passes": passes}
