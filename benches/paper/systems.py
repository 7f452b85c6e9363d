"""The systems that are compared, set up as in the paper, and a measured fit of one of them.

Protocol: AFK-MC2 with chains of length 5, uniform initial sets K(n), and a stop when the bound F rises by less than
1e-3 of its value. With a coreset, all systems of a repetition get the same one, and the same seed.

Distance evaluations are counted by stage: coreset (N), seeding, and the E-steps up to the last iteration. Wall and
CPU seconds cover the same stages. The error is computed afterwards, exactly, on all rows.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import dgmm
import numpy as np
from sets import DataSet, Library, MalformedDataError

PROTOCOL: dict[str, Any] = {"init": "afk-mc2", "chain_length": 5, "stop": "relative", "tol": 1e-3, "max_iter": 300}
BOUND_DIGITS = 7


@dataclass(frozen=True)
class Look:
    """The style of a system, which is the same in every figure."""

    color: str
    marker: str


LOOKS = {
    "k-means": Look("#222222", "o"),
    "k-means + lwcs": Look("#6c757d", "s"),
    "vc-GMM": Look("#1d4e89", "^"),
    "D-GMM": Look("#c1121f", "D"),
    "D-GMM, defaults": Look("#e07a1f", "v"),
    "exact EM": Look("#222222", "o"),
}


def estimator(system: str, clusters: int, seed: int, **changes: Any) -> Any:
    """A system under the protocol. `truncation` is H or C', `search` is R or G."""
    truncation, search = changes.pop("truncation", 5), changes.pop("search", 5)
    settings = PROTOCOL | {"random_state": seed} | changes
    if system in ("k-means", "k-means + lwcs"):
        return dgmm.KMeans(clusters, **settings)
    if system == "exact EM":
        return dgmm.ExactGMM(clusters, **settings)
    truncation = min(truncation, clusters)
    if system == "vc-GMM":
        return dgmm.VCGMM(clusters, truncation=truncation, neighbors=search, **settings)
    if system == "D-GMM":
        return dgmm.DGMM(clusters, truncation=truncation, proposals=search, engine="pointwise", **settings)
    if system == "D-GMM, defaults":
        return dgmm.DGMM(clusters, random_state=seed, **changes)
    raise ValueError(f"unknown system {system}")


class Clock:
    """Wall and CPU seconds from its creation to the last event of a fit."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()
        self.wall = self.cpu = 0.0

    def __call__(self, event: object = None) -> None:
        self.wall = time.perf_counter() - self._start[0]
        self.cpu = time.process_time() - self._start[1]


def draw(data: DataSet, size: int | None, seed: int) -> tuple[Any, Any]:
    """The rows to fit and their weights: a lightweight coreset, or all rows."""
    if size is None or size >= len(data.rows):
        return data.rows, None
    coreset = dgmm.lightweight_coreset(data.rows, size, random_state=seed)
    return coreset.points, coreset.weights


def check_size(data: DataSet, clusters: int, coreset: int | None) -> None:
    needed = max(clusters, coreset or 0)
    if needed > len(data.rows):
        raise MalformedDataError(f"{data.name} has {len(data.rows)} rows; this experiment needs at least {needed}")


def fit(data: DataSet, settings: dict[str, Any], threads: int) -> tuple[Any, dict[str, Any]]:
    """Fit as `settings` say; return the fitted estimator and what was measured."""
    clusters, coreset, seed = settings["clusters"], settings["coreset"], settings["repeat"]
    check_size(data, clusters, coreset)
    changes = {name: settings[name] for name in ("truncation", "search", "init", "similarity") if name in settings}
    clock = Clock()
    model = estimator(settings["system"], clusters, seed, n_threads=threads, callback=clock, **changes)
    rows, weights = draw(data, coreset, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # clusters that end empty are part of the result
        model.fit(rows, sample_weight=weights)
    em = int(model.history_["distance_evals"].sum())
    drawn = len(data.rows) if weights is not None else 0
    result = {
        **data.facts(),
        "iterations": model.n_iter_,
        "converged": bool(model.converged_),
        "evaluations": {"coreset": drawn, "seeding": model.n_distance_evals_["seeding"], "em": em},
        "wall": round(clock.wall, 4),
        "cpu": round(clock.cpu, 4),
    }
    if weights is None:
        result["inertia"] = float(model.inertia_)  # by the fit's own labels: the error, or a little above it
    return model, result


def rounded(values: Any, digits: int = BOUND_DIGITS) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, dtype=np.float64)]


def measure(settings: dict[str, Any], library: Library, threads: int) -> dict[str, Any]:
    """One trial: a fit, its errors on the data and on rows held out, and the bound after each iteration."""
    data = library.load(settings["data"])
    model, result = fit(data, settings, threads)
    if settings.get("judged", True):
        result["error"] = dgmm.quantization_error(data.rows, model.cluster_centers_)
    if data.held_out is not None:
        result["held_out_error"] = dgmm.quantization_error(data.held_out, model.cluster_centers_)
    if settings.get("bound", False):
        result["bound"] = rounded(model.history_["lower_bound"])
    return result


def evaluations(result: dict[str, Any], seeding: bool = False) -> int:
    """The paper's count: coreset and EM. Seeding, which it leaves out, on request."""
    counts = result["evaluations"]
    return counts["coreset"] + counts["em"] + (counts["seeding"] if seeding else 0)
