"""Seconds per iteration of soft EM over all clusters, compared with k-means and scikit-learn's mixtures.

    python benches/mixtures/few_components.py [--quick] [--output FOLDER]

Every contender starts from the same rows as centers. The time of a fit of one iteration is subtracted from that of
many, so that the start and the labels do not count. The contenders take turns in two threads, and medians are compared,
so that a slow moment of the machine meets them all. The mean log-likelihood per row stands beside the seconds;
`ExactGMM` has one variance for all clusters, scikit-learn's mixture one for each column of each.

Writes few_components.json and few_components.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dgmm
import numpy as np
import sklearn
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

RESULTS = Path(__file__).parent / "results"
THREADS = 2
# Iterations after which models are compared, and how many times as many are timed if an iteration is short.
ITERATIONS = 6
MORE = {True: 6, False: 1}
SIZES = [(100_000, 16, 200), (100_000, 16, 50), (20_000, 64, 200)]
QUICK = [(2_000, 4, 10)]
HARD = "dgmm.KMeans"
SOFT = "dgmm.ExactGMM"
PEER = 'GaussianMixture("diag")'
GOALS = {"soft_over_hard": 3.0, "diag_over_soft": 5.0}


def rows_of(rows: int, columns: int) -> Any:
    """Rows of unit spread around 2,000 points of spread 2, float32: clusters that overlap."""
    rng = np.random.default_rng(0)
    centers = rng.uniform(-3.5, 3.5, size=(2000, columns))
    noise = rng.uniform(-1.75, 1.75, size=(rows, columns))
    return (centers[rng.integers(2000, size=rows)] + noise).astype(np.float32)


def contenders(X: Any, clusters: int) -> dict[str, Callable[[int], Any]]:
    """Fits of as many iterations as asked for."""
    start = X[:clusters]

    def own(kind: Any) -> Callable[[int], Any]:
        return lambda n: kind(clusters, init=start, max_iter=n, tol=0, n_threads=THREADS).fit(X)

    def peer(n: int) -> Any:
        # Given means alone, scikit-learn would begin with a run of k-means.
        model = GaussianMixture(clusters, covariance_type="diag", means_init=start, init_params="random_from_data")
        return model.set_params(max_iter=n, tol=0, random_state=0).fit(X)

    return {HARD: own(dgmm.KMeans), SOFT: own(dgmm.ExactGMM), PEER: peer}


def seconds_of(fit: Callable[[int], Any], iterations: int) -> tuple[float, float]:
    """Seconds per iteration, and those of all threads of the process."""
    wall, cpu = [], []
    for n in (1, 1 + iterations):
        began, worked = time.perf_counter(), time.process_time()
        model = fit(n)
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - worked)
        if model.n_iter_ != n:
            raise SystemExit(f"{model.n_iter_} iterations instead of {n}")
    return (wall[1] - wall[0]) / iterations, (cpu[1] - cpu[0]) / iterations


def measure(size: tuple[int, int, int], turns: int) -> dict[str, Any]:
    rows, columns, clusters = size
    X = rows_of(rows, columns)
    ways = contenders(X, clusters)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    likelihood: dict[str, float | None] = {}
    for name, fit in ways.items():
        model = fit(ITERATIONS)
        likelihood[name] = None if name == HARD else float(np.mean(model.score_samples(X)))
    for _ in range(turns):
        for name, fit in ways.items():
            each, worked = seconds_of(fit, ITERATIONS * MORE[name.startswith("dgmm")])
            seconds[name].append(each)
            cpu[name].append(worked)
    result: dict[str, Any] = {"rows": rows, "columns": columns, "clusters": clusters, "log_likelihood": likelihood}
    for kind, values in (("wall", seconds), ("cpu", cpu)):
        medians = {name: statistics.median(each) for name, each in values.items()}
        result[kind] = {
            "seconds": values,
            "medians": medians,
            "soft_over_hard": medians[SOFT] / medians[HARD],
            "diag_over_soft": medians[PEER] / medians[SOFT],
        }
        print(size, kind, {name: round(1e3 * value, 2) for name, value in medians.items()}, flush=True)
    return result


def page(found: dict[str, Any]) -> str:
    lines = [
        "# Soft EM over all clusters",
        "",
        f"Made by `benches/mixtures/few_components.py`: float32, {found['threads']} threads, load {found['load']:.1f} "
        f"on {found['cpus']} CPUs at the start, scikit-learn {found['scikit_learn']}. Medians of {found['turns']} "
        f"turns, and the mean log-likelihood after {ITERATIONS} iterations. CPU: of all threads, which a busy "
        "machine changes less.",
        "",
        "| data | M | contender | ms per iteration | CPU ms | CPU times `ExactGMM` | mean log-likelihood |",
        "|---|---|---|---|---|---|---|",
    ]
    for size in found["sizes"]:
        for name, seconds in size["wall"]["medians"].items():
            score, cpu = size["log_likelihood"][name], size["cpu"]["medians"]
            lines.append(
                f"| {size['rows']:,} x {size['columns']} | {size['clusters']} | {name} | {1e3 * seconds:.1f} "
                f"| {1e3 * cpu[name]:.1f} | {cpu[name] / cpu[SOFT]:.2f} | {'' if score is None else f'{score:.3f}'} |"
            )
    for kind, word in (("wall", "time"), ("cpu", "CPU time")):
        first = found["sizes"][0][kind]
        lines += [
            "",
            f"The first size, by {word}: `ExactGMM` takes {first['soft_over_hard']:.2f} times as long as `KMeans` "
            f"(goal: at most {GOALS['soft_over_hard']:g}), and `{PEER}` {first['diag_over_soft']:.1f} times as long as "
            f"`ExactGMM` (goal: at least {GOALS['diag_over_soft']:g}).",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small size, to see that it runs")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results (default: %(default)s)")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    turns = 1 if args.quick else 5
    found: dict[str, Any] = {"threads": THREADS, "cpus": os.cpu_count(), "load": os.getloadavg()[0], "turns": turns}
    with threadpool_limits(THREADS):
        sizes = [measure(size, turns) for size in (QUICK if args.quick else SIZES)]
    found |= {"scikit_learn": sklearn.__version__, "sizes": sizes}
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "few_components.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (args.output / "few_components.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
