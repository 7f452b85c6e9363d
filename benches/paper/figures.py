"""What all figures share: the style, and saving as PNG and SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from systems import LOOKS

STYLE = {
    "figure.dpi": 130,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "savefig.bbox": "tight",
    "svg.hashsalt": "dgmm",  # the same picture gives the same file
    "svg.fonttype": "none",
}


@contextmanager
def figure(
    folder: Path, name: str, rows: int = 1, columns: int = 1, size: tuple[float, float] = (4.4, 3.4)
) -> Iterator[tuple[Any, Any]]:
    """A grid of axes, saved as NAME.png and NAME.svg at the end. `size` is that of one panel, in inches."""
    with plt.rc_context(STYLE):
        shape = (size[0] * columns, size[1] * rows)
        drawing, axes = plt.subplots(rows, columns, figsize=shape, squeeze=False, layout="constrained")
        try:
            yield drawing, axes
            folder.mkdir(parents=True, exist_ok=True)
            drawing.savefig(folder / f"{name}.png")
            drawing.savefig(folder / f"{name}.svg", metadata={"Date": None})
        finally:
            plt.close(drawing)


def look(system: str) -> dict[str, Any]:
    return {"color": LOOKS[system].color, "marker": LOOKS[system].marker, "markersize": 5}


def log_axes(panel: Any, axes: str = "xy") -> None:
    """Logarithmic axes with a few readable labels; call it after the data is drawn."""
    for name in axes:
        getattr(panel, f"set_{name}scale")("log")
        low, high = getattr(panel, f"get_{name}lim")()
        if not 0 < low < high:  # nothing drawn yet
            continue
        decades = math.log10(high / low)
        axis = getattr(panel, f"{name}axis")
        if decades < 3:
            subs = (1, 2, 5) if decades > 0.7 else (1, 1.5, 2, 3, 4, 5, 7)
            axis.set_major_locator(LogLocator(subs=subs))
            axis.set_major_formatter(FuncFormatter(_tick))
        axis.set_minor_formatter(NullFormatter())


def _tick(value: float, _: int) -> str:
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    power = math.floor(math.log10(value) + 1e-9)
    front = f"{value / 10**power:.3g}"
    return f"$10^{{{power}}}$" if front == "1" else f"${front}\\cdot 10^{{{power}}}$"


def legend_below(drawing: Any, axes: Sequence[Any]) -> None:
    """One legend for all panels, under them."""
    entries: dict[str, Any] = {}
    for panel in axes:
        handles, labels = panel.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    if entries:
        columns = 4 if len(entries) > 5 else len(entries)
        drawing.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns)
