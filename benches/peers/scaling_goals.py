"""The goals that `scaling.py` measures, each computed from its results alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from common import median_of, number

GROWTH_FROM, GROWTH_TO, GROWTH_LIMIT = 1_000, 16_000, 2.0
SPEED_UP, APPROXIMATE_SPEED_UP, APPROXIMATE_SHARE = 1.8, 10.0, 0.98
SAME_ERROR = 1.001  # ratio of errors up to which two fits from the same start count as equal
SMALL_PAIRS = (
    ("dgmm.KMeans, 20 iterations", "scikit-learn, 20 iterations"),
    ("dgmm.KMeans, defaults", "scikit-learn, defaults"),
    ("dgmm.DGMM, defaults", "scikit-learn, defaults"),
)
WORD = {True: "met", False: "not met"}


def goal_4(results: dict[str, Any]) -> Iterator[str]:
    """Small problems: never slower than scikit-learn with the same start and error."""
    rows = {(r["data"], r["clusters"], r["label"]): r for r in results["small"]}
    for ours, peer in SMALL_PAIRS:
        pairs = [(rows[d, m, ours], rows[d, m, peer]) for d, m in dict.fromkeys((d, m) for d, m, _ in rows)]
        ratios = [(a["seconds"] / b["seconds"], a["error"] / b["error"]) for a, b in pairs]
        ratios = [ratio for ratio in ratios if all(map(math.isfinite, ratio))]
        if ratios:
            slowest, worst = max(r[0] for r in ratios), max(r[1] for r in ratios)
            met = slowest <= 1 and worst <= SAME_ERROR
            yield (
                f"Goal 4: {WORD[met]}; {ours} against {peer}, same start: slowest ratio of seconds {number(slowest)} "
                f"(target at most 1), highest ratio of errors {worst:.4f} (target at most {SAME_ERROR})"
            )


def seconds_at(results: dict[str, Any], part: str, value: int) -> float:
    points = [p for sweep in results["sweeps"] if sweep["part"] == part for p in sweep["points"]]
    return next((p["seconds"] for p in points if p["value"] == value), math.nan)


def goal_5(results: dict[str, Any]) -> Iterator[str]:
    growth = seconds_at(results, "clusters", GROWTH_TO) / seconds_at(results, "clusters", GROWTH_FROM)
    if math.isfinite(growth):
        text = f"from M = {GROWTH_FROM:,} to {GROWTH_TO:,} the seconds grow {number(growth)} times"
        yield f"Goal 5: {WORD[growth < GROWTH_LIMIT]}; {text} (target below {GROWTH_LIMIT:g})"


def goal_7(results: dict[str, Any]) -> Iterator[str]:
    gain = seconds_at(results, "threads", 1) / seconds_at(results, "threads", 2)
    if math.isfinite(gain):
        text = f"two threads are {number(gain)} times as fast as one"
        yield f"Goal 7: {WORD[gain >= SPEED_UP]}; {text} (target at least {SPEED_UP})"


def goal_9(results: dict[str, Any]) -> Iterator[str]:
    runs = results["predict"]
    if not runs:
        return
    faster = median_of(runs, "exact_seconds") / median_of(runs, "approximate_seconds")
    share = median_of(runs, "within_1_percent")
    if not math.isfinite(faster):
        yield f"Goal 9: no verdict; {runs[0].get('reason', 'no measurement')}"
        return
    met = faster >= APPROXIMATE_SPEED_UP and share >= APPROXIMATE_SHARE
    yield (
        f"Goal 9: {WORD[met]}; M = {runs[0]['clusters']:,}: approximate search is {number(faster)} times as fast as "
        f"exact (target {APPROXIMATE_SPEED_UP:g}), {100 * share:.2f} % of the points get their nearest cluster or one "
        f"within 1 % of its distance (target {100 * APPROXIMATE_SHARE:g} %)"
    )


def goal_lines(results: dict[str, Any]) -> list[str]:
    return [line for goal in (goal_4, goal_5, goal_7, goal_9) for line in goal(results)]
