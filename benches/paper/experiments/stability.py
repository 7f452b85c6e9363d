"""Stability: how far the centers of two runs are from each other."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import figures
import numpy as np
from matching import matched_rmse
from sets import Library
from shared import table
from systems import LOOKS, check_size, fit, rounded
from trials import Record, Trial, deviation, mean, of

TITLE = "Stability of the centers"
CLUSTERS = {False: 500, True: 15}
CORESET = {False: 2**12, True: 256}
RUNS = {False: {"k-means + lwcs": 8, "vc-GMM": 8, "D-GMM": 8, "k-means": 3}, True: dict.fromkeys(LOOKS, 3)}
SYSTEMS = ("D-GMM", "vc-GMM", "k-means + lwcs", "k-means")


def plan(quick: bool) -> list[Trial]:
    trials = []
    for system in SYSTEMS:
        coreset = None if system == "k-means" else CORESET[quick]
        settings = {
            "data": "cifar10",
            "system": system,
            "clusters": CLUSTERS[quick],
            "coreset": coreset,
            "runs": RUNS[quick][system],
        }
        work = 8.0 * CLUSTERS[quick] * (50_000 if coreset is None else coreset)
        trials.append(Trial(settings, settings["runs"] * work * 3072, compare))
    return trials


def compare(settings: dict[str, Any], library: Library, threads: int) -> dict[str, Any]:
    """Runs with different seeds (and coresets), and the RMSE of every pair."""
    data = library.load("cifar10")
    check_size(data, settings["clusters"], settings["coreset"])
    runs = [fit(data, settings | {"repeat": seed}, threads)[0].cluster_centers_ for seed in range(settings["runs"])]
    per_pixel = 1 / np.sqrt(data.rows.shape[1])
    return {**data.facts(), "rmse": rounded([per_pixel * matched_rmse(a, b) for a, b in combinations(runs, 2)], 5)}


def draw(records: list[Record], folder: Path) -> dict[str, str]:
    shown = [(s, of(records, system=s)[0]["result"]["rmse"]) for s in SYSTEMS if of(records, system=s)]
    if not shown:
        return {}
    with figures.figure(folder, "stability") as (_, axes):
        panel = axes[0, 0]
        panel.bar(
            range(len(shown)),
            [mean(rmse) for _, rmse in shown],
            yerr=[deviation(rmse) for _, rmse in shown],
            color=[LOOKS[s].color for s, _ in shown],
            width=0.6,
            alpha=0.85,
            capsize=4,
        )
        panel.set_xticks(range(len(shown)), [s for s, _ in shown])
        panel.set(title="CIFAR-10", ylabel="RMSE between matched centers\n(of a pixel in [0, 1])")
        panel.grid(axis="x", visible=False)
    return {"stability": "RMSE between the matched centers of every pair of runs; bars are one standard deviation."}


def report(records: list[Record], absent: dict[str, str]) -> list[str]:
    if not records:
        return [absent.get("cifar10", "Not run yet.")]
    body = []
    for record in records:
        settings, rmse = record["settings"], record["result"]["rmse"]
        body.append(
            [
                settings["system"],
                f"{settings['coreset'] or 'all'}",
                settings["runs"],
                len(rmse),
                f"{mean(rmse):.4f} ± {deviation(rmse):.4f}",
            ]
        )
    lines = [
        f"M = {records[0]['settings']['clusters']}, H = R = 5. Every run has a start and, with a coreset, a coreset of "
        "its own. The centers of two runs are matched so that the sum of squared distances is least; the RMSE is over "
        "centers and pixels.",
        "",
        table(["system", "rows fitted", "runs", "pairs", "RMSE of a pixel in [0, 1]"], body),
        "",
        "The paper makes 100 runs and prints no numbers; here are fewer, for the time that they take. ",
    ]
    ours, other = (of(records, system=s) for s in ("D-GMM", "vc-GMM"))
    if ours and other:
        ratio = mean(ours[0]["result"]["rmse"]) / mean(other[0]["result"]["rmse"])
        lines[-1] += (
            f"It claims a more stable recovery for D-GMM than for vc-GMM; here the RMSE of D-GMM is "
            f"{100 * abs(ratio - 1):.1f} % {'below' if ratio < 1 else 'above'} that of vc-GMM."
        )
    return lines
