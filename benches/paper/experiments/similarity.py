"""Beyond the paper: how the similarity is weighted, and how the sets K(n) start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import figures
import numpy as np
from sets import SOURCES
from shared import table
from systems import evaluations
from trials import Record, Trial, a_fit, deviation, distinct, mean, of, spread

TITLE = "Beyond the paper: similarity and start"
SIMILARITIES = {
    "cooccurrence": "co-occurrence (default)",
    "posterior": "posterior",
    "kernel": "kernel (the paper's)",
    "uniform": "uniform (none)",
}
SHORT = ("co-occ.", "posterior", "kernel", "uniform")
STARTS = {"afk-mc2": "uniform K(n)", "hierarchical": "two levels"}
CASES = {
    False: (("kdd", 500, 2**12, 5), ("kdd", 500, None, 3), ("cifar10", 500, 2**12, 5)),
    True: (("kdd", 20, 256, 1), ("cifar10", 20, 256, 1)),
}


def plan(quick: bool) -> list[Trial]:
    return [
        a_fit(data, "D-GMM", clusters, coreset, repeat, similarity=similarity, init=start)
        for data, clusters, coreset, repeats in CASES[quick]
        for repeat in range(repeats)
        for start in STARTS
        for similarity in SIMILARITIES
    ]


def cases(records: list[Record]) -> list[tuple[str, int | None]]:
    return list(dict.fromkeys((r["settings"]["data"], r["settings"]["coreset"]) for r in records))


def name(data: str, coreset: int | None) -> str:
    return f"{SOURCES[data].title}, {f'coreset of {coreset:,}' if coreset else 'all'} rows"


def best(records: list[Record], data: str, coreset: int | None) -> float:
    """The error that the others are compared with: that of the default similarity from the paper's start."""
    return mean(
        r["result"]["error"] for r in of(records, data=data, coreset=coreset, similarity="cooccurrence", init="afk-mc2")
    )


def draw(records: list[Record], folder: Path) -> dict[str, str]:
    shown = cases(records)
    if not shown:
        return {}
    with figures.figure(folder, "similarity", 2, len(shown), (3.9, 2.9)) as (drawing, axes):
        for column, (data, coreset) in zip(axes.T, shown, strict=True):
            for k, (start, words) in enumerate(STARTS.items()):
                groups = [of(records, data=data, coreset=coreset, init=start, similarity=s) for s in SIMILARITIES]
                x = np.arange(len(groups)) + (k - 0.5) * 0.38
                reference = best(records, data, coreset)
                errors = [[100 * (r["result"]["error"] / reference - 1) for r in g] for g in groups]
                counts = [[r["result"]["evaluations"]["em"] for r in g] for g in groups]
                color = ("#c1121f", "#1d4e89")[k]
                for panel, numbers in ((column[0], errors), (column[1], counts)):
                    panel.bar(
                        x,
                        [mean(n) for n in numbers],
                        0.36,
                        yerr=[deviation(n) for n in numbers],
                        color=color,
                        alpha=0.85,
                        capsize=2,
                        label=f"start: {words}",
                    )
            for panel in column:
                panel.set_xticks(range(len(SIMILARITIES)), list(SHORT))
                panel.grid(axis="x", visible=False)
                panel.set(xlabel="similarity")
            column[0].set(title=name(data, coreset), ylabel="error above the default (%)")
            column[1].set(ylabel="distance evaluations of EM")
        figures.legend_below(drawing, list(axes.flat))
    return {
        "similarity": "Four ways to weight the similarity, from two starts; bars are one standard deviation. "
        "Error relative to co-occurrence (co-occ.) from uniform K(n)."
    }


def report(records: list[Record], absent: dict[str, str]) -> list[str]:
    lines = [
        'D-GMM with H = R = 5 throughout. *Two levels* is `init="hierarchical"`: the centers come from AFK-MC2 '
        "inside coarse cells, and every row starts with the nearest centers of its own cell."
    ]
    for data in ("kdd", "cifar10"):
        if data in absent and not of(records, data=data):
            lines += ["", absent[data]]
    for data, coreset in cases(records):
        mine = of(records, data=data, coreset=coreset)
        base, body = best(records, data, coreset), []
        for start, words in STARTS.items():
            for similarity, weighting in SIMILARITIES.items():
                group = [r["result"] for r in of(mine, init=start, similarity=similarity)]
                if group:
                    body.append(
                        [
                            words,
                            weighting,
                            spread(r["iterations"] for r in group),
                            f"{mean(evaluations(r) for r in group):.3e}",
                            f"{mean(r['evaluations']['seeding'] for r in group):.2e}",
                            spread(100 * (r["error"] / base - 1) for r in group),
                            f"{mean(r['cpu'] for r in group):.2f}",
                        ]
                    )
        header = ["start", "similarity", "iterations", "evaluations", "seeding", "error % above the default", "CPU s"]
        lines += [
            "",
            f"### {name(data, coreset)}, repetitions: {len(distinct(mine, 'repeat'))}",
            "",
            table(header, body),
            "",
            *_summary(mine),
        ]
    return lines


def _summary(mine: list[Record]) -> list[str]:
    def average(similarity: str, start: str, pick: Callable[[Record], float]) -> float:
        return mean(pick(r["result"]) for r in of(mine, similarity=similarity, init=start))

    def em(result: Record) -> float:
        return float(result["evaluations"]["em"])

    def error(result: Record) -> float:
        return float(result["error"])

    def ratio(similarity: str, start: str, pick: Callable[[Record], float]) -> float:
        return average(similarity, start, pick) / average("cooccurrence", "afk-mc2", pick)

    if any(not of(mine, similarity=similarity, init=start) for similarity in SIMILARITIES for start in STARTS):
        return []
    with_seeding = ratio("cooccurrence", "hierarchical", lambda r: evaluations(r, seeding=True))
    return [
        f"From uniform sets, the paper's weighting takes {ratio('kernel', 'afk-mc2', em):.2f} times the EM evaluations "
        f"of co-occurrence and draws without any similarity {ratio('uniform', 'afk-mc2', em):.2f} times, for an error "
        f"of {100 * (ratio('kernel', 'afk-mc2', error) - 1):+.1f} % and "
        f"{100 * (ratio('uniform', 'afk-mc2', error) - 1):+.1f} %. The two-level start takes "
        f"{ratio('cooccurrence', 'hierarchical', em):.2f} times the EM evaluations, {with_seeding:.2f} times all of "
        f"them with the seeding, for {100 * (ratio('cooccurrence', 'hierarchical', error) - 1):+.1f} %."
    ]
