"""Distance evaluations against error, for coresets of growing size and for all rows."""

from __future__ import annotations

from pathlib import Path

import figures
import published
from sets import SOURCES
from shared import table
from systems import evaluations
from trials import Record, Trial, a_fit, distinct, mean, of, spread

TITLE = "Distance evaluations against error"
DATA = ("kdd", "cifar10", "song")
ROWS = {"kdd": 144_000, "cifar10": 50_000, "song": 182_000}
SYSTEMS = ("k-means + lwcs", "vc-GMM", "D-GMM")
CLUSTERS = published.CLUSTERS
QUICK_CLUSTERS, QUICK_CORESETS = 20, (128, 256)
CORESETS = {"song": tuple(2**k for k in range(13, 18))}  # more rows than its 4,000 clusters
MOST_CORESETS = tuple(2**k for k in range(10, 17))
REPEATS = {False: 3, True: 1}


def plan(quick: bool) -> list[Trial]:
    trials = []
    for data in DATA:
        clusters = QUICK_CLUSTERS if quick else CLUSTERS[data]
        coresets = QUICK_CORESETS if quick else CORESETS.get(data, MOST_CORESETS)
        for repeat in range(REPEATS[quick]):
            trials.append(a_fit(data, "k-means", clusters, None, repeat, bound=True))
            for coreset in coresets:
                if coreset < ROWS[data]:
                    trials += [a_fit(data, s, clusters, coreset, repeat, bound=True) for s in SYSTEMS]
            trials += [a_fit(data, s, clusters, None, repeat, bound=True) for s in SYSTEMS[1:]]
    return trials


def baseline(records: list[Record], data: str) -> float:
    return mean(r["result"]["error"] for r in of(records, data=data, system="k-means"))


def error(record: Record, base: float) -> float:
    return 100 * (record["result"]["error"] / base - 1)


def draw(records: list[Record], folder: Path) -> dict[str, str]:
    shown = [data for data in DATA if of(records, data=data, system="k-means")]
    if not shown:
        return {}
    with figures.figure(folder, "tradeoff", 1, len(shown), (4.6, 3.6)) as (drawing, axes):
        for panel, data in zip(axes.flat, shown, strict=True):
            base = baseline(records, data)
            for system in ("k-means", *SYSTEMS):
                mine = of(records, data=data, system=system)
                points = []
                for coreset in distinct(mine, "coreset"):
                    group = of(mine, coreset=coreset)
                    rows = coreset or group[0]["result"]["rows"]
                    points.append(
                        (mean(evaluations(r["result"]) for r in group), mean(error(r, base) for r in group), rows)
                    )
                if not points:
                    continue
                points.sort(key=lambda p: p[2])
                x, y, rows = zip(*points, strict=True)
                style = figures.look(system)
                panel.plot(x, y, color=style["color"], linewidth=1, alpha=0.6)
                # The area of a marker grows with the rows fitted, as in the paper.
                panel.scatter(
                    x,
                    y,
                    s=[6 + 3 * r**0.35 for r in rows],
                    color=style["color"],
                    marker=style["marker"],
                    alpha=0.8,
                    label=system,
                    zorder=3,
                )
            panel.set(
                title=f"{SOURCES[data].title}, M = {of(records, data=data)[0]['settings']['clusters']:,}",
                xlabel="distance evaluations (coreset and EM)",
                ylabel="quantization error above k-means (%)",
            )
            figures.log_axes(panel, "x")
        figures.legend_below(drawing, list(axes.flat))
    return {
        "tradeoff": "The larger the marker, the more rows were fitted: coresets of growing size, and all rows. "
        "Down and to the left is better."
    }


def report(records: list[Record], absent: dict[str, str]) -> list[str]:
    lines = ["Means and standard deviations over the repetitions; error relative to k-means on all rows."]
    for data in DATA:
        lines += ["", f"### {SOURCES[data].title}", ""]
        if not of(records, data=data, system="k-means"):
            lines.append(absent.get(data, "Not run yet."))
            continue
        base, body = baseline(records, data), []
        for coreset in sorted(distinct(of(records, data=data), "coreset"), key=lambda c: c or 10**12):
            for system in ("k-means", *SYSTEMS):
                mine = of(records, data=data, system=system, coreset=coreset)
                if mine:
                    body.append(
                        [
                            f"{coreset:,}" if coreset else "all",
                            system,
                            len(mine),
                            spread(error(r, base) for r in mine),
                            f"{mean(evaluations(r['result']) for r in mine):.3e}",
                            spread(r["result"]["iterations"] for r in mine),
                            f"{mean(r['result']['cpu'] for r in mine):.2f}",
                        ]
                    )
        lines.append(
            table(["rows fitted", "system", "repetitions", "error %", "evaluations", "iterations", "CPU s"], body)
        )
    return [
        *lines,
        "",
        "The paper prints no numbers for this figure. It claims a low error for the fewest evaluations in most cases.",
    ]
