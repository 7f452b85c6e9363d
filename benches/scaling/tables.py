"""Tables of measurements and simulations, next to the model's predictions."""

from __future__ import annotations

from typing import Any

import formulas as model
import numpy as np
from formulas import Constants

NANO, MICRO = 1e9, 1e6


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def constants(c: Constants) -> list[str]:
    rows = [
        ["F", "flops of a thread, in NumPy's float32 matrix product", f"{c['F'] / 1e9:.0f} x 10^9 / s"],
        ["G", "distances per row and iteration", f"{c['G']:.0f}"],
        ["f", "overhead factor of an iteration", f"{c['f']:.2f}"],
        ["b", "an iteration, per row", f"{c['row'] * NANO:.0f} ns"],
        ["g", "an iteration, per group of rows", f"{c['group'] * MICRO:.1f} µs"],
        ["f1", "overhead factor of the first search", f"{c['f_first']:.2f}"],
        ["b1", "the first search, per row", f"{c['row_first'] * NANO:.0f} ns"],
        ["f0", "overhead factor of choosing centers inside cells", f"{c['f_start']:.2f}"],
        ["b0", "choosing centers, per row of the sample", f"{c['row_start'] * NANO:.0f} ns"],
        ["y", "a summary, per value", f"{c['value_summary'] * NANO:.2f} ns"],
        ["y1", "a summary, per row of the sample", f"{c['row_summary'] * NANO:.0f} ns"],
        ["y2", "a summary, per value of the sample", f"{c['value_sample'] * NANO:.2f} ns"],
        ["m", "a merge, per number of the centers", f"{c['value_merge'] * NANO:.2f} ns"],
        ["m1", "a merge, per entry of S", f"{c['entry_merge'] * NANO:.1f} ns"],
        ["a", "an M-step, per number of the centers", f"{c['value_absorb'] * NANO:.2f} ns"],
        ["a1", "an M-step, per entry of S", f"{c['entry_absorb'] * NANO:.1f} ns"],
        ["w", "writing and reading what is sent, per byte", f"{c['byte'] * NANO:.2f} ns"],
        ["x1", "slowdown of a merge beyond the cache", f"{c['merge_beyond']:.1f}"],
        ["x2", "slowdown of an M-step beyond the cache", f"{c['absorb_beyond']:.1f}"],
        ["x3", "slowdown of writing and reading beyond the cache", f"{c['encode_beyond']:.1f}"],
    ]
    return table(["constant", "what", "fitted"], rows)


def size_of(row: dict[str, Any], i: int) -> list[str]:
    return [f"{row['rows']:,}", f"{row['clusters']:,}", f"{row['columns']}", "check" if i % 2 else "fit"]


def beside(measured: float, predicted: float, scale: float = 1.0, digits: int = 3) -> list[str]:
    return [f"{measured * scale:.{digits}f}", f"{predicted * scale:.{digits}f}"]


def checked(c: Constants, measured: list[dict[str, Any]]) -> list[str]:
    rows, ratios = [], []
    for i, row in enumerate(measured):
        size = row["rows"], row["clusters"], row["columns"]
        cells = size_of(row, i)
        pairs = [
            (row["iteration"], model.iteration(c, *size)),
            (row["first_look"], model.first_look(c, *size)),
        ]
        if not row["far"]:
            sample = row["sample_rows"], row["clusters"], row["columns"]
            pairs += [
                (row["start"], model.start(c, *sample, row["sample_iterations"])),
                (row["summary"], model.summary(c, *size)),
            ]
        cells += [text for pair in pairs for text in beside(*pair)] + ["-"] * 2 * (4 - len(pairs))
        cells.append("-" if row["far"] else f"{row['wall_iteration']:.3f}")
        rows.append(cells)
        if i % 2:
            ratios.append([predicted / found for found, predicted in pairs])
    names = ["iteration", "first search", "start", "summary"]
    head = ["N", "M", "D", "role", *[t for name in names for t in (name, "predicted")], "iteration, wall, 2 threads"]
    last = ["checked sizes:", "", "", "predicted / measured"]
    for i in range(4):
        known = [ratio[i] for ratio in ratios if len(ratio) > i]
        last += [f"median {np.median(known):.2f}", f"{min(known):.2f} to {max(known):.2f}"]
    return table(head, [*rows, [*last, ""]])


def distances(c: Constants, measured: list[dict[str, Any]]) -> list[str]:
    rows = []
    for i, row in enumerate(measured):
        m, counted = row["clusters"], row["cells_counted"]
        cells = [*size_of(row, i), *beside(row["evaluations"], c["G"], 1, 0)]
        cells += beside(row["first_evaluations"], model.listed(m), 1, 0)
        rows.append([*cells, "-" if counted is None else f"{counted:,.0f}", f"{model.cells(m):,.0f}"])
    head = ["N", "M", "D", "role", "iteration", "G", "first search, centers", "predicted", "cells", "predicted"]
    return table(head, rows)


def bytes_of(c: Constants, measured: list[dict[str, Any]]) -> list[str]:
    rows = []
    for i, row in enumerate(measured):
        m, d, entries = row["clusters"], row["columns"], model.entries_of(row)
        cells = [*size_of(row, i), f"{entries:.0f}"]
        cells += beside(row["round_bytes"], model.round_bytes(m, d), 1e-6, 2)
        cells += beside(row["statistics_bytes"], model.statistics_bytes(m, d), 1e-6, 2)
        cells += beside(row["memberships_bytes"], model.memberships_bytes(row["rows"]), 1e-6, 2)
        cells += beside(row["merge"], model.merge(c, m, d, entries), 1e3, 1)
        cells += beside(row["absorb"], model.absorb(c, m, d, entries), 1e3, 1)
        cells += beside(row["encode"], model.encode(c, row["statistics_bytes"]), 1e3, 1)
        rows.append(cells)
    head = ["N", "M", "D", "role", "entries of S per cluster", "round, MB", "at most"]
    head += ["statistics, MB", "at most", "K(n), MB", "predicted"]
    return table(head + [t for name in ("merge", "M-step", "write, read") for t in (f"{name}, ms", "predicted")], rows)


def simulated(found: list[dict[str, Any]]) -> list[str]:
    rows = []
    for row in found:
        p, m, d = row["shards"], row["clusters"], row["columns"]
        worker = model.round_bytes(m, d) + model.statistics_bytes(m, d)
        cells = [f"{p}", f"{row['rows'] / m / p:.0f}", f"{row['round_bytes'] / 1e6:.2f}"]
        cells += beside(row["worker_bytes"], worker, 1e-6, 2)
        cells += beside(row["moved_bytes"], p * worker, 1e-6, 1)
        sample = model.sample_rows(row["rows"], m) * (d * model.T + 32)
        cells += [f"{row['memberships_bytes'] / 1e6:.2f}", *beside(row["summary_bytes"], sample, 1e-6, 1)]
        cells += [f"{row['evaluations']:.0f}", f"{row['error'] / found[0]['error']:.4f}"]
        rows.append(cells)
    head = ["P", "rows per cluster and shard", "round, MB", "per worker and iteration, MB", "at most"]
    head += ["whole iteration, MB", "at most", "K(n) of a shard, MB", "all summaries, MB", "predicted"]
    return table([*head, "distances per row", "error relative to P = 1"], rows)


def owners(found: list[dict[str, Any]]) -> list[str]:
    rows = []
    for row in found:
        cells = ["512 regions" if row["regions"] else "no regions", f"{row['machines']}"]
        cells += [f"{row['clusters'] / row['machines']:.0f}", f"{100 * row['rows_apart']:.0f} %"]
        cells += [f"{row['held']:.2f}", f"{row['seen']:.2f}", f"{row['fullest']:.2f}"]
        rows.append(cells)
    head = ["data", "machines", "own centers", "rows with a foreign cluster in K(n)", "foreign in K(n) / own"]
    return table([*head, "foreign candidates / own", "rows of the fullest machine / mean"], rows)
