#!/usr/bin/env python3
"""Cosine: DGMM(metric="cosine") against faiss.Kmeans(spherical=True), in turns, with the same number of threads.

    cosine.py [--data-dir DIR] [--output DIR] [--threads N] [--repeats N] [--clusters M] [--quick]

Data: glove50.npy (400,000 x 50) and word_pieces.npy (30,522 x 384, token embeddings of a language model) of DIR, see
benches/peers/get_data.py, and made embeddings of 256 columns: a mixture of 20,000 uneven topics in 48 latent columns
through a random layer with tanh, with noise, of uneven lengths. DGMM gets the rows as they are. faiss wants unit
rows, so it gets a normalized copy; the time of that copy is counted apart and is not held against it. faiss sees all
rows in each of its 10 iterations. The figure is the mean cosine of all rows to the center of largest cosine, by one
exact function for both.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import dgmm
import faiss
import numpy as np
from numpy.typing import NDArray

ITERATIONS = 10
GOAL = 10.0
AT_ONCE = 8192


def made(rows: int, columns: int = 256, topics: int = 20_000, latent: int = 48) -> NDArray[np.float32]:
    """Rows that look like embeddings: uneven topics on a curved surface, noise, and meaningless norms."""
    rng = np.random.default_rng(13)
    coarse = rng.standard_normal((200, latent)).astype(np.float32)
    centers = coarse[rng.integers(200, size=topics)] + 0.8 * rng.standard_normal((topics, latent), dtype=np.float32)
    shares = 1 / np.arange(1, topics + 1) ** 0.7
    layer = rng.standard_normal((latent, columns), dtype=np.float32) / np.sqrt(latent)
    out = np.empty((rows, columns), dtype=np.float32)
    for start in range(0, rows, AT_ONCE):
        count = min(AT_ONCE, rows - start)
        topic = rng.choice(topics, size=count, p=shares / shares.sum())
        hidden = centers[topic] + 0.35 * rng.standard_normal((count, latent), dtype=np.float32)
        values = np.tanh(hidden @ layer) + 0.15 * rng.standard_normal((count, columns), dtype=np.float32)
        out[start : start + count] = values * rng.lognormal(0, 0.5, size=(count, 1))
    return out


def unit(X: NDArray[np.float32]) -> NDArray[np.float32]:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def mean_cosine(Y: NDArray[np.float32], centers: NDArray[np.float32]) -> float:
    """The mean, over unit rows, of the largest cosine to a center: exact, and the same for all."""
    mu, total = unit(centers.astype(np.float32)), 0.0
    for start in range(0, len(Y), AT_ONCE):
        total += float((Y[start : start + AT_ONCE] @ mu.T).max(axis=1).sum(dtype=np.float64))
    return total / len(Y)


def by_dgmm(
    X: NDArray[np.float32], clusters: int, seed: int, threads: int, refine: Any = "auto"
) -> tuple[float, Any, dict[str, Any]]:
    model = dgmm.DGMM(clusters, metric="cosine", refine=refine, random_state=seed, n_threads=threads)
    began = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - began
    return seconds, model.cluster_centers_, {"n_iter": model.n_iter_, "concentration": model.concentration_}


def by_faiss(Y: NDArray[np.float32], clusters: int, seed: int, threads: int) -> tuple[float, Any, dict[str, Any]]:
    faiss.omp_set_num_threads(threads)
    enough = -(-len(Y) // clusters)
    began = time.perf_counter()
    kmeans = faiss.Kmeans(
        Y.shape[1], clusters, niter=ITERATIONS, spherical=True, seed=seed + 1, max_points_per_centroid=enough
    )
    kmeans.train(Y)
    return time.perf_counter() - began, kmeans.centroids, {"n_iter": ITERATIONS}


def race(name: str, X: NDArray[np.float32], clusters: int, repeats: int, threads: int) -> dict[str, Any]:
    """Run both in turns; return medians and the ratio of each turn."""
    began = time.perf_counter()
    Y = unit(X)
    copied = time.perf_counter() - began
    turns = []
    for seed in range(repeats):
        turn: dict[str, Any] = {}
        contenders = (("dgmm", by_dgmm, X), ("plain", partial(by_dgmm, refine=0), X), ("faiss", by_faiss, Y))
        for contender, fit, rows in contenders:
            seconds, centers, details = fit(rows, clusters, seed, threads)
            turn[contender] = {"seconds": seconds, "mean_cosine": mean_cosine(Y, centers), **details}
        turn["ratio"] = turn["faiss"]["seconds"] / turn["dgmm"]["seconds"]
        print(name, json.dumps(turn), flush=True)
        turns.append(turn)
    middle = {
        key: {who: float(np.median([turn[who][key] for turn in turns])) for who in ("dgmm", "plain", "faiss")}
        for key in ("seconds", "mean_cosine")
    }
    ratio = float(np.median([turn["ratio"] for turn in turns]))
    better = middle["mean_cosine"]["dgmm"] >= middle["mean_cosine"]["faiss"]
    return {
        "data": name,
        "rows": len(X),
        "columns": X.shape[1],
        "clusters": clusters,
        "normalized_copy_seconds": copied,
        **middle,
        "ratio": ratio,
        "goal_met": bool(better and ratio >= GOAL),
        "turns": turns,
    }


def table(results: list[dict[str, Any]], about: dict[str, Any]) -> str:
    lines = [
        "# Cosine: DGMM against faiss",
        "",
        f"`benches/mixtures/cosine.py`; {about['threads']} threads, {about['cpu']}, dgmm {about['dgmm']}, faiss "
        f"{about['faiss']}; medians of {about['repeats']} turns; load average at the end {about['load_average']:.1f}. "
        f"faiss: `Kmeans(spherical=True, niter={ITERATIONS})` on all rows. Goal: mean cosine at least that of faiss, "
        "in at most 1/10 of its time, by default. The ratio is of the default fit.",
        "",
        "| data | rows x columns | M | mean cosine: dgmm | refine=0 | faiss | seconds: dgmm | refine=0 | faiss | ratio "
        "| goal |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        cosine, seconds = r["mean_cosine"], r["seconds"]
        lines.append(
            f"| {r['data']} | {r['rows']:,} x {r['columns']} | {r['clusters']:,} | {cosine['dgmm']:.5f} | "
            f"{cosine['plain']:.5f} | {cosine['faiss']:.5f} | {seconds['dgmm']:.2f} | {seconds['plain']:.2f} | "
            f"{seconds['faiss']:.2f} | {r['ratio']:.1f} | {'met' if r['goal_met'] else 'not met'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="where the .npy files are; left out without it")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clusters", type=int, default=4000)
    parser.add_argument("--quick", action="store_true", help="small made data, one turn")
    options = parser.parse_args()
    clusters, repeats = (200, 1) if options.quick else (options.clusters, options.repeats)
    sets: dict[str, NDArray[np.float32]] = {}
    if options.data_dir is not None:
        for name in ("glove50", "word_pieces"):
            path = options.data_dir / f"{name}.npy"
            if not path.is_file():
                parser.error(f"{path} is missing: benches/peers/get_data.py brings it")
            sets[name] = np.load(path)[: 20_000 if options.quick else None]
    sets["made embeddings"] = made(20_000 if options.quick else 100_000, topics=1000 if options.quick else 20_000)
    results = [race(name, X, clusters, repeats, options.threads) for name, X in sets.items()]
    about = {
        "threads": options.threads,
        "repeats": repeats,
        "cpu": platform.machine(),
        "dgmm": dgmm.__version__,
        "faiss": faiss.__version__,
        "load_average": os.getloadavg()[0],
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "cosine.json").write_text(json.dumps({"about": about, "results": results}, indent=1) + "\n")
    (options.output / "cosine.md").write_text(table(results, about))
    print(table(results, about))


if __name__ == "__main__":
    main()
