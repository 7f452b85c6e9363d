"""What the model predicts for 10^9 rows of 256 columns and 10^6 clusters on machines that were not used."""

from __future__ import annotations

from typing import Any

import formulas as model
import numpy as np
from formulas import Constants, T
from tables import table

ROWS, COLUMNS, CLUSTERS = 10**9, 256, 10**6
MACHINES = (1, 16, 256)
THREADS, MEMORY = 64, 256 * 10**9
NETWORK = 25e9 / 8
DISK = 3e9
"""Assumed: bytes per second that one machine reads from its own disk."""
SAMPLE_ITERATIONS = 20


def plan_of_target() -> dict[str, Any]:
    """What the package plans for the target in the memory of one machine."""
    import dgmm
    from dgmm import _core
    from dgmm._training import settings_of

    settings = settings_of(dgmm.DGMM(CLUSTERS, random_state=0))
    shard_rows, sample_rows = _core.shards_within(settings, COLUMNS, T, MEMORY)
    planned = {p: _core.plan(settings, ROWS // p, COLUMNS, T)["bytes"] for p in MACHINES}
    return {"shard_rows": shard_rows, "sample_rows": sample_rows, "bytes": {str(p): b for p, b in planned.items()}}


def handling(c: Constants, size: float) -> float:
    """Seconds of writing and reading bytes that do not fit in a cache."""
    return c["encode_beyond"] * model.encode(c, size)


def iteration_of(c: Constants, target: dict[str, Any], machines: int) -> dict[str, float]:
    """Seconds of an iteration of the package, part by part."""
    n = ROWS / machines
    data = n * COLUMNS * T
    fits = data + target["bytes"][str(machines)] <= MEMORY
    shards = 1 if fits else -(-ROWS // target["shard_rows"])
    received, sent = model.round_bytes(CLUSTERS, COLUMNS), model.statistics_bytes(CLUSTERS, COLUMNS)
    merge = c["merge_beyond"] * model.merge(c, CLUSTERS, COLUMNS) / THREADS
    levels = model.levels(machines)
    return {
        "fits": float(fits),
        "shards": shards,
        "arithmetic": shards * model.iteration(c, n / shards, CLUSTERS, COLUMNS) / THREADS,
        "reading": 0.0 if fits else data / DISK,
        "broadcast": levels * received / NETWORK,
        "reduction": levels * sent / NETWORK,
        "merges": (shards - 1 + levels) * merge + levels * handling(c, sent),
        "m_step": c["absorb_beyond"] * model.absorb(c, CLUSTERS, COLUMNS) / THREADS
        + (handling(c, received) if levels else 0.0),
        "flat": (machines - 1) * (received + sent) / NETWORK,
    }


PARTS = ("arithmetic", "reading", "broadcast", "reduction", "merges", "m_step")


def targets(c: Constants, target: dict[str, Any]) -> list[str]:
    rows = []
    for machines in MACHINES:
        cost = iteration_of(c, target, machines)
        data = ROWS / machines * COLUMNS * T
        cells = [f"{machines}", f"{data / 1e9:.0f}", f"{target['bytes'][str(machines)] / 1e9:.0f}"]
        cells += ["yes" if cost["fits"] else f"no: {cost['shards']:.0f} shards from disk"]
        cells += [f"{cost[part]:.1f}" for part in PARTS]
        cells += [f"{sum(cost[part] for part in PARTS):.1f}", f"{cost['flat']:.0f}"]
        rows.append(cells)
    head = ["machines", "rows, GB each", "a fit on top, GB each", "fits in memory", "arithmetic, s", "reading, s"]
    head += ["broadcast, s", "reduction, s", "writing, reading, merging, s", "M-step, s", "an iteration, s"]
    return table([*head, "network without a tree, s"], rows)


def crossing(c: Constants) -> list[str]:
    """The number of clusters at which the network takes as long as the arithmetic."""
    rows = []
    for machines in (2, 4, 16, 64, 256):
        levels = model.levels(machines)
        low, high = 1, CLUSTERS * 100
        while high - low > 1:
            m = (low + high) // 2
            moved = model.round_bytes(m, COLUMNS) + model.statistics_bytes(m, COLUMNS)
            work = model.iteration(c, ROWS / machines, m, COLUMNS) / THREADS
            low, high = (m, high) if levels * moved / NETWORK < work else (low, m)
        rows.append([f"{machines}", f"{low:,}", f"{low * COLUMNS / 1e7:.1f} x 10^7"])
    return table(["machines", "M", "M D"], rows)


def whole_fit(c: Constants, target: dict[str, Any], measured: list[dict[str, Any]]) -> list[str]:
    passes = int(np.median([row["passes"] for row in measured if not row["far"]]))
    sample = target["sample_rows"]
    wanted = model.sample_rows(ROWS, CLUSTERS)
    rows = []
    for machines in MACHINES:
        n, cost = ROWS / machines, iteration_of(c, target, machines)
        reading, each = cost["reading"], sum(cost[part] for part in PARTS)
        sent = sample * (COLUMNS * T + 32)
        summary = max(reading, model.summary(c, n, CLUSTERS, COLUMNS, sample / machines) / THREADS)
        travel = 0.0 if machines == 1 else sent / NETWORK
        start = model.start(c, sample, CLUSTERS, COLUMNS, SAMPLE_ITERATIONS) / THREADS
        flat = model.first_look(c, n, CLUSTERS, COLUMNS) / THREADS
        by_level = model.first_look(c, n, CLUSTERS, COLUMNS, model.cells_by_level(CLUSTERS)) / THREADS
        rest = each - cost["arithmetic"]
        total = summary + travel + start + flat + rest + passes * each
        better = total - flat + by_level
        cells = [f"{machines}", f"{wanted * COLUMNS * T / 1e9:.0f}", f"{sample / CLUSTERS:.0f}"]
        cells += [f"{x:.0f}" for x in (summary, travel, start, flat, by_level, passes * each)]
        cells += [f"{total / 3600:.2f}", f"{better / 3600:.2f}"]
        rows.append(cells)
    head = ["machines", "sample of 256 per cluster, GB", "sampled per cluster", "summary, s", "sample to one place, s"]
    head += ["start, s", f"first search in all {model.cells(CLUSTERS):,.0f} cells, s"]
    head += [f"by level ({model.cells_by_level(CLUSTERS):.0f} cells), s", f"{passes} more passes, s", "fit, h"]
    return table([*head, "fit with the first search by level, h"], rows)


def beyond(c: Constants, owned: list[dict[str, Any]]) -> list[str]:
    """Centers owned by range: each machine receives and returns the foreign centers its rows are compared with."""
    rows = []
    for regions in (False, True):
        for machines in MACHINES[1:]:
            (halo,) = [row for row in owned if row["machines"] == machines and row["regions"] == regions]
            n, m = ROWS / machines * halo["fullest"], CLUSTERS / machines
            foreign = min(halo["seen"], machines - 1) * m
            moved = foreign * (COLUMNS * (T + 8) + 8 * 2 * model.ENTRIES)
            travel, handled = moved / NETWORK, handling(c, moved)
            arithmetic = model.iteration(c, n, int(m + foreign), COLUMNS) / THREADS
            shuffle = n * (1 - 1 / machines) * COLUMNS * T / NETWORK
            memory = n * (COLUMNS * T + 32) + (m + foreign) * (COLUMNS * (T * 2 + 8) + 24 * model.ENTRIES)
            cells = ["512 regions" if regions else "no regions", f"{machines}", f"{shuffle:.1f}", f"{foreign:,.0f}"]
            cells += [f"{x:.1f}" for x in (arithmetic, travel, handled, arithmetic + travel + handled)]
            cells.append(f"{memory / 1e9:.0f}")
            rows.append(cells)
    head = ["data", "machines", "shuffle, once, s", "foreign centers", "arithmetic, s", "network, s"]
    return table([*head, "writing, reading, s", "an iteration, s", "memory, GB each"], rows)
