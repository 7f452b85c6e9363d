"""The cost model: the cost of a fit over shards from the numbers of rows N, clusters M and columns D, and constants.

Seconds are those of one thread; t is the bytes of a number. Constants are fitted to every other measured size by least
squares of relative errors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

T = 4
TRUNCATION = 5
ENTRIES = 64  # at most, in each cluster's row of S
GROUP_ROWS = 64
SAMPLE_ROWS = 256
FEWEST_SAMPLED = 1 << 16

Constants = dict[str, float]


def cells(m: int) -> float:
    """Coarse cells of the clusters; each row is compared with all of them after a start on a sample."""
    if m < 50_000:
        return max(1.0, min(3 * m**0.5, m / 12))
    share = m ** (2 / 3)
    return m ** (1 / 3) * min(3 * share**0.5, share / 12)


def cells_by_level(m: int) -> float:
    """Cells that a row is compared with if it descends the levels."""
    return cells(m) if m < 50_000 else m ** (1 / 3) + cells(m) / m ** (1 / 3)


def listed(m: int) -> float:
    """Centers that a row is compared with in its first search: those of whole cells, about 250."""
    share = m / cells(m)
    return min(m, max(3 * share, min(250 + share / 2, 24 * share)))


def sample_rows(n: float, m: int) -> float:
    return min(n, max(SAMPLE_ROWS * m, FEWEST_SAMPLED))


def local_work(m: int, rows: float) -> float:
    """Distances computed by k-means inside the cells of a start."""
    share = m / cells(m)
    return m * min(64, rows / m) * share * min(6, max(2, 384 / share))


def s_bytes(m: int, entries: float) -> float:
    return 8 * m * entries + 8 * m


def round_bytes(m: int, d: int, entries: float = ENTRIES) -> float:
    return T * m * d + 4 * m + s_bytes(m, entries)


def statistics_bytes(m: int, d: int, entries: float = ENTRIES) -> float:
    return 8 * m * d + 8 * m + s_bytes(m, entries)


def memberships_bytes(n: float) -> float:
    return 4 * TRUNCATION * n


def entries_of(row: dict[str, Any]) -> float:
    """Entries of S per cluster, from the bytes of statistics."""
    m = row["clusters"]
    return float(max(0.0, (row["statistics_bytes"] - statistics_bytes(m, row["columns"], 0)) / (8 * m)))


def iteration_terms(c: Constants, n: float, m: int, d: int) -> list[float]:
    return [2 * n * c["G"] * d / c["F"], n, min(m, n / GROUP_ROWS)]


def iteration(c: Constants, n: float, m: int, d: int) -> float:
    return dot(c, ("f", "row", "group"), iteration_terms(c, n, m, d))


def first_terms(c: Constants, n: float, m: int, d: int, found: float) -> list[float]:
    return [2 * n * (found + listed(m)) * d / c["F"], n]


def first_look(c: Constants, n: float, m: int, d: int, found: float | None = None) -> float:
    return dot(c, ("f_first", "row_first"), first_terms(c, n, m, d, cells(m) if found is None else found))


def start_terms(c: Constants, rows: float, m: int, d: int) -> list[float]:
    return [2 * local_work(m, rows) * d / c["F"], rows]


def on_sample(c: Constants, rows: float, m: int, d: int, iterations: int) -> float:
    """Seconds of a start besides choosing centers in the cells: finding the cells, and iterations on the sample."""
    seconds = 2 * c["f_first"] * rows * cells_by_level(m) * d / c["F"]
    if iterations:
        seconds += first_look(c, rows, m, d, 0.0) + (iterations - 1) * iteration(c, rows, m, d)
    return seconds


def start(c: Constants, rows: float, m: int, d: int, iterations: int) -> float:
    chosen = dot(c, ("f_start", "row_start"), start_terms(c, rows, m, d))
    return chosen + on_sample(c, rows, m, d, iterations)


def summary(c: Constants, n: float, m: int, d: int, kept: float | None = None) -> float:
    sampled = sample_rows(n, m) if kept is None else kept
    return dot(c, ("value_summary", "row_summary", "value_sample"), [n * d, sampled, sampled * d])


def merge(c: Constants, m: int, d: int, entries: float = ENTRIES) -> float:
    return dot(c, ("value_merge", "entry_merge"), [m * d, m * entries])


def absorb(c: Constants, m: int, d: int, entries: float = ENTRIES) -> float:
    return dot(c, ("value_absorb", "entry_absorb"), [m * d, m * entries])


def encode(c: Constants, size: float) -> float:
    return c["byte"] * size


def dot(c: Constants, names: tuple[str, ...], terms: list[float]) -> float:
    return sum(c[name] * term for name, term in zip(names, terms, strict=True))


def least_squares(terms: list[list[float]], seconds: list[float], whole: list[float]) -> list[float]:
    """Nonnegative constants that minimize the sum of squared relative errors."""
    scaled = np.array(terms) / np.array(whole)[:, None]
    wanted = np.array(seconds) / np.array(whole)
    kept = list(range(scaled.shape[1]))
    while True:
        size = np.linalg.norm(scaled[:, kept], axis=0)
        found = np.linalg.lstsq(scaled[:, kept] / size, wanted, rcond=None)[0] / size
        if (found >= 0).all():
            return [float(found[kept.index(i)]) if i in kept else 0.0 for i in range(scaled.shape[1])]
        kept.pop(int(np.argmin(found)))


def fitted(measured: list[dict[str, Any]], flops: float) -> Constants:
    """All constants, from every other size."""
    half = measured[::2]
    near = [row for row in half if not row["far"]]
    sizes = [(row["rows"], row["clusters"], row["columns"]) for row in half]
    c: Constants = {"F": flops, "G": float(np.median([row["evaluations"] for row in half]))}

    def fit(what: str, names: tuple[str, ...], terms: list[list[float]], rows: list[dict[str, Any]]) -> None:
        seconds = [row[what] for row in rows]
        whole = [row["start"] for row in rows] if what == "rest" else seconds
        c.update(zip(names, least_squares(terms, seconds, whole), strict=True))

    fit("iteration", ("f", "row", "group"), [iteration_terms(c, *size) for size in sizes], half)
    fit("first_look", ("f_first", "row_first"), [first_terms(c, *size, cells(size[1])) for size in sizes], half)
    seeded = []
    for row in near:
        sample = row["sample_rows"], row["clusters"], row["columns"]
        seeded.append(row | {"rest": row["start"] - on_sample(c, *sample, row["sample_iterations"])})
    fit(
        "rest",
        ("f_start", "row_start"),
        [start_terms(c, row["sample_rows"], row["clusters"], row["columns"]) for row in near],
        seeded,
    )
    kept = [(row["rows"] * row["columns"], sample_rows(row["rows"], row["clusters"]), row["columns"]) for row in near]
    terms = [[values, sampled, sampled * d] for values, sampled, d in kept]
    fit("summary", ("value_summary", "row_summary", "value_sample"), terms, near)
    pairs = [[float(m * d), m * entries_of(row)] for row, (_, m, d) in zip(half, sizes, strict=True)]
    fit("merge", ("value_merge", "entry_merge"), pairs, half)
    fit("absorb", ("value_absorb", "entry_absorb"), pairs, half)
    fit("encode", ("byte",), [[float(row["statistics_bytes"])] for row in half], half)
    largest = max(measured, key=lambda row: float(row["statistics_bytes"]))
    size = largest["clusters"], largest["columns"], entries_of(largest)
    c["merge_beyond"] = largest["merge"] / merge(c, *size)
    c["absorb_beyond"] = largest["absorb"] / absorb(c, *size)
    c["encode_beyond"] = largest["encode"] / encode(c, largest["statistics_bytes"])
    return c


def levels(machines: int) -> int:
    return math.ceil(math.log2(machines))
