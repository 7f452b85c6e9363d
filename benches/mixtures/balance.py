"""The cost of bounded cluster sizes: `max_size` against the fit without it, and against k-means-constrained.

    python benches/mixtures/balance.py --data-dir DATA

DATA holds `glove50.npy` (made by `benches/peers/get_data.py`). Without it, or with `--quick`, rows are
synthetic. The peer (`pip install k-means-constrained`) runs on a small problem, because its time grows with rows times
clusters; if it is missing, that part is left out. Writes `results/balance.json` and `results/balance.md` beside this
file, or into `--output`. Contenders take turns, and every figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dgmm
import numpy as np

HERE = Path(__file__).parent
PUBLISHED = [
    ("Lance, balanced k-means", "coefficient of variation about 0.30"),
    ("cuVS, balanced k-means", "largest cluster about 2 to 3 times the mean"),
]
"""What others say of theirs; it was not measured here."""


def made(rows: int, columns: int) -> np.ndarray:
    """Rows around centers, some of which have many more rows than others."""
    rng = np.random.default_rng(7)
    places = rng.normal(scale=3, size=(200, columns))
    shares = 1 / np.arange(1, 201)
    chosen = rng.choice(200, size=rows, p=shares / shares.sum())
    return (places[chosen] + rng.normal(size=(rows, columns))).astype(np.float32)


def figures(X: np.ndarray, labels: np.ndarray, clusters: int) -> dict[str, float]:
    """The error of labels with the means of their rows as centers, and the sizes of their clusters."""
    counts = np.bincount(labels, minlength=clusters)
    sums = np.zeros((clusters, X.shape[1]))
    np.add.at(sums, labels, X)
    means = sums / np.maximum(counts, 1)[:, None]
    parts = [((X[i : i + 10_000] - means[labels[i : i + 10_000]]) ** 2).sum() for i in range(0, len(X), 10_000)]
    sizes = counts / counts.mean()
    return {
        "error_of_means": float(sum(parts)),
        "variation": float(sizes.std()),
        "largest": float(sizes.max()),
        "smallest": float(sizes.min()),
    }


def ours(X: np.ndarray, clusters: int, bound: float | None, threads: int, kind: Any = None) -> dict[str, float]:
    model = (kind or dgmm.DGMM)(clusters, max_size=bound, random_state=0, n_threads=threads)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dgmm.ConvergenceWarning)
        model.fit(X)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "error": model.inertia_, **figures(X, model.labels_, clusters)}


def constrained(X: np.ndarray, clusters: int, bound: float) -> dict[str, float]:
    from k_means_constrained import KMeansConstrained

    most = int(bound * len(X) / clusters)
    model = KMeansConstrained(clusters, size_max=most, n_init=1, max_iter=10, random_state=0, n_jobs=1)
    began = time.perf_counter()
    labels = np.asarray(model.fit_predict(X))
    seconds = time.perf_counter() - began
    found = figures(X, labels, clusters)
    return {"seconds": seconds, "error": found["error_of_means"], **found}


def race(contenders: dict[str, Callable[[], dict[str, float]]], rounds: int) -> dict[str, dict[str, float]]:
    """Medians over rounds in which all contenders take turns."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            runs[name].append(run())
    medians = {}
    for name, each in runs.items():
        medians[name] = {key: float(np.median([run[key] for run in each])) for key in each[0]}
    return medians


def table(rows: dict[str, dict[str, float]], first: str) -> list[str]:
    lines = [
        "| fit | seconds | ratio | error | ratio | variation | largest / mean | smallest / mean |",
        "|---|---|---|---|---|---|---|---|",
    ]
    base = rows[first]
    for name, row in rows.items():
        ratios = row["seconds"] / base["seconds"], row["error"] / base["error"]
        lines.append(
            f"| {name} | {row['seconds']:.2f} | {ratios[0]:.2f} | {row['error']:.5g} | {ratios[1]:.4f} | "
            f"{row['variation']:.3f} | {row['largest']:.3f} | {row['smallest']:.3f} |"
        )
    return lines


def report(results: dict[str, Any]) -> str:
    large, small = results["large"], results["small"]
    shape = "{rows:,} x {columns}, {clusters:,} clusters".format
    lines = [
        "# Bounded sizes of clusters",
        "",
        f"Made by `benches/mixtures/balance.py` on {results['machine']}, with {results['threads']} threads; medians of "
        f"{results['rounds']} rounds in which all take turns. The load average at the start was {results['load']:.1f}: "
        "where that is above the number of threads, other work disturbs the times, and ratios say more. The error is "
        "that of the labels, the ratios are to the fit without a bound, and variation is the standard deviation of "
        "sizes over their mean.",
        "",
        f"## {large['name']} ({shape(**large['sizes'])})",
        "",
        *table(large["fits"], "DGMM"),
        "",
        f"## A small problem ({shape(**small['sizes'])})",
        "",
        *table(small["fits"], "KMeans"),
        "",
        "## What others say of theirs (not measured here)",
        "",
        *(f"- {name}: {what}" for name, what in PUBLISHED),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="where glove50.npy is")
    parser.add_argument("--quick", action="store_true", help="small made data, one round")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder of the results")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rounds, load = (1 if args.quick else args.rounds), os.getloadavg()[0]
    file = args.data_dir / "glove50.npy" if args.data_dir and not args.quick else None
    if file is not None:
        X, name, clusters = np.load(file), "GloVe", 4000
    else:
        X, name = made(20_000 if args.quick else 400_000, 20), "Made rows"
        clusters = 200 if args.quick else 4000
    fits = {"DGMM": lambda: ours(X, clusters, None, args.threads)}
    for bound in (2.0, 1.2):
        fits[f"DGMM, max_size={bound}"] = lambda bound=bound: ours(X, clusters, bound, args.threads)
    large = {"name": name, "sizes": {"rows": len(X), "columns": X.shape[1], "clusters": clusters}}
    large["fits"] = race(fits, rounds)
    few, count = (made(1000, 10), 10) if args.quick else (made(5000, 10), 50)
    fits = {"KMeans": lambda: ours(few, count, None, args.threads, dgmm.KMeans)}
    for bound in (2.0, 1.2):
        fits[f"KMeans, max_size={bound}"] = lambda bound=bound: ours(few, count, bound, args.threads, dgmm.KMeans)
        fits[f"DGMM, max_size={bound}"] = lambda bound=bound: ours(few, count, bound, args.threads)
    try:
        peer = f"k-means-constrained {version('k-means-constrained')}"
    except ImportError:
        print("k-means-constrained is not installed: it is left out", file=sys.stderr)
    else:
        for bound in (2.0, 1.2):
            most = int(bound * len(few) / count)
            fits[f"{peer}, size_max={most}"] = lambda bound=bound: constrained(few.astype(np.float64), count, bound)
    small = {"sizes": {"rows": len(few), "columns": 10, "clusters": count}, "fits": race(fits, rounds)}
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs"
    results = {"machine": machine, "threads": args.threads, "rounds": rounds, "load": load, "large": large}
    results["small"] = small
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "balance.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (args.output / "balance.md").write_text(report(results), encoding="utf-8")
    print(report(results))


if __name__ == "__main__":
    main()
