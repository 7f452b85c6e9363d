#!/usr/bin/env python3
"""Very many clusters: seconds, memory and error of dgmm with 10,000 to 1,000,000, and of SuperKMeans with 100,000.

The error is the mean squared distance of 4,096 random rows to the nearest of all centers: over all rows it would take
hours. `made` is 5,000,000 x 32, overlapping blobs of different sizes.
"""

from __future__ import annotations

import argparse
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
from data import Prepared, exact_error, load, made, store

OURS, PEER = ("dgmm-quick", "dgmm"), "superkmeans"
JUDGED = 4096
GROWTH, MEMORY = 4.0, 2.0
CASES = (
    ("made", (10_000, 100_000, 1_000_000), OURS),
    ("glove50", (100_000,), (*OURS, PEER)),
    ("sift", (100_000,), (*OURS, PEER)),
)
QUICK = (("made", (100, 300, 1_000), (*OURS, PEER)),)


def rows_of(name: str, args: argparse.Namespace, scratch: Path) -> Prepared:
    if name == "made":
        x, scaling = (made() if args.quick else made(5_000_000, 32, 50_000)), "raw"
    else:
        x, scaling = load(name, args.data_dir)
    return store(name, x, scaling, scratch)


def measure(data: Prepared, clusters: int, name: str, repeat: int, args: argparse.Namespace, scratch: Path) -> Any:
    centers = scratch / "centers.npy"
    request = {"operation": "fit", "contender": name, "data": data.path, "clusters": clusters}
    answer = ask(request | {"threads": args.threads, "seed": repeat, "centers": str(centers)}, args.time_limit, scratch)
    key = {"dataset": data.name, "clusters": clusters, "contender": name, "repeat": repeat}
    if answer["status"] == "ok":
        chosen = np.sort(np.random.default_rng(0).permutation(data.rows)[:JUDGED])
        judged = np.ascontiguousarray(np.load(data.path, mmap_mode="r")[chosen])
        answer["error"] = exact_error(judged, np.load(centers)) / len(judged)
    say(f"{key}: {answer}")
    return key | answer


def runs_of(results: dict[str, Any], dataset: str, clusters: int, name: str) -> list[dict[str, Any]]:
    wanted = (dataset, clusters, name)
    return [m for m in results["measurements"] if (m["dataset"], m["clusters"], m["contender"]) == wanted]


def goals(results: dict[str, Any]) -> list[str]:
    """The project's goals for very many clusters, and whether they are met."""
    lines = []
    for dataset in results["data"]:
        sizes = sorted({m["clusters"] for m in results["measurements"] if m["dataset"] == dataset})
        for name in OURS:
            seconds = [median_of(runs_of(results, dataset, m, name), "seconds") for m in sizes]
            if len(sizes) > 1:
                word = "met" if seconds[-1] < GROWTH * seconds[0] else "not met"
                growth = number(seconds[-1] / seconds[0])
                lines.append(
                    f"- {word}; {dataset}, {name}: from M = {sizes[0]:,} to {sizes[-1]:,} the seconds grow {growth} "
                    f"times (target below {GROWTH:g})"
                )
            peak = max(median_of(runs_of(results, dataset, m, name), "peak_bytes") for m in sizes)
            ratio = peak / results["data"][dataset]["bytes"]
            word = "met" if ratio < MEMORY else "not met"
            lines.append(
                f"- {word}; {dataset}, {name}: at most {number(ratio)} times the input (target below {MEMORY:g})"
            )
    return lines


def page(results: dict[str, Any]) -> str:
    rows = []
    for dataset, clusters, name in dict.fromkeys(
        (m["dataset"], m["clusters"], m["contender"]) for m in results["measurements"]
    ):
        runs = runs_of(results, dataset, clusters, name)
        facts = results["data"][dataset]
        seconds, peak, error = (median_of(runs, key) for key in ("seconds", "peak_bytes", "error"))
        size = f"{dataset}, {facts['rows']:,} x {facts['columns']}"
        note = next((m["reason"] for m in runs if m["status"] != "ok"), "")
        cells = (number(seconds), number(error, 4), number(peak / facts["bytes"]))
        rows.append((size, f"{clusters:,}", name, *cells, note))
    header = ("data", "M", "contender", "seconds", "mean squared distance", "memory above input / input", "note")
    parts = ["# Very many clusters", *machine_lines(results), "\n".join(goals(results)), table(header, rows)]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    stop_cleanly()
    parser = base_parser((__doc__ or "").splitlines()[0])
    args = parser.parse_args()
    check_common(parser, args, needs_data=not args.quick)
    args.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        results: dict[str, Any] = {
            "settings": {key: getattr(args, key) for key in ("repeats", "threads", "quick")},
            "machine": machine_facts(),
            "versions": library_versions(("dgmm", "superkmeans"), scratch),
            "data": {},
            "measurements": [],
        }
        for name, sizes, contenders in QUICK if args.quick else CASES:
            data = rows_of(name, args, scratch)
            results["data"][name] = data.facts()
            results["measurements"] += [
                measure(data, clusters, contender, repeat, args, scratch)
                for repeat in range(args.repeats)
                for clusters in sizes
                for contender in contenders
            ]
    save_json(args.output / "many_clusters.json", results)
    (args.output / "many_clusters.md").write_text(page(results))
    print(page(results))


if __name__ == "__main__":
    main()
