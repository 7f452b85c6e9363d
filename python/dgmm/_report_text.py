"""The tables of a report with formatted numbers, and the report as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

STAGES = ("coreset", "seeding", "em")


def seconds(value: float | None) -> str:
    """Format a time."""
    if value is None:
        return "unknown"
    return f"{value:.3f} s" if value < 10 else f"{value:,.1f} s"


def count(value: float | None) -> str:
    """Format a count."""
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e12 else f"{value:,.4g}"


def size(value: int | None) -> str:
    """Format a number of bytes."""
    if value is None:
        return "unknown"
    return f"{value / 1e9:.2f} GB" if value >= 1e9 else f"{value / 1e6:.1f} MB"


def percent(value: float | None, digits: int = 2) -> str:
    """Format a share."""
    return "unknown" if value is None else f"{100 * value:.{digits}f} %"


Row = tuple[str, ...]


def sections(content: dict[str, Any]) -> dict[str, Sequence[Row]]:
    """Return the tables of a report by title."""
    fit, clusters = content["fit"], content["clusters"]
    parts: dict[str, Sequence[Row]] = {"Fit": _fit_rows(content), "Seconds": _seconds_rows(fit["seconds"])}
    parts["Distance evaluations"] = _evaluation_rows(content["evaluations"])
    if clusters["sizes"] is not None:
        parts["Clusters"] = [
            ("requested", count(clusters["n_clusters"])),
            ("empty", count(clusters["empty"])),
            ("with a single row", count(clusters["single_point"])),
            ("median size", count(clusters["median"])),
            ("largest", f"{count(clusters['largest'])} rows (cluster {clusters['largest_is']})"),
        ]
    if content["audit"] is not None:
        parts["Audit against exact search"] = _audit_rows(content["audit"])
    parts["Settings"] = [(name, repr(value)) for name, value in content["settings"].items()]
    parts["Versions"] = list(content["versions"].items())
    return parts


def _fit_rows(content: dict[str, Any]) -> list[Row]:
    fit, data = content["fit"], content["data"]
    shape = f"{count(data['n_rows'])} x {count(data['n_columns'])}, {data['dtype']}"
    return [
        ("rows x columns", shape),
        ("clusters", count(content["clusters"]["n_clusters"])),
        ("iterations", f"{fit['n_iter']}, {'converged' if fit['converged'] else 'not converged'}"),
        ("lower bound, per row", f"{fit['lower_bound']:.6g}"),
        ("sum of squared distances", f"{fit['inertia']:.6g}"),
        ("variance", f"{fit['variance']:.6g}"),
        ("peak memory of the process", size(fit["peak_bytes"])),
    ]


def _seconds_rows(times: dict[str, float]) -> list[Row]:
    return [(stage, seconds(value)) for stage, value in times.items()]


def _evaluation_rows(evaluations: dict[str, Any]) -> list[Row]:
    exact = evaluations["exact_kmeans"]
    if exact is None:
        return [(stage, count(evaluations["stages"][stage])) for stage in STAGES]
    rows: list[Row] = [("", "this fit", "exact k-means", "share")]
    for stage, ours in (*evaluations["stages"].items(), ("total", evaluations["total"])):
        share = percent(ours / exact[stage]) if exact[stage] else "-"
        rows.append((stage, count(ours), count(exact[stage]), share))
    return rows


def _audit_rows(audit: dict[str, Any]) -> list[Row]:
    margin = percent(2 * audit["standard_error"])
    return [
        ("what was audited", f"{audit['what']}, on {count(audit['rows'])} of {count(audit['of_rows'])} rows"),
        ("rows with their true nearest cluster", f"{percent(audit['true_nearest'])} ± {margin}"),
        ("larger error than by exact search", percent(audit["error_above_exact"], 3)),
    ]


def text(content: dict[str, Any]) -> str:
    """Return the report as plain text."""
    lines = [f"Report of {content['estimator']}"]
    for title, rows in sections(content).items():
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += ["", title]
        for first, *others in rows:
            cells = [first.ljust(widths[0])]
            single = len(others) == 1
            cells += [o if single else o.rjust(w) for o, w in zip(others, widths[1:], strict=True)]
            lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)
