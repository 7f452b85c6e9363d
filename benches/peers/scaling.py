#!/usr/bin/env python3
"""How the default fit of dgmm grows with M, N, D and threads, with fitted exponents, and the goals that follow.

    scaling.py --data-dir DIR [--dataset glove50] [--wide-dataset fashion_mnist] [--parts clusters rows small predict]

Every fit runs in its own process; a figure is the median over the repeats. The results are OUTPUT/scaling.json,
scaling.md and scaling.png.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    ask,
    base_parser,
    check_common,
    library_versions,
    machine_facts,
    machine_lines,
    median_of,
    number,
    save_json,
    say,
    stop_cleanly,
    table,
)
from data import Prepared, exact_error, load, store
from picture import draw_scaling
from scaling_goals import goal_lines

PARTS = ("clusters", "rows", "columns", "threads", "small", "predict")
AXES = {"clusters": "clusters M", "rows": "rows N", "columns": "columns D", "threads": "threads"}
SIZES = {
    False: {
        "clusters": (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000),
        "rows": (25_000, 50_000, 100_000, 200_000, 400_000),
        "columns": (16, 49, 98, 196, 392, 784),
        "fixed_clusters": 1_000,
        "thread_clusters": 4_000,
        "small": (8, 20, 50, 100),
        "small_fits": 15,
        "predict": 16_000,
    },
    True: {
        "clusters": (20, 40, 80),
        "rows": (1_500, 3_000, 6_000),
        "columns": (4, 8, 16),
        "fixed_clusters": 30,
        "thread_clusters": 30,
        "small": (8, 20),
        "small_fits": 2,
        "predict": 60,
    },
}
SMALL_ROWS = 10_000
SMALL_SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "scikit-learn, 20 iterations": ("sklearn.cluster.KMeans", {"max_iter": 20, "tol": 0.0}),
    "dgmm.KMeans, 20 iterations": ("dgmm.KMeans", {"max_iter": 20, "tol": 0.0}),
    "scikit-learn, defaults": ("sklearn.cluster.KMeans", {}),
    "dgmm.KMeans, defaults": ("dgmm.KMeans", {}),
    "dgmm.DGMM, defaults": ("dgmm.DGMM", {}),
}


def power(points: list[dict[str, Any]]) -> tuple[float, float]:
    """Least squares of log seconds on log value: exponent and factor."""
    pairs = [(p["value"], p["seconds"]) for p in points if math.isfinite(p["seconds"])]
    if len(pairs) < 2:
        return math.nan, math.nan
    value, seconds = np.log(np.array(pairs, dtype=np.float64)).T
    exponent, constant = np.polyfit(value, seconds, 1)
    return float(exponent), float(math.exp(constant))


class Study:
    def __init__(self, args: argparse.Namespace, scratch: Path) -> None:
        self.args, self.scratch, self.sizes = args, scratch, SIZES[args.quick]
        folder = args.data_dir or Path()
        self.x, self.scaling = load(args.dataset, folder)
        self.wide, self.wide_scaling = load(args.wide_dataset, folder)
        self.results: dict[str, Any] = {
            "settings": {
                k: getattr(args, k) for k in ("dataset", "wide_dataset", "parts", "repeats", "threads", "quick")
            },
            "machine": machine_facts(),
            "versions": library_versions(("dgmm", "sklearn.cluster"), scratch),
            "sweeps": [],
            "small": [],
            "predict": [],
            "measurements": [],
        }

    def subset(self, rows: int) -> np.ndarray:
        """Random rows, the smaller subsets inside the larger ones."""
        order = np.random.default_rng(0).permutation(len(self.x))
        return self.x[np.sort(order[:rows])]

    def fit(self, data: Prepared, clusters: int, threads: int, repeat: int, key: dict[str, Any]) -> None:
        request = {"operation": "fit", "contender": "dgmm", "data": data.path, "clusters": clusters}
        request |= {"threads": threads, "seed": repeat, "centers": str(self.scratch / "centers.npy")}
        answer = ask(request, self.args.time_limit, self.scratch)
        self.results["measurements"].append(key | {"repeat": repeat} | answer)
        say(f"{key} repeat {repeat}: {answer.get('seconds', answer)}")

    def sweep(self, axis: str, title: str, cases: list[tuple[int, Prepared, int, int]]) -> None:
        """`cases` are (value on the axis, data, clusters, threads), which take turns over the repeats."""
        for repeat in range(self.args.repeats):
            for value, data, clusters, threads in cases:
                self.fit(data, clusters, threads, repeat, {"part": axis, "value": value})
        points = []
        for value, *_ in cases:
            runs = [m for m in self.results["measurements"] if m["part"] == axis and m["value"] == value]
            points.append({"value": value, "seconds": median_of(runs, "seconds"), "runs": len(runs)})
        exponent, factor = power(points)
        self.results["sweeps"].append(
            {"part": axis, "axis": AXES[axis], "title": title, "points": points, "exponent": exponent, "factor": factor}
        )

    def clusters(self) -> None:
        data = store("all", self.x, self.scaling, self.scratch)
        cases = [(m, data, m, self.args.threads) for m in self.sizes["clusters"] if m <= data.rows]
        self.sweep("clusters", f"{self.args.dataset}, {data.rows:,} x {data.columns}", cases)

    def rows(self) -> None:
        m = self.sizes["fixed_clusters"]
        sizes = [n for n in self.sizes["rows"] if m <= n <= len(self.x)]
        cases = [
            (n, store(f"rows{n}", self.subset(n), self.scaling, self.scratch), m, self.args.threads) for n in sizes
        ]
        self.sweep("rows", f"{self.args.dataset}, D = {self.x.shape[1]}, M = {m:,}", cases)

    def columns(self) -> None:
        m, wide = self.sizes["fixed_clusters"], self.wide
        order = np.random.default_rng(0).permutation(wide.shape[1])
        sizes = [d for d in self.sizes["columns"] if d <= wide.shape[1]]
        stored = [store(f"columns{d}", wide[:, np.sort(order[:d])], self.wide_scaling, self.scratch) for d in sizes]
        cases = [(s.columns, s, m, self.args.threads) for s in stored]
        self.sweep("columns", f"{self.args.wide_dataset}, N = {len(wide):,}, M = {m:,}", cases)

    def threads(self) -> None:
        m = self.sizes["thread_clusters"]
        data = store("all", self.x, self.scaling, self.scratch)
        counts = sorted({1, *(2**k for k in range(1, 12) if 2**k <= self.args.threads), self.args.threads})
        self.sweep(
            "threads",
            f"{self.args.dataset}, {data.rows:,} x {data.columns}, M = {m:,}",
            [(t, data, m, t) for t in counts],
        )

    def small(self) -> None:
        """Small problems from the same starting rows: our estimators and scikit-learn's KMeans."""
        x = self.subset(SMALL_ROWS)
        narrow = np.ascontiguousarray(x[:, : max(2, x.shape[1] // 6)])
        for name, part in (("all columns", x), ("few columns", narrow)):
            data = store("small", part, self.scaling, self.scratch)
            for clusters in self.sizes["small"]:
                start = self.scratch / "start.npy"
                np.save(start, part[np.random.default_rng(clusters).choice(len(part), clusters, replace=False)])
                self.results["small"] += self.small_case(data, part, start, clusters, name)

    def small_case(self, data: Prepared, x: np.ndarray, start: Path, clusters: int, name: str) -> list[dict[str, Any]]:
        rows = {label: [] for label in SMALL_SETTINGS}
        centers = self.scratch / "centers.npy"
        for repeat in range(self.args.repeats):
            for label, (estimator, settings) in SMALL_SETTINGS.items():
                request = {"operation": "small", "estimator": estimator, "settings": settings, "data": data.path}
                request |= {
                    "start": str(start),
                    "threads": self.args.threads,
                    "seed": repeat,
                    "inner": self.sizes["small_fits"],
                }
                answer = ask(request | {"centers": str(centers)}, self.args.time_limit, self.scratch)
                if answer["status"] == "ok":
                    answer["error"] = exact_error(x, np.load(centers))
                rows[label].append(answer)
                say(f"small {name} M={clusters} {label}: {answer}")
        shape = {"data": name, "rows": data.rows, "columns": data.columns, "clusters": clusters}
        return [
            shape
            | {"label": label, "seconds": median_of(runs, "seconds"), "error": median_of(runs, "error"), "runs": runs}
            for label, runs in rows.items()
        ]

    def predict(self) -> None:
        data = store("all", self.x, self.scaling, self.scratch)
        m = min(self.sizes["predict"], data.rows)
        request = {"operation": "predict", "data": data.path, "clusters": m, "threads": self.args.threads, "inner": 3}
        for repeat in range(self.args.repeats):
            answer = ask(request | {"seed": repeat}, self.args.time_limit, self.scratch)
            self.results["predict"].append({"clusters": m, "repeat": repeat} | answer)
            say(f"predict M={m}: {answer}")


def markdown(results: dict[str, Any]) -> str:
    parts = ["# How the default fit scales", "", *machine_lines(results), "", "Goals, from these measurements:", ""]
    results["goals"] = goal_lines(results)
    parts += [f"- {line}" for line in results["goals"]] + [""]
    for sweep in results["sweeps"]:
        failed = [m for m in results["measurements"] if m["part"] == sweep["part"] and m["status"] != "ok"]
        parts += [f"## Seconds against {sweep['axis']} ({sweep['title']})", ""]
        parts += [
            table([sweep["axis"], "seconds"], [(f"{p['value']:,}", number(p["seconds"])) for p in sweep["points"]])
        ]
        parts += ["", f"Fitted exponent: {number(sweep['exponent'])}.", ""]
        parts += [f"- {m['value']:,}: {m['status']}, {m.get('reason', '')}" for m in failed] + [""] * bool(failed)
    if results["small"]:
        header = ["columns", "M", "contender", "seconds", "error"]
        rows = [
            (r["columns"], r["clusters"], r["label"], number(r["seconds"]), f"{r['error']:.5e}")
            for r in results["small"]
        ]
        parts += [f"## Small problems ({results['small'][0]['rows']:,} rows, same start)", "", table(header, rows), ""]
    return "\n".join(parts)


def main() -> None:
    parser = base_parser(__doc__.splitlines()[0])
    parser.add_argument("--dataset", help="for M, N, threads, small problems and predict (default glove50)")
    parser.add_argument("--wide-dataset", help="for D (default fashion_mnist)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to run (default: all)")
    args = parser.parse_args()
    args.dataset = args.dataset or ("made" if args.quick else "glove50")
    args.wide_dataset = args.wide_dataset or ("made" if args.quick else "fashion_mnist")
    if args.quick:
        args.repeats = 1
    check_common(parser, args, needs_data={args.dataset, args.wide_dataset} != {"made"})
    args.output.mkdir(parents=True, exist_ok=True)
    stop_cleanly()
    with tempfile.TemporaryDirectory() as folder:
        try:
            study = Study(args, Path(folder))
        except (OSError, ValueError, KeyError) as error:
            parser.error(str(error))
        for part in args.parts:
            getattr(study, part)()
            save_json(args.output / "scaling.json", study.results)
    text = markdown(study.results)
    save_json(args.output / "scaling.json", study.results)
    (args.output / "scaling.md").write_text(text)
    draw_scaling(study.results["sweeps"], args.output / "scaling.png")
    print(text)


if __name__ == "__main__":
    main()
