"""Artificial data: how close the learned centers come to the true ones, over many trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dgmm
import figures
import numpy as np
from matching import matched_rmse, squared_distances
from sets import PLANE_SETS, SOURCES, Library
from shared import number, table
from systems import LOOKS, check_size, evaluations, fit, rounded
from systems import draw as draw_rows
from trials import Record, Trial, deviation, distinct, mean, of, spread

TITLE = "Artificial data: recovering known centers"
SYSTEMS = ("k-means", "k-means + lwcs", "vc-GMM", "D-GMM", "D-GMM, defaults")
CLUSTERS = {"s1": 15, "s2": 15, "s3": 15, "s4": 15, "a1": 20, "a2": 35, "a3": 50, "birch1": 100}
TRUNCATION, SEARCH = 3, 5
BATCH = {False: 50, True: 4}
TRIALS = {False: {"s1": 500, "birch1": 20}, True: {"s1": 8}}
OTHER_TRIALS = {False: 100, True: 4}


def coreset_size(clusters: int, quick: bool) -> int:
    """The paper's 1,000 rows for 15 clusters, and as many per cluster for the other sets."""
    return round(clusters * (200 if quick else 1000) / 15)


def plan(quick: bool) -> list[Trial]:
    trials = []
    for data in PLANE_SETS:
        wanted = TRIALS[quick].get(data, OTHER_TRIALS[quick])
        for system in SYSTEMS:
            full = system in ("k-means", "D-GMM, defaults")
            coreset = None if full else coreset_size(CLUSTERS[data], quick)
            common = {"data": data, "system": system, "clusters": CLUSTERS[data], "coreset": coreset}
            rows = coreset or (100_000 if data == "birch1" else 5_000)
            for first in range(0, wanted, BATCH[quick]):
                count = min(BATCH[quick], wanted - first)
                settings = common | {"truncation": TRUNCATION, "search": SEARCH, "first": first, "trials": count}
                trials.append(Trial(settings, count * (6e7 + rows * CLUSTERS[data] * 400.0), recover))
    shown = {"data": "s1", "picture": True, **_picture_settings(quick)}
    return [*trials, Trial(shown, 1e7, picture)]


def _picture_settings(quick: bool) -> dict[str, Any]:
    size = coreset_size(CLUSTERS["s1"], quick)
    fixed = {"system": "D-GMM", "clusters": CLUSTERS["s1"], "truncation": TRUNCATION, "search": SEARCH}
    return fixed | {"coreset": size, "tries": 4 if quick else 50}


def _one_fit(data: Any, settings: dict[str, Any], seed: int, threads: int) -> tuple[Any, dict[str, Any]]:
    chosen = dict(settings) | {"repeat": seed}
    if settings["system"] == "D-GMM, defaults":
        del chosen["truncation"], chosen["search"]
    return fit(data, chosen, threads)


def recover(settings: dict[str, Any], library: Library, threads: int) -> dict[str, Any]:
    """A batch of fits with seeds from `first` on."""
    data = library.load(settings["data"])
    check_size(data, settings["clusters"], settings["coreset"])
    errors, missed, iterations, counts = [], [], [], []
    for seed in range(settings["first"], settings["first"] + settings["trials"]):
        model, result = _one_fit(data, settings, seed, threads)
        errors.append(matched_rmse(model.cluster_centers_, data.centers))
        missed.append(_missed(model.cluster_centers_, data.centers))
        iterations.append(result["iterations"])
        counts.append(evaluations(result))
    return {
        **data.facts(),
        "rmse": rounded(errors, 5),
        "missed": missed,
        "iterations": iterations,
        "evaluations": counts,
    }


def _missed(centers: Any, truth: Any) -> int:
    """True centers that no learned center is nearest to: 0 where every cluster was found."""
    return int(len(truth) - len(np.unique(squared_distances(centers, truth).argmin(axis=1))))


def picture(settings: dict[str, Any], library: Library, threads: int) -> dict[str, Any]:
    """The run whose centers are drawn: the first seed that finds every cluster or, if none does, the best run."""
    data = library.load(settings["data"])
    best: tuple[int, float, Any, int] | None = None
    for seed in range(settings["tries"]):
        model, _ = _one_fit(data, settings, seed, threads)
        error = matched_rmse(model.cluster_centers_, data.centers)
        missed = _missed(model.cluster_centers_, data.centers)
        if best is None or (missed, error) < best[:2]:
            best = missed, error, model.cluster_centers_, seed
        if missed == 0:
            break
    assert best is not None
    rows = np.random.default_rng(0).choice(len(data.rows), size=min(1_500, len(data.rows)), replace=False)
    points, _ = draw_rows(data, settings["coreset"], best[3])
    return {
        **data.facts(),
        "seed": best[3],
        "missed": best[0],
        "rmse": best[1],
        "centers": [rounded(c, 5) for c in best[2]],
        "truth": [rounded(c, 5) for c in data.centers],
        "points": [rounded(p, 4) for p in data.rows[np.sort(rows)]],
        "fitted": len(points),
    }


def _collected(records: list[Record], data: str, system: str, name: str) -> list[float]:
    mine = [r for r in of(records, data=data, system=system) if "rmse" in r["result"] and "first" in r["settings"]]
    return [value for r in mine for value in r["result"][name]]


def draw(records: list[Record], folder: Path) -> dict[str, str]:
    fits = [r for r in records if "first" in r["settings"]]
    shown = [data for data in PLANE_SETS if of(fits, data=data)]
    pictures = [r for r in records if r["settings"].get("picture")]
    if not shown:
        return {}
    drawn = {
        "artificial": "RMSE between learned and true centers after the best matching, relative to the RMSE of "
        "k-means on all rows; bars are one standard deviation over the trials."
    }
    with figures.figure(folder, "artificial", size=(7.5, 3.4)) as (drawing, axes):
        panel, width = axes[0, 0], 0.16
        for i, system in enumerate(SYSTEMS):
            base = [mean(_collected(fits, data, "k-means", "rmse")) for data in shown]
            errors = [np.array(_collected(fits, data, system, "rmse")) / b for data, b in zip(shown, base, strict=True)]
            x = np.arange(len(shown)) + (i - 2) * width
            present = [k for k, e in enumerate(errors) if len(e)]
            panel.bar(
                x[present],
                [errors[k].mean() for k in present],
                width,
                label=system,
                yerr=[errors[k].std() for k in present],
                color=LOOKS[system].color,
                alpha=0.85,
                error_kw={"elinewidth": 0.8, "ecolor": "0.3"},
            )
        panel.set_xticks(np.arange(len(shown)), [SOURCES[data].title for data in shown])
        panel.set(xlabel="data set", ylabel="RMSE to the true centers\n(RMSE of k-means = 1)", ylim=(0, None))
        figures.legend_below(drawing, [panel])
    for record in pictures:
        drawn |= _draw_run(record["result"], folder)
    return drawn


def _draw_run(result: dict[str, Any], folder: Path) -> dict[str, str]:
    with figures.figure(folder, "artificial-run", size=(4.6, 4.2)) as (drawing, axes):
        panel = axes[0, 0]
        panel.scatter(*np.array(result["points"]).T, s=2, color="0.75", rasterized=True)
        panel.plot([], [], "o", color="0.75", markersize=4, label="data")
        panel.plot(*np.array(result["truth"]).T, "o", mfc="none", color="#1d4e89", markersize=10, label="true centers")
        panel.plot(
            *np.array(result["centers"]).T, "x", color="#c1121f", markersize=7, mew=1.8, label="centers of D-GMM"
        )
        panel.set(
            xlabel="first coordinate (units of the data)",
            ylabel="second coordinate (units of the data)",
            aspect="equal",
        )
        panel.ticklabel_format(style="sci", scilimits=(0, 0))
        figures.legend_below(drawing, [panel])
    return {
        "artificial-run": f"One run of D-GMM on S1 (seed {result['seed']}, coreset of {result['fitted']:,} rows), "
        f"{len(result['truth']) - result['missed']} of {len(result['truth'])} clusters found."
    }


def report(records: list[Record], absent: dict[str, str]) -> list[str]:
    fits = [r for r in records if "first" in r["settings"]]
    body = []
    for data in PLANE_SETS:
        if not of(fits, data=data):
            body.append([SOURCES[data].title, absent.get(data, "not run yet"), *[""] * 6])
        for system in SYSTEMS:
            errors = _collected(fits, data, system, "rmse")
            if errors:
                settings = of(fits, data=data, system=system)[0]["settings"]
                missed = np.array(_collected(fits, data, system, "missed"))
                body.append(
                    [
                        SOURCES[data].title,
                        system,
                        settings["clusters"],
                        f"{settings['coreset'] or 'all'}",
                        len(errors),
                        f"{number(mean(errors))} ± {number(deviation(errors))}",
                        f"{100 * np.mean(missed == 0):.0f} %",
                        spread(_collected(fits, data, system, "iterations")),
                    ]
                )
    header = [
        "data",
        "system",
        "M",
        "rows fitted",
        "trials",
        "RMSE (units of the data)",
        "all clusters found",
        "iterations",
    ]
    lines = [
        f"H = C' = {TRUNCATION}, R = G = {SEARCH}; {dgmm.__name__}'s defaults in the last line of each set. The RMSE "
        "is the root of the mean squared distance between a true center and its partner under the best matching "
        "(`linear_sum_assignment`).",
        "",
        table(header, body),
        "",
        "The paper prints no numbers for this figure. It says that the truncated algorithms recover the centers as "
        "well as the exact one, with differences below a standard deviation, and shows a run with all centers found.",
    ]
    return [*lines, "", *_verdict(fits)]


def _verdict(fits: list[Record]) -> list[str]:
    lines = []
    for data in distinct(fits, "data"):
        exact, ours = (_collected(fits, data, s, "rmse") for s in ("k-means", "D-GMM"))
        if exact and ours:
            difference, sd = mean(ours) - mean(exact), float(np.std(exact + ours))
            word = "below" if abs(difference) < sd else "above"
            lines.append(
                f"- {SOURCES[data].title}: D-GMM's mean RMSE differs from that of k-means by "
                f"{number(difference)}, {word} the standard deviation of {number(sd)}."
            )
    return [*lines, "", *_reasons(fits)] if lines else []


def _reasons(fits: list[Record]) -> list[str]:
    reasons = [
        "What decides is the start: AFK-MC2 leaves some clusters without a center in most trials, for every system. "
        "k-means hardly ever recovers from that; the truncated systems, whose rows start from random sets K(n), do "
        "more often. The package's defaults start from greedy k-means++ on data of this size."
    ]
    ours, other = (_collected(fits, "s1", s, "rmse") for s in ("D-GMM", "vc-GMM"))
    if ours and other:
        difference, sd = mean(ours) - mean(other), float(np.std(ours + other))
        side = "above" if difference > 0 else "below"
        reasons.append(
            f"The paper's caption puts D-GMM ahead of vc-GMM too. Here its RMSE on S1 is {number(abs(difference))} "
            f"{side} that of vc-GMM, {abs(difference) / sd:.2f} standard deviations. With M = 15, the C' G + 1 = 16 "
            "candidates of vc-GMM are nearly all clusters there are, while D-GMM looks at H + R = 8."
        )
    return [" ".join(reasons)]
