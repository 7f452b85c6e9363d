"""A report as HTML: a self-contained page, or the fragment that a notebook shows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from dgmm._report_text import STAGES, count, percent, seconds, sections
from dgmm._svg import bar_chart, column_chart, line_chart

STYLE = """
.dgmm-report { font: 14px/1.45 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto;
  max-width: 1000px; }
.dgmm-report h1 { font-size: 22px; margin: 0 0 12px; }
.dgmm-report h2 { font-size: 15px; margin: 0 0 6px; }
.dgmm-report .figures { display: flex; flex-wrap: wrap; gap: 10px; margin-bottom: 16px; }
.dgmm-report .figure { background: #f3f5f8; border-radius: 6px; padding: 8px 14px; min-width: 120px; }
.dgmm-report .figure b { display: block; font-size: 20px; font-weight: 600; }
.dgmm-report .grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 16px; }
.dgmm-report .grid > * { min-width: 0; }
.dgmm-report svg { width: 100%; height: auto; }
.dgmm-report table { border-collapse: collapse; width: 100%; margin: 0; }
.dgmm-report th, .dgmm-report td { text-align: right; padding: 3px 6px; border-bottom: 1px solid #e4e6ea;
  overflow-wrap: anywhere; background: none; color: inherit; }
.dgmm-report th { font-weight: 500; color: #555; text-align: left; }
.dgmm-report thead th { text-align: right; }
"""


def page(content: dict[str, Any]) -> str:
    """Return a complete page."""
    title = f"Report of {content['estimator']}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title></head>\n"
        f'<body style="margin: 24px">{fragment(content)}</body></html>\n'
    )


def fragment(content: dict[str, Any]) -> str:
    """Return the part of the page that can be embedded in another."""
    title = escape(f"Report of {content['estimator']}")
    charts = "".join(f"<div>{chart}</div>" for chart in _charts(content))
    tables = "".join(_table(name, rows) for name, rows in sections(content).items())
    return (
        f'<div class="dgmm-report"><style>{STYLE}</style><h1>{title}</h1>'
        f'<div class="figures">{_figures(content)}</div>'
        f'<div class="grid charts">{charts}</div><div class="grid tables">{tables}</div></div>'
    )


def _figures(content: dict[str, Any]) -> str:
    """The key numbers at the top."""
    fit, audit = content["fit"], content["audit"]
    figures = [
        (count(content["clusters"]["n_clusters"]), "clusters"),
        (seconds(fit["seconds"]["total"]), "total time"),
        (str(fit["n_iter"]), "iterations, " + ("converged" if fit["converged"] else "not converged")),
        (percent(content["evaluations"]["share_of_exact"]), "of the distances of exact k-means"),
    ]
    if audit is not None:
        figures.append((percent(audit["true_nearest"]), "of audited rows have their true nearest cluster"))
        figures.append((percent(audit["error_above_exact"], 3), "larger error than by exact search"))
    return "".join(f'<div class="figure"><b>{escape(value)}</b>{escape(name)}</div>' for value, name in figures)


def _charts(content: dict[str, Any]) -> list[str]:
    bounds, times = content["history"]["lower_bound"], content["fit"]["seconds"]
    turns = list(range(1, len(bounds) + 1))
    charts = [line_chart("Lower bound by iteration", turns, bounds, "iteration", "lower bound per row")]
    stages = [stage for stage in times if stage != "total"]
    charts.append(bar_chart("Seconds by stage", stages, {"seconds": [times[s] for s in stages]}, seconds))
    evaluations = content["evaluations"]
    groups: dict[str, Sequence[float]] = {"this fit": [evaluations["stages"][stage] for stage in STAGES]}
    if evaluations["exact_kmeans"] is not None:
        groups["exact k-means"] = [evaluations["exact_kmeans"][stage] for stage in STAGES]
    charts.append(bar_chart("Distance evaluations by stage", STAGES, groups, lambda value: f"{value:.3g}"))
    sizes = content["clusters"]["sizes"]
    if sizes is not None:
        names = [str(a) if a == b else f"{a}-{b}" for a, b in zip(sizes["from"], sizes["to"], strict=True)]
        charts.append(column_chart("Sizes of the clusters", names, sizes["clusters"], "rows of a cluster", "clusters"))
    return charts


def _table(title: str, rows: Sequence[tuple[str, ...]]) -> str:
    head, body = "", rows
    if rows and rows[0][0] == "":
        head = "<thead><tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in rows[0]) + "</tr></thead>"
        body = rows[1:]
    lines = []
    for first, *others in body:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in others)
        lines.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
    return f"<section><h2>{escape(title)}</h2><table>{head}<tbody>{''.join(lines)}</tbody></table></section>"
