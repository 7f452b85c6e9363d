#!/usr/bin/env python3
"""Seconds against exact quantization error: dgmm at several settings and other libraries.

    pareto.py --data-dir DIR --race [--resume]
    pareto.py --data-dir DIR --datasets glove50 covtype --clusters 1000 4000 [--libraries dgmm faiss superkmeans]

`--race` is the complete race of `plan.py`. Every measurement runs in its own process, all with the same number of
threads and CPUs; the contenders take turns, and a figure is the median over the repeats, each with its own seed.
Seconds include the seeding and exclude the loading. The results are OUTPUT/pareto.json (every measurement, saved after
each), pareto.md (tables and goals), pareto.png (the picture of a few problems) and pareto-all.png.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    Measurement,
    OneLineParser,
    ask,
    base_parser,
    check_common,
    library_versions,
    machine_facts,
    machine_lines,
    median_of,
    number,
    positive_int,
    save_json,
    say,
    stop_cleanly,
    table,
)
from contenders import CONTENDERS, Contender, chosen
from data import Prepared, exact_error, prepare
from goals import Median, Panel, panels, summary, verdicts
from headline import ahead_lines, reach_lines
from picture import draw_pareto
from plan import HEADLINE, RACE, Case, given


def parser() -> OneLineParser:
    parser = base_parser(__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", help="names of files in the data folder, or: made, cifar_patches")
    parser.add_argument("--clusters", nargs="+", type=positive_int, help="numbers of clusters")
    parser.add_argument("--libraries", nargs="+", help="libraries or single contenders (default: all)")
    parser.add_argument("--race", action="store_true", help="the complete race: the problems and repeats of plan.py")
    parser.add_argument("--before", type=Path, help="Python of an environment with an earlier dgmm, for `dgmm-before`")
    parser.add_argument("--resume", action="store_true", help="keep what OUTPUT/pareto.json holds already")
    parser.add_argument("--report", action="store_true", help="write table, goals and picture of OUTPUT/pareto.json")
    return parser


def checked(args: argparse.Namespace, parser: OneLineParser) -> list[Case]:
    """Check the arguments and return the problems to run."""
    if args.quick:
        args.repeats = 1
        args.datasets, args.clusters = args.datasets or ["made"], args.clusters or [30]
    if not (args.report or args.race) and not (args.datasets and args.clusters):
        parser.error("--datasets and --clusters are needed (or --race, --quick, or --report)")
    check_common(parser, args, needs_data=not args.report and args.datasets != ["made"])
    if (args.report or args.resume) and not (args.output / "pareto.json").exists():
        parser.error(f"no pareto.json in {args.output}")
    if args.before is not None and not args.before.is_file():
        parser.error(f"--before {args.before} is not a file")
    try:
        names = [contender.name for contender in chosen(args.libraries, args.quick)]
    except ValueError as error:
        parser.error(str(error))
    if args.race:
        return race_cases(args, names if args.libraries else None)
    return given(args.datasets or [], args.clusters or [], names, args.repeats)


def race_cases(args: argparse.Namespace, names: list[str] | None) -> list[Case]:
    """The complete race, or those of its problems and contenders that the arguments name."""
    cases = []
    for case in RACE:
        repeats = {name: count for name, count in case.repeats.items() if names is None or name in names}
        if (not args.datasets or case.dataset in args.datasets) and (
            not args.clusters or case.clusters in args.clusters
        ):
            cases.append(Case(case.dataset, case.clusters, repeats))
    return cases


def hopeless(contender: Contender, clusters: int, name: str, done: list[Measurement], limit: float) -> str | None:
    """The reason not to start a contender: it exceeded the limit, or came close, with fewer clusters."""
    before = [m for m in done if m["contender"] == contender.name and m["dataset"] == name and m["clusters"] < clusters]
    if not before or not contender.linear:
        return None
    largest = max(m["clusters"] for m in before)
    last = [m for m in before if m["clusters"] == largest]
    if any(m["status"] == "over the limit" for m in last):
        return f"not started: over the limit at M = {largest}"
    expected = median_of(last, "seconds") * clusters / largest
    return f"not started: {expected:.0f} s expected from M = {largest}" if expected > limit else None


class Race:
    """All measurements of one run, kept in `results` and saved after each."""

    def __init__(self, args: argparse.Namespace, cases: list[Case], scratch: Path) -> None:
        self.args, self.cases, self.scratch = args, cases, scratch
        contenders = [c for c in CONTENDERS.values() if any(c.name in case.repeats for case in cases)]
        self.results: dict[str, Any] = {
            "settings": {k: getattr(args, k) for k in ("repeats", "threads", "time_limit", "quick", "race")},
            "machine": machine_facts(),
            "versions": library_versions((c.module for c in contenders), scratch),
            "contenders": {c.name: {"library": c.library, "call": c.call} for c in contenders},
            "data": {},
            "measurements": [],
        }
        if args.resume:
            self.take_up(json.loads((args.output / "pareto.json").read_text()))

    def take_up(self, old: dict[str, Any]) -> None:
        """Continue earlier results of the same machine."""
        if (old["machine"]["cpu"], old["settings"]["threads"]) != (self.results["machine"]["cpu"], self.args.threads):
            raise ValueError("pareto.json is of another machine or number of threads: choose another --output")
        self.results["measurements"] = old["measurements"]
        self.results["machine"] = old["machine"]
        for key in ("data", "contenders", "versions"):
            self.results[key] = old[key] | self.results[key]

    @property
    def done(self) -> list[Measurement]:
        return self.results["measurements"]

    def measure(self, contender: Contender, data: Prepared, x: np.ndarray, clusters: int, repeat: int) -> None:
        key = {"dataset": data.name, "clusters": clusters, "contender": contender.name, "repeat": repeat}
        earlier = [m for m in self.done if all(m[k] == key[k] for k in ("dataset", "clusters", "contender"))]
        if any(m["repeat"] == repeat or m["status"] != "ok" for m in earlier):
            return
        answer = self.answer(contender, data, clusters, repeat)
        centers = self.scratch / "centers.npy"
        if answer["status"] == "ok":
            answer["error"] = exact_error(x, np.load(centers))
        self.done.append(key | {"seed": repeat} | answer)
        save_json(self.args.output / "pareto.json", self.results)
        words = f"{answer['seconds']:.3f} s, error {answer['error']:.5e}" if answer["status"] == "ok" else answer
        say(f"{data.name} M={clusters} repeat {repeat} {contender.name}: {words}")

    def answer(self, contender: Contender, data: Prepared, clusters: int, repeat: int) -> dict[str, Any]:
        if contender.before and self.args.before is None:
            return {"status": "not installed", "reason": "needs --before"}
        if not self.results["versions"][contender.module].get("version"):
            return {"status": "not installed", "reason": self.results["versions"][contender.module].get("reason")}
        if reason := hopeless(contender, clusters, data.name, self.done, self.args.time_limit):
            return {"status": "over the limit", "reason": reason}
        request = {"operation": "fit", "contender": contender.name, "data": data.path, "clusters": clusters}
        request |= {"threads": self.args.threads, "seed": repeat, "centers": str(self.scratch / "centers.npy")}
        return ask(request, self.args.time_limit, self.scratch, self.args.before if contender.before else None)

    def run(self, case: Case, data: Prepared) -> None:
        """Run the contenders in turns; each round begins with another one."""
        self.results["data"][data.name] = data.facts()
        if case.clusters > data.rows:
            say(f"{data.name} has {data.rows} rows: M = {case.clusters} is left out")
            return
        x = np.load(data.path)
        names = [name for name in CONTENDERS if name in case.repeats]
        rounds = max(case.repeats.values(), default=0)
        for repeat in range(rounds):
            turn = repeat * len(names) // rounds
            for name in names[turn:] + names[:turn]:
                if repeat < case.repeats[name]:
                    self.measure(CONTENDERS[name], data, x, case.clusters, repeat)
        save_json(self.args.output / "pareto.json", self.results)


def row(panel: Panel, median: Median, best: float) -> list[str]:
    runs = panel.runs[median.name]
    if not median.measured:
        reason = runs[0].get("reason") or ""
        return [median.name, runs[0]["status"], "-", "-", "-", "-", reason.replace("|", "/")]
    seconds = [m["seconds"] for m in runs if m["status"] == "ok"]
    spread = f"{number(median.seconds)} ({number(min(seconds))} to {number(max(seconds))})"
    memory = number(median.peak_bytes / 1e6)
    iterations = median_of(runs, "iterations")
    note = f"{iterations:g} iterations" if np.isfinite(iterations) else ""
    cpu = number(median_of(runs, "cpu_seconds"))
    return [median.name, spread, cpu, f"{median.error:.4e}", f"{100 * (median.error / best - 1):+.2f} %", memory, note]


def markdown(results: dict[str, Any]) -> str:
    every, found = panels(results), verdicts(results)
    parts = ["# Seconds and error beside other libraries", "", *machine_lines(results), ""]
    parts += ["## Time to reach the error of each peer", ""]
    parts += ["Seconds of our fastest setting whose error is no higher than the peer's, of the peer's seconds.", ""]
    parts += [*reach_lines(every), *ahead_lines(every), ""]
    parts += ["## Goals", "", table(["goal", "met"], summary(found)), "", *(f"- {v.line()}" for v in found), ""]
    header = ["contender", "seconds (least to most)", "CPU seconds", "error", "above the best", "peak MB above input"]
    header += ["note"]
    for panel in every:
        facts, medians = panel.facts, panel.medians()
        best = min((m.error for m in medians if m.measured), default=float("nan"))
        parts += [
            f"## {panel.dataset} ({facts['rows']:,} x {facts['columns']}, {facts['scaling']}), M = {panel.clusters}"
        ]
        parts += ["", table(header, (row(panel, m, best) for m in medians)), ""]
    calls = [[name, f"`{facts['call']}`"] for name, facts in results["contenders"].items()]
    parts += ["## Settings", "", table(["contender", "call"], calls), ""]
    parts += ["The time of `dgmm` includes its labels; the peers compute only centers if possible.", ""]
    return "\n".join(parts)


def report(results: dict[str, Any], output: Path) -> None:
    text = markdown(results)
    save_json(output / "pareto.json", results)
    (output / "pareto.md").write_text(text)
    every = panels(results)
    chosen_few = [panel for panel in every if (panel.dataset, panel.clusters) in HEADLINE]
    draw_pareto(chosen_few or every, output / "pareto.png")
    draw_pareto(every, output / "pareto-all.png")
    print(text)


def main() -> None:
    arguments = parser()
    args = arguments.parse_args()
    cases = checked(args, arguments)
    args.output.mkdir(parents=True, exist_ok=True)
    stop_cleanly()
    if args.report:
        report(json.loads((args.output / "pareto.json").read_text()), args.output)
        return
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        try:
            race = Race(args, cases, scratch)
        except ValueError as error:
            arguments.error(str(error))
        for case in cases:
            try:
                data = prepare(case.dataset, args.data_dir or Path(), scratch)
            except (OSError, ValueError, KeyError) as error:
                arguments.error(f"{case.dataset}: {error}")
            race.run(case, data)
            Path(data.path).unlink()
    report(race.results, args.output)


if __name__ == "__main__":
    main()
