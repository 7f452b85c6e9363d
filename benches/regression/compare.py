"""Two builds of the package side by side: seconds, error and memory of default fits.

    python benches/regression/compare.py --before VENV_A/bin/python --after VENV_B/bin/python --data-dir DATA

Each fit runs in a process of its own, the builds take turns, and medians are compared. The error is the exact
quantization error of the centers that each build found. Linux only: the peak of memory is read from /proc. Writes
results/compare.json and .md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"

CASES = {
    "glove50, M = 1,000": ("glove50.npy", 1_000, {}),
    "glove50, M = 4,000": ("glove50.npy", 4_000, {}),
    "glove50, M = 16,000": ("glove50.npy", 16_000, {}),
    "kdd_bio, M = 500": ("kdd_bio.npz", 500, {}),
    "fashion_mnist, M = 1,000": ("fashion_mnist.npy", 1_000, {}),
    "glove50, M = 1,000, pointwise, 10 iterations": (
        "glove50.npy",
        1_000,
        {"engine": "pointwise", "max_iter": 10, "tol": 0.0},
    ),
}

WORKER = """
import json, sys, time, warnings
import numpy as np, dgmm
warnings.simplefilter("ignore")
path, clusters, settings = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
X = np.load(path)
X = np.ascontiguousarray(X["X"] if path.endswith(".npz") else X, dtype=np.float32)
dgmm.DGMM(8, random_state=0, n_threads=2).fit(X[:5000])
def status(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before = status("VmRSS")
began = time.perf_counter()
model = dgmm.DGMM(clusters, random_state=0, n_threads=2, **settings).fit(X)
seconds = time.perf_counter() - began
peak = status("VmHWM") - before
error = dgmm.quantization_error(X, model.cluster_centers_)
print(json.dumps({"seconds": seconds, "error": error, "above": 1024 * peak, "n_iter": model.n_iter_}))
"""


def main() -> None:
    """Run all cases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, help="the Python of the environment with the earlier build")
    parser.add_argument("--after", default=sys.executable, help="that with the later one; this Python by default")
    parser.add_argument("--data-dir", type=Path, required=True, action="append", help="where data are; repeatable")
    parser.add_argument("--repeat", type=int, default=7, help="fits of each build and case")
    options = parser.parse_args()
    results = {}
    for name, (file, clusters, settings) in CASES.items():
        found = [folder / file for folder in options.data_dir if (folder / file).exists()]
        if not found:
            print(f"{name}: {file} is not there, left out", file=sys.stderr)
            continue
        arguments = [str(found[0]), str(clusters), json.dumps(settings)]
        runs: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
        for _ in range(options.repeat):
            for build, python in (("before", options.before), ("after", options.after)):
                run = subprocess.run([python, "-c", WORKER, *arguments], capture_output=True, text=True, check=True)
                runs[build].append(json.loads(run.stdout))
        results[name] = runs
        print(row(name, runs), flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "compare.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "compare.md").write_text(table(results))


def table(results: dict[str, dict[str, list[dict[str, float]]]]) -> str:
    """Return the results as Markdown."""
    text = "Default fits of two builds, 2 threads, float32, builds in turn; medians. "
    text += "Memory is the peak above that before the fit.\n\n"
    text += "| fit | seconds before | after | ratio | ratio of the least | error, after / before "
    text += "| MB above the input, before | after |\n|---|---|---|---|---|---|---|---|\n"
    return text + "".join(row(name, runs) + "\n" for name, runs in results.items())


def row(name: str, runs: dict[str, list[dict[str, float]]]) -> str:
    """Return one line of the table."""

    def median(build: str, key: str) -> float:
        return statistics.median(run[key] for run in runs[build])

    seconds = median("before", "seconds"), median("after", "seconds")
    least = [min(run["seconds"] for run in runs[build]) for build in ("before", "after")]
    errors = median("before", "error"), median("after", "error")
    above = median("before", "above") / 1e6, median("after", "above") / 1e6
    return (
        f"| {name} | {seconds[0]:.3f} | {seconds[1]:.3f} | {seconds[1] / seconds[0]:.3f} | {least[1] / least[0]:.3f} "
        f"| {errors[1] / errors[0]:.6f} | {above[0]:.0f} | {above[1]:.0f} |"
    )


if __name__ == "__main__":
    main()
