"""The pictures of both scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from contenders import CONTENDERS, OUR_CURVE
from goals import Panel
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

OURS_COLOR = "#c1121f"
LINES = {"dgmm-i": (OURS_COLOR, "-")}
PEER_COLORS = {
    "faiss": "#1d4e89",
    "superkmeans": "#2a9d8f",
    "superkmeans-flat": "#2a9d8f",
    "sklearn": "#6c757d",
    "minibatch": "#9b5de5",
    "sklearnex": "#577590",
    "vcgmm": "#b5838d",
    "kmeans": "#000000",
}
MARKERS = "osD^vPX<>*h"


def _plain_seconds(value: float, _: Any) -> str:
    return f"{value:g}"


def _style(name: str) -> dict[str, Any]:
    peers = [n for n, c in CONTENDERS.items() if c.library not in OUR_CURVE]
    return {"color": PEER_COLORS[CONTENDERS[name].library], "marker": MARKERS[peers.index(name) % len(MARKERS)]}


def _panel(axes: plt.Axes, panel: Panel) -> None:
    medians = [m for m in panel.medians() if m.measured]
    best = min((m.error for m in medians), default=math.nan)
    above = {m.name: 100 * (m.error / best - 1) for m in medians}
    for prefix, (color, dashes) in LINES.items():
        line = [m for m in medians if m.name.startswith(prefix)]
        if line:
            label = "dgmm, by iterations"
            axes.plot(
                [m.seconds for m in line], [above[m.name] for m in line], dashes, color=color, marker=".", label=label
            )
    for m in sorted(medians, key=lambda m: list(CONTENDERS).index(m.name)):
        if m.name == "dgmm":
            axes.plot(m.seconds, above[m.name], "*", color=OURS_COLOR, markersize=16, label="dgmm, default", zorder=5)
        elif CONTENDERS[m.name].library not in OUR_CURVE:
            axes.plot(m.seconds, above[m.name], linestyle="", markersize=7, label=m.name, **_style(m.name))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(_plain_seconds))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if max(above.values(), default=0) > 30:
        axes.set_yscale("symlog", linthresh=10)
        axes.set_ylim(-1, 1.3 * max(above.values()))
        axes.yaxis.set_major_formatter(FuncFormatter(_plain_seconds))
    axes.set_title(
        f"{panel.dataset} ({panel.facts['rows']:,} x {panel.facts['columns']}), M = {panel.clusters:,}", fontsize=10
    )
    axes.set_xlabel("seconds (log scale)")
    axes.set_ylabel("error above the best (%)")
    axes.grid(alpha=0.3)


def draw_pareto(panels: Sequence[Panel], path: Path) -> None:
    """Seconds against the error above the best, one panel a data set and number of clusters."""
    columns = min(3, max(1, len(panels)))
    rows = max(1, math.ceil(len(panels) / columns))
    figure, grid = plt.subplots(rows, columns, figsize=(5.2 * columns + 2.6, 3.9 * rows), squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        _panel(axes, panel)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    entries = {
        label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.tight_layout(rect=(0, 0, 1 - 2.5 / figure.get_figwidth(), 1))
    if entries:
        figure.legend(entries.values(), entries.keys(), loc="center right", fontsize=9, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_scaling(sweeps: Sequence[dict[str, Any]], path: Path) -> None:
    """Seconds of the default fit, one panel a sweep, with the fitted power as a line."""
    figure, grid = plt.subplots(1, max(1, len(sweeps)), figsize=(4.6 * max(1, len(sweeps)), 3.9), squeeze=False)
    for axes, sweep in zip(grid.flat, sweeps, strict=False):
        points = [(p["value"], p["seconds"]) for p in sweep["points"] if math.isfinite(p["seconds"])]
        if points:
            values, seconds = zip(*points, strict=True)
            axes.plot(values, seconds, "o", color=OURS_COLOR, label="median of the repeats")
            if math.isfinite(sweep["exponent"]):
                line = [sweep["factor"] * v ** sweep["exponent"] for v in values]
                axes.plot(values, line, "-", color="0.5", label=f"exponent {sweep['exponent']:.2f}")
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xticks(values, [f"{v:,}" for v in values], rotation=45, fontsize=8)
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(FuncFormatter(_plain_seconds))
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.legend(fontsize=8, frameon=False)
        axes.set_title(sweep["title"], fontsize=9)
        axes.set_xlabel(sweep["axis"] + " (log scale)")
        axes.set_ylabel("seconds of the default fit (log scale)")
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
