"""The project's goals, judged by the measurements alone: only measured settings, no interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from common import Measurement, median_of, number
from contenders import CONTENDERS, OUR_CURVE

MANY_CLUSTERS, MANY_ROWS = 200, 30_000
QUICK_SHARE, REACH_SHARE = 0.7, 0.4
FAISS_SHARE = {1_000: 1 / 15, 4_000: 1 / 40, 16_000: 1 / 150}
CONVERGED_SHARE, REFINED_SHARE = 1 / 5, 1 / 20
CONVERGED_PEERS = ("faiss-100", "sklearn-converged")
REFINED = ("dgmm-quick-refine", "dgmm-refine", "dgmm-1e-5-refine")
MEMORY_SHARE, SPEED_UP = 0.5, 1.8
GROWTH_FROM, GROWTH_TO, GROWTH = 1_000, 16_000, 2.0


WORDS = {
    "quick": f'`tol="quick"` takes at most {QUICK_SHARE} of SuperKMeans\' time, at a lower error',
    "quick, reach": f"SuperKMeans' error is reached in at most {REACH_SHARE} of its time",
    "default": "`dgmm.DGMM(M)` has no higher error than faiss or scikit-learn after 10 iterations, in at most 1/15, "
    "1/40 and 1/150 of faiss's time at M = 1,000, 4,000 and 16,000",
    "converged": "the previous version's error at `tol=1e-5` is reached in at most a fifth of its time",
    "refined": "`refine` reaches the errors of converged faiss and scikit-learn in at most 1/20 of their time",
    "threads": f"two threads are at least {SPEED_UP} times as fast as one",
    "memory": f"the default fit needs less than {MEMORY_SHARE} times the size of its input in extra memory",
    "growth": f"from M = {GROWTH_FROM:,} to {GROWTH_TO:,}, the default fit takes less than {GROWTH:g} times as long",
}


@dataclass(frozen=True)
class Verdict:
    goal: str
    dataset: str
    clusters: int
    met: bool | None  # None: no target is set for this size
    text: str

    def line(self) -> str:
        word = {True: "**met**", False: "**not met**", None: "no target"}[self.met]
        return f"{self.goal} · {self.dataset}, M = {self.clusters:,}: {word}; {self.text}"


@dataclass(frozen=True)
class Median:
    name: str
    seconds: float
    error: float
    peak_bytes: float

    @property
    def measured(self) -> bool:
        return math.isfinite(self.seconds) and math.isfinite(self.error)


class Panel:
    """The medians of one data set at one number of clusters."""

    def __init__(self, dataset: str, clusters: int, measurements: list[Measurement], facts: dict[str, Any]) -> None:
        self.dataset, self.clusters, self.facts = dataset, clusters, facts
        mine = [m for m in measurements if m["dataset"] == dataset and m["clusters"] == clusters]
        names = dict.fromkeys(m["contender"] for m in mine)
        self.runs = {name: [m for m in mine if m["contender"] == name] for name in names}

    def median(self, name: str) -> Median:
        runs = self.runs.get(name, [])
        return Median(name, *(median_of(runs, key) for key in ("seconds", "error", "peak_bytes")))

    def medians(self) -> list[Median]:
        """Every contender, the quickest first, those without a measurement last."""
        return sorted(map(self.median, self.runs), key=lambda m: (not m.measured, m.seconds))

    def curve(self) -> list[Median]:
        """Our estimator at all its settings, the quickest first."""
        return [m for m in self.medians() if CONTENDERS[m.name].library in OUR_CURVE and m.measured]

    def peers(self) -> list[Median]:
        """The other libraries, in the order of `contenders.py`."""
        names = [name for name, c in CONTENDERS.items() if not c.ours and name in self.runs]
        return [m for m in map(self.median, names) if m.measured]

    def quickest_to(self, error: float, among: Iterable[str] | None = None) -> Median | None:
        names = None if among is None else set(among)
        return next((m for m in self.curve() if m.error <= error and (names is None or m.name in names)), None)

    def verdict(self, goal: str, met: bool | None, text: str) -> Verdict:
        return Verdict(goal, self.dataset, self.clusters, met, text)


def share_words(ours: Median, peer: Median) -> str:
    ratio = ours.seconds / peer.seconds
    return (
        f"{ours.name} {number(ours.seconds)} s of {peer.name}'s {number(peer.seconds)} s: {number(ratio)} of its time"
    )


def error_words(ours: Median, peer: Median) -> str:
    return f"error {100 * (ours.error / peer.error - 1):+.2f} %"


def _reach(
    panel: Panel, goal: str, peer: Median, share: float | None, among: Iterable[str] | None = None
) -> Iterator[Verdict]:
    """The quickest of our settings at or below the peer's error, as a share of the peer's seconds."""
    target = "" if share is None else f" (target {number(share)})"
    ours = panel.quickest_to(peer.error, among)
    if ours is None:
        names = [m for m in panel.curve() if among is None or m.name in among]
        if names:
            best = min(names, key=lambda m: m.error)
            text = f"the error of {peer.name} is not reached; {best.name}: {error_words(best, peer)}"
            yield panel.verdict(goal, False, text)
        return
    met = None if share is None else ours.seconds <= share * peer.seconds
    text = f"the error of {peer.name} is reached: {share_words(ours, peer)}{target}, {error_words(ours, peer)}"
    yield panel.verdict(goal, met, text)


def _fit(panel: Panel, goal: str, name: str, peer_name: str, share: float | None, lower: bool) -> Iterator[Verdict]:
    """One of our settings against a peer: both its time and its error."""
    ours, peer = panel.median(name), panel.median(peer_name)
    if not (ours.measured and peer.measured):
        return
    better = ours.error < peer.error if lower else ours.error <= peer.error
    met = better and (share is None or ours.seconds <= share * peer.seconds)
    target = "" if share is None else f" (target {number(share)})"
    yield panel.verdict(goal, met, f"{share_words(ours, peer)}{target}, {error_words(ours, peer)}")


def quick(panel: Panel) -> Iterator[Verdict]:
    if panel.clusters >= MANY_CLUSTERS and panel.facts["rows"] >= MANY_ROWS:
        yield from _fit(panel, "quick", "dgmm-quick", "superkmeans", QUICK_SHARE, lower=True)
        peer = panel.median("superkmeans")
        if peer.measured:
            yield from _reach(panel, "quick, reach", peer, REACH_SHARE)


def default(panel: Panel) -> Iterator[Verdict]:
    yield from _fit(panel, "default", "dgmm", "faiss-10", FAISS_SHARE.get(panel.clusters), lower=False)
    yield from _fit(panel, "default", "dgmm", "sklearn-10", None, lower=False)


def converged(panel: Panel) -> Iterator[Verdict]:
    before = panel.median("dgmm-before-1e-5")
    if before.measured:
        yield from _reach(panel, "converged", before, CONVERGED_SHARE)
    for name in CONVERGED_PEERS:
        peer = panel.median(name)
        if peer.measured:
            yield from _reach(panel, "refined", peer, REFINED_SHARE, REFINED)


def memory(panel: Panel) -> Iterator[Verdict]:
    ours = panel.median("dgmm")
    if ours.measured:
        share = ours.peak_bytes / panel.facts["bytes"]
        text = f"the default fit peaks {number(ours.peak_bytes / 1e6)} MB above an input of "
        text += f"{number(panel.facts['bytes'] / 1e6)} MB: {number(share)} (target {MEMORY_SHARE})"
        yield panel.verdict("memory", share < MEMORY_SHARE, text)


def threads(panel: Panel) -> Iterator[Verdict]:
    one, two = panel.median("dgmm-1-thread"), panel.median("dgmm")
    if one.measured and two.measured:
        gain = one.seconds / two.seconds
        text = f"all threads are {number(gain)} times as fast as one (target {SPEED_UP} for two)"
        yield panel.verdict("threads", gain >= SPEED_UP, text)


def growth(every: list[Panel]) -> Iterator[Verdict]:
    """The seconds of the default fit at many clusters over those at few, on the same data."""
    for few in every:
        many = next((p for p in every if p.dataset == few.dataset and p.clusters == GROWTH_TO), None)
        if few.clusters == GROWTH_FROM and many is not None:
            ratio = many.median("dgmm").seconds / few.median("dgmm").seconds
            if math.isfinite(ratio):
                text = f"{number(ratio)} times the seconds of M = {GROWTH_FROM:,} (target below {GROWTH:g})"
                yield many.verdict("growth", ratio < GROWTH, text)


GOALS: tuple[Callable[[Panel], Iterator[Verdict]], ...] = (quick, default, converged, threads, memory)


def panels(results: dict[str, Any]) -> list[Panel]:
    measurements = results["measurements"]
    keys = dict.fromkeys((m["dataset"], m["clusters"]) for m in measurements)
    return [Panel(dataset, clusters, measurements, results["data"][dataset]) for dataset, clusters in keys]


def verdicts(results: dict[str, Any]) -> list[Verdict]:
    every = panels(results)
    found = [verdict for goal in GOALS for panel in every for verdict in goal(panel)] + list(growth(every))
    results["goals"] = [asdict(verdict) for verdict in found]
    return found


def summary(found: list[Verdict]) -> list[list[str]]:
    """How many verdicts of each goal are met, one row per goal."""
    rows = []
    for goal in dict.fromkeys(v.goal for v in found):
        judged = [v.met for v in found if v.goal == goal and v.met is not None]
        if judged:
            rows.append([f"{goal}: {WORDS[goal]}", f"{sum(judged)} of {len(judged)}"])
    return rows
