"""Approximate search: many small calls compared with one large call and with exact search.

    python benches/regression/approximate.py

60,000 synthetic rows of 50 columns and 16,000 clusters. Each instruction set is measured in its own process, on two
threads; medians of nine turns. Writes results/approximate.json and .md.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
ROWS, COLUMNS, CLUSTERS, CALL, TURNS = 60_000, 50, 16_000, 4000, 9


def measure() -> dict[str, float]:
    """Seconds of one call, of calls of 4,000 rows, and of exact search."""
    import warnings

    import dgmm

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    places = 2 * rng.normal(size=(2000, COLUMNS))
    made = [places[rng.integers(2000, size=n)] + rng.normal(size=(n, COLUMNS)) for n in (CLUSTERS + 20_000, ROWS)]
    fitted, rows = (part.astype(np.float32) for part in made)
    model = dgmm.DGMM(CLUSTERS, random_state=0, max_iter=1, n_threads=2).fit(fitted)
    model.predict(rows[:CALL], method="approximate")  # makes and tunes the index
    seconds: dict[str, list[float]] = {"one": [], "many": [], "exact": []}
    for _ in range(TURNS):
        for name, calls, method in (
            ("one", [rows], "approximate"),
            ("many", np.split(rows, ROWS // CALL), "approximate"),
            ("exact", [rows], "exact"),
        ):
            began = time.perf_counter()
            for call in calls:
                model.predict(call, method=method)
            seconds[name].append(time.perf_counter() - began)
    found = {name: statistics.median(each) for name, each in seconds.items()}
    return {**found, "recall": model.approximate_recall_}


def main() -> None:
    """Measure each instruction set and write the results."""
    if sys.argv[1:] == ["--measure"]:
        print(json.dumps(measure()))
        return
    results = {}
    for isa in ("avx512", "avx2"):
        said = subprocess.run(
            [sys.executable, __file__, "--measure"],
            env={**os.environ, "DGMM_ISA": isa},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        results[isa] = json.loads(said)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "approximate.json").write_text(json.dumps(results, indent=1) + "\n")
    lines = [
        "# Approximate search",
        "",
        "Made by `python benches/regression/approximate.py`: 60,000 rows, 50 columns, 16,000 clusters, 2 threads.",
        "",
        "| highest instruction set | one call | 15 calls | 15 calls / one | exact | exact / one | right |",
        "|---|---|---|---|---|---|---|",
    ]
    for isa, r in results.items():
        cells = (isa, f"{r['one']:.4f} s", f"{r['many']:.4f} s", f"{r['many'] / r['one']:.2f}", f"{r['exact']:.3f} s")
        lines.append(f"| {' | '.join(cells)} | {r['exact'] / r['one']:.1f} | {r['recall']:.1%} |")
    (RESULTS / "approximate.md").write_text("\n".join([*lines, ""]))
    print("\n".join(lines[4:]))


if __name__ == "__main__":
    main()
