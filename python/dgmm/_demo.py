"""What ``dgmm demo`` shows: a fit of many clusters, its time and error beside scikit-learn's, and a picture."""

from __future__ import annotations

import importlib
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dgmm

SIDE = 8
"""Patches have 8 x 8 pixels."""


class MissingExtraError(ImportError):
    """A package of an extra is not installed."""


@dataclass(frozen=True)
class Outcome:
    """How one program did."""

    name: str
    seconds: float
    error: float
    iterations: int


def demo(*, rows: int, clusters: int, threads: int | None, seed: int, output: Path, compare: bool) -> list[Outcome]:
    """Make data, fit it, print what came out and save a picture."""
    pyplot = _pyplot()
    threads = threads or _available_threads()
    X = patches(rows, max(clusters, 2), seed)
    print(f"{rows} patches of {SIDE} x {SIDE} pixels, float32, {clusters} clusters, {threads} threads, seed {seed}")

    model = dgmm.DGMM(clusters, random_state=seed, n_threads=threads, verbose=1)
    outcomes = [_timed("dgmm.DGMM", model, X)]
    if compare:
        outcomes.append(_timed_peer(X, clusters, threads, seed))

    print(f"\n{'':30}{'seconds':>10}{'iterations':>12}{'error (sum of squares)':>26}{'error / first':>15}")
    for outcome in outcomes:
        relative = outcome.error / outcomes[0].error
        print(f"{outcome.name:30}{outcome.seconds:10.2f}{outcome.iterations:12d}{outcome.error:26.6g}{relative:15.4f}")
    print("\nBoth with one start and their default settings otherwise; seconds include the choice of first centres.")
    print("The errors are exact and computed by the same function. Data made here; yours may behave otherwise.")

    _picture(pyplot, X, model, outcomes, output)
    print(f"Picture: {output}")
    return outcomes


def patches(rows: int, kinds: int, seed: int) -> NDArray[np.float32]:
    """Make noisy patches of ``kinds`` kinds, each a smooth texture with an edge; some are common and most are rare."""
    rng = np.random.default_rng(seed)
    frequency = np.arange(SIDE)
    cosines = np.cos(np.pi * np.outer(frequency, np.arange(SIDE) + 0.5) / SIDE)
    spectrum = 1.0 / (1.0 + np.add.outer(frequency, frequency)) ** 1.5
    spectrum[0, 0] = 0.3

    def smooth(count: int) -> NDArray[Any]:
        amplitudes = rng.standard_normal((count, SIDE, SIDE)) * spectrum
        mixed: NDArray[Any] = np.einsum("nij,ix,jy->nxy", amplitudes, cosines, cosines, optimize=True)
        return mixed

    at = (np.arange(SIDE) - (SIDE - 1) / 2) / SIDE
    angle, offset, height = rng.uniform(0, 2 * np.pi, kinds), rng.uniform(-0.4, 0.4, kinds), rng.exponential(1.5, kinds)
    slope = np.cos(angle)[:, None, None] * at[:, None] + np.sin(angle)[:, None, None] * at
    kind = smooth(kinds) + height[:, None, None] * np.tanh(12 * (slope - offset[:, None, None]))

    shares = 1.0 / np.arange(1, kinds + 1) ** 0.8
    chosen = rng.choice(kinds, size=rows, p=shares / shares.sum())
    made = kind[chosen] + 0.25 * smooth(rows) + 0.05 * rng.standard_normal((rows, SIDE, SIDE))
    return made.reshape(rows, SIDE * SIDE).astype(np.float32)


def _timed(name: str, model: Any, X: NDArray[np.float32]) -> Outcome:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    seconds = time.perf_counter() - began
    return Outcome(name, seconds, dgmm.quantization_error(X, model.cluster_centers_), int(model.n_iter_))


def _timed_peer(X: NDArray[np.float32], clusters: int, threads: int, seed: int) -> Outcome:
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    print("scikit-learn's KMeans on the same data and threads ...", flush=True)
    with threadpool_limits(limits=threads):
        return _timed("sklearn.cluster.KMeans", KMeans(clusters, n_init=1, random_state=seed), X)


def _available_threads() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _pyplot() -> Any:
    try:
        importlib.import_module("matplotlib").use("Agg")
        return importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise MissingExtraError("the picture needs matplotlib: pip install 'dgmm[plot]'") from error


def _picture(pyplot: Any, X: NDArray[np.float32], model: dgmm.DGMM, outcomes: list[Outcome], output: Path) -> None:
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 5), width_ratios=[1.2, 1], layout="constrained")
    left.imshow(_tiles(model), cmap="gray")
    left.set_title(f"the centres with the most of {len(X)} patches")
    left.set_axis_off()
    bars = right.barh([outcome.name for outcome in outcomes], [outcome.seconds for outcome in outcomes], color="0.6")
    labels = [f"{outcome.seconds:.2f} s, error {outcome.error:.5g}" for outcome in outcomes]
    right.bar_label(bars, labels, padding=4)
    right.set(xlabel="seconds", title=f"{model.n_clusters} clusters, {model.n_threads} threads", xmargin=0.6)
    figure.savefig(output, dpi=120)
    pyplot.close(figure)


def _tiles(model: dgmm.DGMM, side: int = 20) -> NDArray[Any]:
    """The most common centres as one picture, a pixel of gap between them."""
    sizes = np.bincount(model.labels_, minlength=len(model.cluster_centers_))
    common = model.cluster_centers_[np.argsort(-sizes, kind="stable")[: side * side]].reshape(-1, SIDE, SIDE)
    canvas = np.full((side, side, SIDE + 1, SIDE + 1), np.nan)
    for place, patch in zip(np.ndindex(side, side), common, strict=False):
        spread = np.ptp(patch) or 1.0
        canvas[place][:SIDE, :SIDE] = (patch - patch.min()) / spread
    return canvas.transpose(0, 2, 1, 3).reshape(side * (SIDE + 1), -1)
