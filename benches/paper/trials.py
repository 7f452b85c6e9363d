"""The trials of an experiment, and the statistics that all experiments need."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sets import SOURCES, Library
from systems import measure

Record = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """One thing to run. `cost` is about proportional to its time, for the estimate of the time left."""

    settings: dict[str, Any]
    cost: float
    run: Callable[[dict[str, Any], Library, int], dict[str, Any]] = measure

    @property
    def data(self) -> str:
        return str(self.settings["data"])


# The approximate cost of a row in a fit: distances, times their cost relative to one in a dense block.
WORK = {"vc-GMM": 16 * 20 * 4.0, "D-GMM": 22 * 10 * 4.0, "D-GMM, defaults": 10 * 60 * 1.0}


def a_fit(data: str, system: str, clusters: int, coreset: int | None, repeat: int, **more: Any) -> Trial:
    """A trial of `measure`. `more`: truncation, search, init, similarity, judged, bound."""
    rows, columns = SOURCES[data].shape
    work = WORK.get(system, 8.0 * clusters)
    distances = (coreset or rows) * work + 4 * rows + (rows * clusters if more.get("judged", True) else 0)
    settings = {"data": data, "system": system, "clusters": clusters, "coreset": coreset, "repeat": repeat} | more
    return Trial(settings, 1e9 + distances * columns)


def of(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """The trials with these settings."""
    return [r for r in records if all(r["settings"].get(name) == value for name, value in wanted.items())]


def values(records: Iterable[Record], pick: Callable[[Record], float]) -> list[float]:
    return [pick(record["result"]) for record in records]


def mean(numbers: Iterable[float]) -> float:
    numbers = list(numbers)
    return statistics.fmean(numbers) if numbers else math.nan


def deviation(numbers: Iterable[float]) -> float:
    """Standard deviation of a sample; 0 of a single number."""
    numbers = list(numbers)
    return statistics.stdev(numbers) if len(numbers) > 1 else 0.0


def spread(numbers: Iterable[float], digits: int = 1) -> str:
    """Mean ± standard deviation."""
    numbers = list(numbers)
    return f"{mean(numbers):,.{digits}f} ± {deviation(numbers):,.{digits}f}" if numbers else "-"


def distinct(records: Iterable[Record], name: str) -> list[Any]:
    """The values of a setting, in order of first occurrence."""
    return list(dict.fromkeys(record["settings"].get(name) for record in records))


def slope(pairs: Iterable[tuple[float, float]]) -> float:
    """The exponent p of y ~ x^p by least squares of the logarithms."""
    logs = [(math.log(x), math.log(y)) for x, y in pairs if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        return math.nan
    return statistics.linear_regression([x for x, _ in logs], [y for _, y in logs]).slope
