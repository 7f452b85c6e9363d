"""What all figures share: the style, and saving as PNG and SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
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
    "svg.hashsalt": "dgmm",  # the same picture is the same file
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
    return {"color": LOOKS[system].colour, "marker": LOOKS[system].marker, "markersize": 5}


def legend_below(drawing: Any, axes: Sequence[Any]) -> None:
    """One legend for all panels, under them."""
    entries: dict[str, Any] = {}
    for panel in axes:
        handles, labels = panel.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    if entries:
        columns = min(len(entries), 4)
        drawing.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns)
