"""The demo of ``dgmm demo``: a fit of many clusters, its time and error next to scikit-learn's, and a picture."""

from __future__ import annotations

import importlib
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dgmm
from dgmm._extras import need
from dgmm._outputs import write_picture

SIDE = 8
"""Patches have 8 x 8 pixels."""


@dataclass(frozen=True)
class Outcome:
    """The result of one library."""

    name: str
    seconds: float
    error: float
    iterations: int


def demo(
    *, rows: int, clusters: int, threads: int | None, seed: int, output: Path, compare: bool, say: Callable[..., None]
) -> list[Outcome]:
    """Generate data, fit it, print the results and save a picture."""
    pyplot, shown = _pyplot(), int(sys.stderr.isatty())
    threads = threads or _available_threads()
    X = patches(rows, seed)
    say(f"{rows} patches of {SIDE} x {SIDE} pixels, float32, {clusters} clusters, {threads} threads, seed {seed}")

    model = dgmm.DGMM(clusters, random_state=seed, n_threads=threads, verbose=shown)
    outcomes = [_timed("dgmm.DGMM", model, X)]
    if compare:
        outcomes.append(
            _timed("dgmm.KMeans", dgmm.KMeans(clusters, random_state=seed, n_threads=threads, verbose=shown), X)
        )
        outcomes.append(_timed_peer(X, clusters, threads, seed, say))

    say(f"\n{'':24}{'seconds':>10}{'iterations':>12}{'sum of squared distances':>26}")
    for outcome in outcomes:
        say(f"{outcome.name:24}{outcome.seconds:10.2f}{outcome.iterations:12d}{outcome.error:26.6g}")
    say("\nEach makes one run, with default settings otherwise; seconds include initialization.")
    say("The same function computes all errors exactly. The data is synthetic; yours may behave differently.")

    figure = _picture(pyplot, len(X), model, outcomes)
    write_picture(output, figure, dpi=120)
    pyplot.close(figure)
    say(f"Picture: {output}")
    return outcomes


def patches(rows: int, seed: int) -> NDArray[np.float32]:
    """Cut patches out of a synthetic scene and normalize their mean and contrast, as is done with photographs."""
    rng = np.random.default_rng(seed)
    image = scene(rng, side=max(128, int((6 * rows) ** 0.5)))
    top, left = rng.integers(0, len(image) - SIDE + 1, size=(2, rows))
    cut = np.lib.stride_tricks.sliding_window_view(image, (SIDE, SIDE))[top, left].reshape(rows, SIDE * SIDE)
    cut = cut + 0.02 * rng.standard_normal(cut.shape, dtype=np.float32)
    cut -= cut.mean(axis=1, keepdims=True)
    contrast = np.sqrt(np.square(cut).mean(axis=1, keepdims=True) + 0.05)
    return np.asarray(cut / contrast, dtype=np.float32)


def scene(rng: np.random.Generator, side: int) -> NDArray[np.float32]:
    """Paint discs of many sizes over each other: the dead leaves model, whose statistics are like photographs'."""
    smallest, largest = 2.5, 120.0
    count = side * side // 20
    radius = smallest / np.sqrt(1 - rng.uniform(size=count) * (1 - (smallest / largest) ** 2))
    center, gray, slope = rng.uniform(0, side, (count, 2)), rng.uniform(-1, 1, count), rng.normal(0, 0.01, (count, 2))
    image, at = np.zeros((side, side), dtype=np.float32), np.arange(side)
    for r, (y, x), g, (sy, sx) in zip(radius, center, gray, slope, strict=True):
        tall, wide = slice(max(0, int(y - r)), int(y + r) + 2), slice(max(0, int(x - r)), int(x + r) + 2)
        dy, dx = at[tall, None] - y, at[wide] - x
        np.copyto(image[tall, wide], g + sy * dy + sx * dx, where=dy**2 + dx**2 < r**2, casting="same_kind")
    return image


def _timed(name: str, model: Any, X: NDArray[np.float32]) -> Outcome:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    seconds = time.perf_counter() - began
    return Outcome(name, seconds, dgmm.quantization_error(X, model.cluster_centers_), int(model.n_iter_))


def _timed_peer(X: NDArray[np.float32], clusters: int, threads: int, seed: int, say: Callable[..., None]) -> Outcome:
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    say("scikit-learn's KMeans on the same data and threads ...", flush=True)
    with threadpool_limits(limits=threads):
        return _timed("sklearn.cluster.KMeans", KMeans(clusters, n_init=1, random_state=seed), X)


def _available_threads() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _pyplot() -> Any:
    need("matplotlib", "plot", "the picture").use("Agg")
    return importlib.import_module("matplotlib.pyplot")


def _picture(pyplot: Any, rows: int, model: dgmm.DGMM, outcomes: list[Outcome]) -> Any:
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 5), width_ratios=[1.2, 1], layout="constrained")
    left.imshow(_tiles(model), cmap="gray")
    left.set_title(f"the most common centers of {rows} patches")
    left.set_axis_off()
    names = [f"{outcome.name}\nerror {outcome.error:.4g}" for outcome in outcomes]
    bars = right.barh(names, [outcome.seconds for outcome in outcomes], color="0.6")
    right.bar_label(bars, [f"{outcome.seconds:.2f} s" for outcome in outcomes], padding=4)
    right.set_xlim(0, 1.25 * max(outcome.seconds for outcome in outcomes))  # so that the longest bar's label fits
    right.invert_yaxis()
    right.set(xlabel="seconds", title=f"{model.n_clusters} clusters, {model.n_threads} threads")
    return figure


def _tiles(model: dgmm.DGMM, side: int = 20) -> NDArray[Any]:
    """The most common centers as one picture, with gaps of one pixel."""
    sizes = np.bincount(model.labels_, minlength=len(model.cluster_centers_))
    common = model.cluster_centers_[np.argsort(-sizes, kind="stable")[: side * side]].reshape(-1, SIDE, SIDE)
    canvas = np.full((side, side, SIDE + 1, SIDE + 1), np.nan)
    for place, patch in zip(np.ndindex(side, side), common, strict=False):
        spread = np.ptp(patch) or 1.0
        canvas[place][:SIDE, :SIDE] = (patch - patch.min()) / spread
    return canvas.transpose(0, 2, 1, 3).reshape(side * (SIDE + 1), -1)
