"""Dask with two single-threaded workers against the local fit with two threads, and against dask-ml's KMeans.

    python benches/distributed/dask_race.py --peer PYTHON

PYTHON is an interpreter with dask-ml (`pip install dask-ml`), not necessarily with dgmm; without it, that race is left
out. Writes `results/dask_race.json` and `results/dask_race.md` beside this file. Every contender runs in its
own process and gets the same rows, which are loaded before the clock starts; the error is that of its centers over all
rows, by exact search.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
THREADS = 2


def block(rows: int, columns: int, number: int) -> np.ndarray:
    """Rows of different norms whose columns have decreasing variance, like most data after PCA."""
    random = np.random.default_rng([7, number])
    places = np.random.default_rng(7).standard_normal((5000, columns), dtype=np.float32)
    scale = np.exp(0.5 * random.standard_normal((rows, 1), dtype=np.float32))
    made = random.standard_normal((rows, columns), dtype=np.float32) * scale
    made += 2 * places[random.integers(len(places), size=rows)]
    return made / np.sqrt(1 + np.arange(columns, dtype=np.float32))


def sizes(rows: int, partitions: int) -> list[int]:
    return [len(part) for part in np.array_split(np.arange(rows), partitions)]


def lazy_rows(args: argparse.Namespace):
    """The rows as a Dask array that is loaded on the workers."""
    import dask
    import dask.array as da
    from distributed import wait

    lengths = sizes(args.rows, args.partitions)
    parts = [dask.delayed(block)(length, args.columns, i) for i, length in enumerate(lengths)]
    shapes = [(length, args.columns) for length in lengths]
    made = da.concatenate([da.from_delayed(p, s, "float32") for p, s in zip(parts, shapes, strict=True)]).persist()
    wait(made)
    return made


def cluster():
    from distributed import LocalCluster

    return LocalCluster(n_workers=THREADS, threads_per_worker=1, dashboard_address=None, memory_limit=0)


def run_local(args: argparse.Namespace) -> dict:
    import dgmm

    X = np.concatenate([block(n, args.columns, i) for i, n in enumerate(sizes(args.rows, args.partitions))])
    dgmm.DGMM(50, random_state=0, n_threads=THREADS).fit(X[:10_000])  # the first fit of a process warms it up
    began = time.perf_counter()
    model = dgmm.DGMM(args.clusters, random_state=args.seed, n_threads=THREADS).fit(X)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "iterations": model.n_iter_, "centers": model.cluster_centers_}


def run_dask(args: argparse.Namespace) -> dict:
    import dgmm.dask
    from dgmm._dask_fleet import Fleet
    from distributed import Client

    sent: list[tuple[int, int]] = []
    advance = Fleet.advance

    def measured(self, round):
        total = advance(self, round)
        sent.append((round, total))
        return total

    with cluster() as made, Client(made):
        X = lazy_rows(args)
        dgmm.dask.DGMM(50, random_state=0).fit(X[:10_000])
        Fleet.advance = measured
        began = time.perf_counter()
        model = dgmm.dask.DGMM(args.clusters, random_state=args.seed).fit(X)
        seconds = time.perf_counter() - began
    sent = [(len(pickle.dumps(round)), len(pickle.dumps(total))) for round, total in sent]
    return {"seconds": seconds, "iterations": model.n_iter_, "sent": sent, "centers": model.cluster_centers_}


def run_dask_ml(args: argparse.Namespace) -> dict:
    from dask_ml.cluster import KMeans
    from distributed import Client

    with cluster() as made, Client(made):
        X = lazy_rows(args)
        began = time.perf_counter()
        model = KMeans(args.clusters, init="random", max_iter=10, random_state=args.seed).fit(X)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "iterations": int(model.n_iter_), "centers": np.asarray(model.cluster_centers_)}


CONTENDERS = {"local": run_local, "dask": run_dask, "dask-ml": run_dask_ml}


def race(args: argparse.Namespace) -> dict:
    """Run every contender in its own process, in turns."""
    pythons = {"local": sys.executable, "dask": sys.executable} | ({"dask-ml": args.peer} if args.peer else {})
    runs: dict[str, list[dict]] = {name: [] for name in pythons}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.repeats):
            for name, python in pythons.items():
                out = Path(folder) / f"{name}-{turn}.pickle"
                command = [python, __file__, "--contender", name, "--out", str(out), "--seed", str(turn)]
                for option in ("rows", "columns", "clusters", "partitions"):
                    command += [f"--{option}", str(getattr(args, option))]
                subprocess.run(command, check=True)
                run = pickle.loads(out.read_bytes())
                run["error"] = error_of(run.pop("centers"), args)
                runs[name].append(run)
                print(name, f"{run['seconds']:.2f} s, error {run['error']:.6g}", flush=True)
    return runs


def error_of(centers: np.ndarray, args: argparse.Namespace) -> float:
    import dgmm

    parts = enumerate(sizes(args.rows, args.partitions))
    centers = centers.astype(np.float32)
    return sum(dgmm.quantization_error(block(n, args.columns, i), centers) for i, n in parts)


def summarize(runs: dict, args: argparse.Namespace) -> dict:
    """Medians over the turns; in each turn all contenders run one after another with the same seed."""
    seconds = {name: float(np.median([run["seconds"] for run in some])) for name, some in runs.items()}
    error = {name: float(np.mean([run["error"] for run in some])) for name, some in runs.items()}
    later = [bytes_over_allowed(pair, run["sent"], args) for run in runs["dask"] for pair in run["sent"][1:]]
    figures = {
        "dask_over_local": of_turns(runs, "dask", "local"),
        "error_dask_over_local": error["dask"] / error["local"],
        "bytes_per_worker_and_iteration": max(sum(pair) for run in runs["dask"] for pair in run["sent"][1:]),
        "bytes_over_allowed": max(later),
        "first_bytes_over_allowed": max(bytes_over_allowed(run["sent"][0], run["sent"], args) for run in runs["dask"]),
    }
    if "dask-ml" in runs:
        figures["dask_ml_over_dask"] = of_turns(runs, "dask-ml", "dask")
        figures["error_dask_over_dask_ml"] = error["dask"] / error["dask-ml"]
    sizes_of = {name: getattr(args, name) for name in ("rows", "columns", "clusters", "partitions")}
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[2]}
    return {"sizes": sizes_of, "machine": machine, "seconds": seconds, "error": error, "figures": figures, "runs": runs}


def of_turns(runs: dict, name: str, other: str) -> float:
    """The median ratio of two contenders' seconds in the same turn, because the load of a machine changes."""
    pairs = zip(runs[name], runs[other], strict=True)
    return float(np.median([one["seconds"] / two["seconds"] for one, two in pairs]))


def bytes_over_allowed(pair: tuple[int, int], sent: list[tuple[int, int]], args: argparse.Namespace) -> float:
    """What a round and its statistics take, over 12 M D and what they hold of S; those of the first round hold none."""
    without = min(statistics for _, statistics in sent)
    entries = pair[1] - without
    # Only a round that is larger than the centers by this much can contain S.
    entries += max(0, pair[0] - min(round for round, _ in sent)) if pair != sent[0] else 0
    return sum(pair) / (12 * args.clusters * args.columns + entries)


GOALS = [
    ("dask_over_local", "time of Dask over the local fit", "at most", 1.5),
    ("dask_ml_over_dask", "time of dask-ml over ours", "at least", 10),
    ("error_dask_over_dask_ml", "our error over that of dask-ml", "at most", 1.0),
    ("bytes_over_allowed", "bytes per worker and iteration over 12 M D + entries of S", "at most", 1.1),
    (
        "first_bytes_over_allowed",
        "the same in the first iteration, with the cells to look in first",
        "at most",
        1.1,
    ),
]


def page(result: dict) -> str:
    """The results as a Markdown page."""
    names = {
        "local": "dgmm.DGMM, 2 threads",
        "dask": "dgmm.dask.DGMM",
        "dask-ml": "dask-ml KMeans, random, 10 iterations",
    }
    of = result["sizes"]
    lines = [
        "# Dask with two single-threaded workers",
        "",
        f"{of['rows']:,} x {of['columns']} float32, {of['clusters']:,} clusters, {of['partitions']} partitions. "
        "Medians of the runs; quotients of times are medians of those in the same turn; error: the mean; dask-ml makes "
        f"10 iterations. Load of the machine in the last 15 minutes: {result['machine']['load']:.1f} on "
        f"{result['machine']['cpus']} CPUs, these runs included. Made by "
        "`benches/distributed/dask_race.py`.",
        "",
        "| contender | seconds | error | runs |",
        "|---|---|---|---|",
    ]
    for name, seconds in result["seconds"].items():
        runs = len(result["runs"][name])
        lines.append(f"| {names[name]} | {seconds:.2f} | {result['error'][name]:.6g} | {runs} |")
    lines += ["", "| figure | goal | measured | |", "|---|---|---|---|"]
    for key, what, kind, goal in GOALS:
        if key in result["figures"]:
            value = result["figures"][key]
            met = value <= goal if kind == "at most" else value >= goal
            lines.append(f"| {what} | {kind} {goal} | {value:.4g} | {'met' if met else 'not met'} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="an interpreter that has dask-ml")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=32)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=HERE / "results")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        args.out.write_bytes(pickle.dumps(CONTENDERS[args.contender](args)))
        return
    result = summarize(race(args), args)
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / "dask_race.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (args.folder / "dask_race.md").write_text(page(result), encoding="utf-8")
    print(page(result))


if __name__ == "__main__":
    main()
