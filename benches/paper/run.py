#!/usr/bin/env python3
"""Reproduce the paper: every table and figure.

    run.py --data-dir DIR [--only NAME ...] [--quick] [--output DIR]

Finished trials are kept in OUTPUT/results/NAME.json and not run again; Ctrl-C loses only the running trial. Figures are
OUTPUT/figures/*.png and .svg, the report is OUTPUT/RESULTS.md. `--quick` makes its own small data.

The exit code is 0 even if data sets are missing, and 1 if a file is malformed or an experiment fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from experiments import EXPERIMENTS
from made import write_all
from report import render
from sets import DataError, Library, MissingDataError
from shared import OneLineParser, cpu_count, positive_int, say, stop_cleanly
from store import Store, StoreError, environment
from trials import Trial

HERE = Path(__file__).resolve().parent
QUICK_OUTPUT = Path("paper-quick")


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = OneLineParser(description="Reproduce the paper's tables and figures.")
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets; see README.md")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=list(EXPERIMENTS), help=", ".join(EXPERIMENTS))
    parser.add_argument("--quick", action="store_true", help="all experiments on small made data")
    parser.add_argument("--output", type=Path, help="folder of the results (default: beside this program)")
    parser.add_argument("--repeats", type=positive_int, help="the most repetitions of a fit (default: as planned)")
    parser.add_argument("--threads", type=positive_int, default=cpu_count(), help="threads of every fit")
    parser.add_argument("--report", action="store_true", help="only draw and write again what is stored")
    args = parser.parse_args(argv)
    for name in args.only:
        if name not in EXPERIMENTS:
            parser.error(f"--only {name}: choose from {', '.join(EXPERIMENTS)}")
    if args.data_dir is None and not (args.quick or args.report):
        parser.error("--data-dir is needed, or --quick for a run on made data")
    if args.data_dir is not None and not args.data_dir.is_dir():
        parser.error(f"--data-dir {args.data_dir} is not a folder")
    if args.output is None:
        args.output = QUICK_OUTPUT if args.quick else HERE
    return args


class Progress:
    """Prints what is done and how long the rest will take, from the expected costs of the trials."""

    def __init__(self, trials: list[tuple[str, Trial]]) -> None:
        self.left = sum(trial.cost for _, trial in trials)
        self.count, self.total = 0, len(trials)
        self.spent = self.seconds = 0.0

    def done(self, name: str, trial: Trial, seconds: float) -> None:
        self.count += 1
        self.left -= trial.cost
        self.spent += trial.cost
        self.seconds += seconds
        settings = trial.settings
        words = f"{settings['system']}, {settings['data']}, M = {settings['clusters']}"
        words += "" if settings.get("coreset") is None else f", coreset {settings['coreset']}"
        remaining = self.left * self.seconds / self.spent
        say(f"[{self.count}/{self.total}] {name}: {words}: {seconds:.1f} s; about {duration(remaining)} left")

    def skip(self, trial: Trial) -> None:
        self.count += 1
        self.left -= trial.cost


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def unfinished(
    name: str, store: Store, library: Library, args: argparse.Namespace, missing: dict[str, DataError]
) -> list[tuple[str, Trial]]:
    """The trials of an experiment that must still run and whose data is available."""
    store.begin(name)
    pending = []
    for trial in EXPERIMENTS[name].plan(args.quick):
        too_many = args.repeats is not None and trial.settings.get("repeat", 0) >= args.repeats
        if store.has(name, trial.settings) or too_many:
            continue
        try:
            library.find(trial.data)
        except MissingDataError as error:
            if trial.data not in missing:
                say(str(error))
            missing[trial.data] = error
            store.files[name]["absent"][trial.data] = str(error)
        else:
            pending.append((name, trial))
    store.save(name)
    return pending


def run_trials(store: Store, library: Library, args: argparse.Namespace) -> bool:
    """Run the unfinished trials; return whether all succeeded, missing data aside."""
    where, well = environment(args.threads), True
    unusable: dict[str, DataError] = {}
    pending = [pair for name in args.only for pair in unfinished(name, store, library, args, unusable)]
    progress = Progress(pending)
    say(f"{len(pending)} trials to run")
    for name, trial in pending:
        if store.has(name, trial.settings):  # another experiment has run it in the meantime
            progress.skip(trial)
            continue
        start = time.perf_counter()
        try:
            if trial.data in unusable:
                raise unusable[trial.data]
            result = trial.run(trial.settings, library, args.threads)
        except DataError as error:
            if trial.data not in unusable:
                say(f"{name}: {error}")
            unusable[trial.data] = error
            well = False
            store.set_absent(name, trial.data, str(error))
            progress.skip(trial)
        except Exception as error:  # noqa: BLE001  a broken trial must not end the others
            say(f"{name}: {trial.settings} failed: {type(error).__name__}: {error}")
            well = False
            progress.skip(trial)
        else:
            store.add(name, trial.settings, result, where)
            progress.done(name, trial, time.perf_counter() - start)
    return well


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    stop_cleanly()
    try:
        store = Store(args.output / "results", args.quick)
    except StoreError as error:
        say(f"run.py: {error}")
        return 2
    status = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.data_dir
        if args.quick:
            folder = Path(scratch)
            write_all(folder)
        try:
            if not args.report and not run_trials(store, Library(folder), args):
                status = 1
        except (KeyboardInterrupt, SystemExit) as end:
            say("stopped; what is finished is kept, and the same command goes on from there")
            status = 130 if isinstance(end, KeyboardInterrupt) else 143
    args.output.mkdir(parents=True, exist_ok=True)
    render(store, args.output)
    say(f"results: {args.output / 'RESULTS.md'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
