"""Simulates fits over many shards in one process: what crosses a network, and what owners of centers would share."""

from __future__ import annotations

import pickle
import statistics
import warnings
from typing import Any

import dgmm
import numpy as np
from dgmm import shards
from measure import LONG, made

SHARDS = (1, 4, 16, 64)
ROWS, CLUSTERS, COLUMNS = 400_000, 1000, 32
OWNED_ROWS, OWNED_CLUSTERS, OWNED_COLUMNS = 800_000, 8000, 32
MACHINES = (4, 16, 64, 256)


def over_shards(rows: int, clusters: int, columns: int, count: int) -> dict[str, Any]:
    """Fit over `count` shards, each for one worker; return the bytes of an iteration and the quality of the model."""
    X = made(rows, columns)
    estimator = dgmm.DGMM(clusters, random_state=0, **LONG)
    cuts = [len(part) for part in np.array_split(np.arange(rows), count)]
    starts = np.cumsum([0, *cuts])
    parts = [shards.Shard(X[a : a + n], first_row=int(a)) for a, n in zip(starts[:-1], cuts, strict=True)]
    summaries = [part.summarize(estimator, rows) for part in parts]
    trainer = shards.Trainer(estimator, shards.merge_summaries(summaries))
    known: list[Any] = [None] * count
    found: dict[str, Any] = {"shards": count, "rows": rows, "clusters": clusters, "columns": columns, "passes": 0}
    found["summary_bytes"] = sum(len(pickle.dumps(summary)) for summary in summaries)
    rounds, sent, most, evaluations = [], [], [], []
    while not trainer.finished:
        steps = [part.step(trainer.round, state) for part, state in zip(parts, known, strict=True)]
        known = [state for _, state in steps]
        received = len(pickle.dumps(trainer.round))
        merged, moved, largest = reduced([sums for sums, _ in steps])
        if found["passes"] > 1:  # the first round has the cells of the start, the second may have no S yet
            rounds.append(received)
            sent.append(moved)
            most.append(largest)
            evaluations.append(merged.distance_evals / rows)
        trainer.absorb(merged)
        found["passes"] += 1
    model = trainer.to_estimator()
    found["round_bytes"] = statistics.median(rounds)
    found["moved_bytes"] = count * found["round_bytes"] + statistics.median(sent)
    found["worker_bytes"] = found["round_bytes"] + max(most)
    found["evaluations"] = statistics.median(evaluations)
    found["memberships_bytes"] = max(len(pickle.dumps(state)) for state in known)
    found["error"] = dgmm.quantization_error(X, model.cluster_centers_)
    return found


def reduced(level: list[Any]) -> tuple[Any, int, int]:
    """Merge neighbors as `dgmm.shards.merge` does. Each merge gets one of its pair as bytes, which are counted."""
    moved, largest = 0, len(pickle.dumps(level[0]))
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        sizes = [len(pickle.dumps(pair[1])) for pair in pairs if len(pair) == 2]
        moved, largest = moved + sum(sizes), max(largest, *sizes)
        level = [shards.merge(pair) for pair in pairs]
    return level[0], moved + len(pickle.dumps(level[0])), largest


def bisected(centers: Any, parts: int) -> Any:
    """The machine that owns each center: halves along the direction of the largest spread, again and again."""
    owner = np.zeros(len(centers), dtype=np.int64)
    if parts == 1:
        return owner
    apart = centers - centers.mean(axis=0)
    along = apart @ np.linalg.eigh(apart.T @ apart)[1][:, -1]
    upper = np.argsort(along, kind="stable")[len(centers) // 2 :]
    is_upper = np.isin(np.arange(len(centers)), upper)
    owner[~is_upper] = bisected(centers[~is_upper], parts // 2)
    owner[is_upper] = parts // 2 + bisected(centers[is_upper], parts // 2)
    return owner


def regional(rows: int, columns: int) -> Any:
    """The same rows in 512 regions that hardly overlap."""
    rng = np.random.default_rng(3)
    places = 12 * rng.standard_normal((512, columns), dtype=np.float32)
    return made(rows, columns) + places[rng.integers(512, size=rows)]


def owned(rows: int, clusters: int, columns: int, machines: tuple[int, ...], *, regions: bool) -> list[dict[str, Any]]:
    """How much owners of centers would need from each other, if each row lived with its nearest center."""
    X = regional(rows, columns) if regions else made(rows, columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dgmm.DgmmWarning)
        model = dgmm.DGMM(clusters, random_state=0).fit(X)
    members = model.top_k(X, 5)[0]
    beside = np.zeros((clusters, clusters), dtype=bool)
    beside[members[:, :1], members] = True
    found = []
    for count in machines:
        owner = bisected(model.cluster_centers_, count)
        home = owner[members[:, 0]]
        held, seen = [], []
        for machine in range(count):
            own = owner == machine
            near = own | beside[own].any(axis=0)
            held.append(int((near & ~own).sum()) / own.sum())
            seen.append(int(((near | beside[near].any(axis=0)) & ~own).sum()) / own.sum())
        found.append(
            {
                "regions": regions,
                "machines": count,
                "rows": rows,
                "clusters": clusters,
                "columns": columns,
                "rows_apart": float((owner[members] != home[:, None]).any(axis=1).mean()),
                "fullest": float(np.bincount(home, minlength=count).max() * count / rows),
                "held": float(np.mean(held)),
                "seen": float(np.mean(seen)),
            }
        )
    return found
