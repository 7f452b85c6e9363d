"""The paper's table: relative error, speed-up in distance evaluations and iterations, and the time beyond it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import consistency
import figures
import numpy as np
import published
from sets import SOURCES
from shared import number, table
from systems import LOOKS, evaluations
from trials import Record, Trial, a_fit, distinct, mean, of, spread, values

TITLE = "The table: error, distance evaluations and iterations"
SYSTEMS = ("k-means", "k-means + lwcs", "vc-GMM", "D-GMM")
REPEATS = {False: 10, True: 2}
HELD_OUT_REPEATS = 5  # they differ little, and k-means on 40,000 images takes long
DATA = ("kdd", "cifar10", "cifar10-held-out", "song", "susy")
GOALS = {"kdd": ("error", 13.0), "cifar10": ("error", 9.0), "cifar10-held-out": ("held_out_error", 9.0)}
QUICK_CLUSTERS, QUICK_CORESET = 30, 256


def sizes(data: str, quick: bool) -> tuple[int, int]:
    """M and N'."""
    if quick:
        return QUICK_CLUSTERS, QUICK_CORESET
    paper = data.removesuffix("-held-out")
    return published.CLUSTERS[paper], published.CORESETS[paper]


def plan(quick: bool) -> list[Trial]:
    return [
        a_fit(data, system, *sized(data, system, quick), repeat, bound=True)
        for data in DATA
        for repeat in range(repeats(data, quick))
        for system in SYSTEMS
    ]


def repeats(data: str, quick: bool) -> int:
    return min(REPEATS[quick], HELD_OUT_REPEATS) if data.endswith("held-out") else REPEATS[quick]


def sized(data: str, system: str, quick: bool) -> tuple[int, int | None]:
    clusters, coreset = sizes(data, quick)
    return clusters, None if system == "k-means" else coreset


def summary(records: list[Record], data: str, system: str) -> dict[str, list[float]]:
    """The table's columns, with one number per repetition. Errors, in percent, are relative to the mean of k-means."""
    base = {r["settings"]["repeat"]: r["result"] for r in of(records, data=data, system="k-means")}
    mine = {r["settings"]["repeat"]: r["result"] for r in of(records, data=data, system=system)}
    both = sorted(base.keys() & mine.keys())
    columns: dict[str, list[float]] = {"iterations": [mine[r]["iterations"] for r in both]}
    for name in ("error", "held_out_error"):
        if both and all(name in base[r] and name in mine[r] for r in both):
            reference = mean(base[r][name] for r in base)
            columns[name] = [100 * (mine[r][name] / reference - 1) for r in both]
    columns["speedup"] = [evaluations(base[r]) / evaluations(mine[r]) for r in both]
    columns["speedup_seeding"] = [evaluations(base[r], True) / evaluations(mine[r], True) for r in both]
    columns["cpu"] = [mine[r]["cpu"] for r in both]
    same = [r for r in both if same_place(records, data, system, r)]
    columns["cpu_speedup"] = [base[r]["cpu"] / max(mine[r]["cpu"], 1e-4) for r in same]
    return columns


def same_place(records: list[Record], data: str, system: str, repeat: int) -> bool:
    """Whether k-means and the system ran on the same machine with as many threads, so that seconds compare."""
    pair = [of(records, data=data, system=name, repeat=repeat)[0]["environment"] for name in ("k-means", system)]
    return pair[0] == pair[1]


def judged_on(data: str) -> str:
    return "held_out_error" if data.endswith("held-out") else "error"


def draw(records: list[Record], folder: Path) -> dict[str, str]:
    shown = [data for data in DATA if summary(records, data, "D-GMM")["speedup"]]
    if not shown:
        return {}
    with figures.figure(folder, "table", 1, len(shown)) as (drawing, axes):
        for panel, data in zip(axes.flat, shown, strict=True):
            for system in SYSTEMS:
                ours, theirs = summary(records, data, system), published.TABLE[data][system]
                color, marker = LOOKS[system].color, LOOKS[system].marker
                x, y = ours["speedup"], ours[judged_on(data)]
                if x:
                    panel.errorbar(
                        mean(x),
                        mean(y),
                        xerr=np.std(x),
                        yerr=np.std(y),
                        color=color,
                        marker=marker,
                        linestyle="none",
                        capsize=2,
                        label=f"{system}, here",
                    )
                panel.errorbar(
                    theirs.speedup[0],
                    theirs.error[0],
                    xerr=theirs.speedup[1],
                    yerr=theirs.error[1],
                    color=color,
                    marker=marker,
                    mfc="white",
                    linestyle="none",
                    capsize=2,
                    alpha=0.8,
                    label=f"{system}, paper",
                )
            panel.set(
                title=SOURCES[data].title,
                xlabel="speed-up in distance evaluations",
                ylabel="quantization error above k-means (%)",
            )
            figures.log_axes(panel, "x")
        figures.legend_below(drawing, list(axes.flat))
    return {
        "table": "Error and speed-up over k-means on all rows; filled: here, hollow: the paper. "
        "Bars are one standard deviation."
    }


def report(records: list[Record], absent: dict[str, str]) -> list[str]:
    lines = [
        "Relative error is (Q - Q of k-means) / Q of k-means, Q the exact quantization error and that of k-means its "
        "mean over the repetitions. The speed-up counts coreset and EM, as the paper's k-means + lwcs row does; the "
        "next column adds the seeding of both sides. CPU seconds are those of coreset, seeding and EM; their ratio is "
        "shown where both sides ran on the same machine.",
    ]
    for data in DATA:
        lines += ["", f"### {SOURCES[data].title}", ""]
        lines += data_lines(records, data) if of(records, data=data) else [absent.get(data, "Not run yet.")]
    return [*lines, "", *goal_lines(records), "", *consistency.lines(), "", *rule_lines(records)]


def data_lines(records: list[Record], data: str) -> list[str]:
    facts = of(records, data=data)[0]
    settings, rows = facts["settings"], facts["result"]["rows"]
    header = [
        "system",
        "N'",
        "error %",
        "paper",
        "difference",
        "speed-up",
        "paper",
        "difference",
        "with seeding",
        "iterations",
        "paper",
        "CPU s",
        "speed-up, CPU",
    ]
    held_out = f", errors on {facts['result']['held_out']:,} others" if "held_out" in facts["result"] else ""
    lines = [
        f"{rows:,} rows{held_out}, {facts['result']['columns']:,} columns, M = {settings['clusters']:,}, "
        f"H = C' = R = G = 5, {len(distinct(of(records, data=data), 'repeat'))} repetitions.",
        *sample_lines(records, data, rows),
        "",
    ]
    body = []
    for system in SYSTEMS:
        mine, paper = summary(records, data, system), published.TABLE[data][system]
        if not mine["iterations"]:
            continue
        error = mine[judged_on(data)]
        coreset = of(records, data=data, system=system)[0]["settings"]["coreset"]
        body.append(
            [
                system,
                f"{coreset:,}" if coreset else "-",
                spread(error),
                f"{paper.error[0]} ± {paper.error[1]}",
                f"{mean(error) - paper.error[0]:+.1f}",
                spread(mine["speedup"]),
                f"{paper.speedup[0]} ± {paper.speedup[1]}",
                f"{100 * (mean(mine['speedup']) / paper.speedup[0] - 1):+.0f} %",
                spread(mine["speedup_seeding"]),
                spread(mine["iterations"]),
                f"{paper.iterations[0]} ± {paper.iterations[1]}",
                number(mean(mine["cpu"])),
                spread(mine["cpu_speedup"]),
            ]
        )
    return [*lines, table(header, body), "", *stage_lines(records, data)]


def sample_lines(records: list[Record], data: str, rows: int) -> list[str]:
    """What differs from the paper if only a sample of the rows was available."""
    published_rows = published.ROWS.get(data, rows)
    if rows > 0.9 * published_rows:
        return []
    mine = of(records, data=data, system="D-GMM")
    iterations = [
        mean(values(of(records, data=data, system=s), lambda r: r["iterations"])) for s in ("k-means", "D-GMM")
    ]
    clusters, coreset = sizes(data, quick=False)
    whole = published_rows * clusters * iterations[0] / (published_rows + 10 * coreset * iterations[1]) if mine else 0
    return [
        "",
        f"A uniform sample of the data: {rows:,} of {published_rows:,} rows. M and the coreset are the paper's, so a "
        f"cluster has {rows / clusters:.0f} rows instead of {published_rows / clusters:.0f}, and the coreset is "
        f"{100 * coreset / rows:.0f} % of the rows instead of {100 * coreset / published_rows:.0f} %. Speed-ups "
        "over k-means on all rows shrink with the number of rows: with the iterations found here, D-GMM's would be "
        f"{whole:.0f} on all {published_rows:,}. Errors relative to k-means on the sample are not those on all rows.",
    ]


def stage_lines(records: list[Record], data: str) -> list[str]:
    """Distance evaluations by stage."""
    body: list[list[Any]] = []
    for system in SYSTEMS:
        mine = of(records, data=data, system=system)
        stages = [mean(values(mine, lambda r, s=stage: r["evaluations"][s])) for stage in ("coreset", "seeding", "em")]
        if mine:
            fitted = mine[0]["settings"]["coreset"] or mine[0]["result"]["rows"]
            a_point = mean(values(mine, lambda r, n=fitted: r["evaluations"]["em"] / r["iterations"] / n))
            body.append([system, *(f"{stage:,.0f}" for stage in stages), f"{a_point:.1f}"])
    header = ["distance evaluations (mean)", "coreset", "seeding", "EM", "EM, a point and iteration"]
    return [table(header, body)]


def goal_lines(records: list[Record]) -> list[str]:
    lines = []
    for data, (judge, limit) in GOALS.items():
        mine, title = summary(records, data, "D-GMM"), SOURCES[data].title
        if judge and mine.get(judge):
            error = mean(mine[judge])
            lines.append(
                f"- {title}: error of D-GMM {error:.1f} %, aimed at {limit:.0f} % or less (the paper's and "
                f"one point): **{'reached' if error <= limit else 'missed'}**."
            )
        if mine["speedup"] and not data.endswith("held-out"):
            speedup = mean(mine["speedup"])
            own = consistency.by_own_iterations(data)
            lines.append(
                f"- {title}: speed-up of D-GMM {speedup:.0f}, aimed at more than 300: "
                f"**{'reached' if speedup > 300 else 'missed'}**. The paper's own sizes and iterations give {own:.0f} "
                "under the same accounting; see below."
            )
    return ["### Against the aims", "", *lines] if lines else []


def stops(bound: list[float], offset: float, tolerance: float = 1e-3) -> int:
    """After how many iterations a fit ends if F is `offset` higher throughout."""
    shifted = np.asarray(bound) + offset
    ends = np.flatnonzero(np.diff(shifted) <= tolerance * np.abs(shifted[:-1]))
    return int(ends[0]) + 2 if len(ends) else len(bound)


def rule_lines(records: list[Record]) -> list[str]:
    """The relative rule depends on the units and the constants of F: what the same fits would have done."""
    chosen = of(records, data="cifar10")
    if not chosen:
        return []
    columns = chosen[0]["result"]["columns"]
    readings = {
        "F as here, pixels in [0, 1]": 0.0,
        "F without D/2 log 2π": columns / 2 * np.log(2 * np.pi),
        "pixels in 0..255": -columns * np.log(255),
    }
    body = []
    for system in SYSTEMS:
        mine = [r["result"] for r in of(chosen, system=system)]
        if mine:
            body.append(
                [
                    system,
                    *(spread(stops(r["bound"], offset) for r in mine) for offset in readings.values()),
                    published.TABLE["cifar10"][system].iterations[0],
                ]
            )
    return [
        "### The stopping rule on CIFAR-10",
        "",
        "A rise of F by 1e-3 of itself depends on the units and on the constants in F. The iterations after which the "
        "same fits end under three readings of it:",
        "",
        table(["system", *readings, "paper"], body),
        "",
        "Without the constant D/2 log 2π the iterations of k-means, k-means + lwcs and vc-GMM come closest to the "
        "paper's; with bytes instead of [0, 1] all stop far too early. The table above uses F with its constant. "
        "The paper gives N_train and N_test for CIFAR-10 alone, and does not say on which of them it measures. On the "
        "50,000 images of the fit our error misses the aim. Holding images out was tried after that was seen, together "
        "with bytes instead of [0, 1], so take it as a likely explanation and not as the paper's stated protocol. "
        "Measured on images that were held out, the error of "
        "D-GMM is the paper's; on the images it was fitted to, k-means over all rows has an advantage that it does not "
        "have on others. The test images were not at hand, so 10,000 training images stand in for them, and the "
        "speed-up is that of the fit to all 50,000. k-means + lwcs stays well above the paper's on "
        "either: hard k-means fits the 8 coreset rows a cluster more closely than truncated EM does, and no reading of "
        "the protocol that was tried closes this gap.",
    ]
