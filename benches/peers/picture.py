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
PEER_COLORS = {
    "faiss": "#1d4e89",
    "superkmeans": "#2a9d8f",
    "sklearn": "#6c757d",
    "minibatch": "#9b5de5",
    "sklearnex": "#577590",
    "lance": "#b5651d",
    "clostera": "#7f5539",
    "fastkmeans": "#d97706",
    "linfa": "#4d7c0f",
    "vcgmm": "#b5838d",
    "kmeans": "#000000",
}
LINE = ("dgmm-quick", "dgmm", "dgmm-1e-5", "dgmm-1e-5-refine")
OUR_LABELS = {
    "dgmm-quick": "quick",
    "dgmm": "dgmm, default",
    "dgmm-1e-5": "1e-5",
    "dgmm-1e-5-refine": "1e-5, refined",
    "dgmm-refine": "refined",
    "dgmm-quick-refine": "quick, refined",
}
HIDDEN = ("dgmm-1-thread", "dgmm-before")  # measured for a goal, and no setting of a contender
OFFSETS = [(dx, dy) for dy in (0, 9, -9, 18, -18, 27, -27, 36, -36, 45, 54) for dx in (7, -7)]  # in points
LETTER, HEIGHT = 4.3, 9.0  # width of a letter and height of a line of a label, in points


def _plain_seconds(value: float, _: Any) -> str:
    return f"{value:g}"


def _label(name: str) -> str:
    return OUR_LABELS.get(name, name.removeprefix("dgmm-") if CONTENDERS[name].library in OUR_CURVE else name)


def _color(name: str) -> str:
    return PEER_COLORS.get(CONTENDERS[name].library.split("-")[0], OURS_COLOR)


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return max(0.0, width) * max(0.0, height)


def _put_labels(axes: plt.Axes, points: list[tuple[float, float, str, str]]) -> None:
    """Put a name next to each point, where it covers the least; a thin line leads to a name that is farther away."""
    scale = 72 / axes.figure.dpi
    places = [scale * axes.transData.transform((x, y)) for x, y, *_ in points]
    frame = axes.get_window_extent()
    left, right, low, high = (scale * edge for edge in (frame.x0, frame.x1, frame.y0, frame.y1))
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in places]
    for (x, y), (px, py, text, color) in zip(places, points, strict=True):
        width = LETTER * len(text)
        best: tuple[float, tuple[float, float], tuple[float, ...]] | None = None
        for rank, (dx, dy) in enumerate(OFFSETS):
            start = x + dx if dx > 0 else x + dx - width
            box = (start, y + dy - HEIGHT / 2, start + width, y + dy + HEIGHT / 2)
            outside = box[0] < left or box[2] > right or box[1] < low or box[3] > high
            cost = sum(_overlap(box, other) for other in taken) + 1e4 * outside + 0.5 * rank
            if best is None or cost < best[0]:
                best = cost, (dx, dy), box
        assert best is not None
        _, (dx, dy), box = best
        taken.append(box)
        arrow = {"arrowstyle": "-", "color": color, "linewidth": 0.5, "shrinkB": 3} if abs(dy) > 9 else None
        axes.annotate(
            text,
            (px, py),
            xytext=(dx, dy),
            textcoords="offset points",
            ha="left" if dx > 0 else "right",
            va="center",
            fontsize=7.5,
            color=color,
            arrowprops=arrow,
        )


def _scales(axes: plt.Axes, above: dict[str, float]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(_plain_seconds))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=0.18, y=0.12)
    if max(above.values(), default=0) > 30:
        axes.set_yscale("symlog", linthresh=10)
        axes.set_ylim(-1, 1.5 * max(above.values()))
        axes.yaxis.set_major_formatter(FuncFormatter(_plain_seconds))


def _panel(axes: plt.Axes, panel: Panel) -> None:
    medians = [m for m in panel.medians() if m.measured and CONTENDERS[m.name].library not in HIDDEN]
    best = min((m.error for m in medians), default=math.nan)
    above = {m.name: 100 * (m.error / best - 1) for m in medians}
    line = sorted((m for m in medians if m.name in LINE), key=lambda m: LINE.index(m.name))
    axes.plot([m.seconds for m in line], [above[m.name] for m in line], "-", color=OURS_COLOR, linewidth=1.2)
    for m in medians:
        marker, size = ("*", 13) if m.name == "dgmm" else ("o", 5)
        axes.plot(m.seconds, above[m.name], marker, color=_color(m.name), markersize=size, zorder=4)
    _scales(axes, above)
    axes.set_title(
        f"{panel.dataset} ({panel.facts['rows']:,} x {panel.facts['columns']}), M = {panel.clusters:,}", fontsize=10
    )
    axes.set_xlabel("seconds (log scale)")
    axes.set_ylabel("error above the best (%)")
    axes.grid(alpha=0.3)


def draw_pareto(panels: Sequence[Panel], path: Path) -> None:
    """Seconds against the error above the best, one panel per data set and number of clusters, named in place."""
    columns = min(3, max(1, len(panels)))
    rows = max(1, math.ceil(len(panels) / columns))
    figure, grid = plt.subplots(rows, columns, figsize=(6.0 * columns, 4.4 * rows), squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        _panel(axes, panel)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    figure.tight_layout()
    figure.canvas.draw()  # labels are placed at the final positions of the points
    for axes, panel in zip(grid.flat, panels, strict=False):
        medians = [m for m in panel.medians() if m.measured and CONTENDERS[m.name].library not in HIDDEN]
        best = min((m.error for m in medians), default=math.nan)
        points = [(m.seconds, 100 * (m.error / best - 1), _label(m.name), _color(m.name)) for m in medians]
        _put_labels(axes, points)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_scaling(sweeps: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the seconds of the default fit, one panel per sweep, with the fitted power as a line."""
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
