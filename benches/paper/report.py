"""Writes RESULTS.md, with one part per experiment, from the stored results alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments import EXPERIMENTS
from store import Store

INTRODUCTION = """\
The experiments of *A sampling-based approach for efficient clustering in large datasets* (Exarchakis, Oubari and Lenz,
CVPR 2022), run with `dgmm`, with the paper's numbers beside ours where it prints any. Written by `benches/paper/run.py`
from `results/*.json`; do not edit by hand.

Protocol, unless said otherwise: AFK-MC2 with chains of 5, uniform first K(n), H = R = 5 (vc-GMM: C' = G = 5 and one
random cluster a row), an end when F rises by less than 1e-3 of itself, float32, `engine="pointwise"`, co-occurrence as
the similarity. Repetition r has seed r for every system, and with a coreset all systems share that of the repetition.
Pixels are in [0, 1], everything else is raw. ± is one standard deviation.

How many repetitions there are is said with each table. The rows of KDD, CIFAR-10 and SONG in the table have the paper's
10, and S1 its 500 trials. All else has fewer than the paper, for want of time on the machine: 5 for the images held
out, 1 to 5 for the sweeps, 3 to 8 runs instead of 100 for stability. Where there is one repetition, ± 0.0 says
nothing.

SONG is a sample of the paper's rows; its part of the table says what follows from that. KDD lacks 0.6 % of the rows."""

CLOCK = """\
Seconds are **CPU seconds**, of all threads together: the results were made on machines that were busy with other work,
where wall-clock seconds say nothing. They come from more than one machine, so compare them only within a table, and
mind that errors and evaluations, which do not depend on the machine's speed, are what the paper reports."""


def environment_lines(store: Store) -> list[str]:
    seen: list[dict[str, Any]] = []
    for content in store.files.values():
        seen += [where for where in content["environments"] if where not in seen]
    lines = []
    for where in seen:
        versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
        lines.append(
            f"- {where['cpu']}, {where['cpus']} CPUs, {where['threads']} threads, {where['system']}, "
            f"Python {where['python']}, {versions}"
        )
    return lines


def part(store: Store, name: str, drawn: dict[str, str]) -> list[str]:
    experiment, content = EXPERIMENTS[name], store.files.get(name)
    lines = ["", f"## {experiment.TITLE}", "", f"`--only {name}`", ""]
    if content is None:
        return [*lines, "Not run yet."]
    for picture, caption in drawn.items():
        lines += [f"![{caption}](figures/{picture}.png)", "", f"*{caption}* ([SVG](figures/{picture}.svg))", ""]
    absent = {data: f"**Data not at hand.** {reason}" for data, reason in content["absent"].items()}
    return [*lines, *experiment.report(content["trials"], absent)]


def render(store: Store, output: Path) -> None:
    """Draw every figure again and write RESULTS.md."""
    lines = ["# The paper's experiments", ""]
    if store.quick:
        lines += ["**A quick run on small made data: it shows that all works, and its numbers mean nothing.**", ""]
    lines += [INTRODUCTION, "", CLOCK, "", *environment_lines(store)]
    for name, experiment in EXPERIMENTS.items():
        trials = store.files.get(name, {}).get("trials", [])
        lines += part(store, name, experiment.draw(trials, output / "figures"))
    (output / "RESULTS.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
