"""The hyperparameters: evaluations and time against R at H = 5 and against H at R = 10, relative to exact k-means."""

from __future__ import annotations

from pathlib import Path

import figures
from shared import number, table
from trials import Record, Trial, a_fit, deviation, distinct, mean, of, spread

TITLE = "Hyperparameters"
CLUSTERS = {False: 500, True: 30}
CORESET = {False: 2**12, True: 256}
REPEATS = {False: 5, True: 1}
SEARCHES = {False: (1, 2, 5, 10, 20, 40, 80), True: (2, 5, 10)}
TRUNCATIONS = {False: (1, 2, 5, 10, 20), True: (2, 5)}
FIXED_TRUNCATION, FIXED_SEARCH = 5, 10


def plan(quick: bool) -> list[Trial]:
    trials = []
    for repeat in range(REPEATS[quick]):
        base = ("cifar10", "k-means + lwcs", CLUSTERS[quick], CORESET[quick], repeat)
        trials.append(a_fit(*base, bound=True))
        points = [(FIXED_TRUNCATION, r) for r in SEARCHES[quick]] + [(h, FIXED_SEARCH) for h in TRUNCATIONS[quick]]
        for h, r in dict.fromkeys(points):
            trials.append(a_fit("cifar10", "D-GMM", CLUSTERS[quick], CORESET[quick], repeat, truncation=h, search=r))
    return trials


def sweep(records: list[Record], axis: str) -> dict[int, list[tuple[Record, Record]]]:
    """The fits for each value on the axis, each with the k-means of its repetition."""
    fixed = {"truncation": FIXED_TRUNCATION} if axis == "search" else {"search": FIXED_SEARCH}
    base = {r["settings"]["repeat"]: r["result"] for r in of(records, system="k-means + lwcs")}
    mine = [r for r in of(records, system="D-GMM", **fixed) if r["settings"]["repeat"] in base]
    return {
        value: [(r["result"], base[r["settings"]["repeat"]]) for r in of(mine, **{axis: value})]
        for value in sorted(distinct(mine, axis))
    }


def ratios(pairs: list[tuple[Record, Record]], clock: str | None) -> list[float]:
    """Speed-ups over k-means, in evaluations of the E-steps or in seconds."""
    if clock is None:
        return [base["evaluations"]["em"] / mine["evaluations"]["em"] for mine, base in pairs]
    return [base[clock] / max(mine[clock], 1e-4) for mine, base in pairs]


def draw(records: list[Record], folder: Path) -> dict[str, str]:
    sweeps = {axis: sweep(records, axis) for axis in ("search", "truncation")}
    if not any(sweeps.values()):
        return {}
    with figures.figure(folder, "hyperparameters", 1, 2) as (drawing, axes):
        names = {"search": "R, clusters drawn (H = 5)", "truncation": "H, clusters kept (R = 10)"}
        for panel, (axis, points) in zip(axes.flat, sweeps.items(), strict=True):
            for clock, label, color, marker in (
                (None, "distance evaluations", "#1d4e89", "o"),
                ("cpu", "CPU seconds", "#2a7f3f", "s"),
            ):
                y = [ratios(pairs, clock) for pairs in points.values()]
                panel.errorbar(
                    list(points),
                    [mean(v) for v in y],
                    yerr=[deviation(v) for v in y],
                    color=color,
                    marker=marker,
                    markersize=5,
                    capsize=2,
                    label=label,
                )
            panel.axhline(1, color="black", linestyle=":", label="exact k-means")
            panel.set(title="CIFAR-10", xlabel=names[axis], ylabel="speed-up over k-means")
            figures.log_axes(panel)
            panel.set_xticks(list(points), [str(v) for v in points])
            panel.minorticks_off()
        figures.legend_below(drawing, [axes[0, 0]])
    return {
        "hyperparameters": "Speed-up over exact k-means on the same coreset, in distance evaluations of EM and in "
        "CPU seconds; bars are one standard deviation."
    }


def report(records: list[Record], absent: dict[str, str]) -> list[str]:
    if not records:
        return [absent.get("cifar10", "Not run yet.")]
    settings = records[0]["settings"]
    lines = [
        f"CIFAR-10, M = {settings['clusters']}, a coreset of {settings['coreset']:,} rows; error above that of "
        f"k-means on the same coreset; repetitions: {len(distinct(records, 'repeat'))}."
    ]
    for axis, fixed in (("search", "R (H = 5)"), ("truncation", "H (R = 10)")):
        body = [
            [
                value,
                spread(ratios(pairs, None)),
                spread(ratios(pairs, "cpu"), 2),
                spread(mine["iterations"] for mine, _ in pairs),
                number(mean(mine["cpu"] for mine, _ in pairs)),
                spread(100 * (mine["error"] / base["error"] - 1) for mine, base in pairs),
            ]
            for value, pairs in sweep(records, axis).items()
        ]
        header = [fixed, "speed-up, evaluations", "speed-up, CPU", "iterations", "CPU s", "error % above k-means"]
        lines += ["", table(header, body)]
    return [*lines, "", *_verdict(records)]


def _verdict(records: list[Record]) -> list[str]:
    best = {
        (axis, clock): max(points, key=lambda value, c=clock, p=points: mean(ratios(p[value], c)))
        for axis in ("search", "truncation")
        for clock in (None, "cpu")
        if (points := sweep(records, axis))
    }
    if len(best) < 4:
        return []
    return [
        "The paper prints no numbers. It finds that fewer draws R mean fewer evaluations throughout, that time falls "
        "with R only down to about 40, because setting up a sampler for every row costs more than drawing from it, and "
        "that both fall with H. Here the evaluations are fewest at "
        f"R = {best['search', None]} and H = {best['truncation', None]}, and the time at R = {best['search', 'cpu']} "
        f"and H = {best['truncation', 'cpu']}. There is no cost of setting up: a sampler is an alias table a cluster, "
        "made once an iteration. But with very few draws, or very few members kept, F rises so slowly that the "
        "iterations grow faster than each of them shrinks."
    ]
