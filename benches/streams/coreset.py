"""Coresets of a stream: seconds compared with NumPy's sum of the columns, and quality with `lightweight_coreset`.

    python benches/streams/coreset.py

Speed: rows of float32 that are in memory, in chunks. NumPy sums the columns of each chunk; the builder adds each
chunk and returns its coreset at the end. They take turns, and medians are compared, so that a slow moment of the
machine affects both. Quality: a fit of each kind of coreset, by the exact quantization error of its centers over all
rows, relative to the fit of a lightweight coreset of the same size. Writes results/coreset.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import dgmm
import numpy as np

RESULTS = Path(__file__).parent / "results"
GOAL = 0.5
COLUMNS = 32
CLUSTERS = 200


def mixture(rows: int, *, skewed: bool, seed: int = 0) -> Any:
    """Rows around 1,000 points: of about the same size and spread, or of sizes and distances with heavy tails."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((1000, COLUMNS), dtype=np.float32) * 3
    shares = np.ones(1000)
    if skewed:
        shares = rng.pareto(1.0, size=1000) + 0.01
        centers *= rng.pareto(1.5, size=(1000, 1)).astype(np.float32)
    out = np.empty((rows, COLUMNS), dtype=np.float32)
    for start in range(0, rows, 100_000):
        part = out[start : start + 100_000]
        rng.standard_normal(dtype=np.float32, out=part)
        part += centers[rng.choice(1000, p=shares / shares.sum(), size=len(part))]
    return out


def cut(X: Any, rows: int) -> list[Any]:
    return [X[start : start + rows] for start in range(0, len(X), rows)]


def sum_columns(chunks: list[Any]) -> Any:
    total = np.zeros(COLUMNS)
    for chunk in chunks:
        total += chunk.sum(axis=0)
    return total


def build(chunks: list[Any], size: int, threads: int | None, **parameters: Any) -> Any:
    builder = dgmm.CoresetBuilder(size, n_threads=threads, **{"random_state": 0, **parameters})
    for chunk in chunks:
        builder.add(chunk)
    return builder.result()


def speed(X: Any, size: int, repeats: int) -> list[dict[str, Any]]:
    rows = []
    for chunk_rows in (100_000, 300_000, 1_000_000):
        chunks = cut(X, chunk_rows)
        ways = {
            "NumPy": lambda chunks=chunks: sum_columns(chunks),
            "builder, 1 thread": lambda chunks=chunks: build(chunks, size, 1),
            "builder": lambda chunks=chunks: build(chunks, size, None),
            "two passes": lambda chunks=chunks: dgmm.lightweight_coreset(chunks, size, random_state=0),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(repeats):
            for name, run in ways.items():
                began = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - began)
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        rows.append({"chunk_rows": chunk_rows, "seconds": seconds, "medians": medians})
        print(chunk_rows, {name: round(value, 3) for name, value in medians.items()}, flush=True)
    return rows


def quality(rows: int, size: int, seeds: int) -> list[dict[str, Any]]:
    table = []
    for skewed in (False, True):
        shuffled = mixture(rows, skewed=skewed, seed=1)
        for order, X in (("mixed", shuffled), ("sorted", shuffled[np.argsort(shuffled[:, 0])])):
            errors: dict[str, list[float]] = {}
            for seed in range(seeds):
                for name, coreset in drawn(X, size, seed).items():
                    model = dgmm.DGMM(CLUSTERS, random_state=seed)
                    model.fit(coreset.points, sample_weight=coreset.weights)
                    errors.setdefault(name, []).append(dgmm.quantization_error(X, model.cluster_centers_))
            middle = {name: statistics.median(values) for name, values in errors.items()}
            relative = {name: value / middle["lightweight"] for name, value in middle.items()}
            table.append(
                {"data": "skewed" if skewed else "even", "order": order, "errors": errors, "relative": relative}
            )
            print(table[-1]["data"], order, {name: round(value, 4) for name, value in relative.items()}, flush=True)
    return table


def drawn(X: Any, size: int, seed: int) -> dict[str, Any]:
    parts = []
    for start in range(0, len(X), len(X) // 16):
        part = dgmm.CoresetBuilder(size, random_state=seed, first_row=start)
        parts.append(part.add(X[start : start + len(X) // 16]))
    for part in parts[1:]:
        parts[0].merge(part)
    uniform = np.sort(np.random.default_rng(seed).permutation(len(X))[:size])
    return {
        "lightweight": dgmm.lightweight_coreset(X, size, random_state=seed),
        "builder": build(cut(X, 100_000), size, None, random_state=seed),
        "16 merged": parts[0].result(),
        "two passes": dgmm.lightweight_coreset(cut(X, 100_000), size, random_state=seed),
        "uniform": dgmm.Coreset(X[uniform], np.full(size, len(X) / size), uniform),
    }


def report(found: dict[str, Any]) -> str:
    lines = [
        "# Coresets of a stream",
        "",
        f"Made by `benches/streams/coreset.py` with {found['cpus']} CPUs, load {found['load']:.1f} at the start.",
        "",
        f"## Speed: {found['rows']:,} x {COLUMNS} of float32, coresets of {found['size']:,} rows",
        "",
        f"Medians of {found['repeats']} turns, in seconds. NumPy sums the columns. The figure is its time divided by",
        f"that of the builder: at least {GOAL} is asked for.",
        "",
        "| rows of a chunk | NumPy | builder, 1 thread | builder | two passes | figure, 1 thread | figure |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found["speed"]:
        medians = row["medians"]
        cells = [f"{medians[name]:.3f}" for name in ("NumPy", "builder, 1 thread", "builder", "two passes")]
        cells += [f"{medians['NumPy'] / medians[name]:.2f}" for name in ("builder, 1 thread", "builder")]
        lines.append(f"| {row['chunk_rows']:,} | {' | '.join(cells)} |")
    lines += [
        "",
        f"## Quality: {found['quality_rows']:,} x {COLUMNS}, `DGMM({CLUSTERS})` of {found['size']:,} rows",
        "",
        "The quantization error over all rows, relative to that of the fit of a lightweight coreset; medians over",
        f"{found['seeds']} seeds.",
        "",
        "| data | order | builder | 16 builders merged | two passes | uniform sample |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["quality"]:
        cells = [f"{row['relative'][name]:.3f}" for name in ("builder", "16 merged", "two passes", "uniform")]
        lines.append(f"| {row['data']} | {row['order']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run both parts and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quality-rows", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    warnings.simplefilter("ignore", dgmm.DgmmWarning)
    found: dict[str, Any] = {
        "rows": given.rows,
        "size": given.size,
        "repeats": given.repeats,
        "quality_rows": given.quality_rows,
        "seeds": given.seeds,
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
    }
    found["speed"] = speed(mixture(given.rows, skewed=True), given.size, given.repeats)
    found["quality"] = quality(given.quality_rows, given.size, given.seeds)
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "coreset.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (given.output / "coreset.md").write_text(report(found), encoding="utf-8")


if __name__ == "__main__":
    main()
