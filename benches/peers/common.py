"""Helpers of all scripts: arguments, measuring processes, the facts of the machine, Markdown."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import worker

Measurement = dict[str, Any]
POOLS = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "RAYON", "VECLIB_MAXIMUM")
START_LIMIT = 120.0  # seconds for loading and warm-up, before the clock of a measurement starts


class OneLineParser(argparse.ArgumentParser):
    """Reports errors in the arguments in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


positive_int.__name__ = "whole number"


def cpu_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def base_parser(description: str) -> OneLineParser:
    parser = OneLineParser(description=description)
    parser.add_argument("--data-dir", type=Path, help="folder with NAME.npy or NAME.npz (array X)")
    parser.add_argument("--repeats", type=positive_int, default=3, help="measurements of each contender (default 3)")
    parser.add_argument("--threads", type=positive_int, default=min(2, cpu_count()), help="threads of every library")
    parser.add_argument("--time-limit", type=float, default=300.0, help="seconds a measurement may take (default 300)")
    parser.add_argument("--output", type=Path, default=Path("peers-results"), help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a small run on made data that shows all works")
    return parser


def check_common(parser: OneLineParser, args: argparse.Namespace, needs_data: bool) -> None:
    if not args.time_limit > 0:
        parser.error(f"--time-limit {args.time_limit} is not a positive number of seconds")
    if needs_data and args.data_dir is None:
        parser.error("--data-dir is needed for these data sets")
    if args.data_dir is not None and not args.data_dir.is_dir():
        parser.error(f"--data-dir {args.data_dir} is not a folder")
    if args.threads > cpu_count():
        parser.error(f"--threads {args.threads} is more than the {cpu_count()} CPUs of this process")


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def machine_facts() -> dict[str, Any]:
    facts: dict[str, Any] = {"cpu": cpu_model(), "cpus": cpu_count(), "system": platform.system()}
    facts["python"] = platform.python_version()
    facts["load_at_start"] = round(os.getloadavg()[0], 2)
    facts["omp_wait_policy"] = os.environ.get("OMP_WAIT_POLICY", "each library's own")
    facts["memory_gib"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return facts


@contextmanager
def patience(process: subprocess.Popen[str]) -> Iterator[None]:
    """End a process that does not get ready in time; its reader then sees the end of the stream."""
    timer = threading.Timer(START_LIMIT, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def ask(request: dict[str, Any], limit: float, scratch: Path, python: Path | None = None) -> dict[str, Any]:
    """Run one request in a fresh process. `limit` counts from the end of its warm-up."""
    threads = request.setdefault("threads", 1)
    answer = scratch / "answer.json"
    answer.unlink(missing_ok=True)
    environment = os.environ | {f"{pool}_NUM_THREADS": str(threads) for pool in POOLS}
    environment |= {"LANCE_CPU_THREADS": str(threads)}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [str(python or sys.executable), str(Path(worker.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request | {"answer": str(answer)}))
            process.stdin.close()
            process.stdin = None
            with patience(process):
                while (line := process.stdout.readline()) and line.strip() != worker.READY:
                    pass
            process.communicate(timeout=limit if line else START_LIMIT)
        except subprocess.TimeoutExpired:
            return {"status": "over the limit", "reason": f"stopped after {limit:g} s"}
        finally:
            process.kill()
            process.wait()
        if not answer.exists():
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["no message"])[-1]
            return {"status": "failed", "reason": f"process ended with {process.returncode}: {last}"[:200]}
    return json.loads(answer.read_text())


def library_versions(modules: Iterable[str], scratch: Path) -> dict[str, dict[str, Any]]:
    """The version of each module that can be imported in a fresh process, or why it cannot."""
    return {m: ask({"operation": "probe", "module": m}, START_LIMIT, scratch) for m in sorted(set(modules))}


def stop_cleanly() -> None:
    """Turn a request to end into an exception, so that the measuring process ends with this one."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def finite(value: Any) -> Any:
    """Replace NaN by None, because JSON has no NaN."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def save_json(path: Path, results: dict[str, Any]) -> None:
    path.write_text(json.dumps(finite(results), indent=1, allow_nan=False) + "\n")


def median_of(measurements: Iterable[Measurement], key: str) -> float:
    values = [m[key] for m in measurements if m["status"] == "ok" and m.get(key) is not None]
    return statistics.median(values) if values else math.nan


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def number(value: float, digits: int = 3) -> str:
    """A number with a few significant digits, without an exponent if possible."""
    if not math.isfinite(value):
        return "-"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.{digits}e}"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}" if value else "0"


def machine_lines(results: dict[str, Any]) -> list[str]:
    """The paragraph on machine, versions and protocol at the head of a report."""
    machine, settings = results["machine"], results["settings"]
    installed = [f"{worker.PACKAGES[m]} {v['version']}" for m, v in results["versions"].items() if v.get("version")]
    absent = [worker.PACKAGES[m] for m, v in results["versions"].items() if not v.get("version")]
    lines = [
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['memory_gib']} GiB, {machine['system']}, "
        + f"Python {machine['python']}; {settings['threads']} threads for every library, "
        + f"median of {settings['repeats']}.",
        "Versions: " + ", ".join(installed) + ".",
    ]
    if machine["load_at_start"] > 0.5:
        lines.append(f"The machine was busy when the run began: load {machine['load_at_start']}.")
    if absent:
        lines.append("Did not import here, and so was not measured: " + ", ".join(absent) + ".")
    if settings["repeats"] < 3:
        lines.append("**Provisional**: fewer than three repeats.")
    return lines
