"""Large data: what D-GMM saves of vc-GMM's distance evaluations as the coreset grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import figures
import published
from sets import SOURCES
from shared import table
from systems import evaluations
from trials import Record, Trial, a_fit, deviation, distinct, mean, of, spread

TITLE = "Large data: the saving over vc-GMM"
DATA = ("imagenet64", "patches")
SYSTEMS = ("vc-GMM", "D-GMM")
CLUSTERS = {False: 500, True: 20}
CORESETS = {False: tuple(published.SAVING), True: (128, 200)}
REPEATS = {False: 3, True: 1}


def plan(quick: bool) -> list[Trial]:
    return [
        a_fit(data, system, CLUSTERS[quick], coreset, repeat)
        for data in DATA
        for repeat in range(REPEATS[quick])
        for coreset in CORESETS[quick]
        for system in SYSTEMS
    ]


def savings(records: list[Record], data: str, coreset: int, pick: Any = evaluations) -> list[float]:
    """In percent, one per repetition."""
    by_repeat = [
        {r["settings"]["repeat"]: r["result"] for r in of(records, data=data, coreset=coreset, system=s)}
        for s in SYSTEMS
    ]
    both = sorted(by_repeat[0].keys() & by_repeat[1].keys())
    return [100 * (1 - pick(by_repeat[1][r]) / pick(by_repeat[0][r])) for r in both]


def em(result: dict[str, Any]) -> float:
    return float(result["evaluations"]["em"])


def draw(records: list[Record], folder: Path) -> dict[str, str]:
    shown = [data for data in DATA if of(records, data=data)]
    if not shown:
        return {}
    with figures.figure(folder, "large") as (drawing, axes):
        panel = axes[0, 0]
        for data, marker, color in zip(DATA, "vD", ("#e07a1f", "#c1121f"), strict=True):
            sizes = [c for c in distinct(of(records, data=data), "coreset") if savings(records, data, c)]
            if sizes:
                y = [savings(records, data, c, em) for c in sizes]
                panel.errorbar(
                    sizes,
                    [mean(v) for v in y],
                    yerr=[deviation(v) for v in y],
                    marker=marker,
                    capsize=2,
                    color=color,
                    label=f"{SOURCES[data].title}, here",
                )
        panel.plot(
            list(published.SAVING), list(published.SAVING.values()), "o--", color="0.4", label="ImageNet 64 x 64, paper"
        )
        panel.set_xscale("log", base=2)
        panel.set(xlabel="rows of the coreset", ylabel="evaluations of EM saved over vc-GMM (%)")
        figures.legend_below(drawing, [panel])
    return {"large": "The saving in distance evaluations of D-GMM over vc-GMM; bars are one standard deviation."}


def report(records: list[Record], absent: dict[str, str]) -> list[str]:
    lines: list[str] = []
    for data in DATA:
        lines += ["", f"### {SOURCES[data].title}", ""]
        if not of(records, data=data):
            lines.append(absent.get(data, "Not run yet."))
            continue
        facts, body = of(records, data=data)[0], []
        for coreset in distinct(of(records, data=data), "coreset"):
            pair = [[r["result"] for r in of(records, data=data, coreset=coreset, system=s)] for s in SYSTEMS]
            paper = published.SAVING.get(coreset)
            saved = savings(records, data, coreset, em)
            body.append(
                [
                    f"{coreset:,}",
                    spread(saved),
                    paper or "-",
                    f"{mean(saved) - paper:+.1f}" if paper else "-",
                    spread(savings(records, data, coreset)),
                    *(spread(r["iterations"] for r in results) for results in pair),
                    f"{100 * (mean(r['error'] for r in pair[1]) / mean(r['error'] for r in pair[0]) - 1):+.2f}",
                ]
            )
        lines += [
            f"{facts['result']['rows']:,} rows, {facts['result']['columns']:,} columns, "
            f"M = {facts['settings']['clusters']:,}, H = C' = R = G = 5, "
            f"repetitions: {len(distinct(of(records, data=data), 'repeat'))}.",
            "",
            table(
                [
                    "N'",
                    "saving of EM %",
                    "paper",
                    "difference",
                    "with the coreset %",
                    "iterations, vc-GMM",
                    "D-GMM",
                    "error of D-GMM above vc-GMM %",
                ],
                body,
            ),
        ]
    return [
        *lines[1:],
        "",
        "The paper does not say which M it used, nor whether the coreset counts. The saving is the "
        "product of two things: D-GMM looks at H + R = 10 clusters a row, vc-GMM at up to C' G + 1 = 26, less what "
        "its neighborhoods share; and D-GMM takes more iterations.",
    ]
