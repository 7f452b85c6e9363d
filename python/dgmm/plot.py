"""Plots of fits and of benchmarks with matplotlib (the extra "plot"), which is imported on use.

Each function draws into the given axes or a new figure, and returns the axes; save a picture with
``axes.figure.savefig("file.png")``.

>>> import matplotlib; matplotlib.use("Agg")
>>> import numpy as np, dgmm
>>> X = np.random.default_rng(0).normal(size=(1000, 5))
>>> model = dgmm.DGMM(30, random_state=0).fit(X)
>>> dgmm.plot.clusters(model, X).get_title()
'30 clusters, 1,000 of 1,000 rows'
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dgmm import _core
from dgmm._directions import unit
from dgmm._extras import need
from dgmm._validation import check_int, check_seed

if TYPE_CHECKING:
    from dgmm._base import Mixture

__all__ = ["cluster_sizes", "clusters", "convergence", "pareto", "sweep"]

BLUE, GREY, RED = "#2f6db3", "0.6", "#c1121f"
OTHERS = ["#1d4e89", "#2a9d8f", "#6c757d", "#9b5de5", "#e9a03b", "#000000", "#577590", "#80b918"]
MARKERS = "osD^vPX<>*hpd"
SHOWN_CENTERS = 500


def convergence(model: Mixture, ax: Any = None) -> Any:
    """Draw the lower bound by iteration, with the seconds in the title.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
    """
    check_is_fitted(model)
    ax = _axes(ax)
    bounds = model.history_["lower_bound"]
    turns = np.arange(1, len(bounds) + 1)
    ax.plot(turns, bounds, "o-", color=BLUE, markersize=4)
    ending = "converged" if model.converged_ else "not converged"
    seconds = float(model.history_["seconds"][-1])
    title = f"{type(model).__name__}, {len(model.cluster_centers_):,} clusters: {ending} in {seconds:.3g} s of EM"
    ax.set(xlabel="iteration", ylabel="lower bound per row", title=title)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(alpha=0.3)
    return ax


def cluster_sizes(model: Mixture, ax: Any = None) -> Any:
    """Draw how many rows each cluster has, from the largest to the smallest.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
    """
    check_is_fitted(model)
    if not hasattr(model, "labels_"):
        raise ValueError("model has no labels_; cluster_sizes needs them: fit with labels, and save them")
    ax = _axes(ax)
    sizes = np.sort(np.bincount(model.labels_, minlength=len(model.cluster_centers_)))[::-1]
    ax.fill_between(np.arange(1, len(sizes) + 1), sizes, step="mid", color=BLUE, alpha=0.35, linewidth=0)
    ax.step(np.arange(1, len(sizes) + 1), sizes, where="mid", color=BLUE, linewidth=1)
    ax.axhline(float(np.median(sizes)), color=GREY, linestyle="--", linewidth=1)
    ax.annotate(f" median {np.median(sizes):g}", (1, float(np.median(sizes))), va="bottom", color="0.35", fontsize=9)
    empty, single = int((sizes == 0).sum()), int((sizes == 1).sum())
    title = f"{len(sizes):,} clusters: {empty:,} empty, {single:,} of a single row, the largest of {sizes[0]:,}"
    ax.set(xlabel="clusters, by size", ylabel="rows", title=title, xlim=(0.5, len(sizes) + 0.5))
    if sizes[0] > 20 * np.median(sizes):
        ax.set_yscale("symlog", linthresh=1)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.grid(alpha=0.3)
    return ax


def clusters(model: Mixture, X: ArrayLike, ax: Any = None, *, sample_size: int = 10_000, random_state: Any = 0) -> Any:
    """Draw rows and centers in two dimensions: two columns, or the first two principal components of more columns.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    X : array-like of shape (n_samples, n_features)
        Rows; each is colored by its nearest cluster. With ``metric="cosine"`` their directions are drawn.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.
    sample_size : int
        The maximum number of rows to draw; of more rows, a random sample is drawn.
    random_state : int, RandomState or None
        The seed of the sample.

    Returns
    -------
    matplotlib.axes.Axes
    """
    check_is_fitted(model)
    sample_size = check_int("sample_size", sample_size)
    rows = model._test_rows(X)
    ax = _axes(ax)
    rng = np.random.default_rng(check_seed(random_state))
    chosen = np.sort(rng.choice(len(rows), min(sample_size, len(rows)), replace=False))
    some = np.ascontiguousarray(rows[chosen])
    centers, variance, threads = model._model()
    labels = _core.predict(some, centers, variance, threads)
    if model._fitted_metric() == "cosine":
        some = unit(some)
    shown = (
        centers if len(centers) <= SHOWN_CENTERS else centers[rng.choice(len(centers), SHOWN_CENTERS, replace=False)]
    )
    flat, flat_centers, names = _flattened(some, shown, list(getattr(model, "feature_names_in_", [])), rng)
    ax.scatter(*flat.T, c=labels % 20, cmap="tab20", vmin=0, vmax=19, s=6, alpha=0.6, linewidths=0, rasterized=True)
    ax.scatter(*flat_centers.T, marker="x", color="black", s=12, linewidths=0.8)
    title = f"{len(centers):,} clusters, {len(some):,} of {len(rows):,} rows"
    if len(shown) < len(centers):
        title += f", {len(shown):,} centers"
    ax.set(xlabel=names[0], ylabel=names[1], title=title)
    if rows.shape[1] == 1:
        ax.set(yticks=[], ylim=(-1, 1))
    return ax


def _flattened(
    rows: NDArray[Any], centers: NDArray[Any], names: list[str], rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any], tuple[str, str]]:
    """Rows and centers projected to two columns, and the names of these columns."""
    dim = rows.shape[1]
    names = names or [f"column {j}" for j in range(dim)]
    if dim == 1:
        scattered = np.column_stack([rows[:, 0], rng.uniform(-0.4, 0.4, len(rows))])
        return scattered, np.column_stack([centers[:, 0], np.zeros(len(centers))]), (names[0], "scattered at random")
    if dim == 2:
        return rows, centers, (names[0], names[1])
    mean = rows.mean(axis=0, dtype=np.float64)
    centered = rows - mean
    values, vectors = np.linalg.eigh(centered.T @ centered)
    total = float(values.sum()) or 1.0
    main = vectors[:, :-3:-1]
    # The sign of a component is arbitrary; make its largest entry positive.
    main = main * np.sign(main[np.abs(main).argmax(axis=0), [0, 1]])
    first, second = (f"component {k} ({100 * values[-k] / total:.0f} % of the variance)" for k in (1, 2))
    return centered @ main, (centers - mean) @ main, (first, second)


def sweep(table: Any, axes: Sequence[Any] | None = None) -> Any:
    """Draw the results of fits with several numbers of clusters.

    Parameters
    ----------
    table : mapping of columns
        A dict or a table, as from ``dgmm.sweep``, with the column "n_clusters" and at least one of "inertia", "bic" and
        "seconds", all equally long.
    axes : sequence of matplotlib.axes.Axes, optional
        Where to draw, one for each of these columns in the table; a new figure if not given.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
    """
    titles = {"inertia": "sum of squared distances", "bic": "BIC", "seconds": "seconds"}
    columns = set(table.columns) if hasattr(table, "columns") and not isinstance(table, Mapping) else set(table)
    shown = [name for name in titles if name in columns]
    if "n_clusters" not in columns or not shown:
        raise ValueError(
            f"table has the columns {sorted(map(str, columns))}; it must have 'n_clusters' and at least one of "
            f"{list(titles)}"
        )
    if getattr(table, "coreset_size", None) is not None:
        titles |= {"inertia": "sum of squared distances, coreset", "bic": "BIC, coreset"}
    sizes = np.asarray(table["n_clusters"], dtype=float)
    order = np.argsort(sizes, kind="stable")
    drawn = _several_axes(axes, shown)
    for ax, name in zip(drawn, shown, strict=True):
        values = np.asarray(table[name], dtype=float)
        ax.plot(sizes[order], values[order], "o-", color=BLUE, markersize=4)
        ax.set_xscale("log")
        if name != "bic":
            ax.set_yscale("log")
            _plain_ticks(ax.yaxis, values)
        elif np.isfinite(values).any():
            best = int(np.nanargmin(values))
            ax.plot(sizes[best], values[best], "*", color=RED, markersize=14, label=f"least at {sizes[best]:g}")
            ax.legend(frameon=False)
        _plain_ticks(ax.xaxis, sizes)
        ax.set(xlabel="number of clusters", ylabel=titles[name], title=titles[name])
        ax.grid(alpha=0.3, which="both")
    return drawn


def pareto(
    results: Mapping[str, Any] | str | os.PathLike[str],
    axes: Sequence[Any] | None = None,
    *,
    dataset: str | None = None,
    n_clusters: int | None = None,
) -> Any:
    """Draw the error of benchmarked libraries against their seconds, and the Pareto front.

    Parameters
    ----------
    results : mapping or path
        The results of ``benches/peers/pareto.py``, or the path of the JSON file. Its "measurements" have "dataset",
        "clusters", "contender", "status", "seconds" and "error"; medians over the repeats are drawn.
    axes : sequence of matplotlib.axes.Axes, optional
        Where to draw, one for each data set and number of clusters; a new figure if not given.
    dataset : str, optional
        Only this data set.
    n_clusters : int, optional
        Only this number of clusters.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
    """
    content = results if isinstance(results, Mapping) else json.loads(Path(results).read_text(encoding="utf-8"))
    panels: dict[tuple[str, int], dict[str, list[tuple[float, float]]]] = {}
    for run in content["measurements"]:
        key = (run["dataset"], run["clusters"])
        if run["status"] == "ok" and dataset in (None, key[0]) and n_clusters in (None, key[1]):
            point = (float(run["seconds"]), float(run["error"]))
            panels.setdefault(key, {}).setdefault(run["contender"], []).append(point)
    if not panels:
        raise ValueError(f"results have no successful measurement with dataset={dataset!r}, n_clusters={n_clusters!r}")
    drawn = _several_axes(axes, list(panels))
    for ax, ((name, size), runs) in zip(drawn, panels.items(), strict=True):
        _pareto_panel(ax, runs)
        ax.set_title(f"{name}, {size:,} clusters")
    return drawn


def _pareto_panel(ax: Any, runs: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    points = {who: (median(s for s, _ in done), median(e for _, e in done)) for who, done in runs.items()}
    best = min(error for _, error in points.values())
    above = {who: (seconds, 100 * (error / best - 1) if best else 0.0) for who, (seconds, error) in points.items()}
    front: list[tuple[float, float]] = []
    for point in sorted(above.values()):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    ax.plot(*zip(*front, strict=True), color=GREY, drawstyle="steps-post", zorder=1, label="Pareto front")
    for place, (who, (seconds, error)) in enumerate(above.items()):
        color = RED if who.startswith("dgmm") else OTHERS[place % len(OTHERS)]
        ax.plot(seconds, error, MARKERS[place % len(MARKERS)], color=color, label=who, linestyle="")
    ax.set_xscale("log")
    _plain_ticks(ax.xaxis, [seconds for seconds, _ in above.values()])
    ax.set(xlabel="seconds", ylabel="error above the best (%)")
    ax.legend(fontsize=8, frameon=False)
    ax.grid(alpha=0.3)


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    pyplot = need("matplotlib.pyplot", "plot", "dgmm.plot")
    return pyplot.subplots(figsize=(7, 4.5), layout="constrained")[1]


def _several_axes(axes: Sequence[Any] | None, panels: Sequence[Any]) -> Any:
    """One axes object per panel: the given ones, or those of a new figure."""
    count = len(panels)
    if axes is not None:
        given = np.atleast_1d(np.asarray(axes, dtype=object))
        if len(given) != count:
            raise ValueError(f"axes has {len(given)} entries; it must have {count}, one for each of {list(panels)}")
        return given
    pyplot = need("matplotlib.pyplot", "plot", "dgmm.plot")
    columns = min(3, count)
    rows = math.ceil(count / columns)
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(4.8 * columns, 3.8 * rows), squeeze=False, layout="constrained"
    )
    for ax in grid.flat[count:]:
        figure.delaxes(ax)
    return grid.ravel()[:count]


def _plain_ticks(axis: Any, values: Sequence[float] | NDArray[Any]) -> None:
    """Label a logarithmic axis with numbers instead of powers, unless it spans many orders of magnitude."""
    ticker = need("matplotlib.ticker", "plot", "dgmm.plot")
    if max(values) < 1000 * min(values):
        axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.12g}"))
        axis.set_minor_formatter(ticker.NullFormatter())
