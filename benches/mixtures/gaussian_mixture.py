#!/usr/bin/env python3
"""``GaussianMixture`` compared with scikit-learn's, and its time by the number of components.

usage: gaussian_mixture.py --data-dir DATA [--output FOLDER] [--rows N] [--repeats N] [--quick]

DATA has glove50.npy (from ``benches/peers/get_data.py``). scikit-learn has its own default start (k-means) and the
same rows, threads and number of EM iterations; the log-likelihood is computed by the same exact function for both.
Its time grows with rows x components, so the comparison uses a part of the rows (``--rows``). ``--quick`` runs on small
synthetic data.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from pathlib import Path

import dgmm
import numpy as np

THREADS = 2
ITERATIONS = 10


def seconds_of(work):
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def ours(X, components, seed, **settings):
    return dgmm.GaussianMixture(
        components, "diag", max_iter=ITERATIONS, tol=0.0, random_state=seed, n_threads=THREADS, **settings
    ).fit(X)


def theirs(X, components, seed):
    from sklearn.mixture import GaussianMixture

    return GaussianMixture(components, covariance_type="diag", max_iter=ITERATIONS, tol=0.0, random_state=seed).fit(X)


def exact_score(X, means, covariances, weights):
    """The mean log-likelihood, by the same function for all."""
    judge = dgmm.GaussianMixture(len(means), "diag")
    judge.cluster_centers_ = np.ascontiguousarray(means, dtype=np.float64)
    judge.covariances_, judge.weights_ = np.ascontiguousarray(covariances, dtype=np.float64), np.asarray(weights, float)
    judge.variance_, judge.n_features_in_ = 1.0, X.shape[1]
    return float(judge.score(X.astype(np.float64)))


def race(X, components, repeats):
    """Both on the same rows, taking turns."""
    found = {"ours": [], "theirs": []}
    for seed in range(repeats):
        for name, fit in (("ours", ours), ("theirs", theirs)):
            seconds, model = seconds_of(lambda fit=fit, seed=seed: fit(X, components, seed))
            score = exact_score(X, model.means_, model.covariances_, model.weights_)
            found[name].append({"seconds": seconds, "score": score})
    return {
        "rows": len(X),
        "components": components,
        "iterations": ITERATIONS,
        **{
            name: {key: statistics.median(run[key] for run in runs) for key in ("seconds", "score")}
            for name, runs in found.items()
        },
    }


def growth(X, counts, repeats):
    """Seconds of the diagonal fit of all rows against the number of components."""
    found = {count: [] for count in counts}
    for seed in range(repeats):
        for count in counts:
            found[count].append(seconds_of(lambda count=count, seed=seed: ours(X, count, seed))[0])
    return {str(count): statistics.median(runs) for count, runs in found.items()}


def page(results):
    race, growth = results["race"], results["growth"]
    a, b = race["ours"], race["theirs"]
    counts = list(growth)
    lines = [
        "# GaussianMixture with diagonal covariances",
        "",
        f"Made by `benches/mixtures/gaussian_mixture.py` with {THREADS} threads on {results['cpus']} CPUs, load "
        f"{results['load']:.1f} when it began; medians of {results['repeats']}. {results['data']}.",
        "",
        f"{race['rows']:,} rows, {race['components']:,} components, {race['iterations']} EM iterations each, start "
        "included; the mean log-likelihood of all these rows under all components:",
        "",
        "| | seconds | mean log-likelihood |",
        "|---|---|---|",
        f'| `dgmm.GaussianMixture(M, "diag")` | {a["seconds"]:.2f} | {a["score"]:.3f} |',
        f'| scikit-learn `GaussianMixture(M, covariance_type="diag")` | {b["seconds"]:.1f} | {b["score"]:.3f} |',
        f"| ratio, difference | {b['seconds'] / a['seconds']:.0f} x | {a['score'] - b['score']:+.3f} |",
        "",
        f"All {results['all_rows']:,} rows, {race['iterations']} EM iterations, start included:",
        "",
        "| components | seconds |",
        "|---|---|",
        *(f"| {int(count):,} | {seconds:.2f} |" for count, seconds in growth.items()),
        "",
        f"From {int(counts[0]):,} to {int(counts[-1]):,} components: {growth[counts[-1]] / growth[counts[0]]:.2f} x.",
        "",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--components", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    warnings.simplefilter("ignore")
    if options.quick:
        rng = np.random.default_rng(0)
        X = (rng.normal(size=(300, 8))[rng.integers(300, size=8000)] + 0.2 * rng.standard_normal((8000, 8))).astype(
            "f4"
        )
        options.rows, options.components, options.repeats, counts, data = 4000, 64, 1, [100, 400], "Made data"
    else:
        X, counts, data = np.load(options.data_dir / "glove50.npy"), [1000, 4000, 16000], "GloVe, 50 columns, float32"
    part = X[np.random.default_rng(0).permutation(len(X))[: options.rows]]
    results = {
        "data": data,
        "cpus": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "repeats": options.repeats,
        "all_rows": len(X),
        "race": race(part, options.components, options.repeats),
        "growth": growth(X, counts, options.repeats),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "gaussian_mixture.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (options.output / "gaussian_mixture.md").write_text(page(results), encoding="utf-8")
    print(page(results))


if __name__ == "__main__":
    main()
