"""The contenders and their settings. Each returns its centers and the facts that it reports about its run.

The peers run with the settings that their documentation advises for speed and for all points of the data, and compute
only centers if possible. The time of `dgmm` includes its labels.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Outcome = tuple[Array, dict[str, Any]]
Run = Callable[[Array, int, int, int], Outcome]
ALL_POINTS = 2**31 - 1


@dataclass(frozen=True)
class Contender:
    """`run(x, clusters, threads, seed)` fits; `linear` marks a time that grows at least in proportion to clusters."""

    name: str
    library: str
    module: str
    call: str
    run: Run
    linear: bool = True
    before: bool = False  # runs with the package of `--before`, an environment that holds an earlier commit

    @property
    def ours(self) -> bool:
        return self.module == "dgmm"


def _ours(name: str, estimator: str, linear: bool = False, library: str = "dgmm", **settings: Any) -> Contender:
    def run(x: Array, clusters: int, threads: int, seed: int) -> Outcome:
        cls = getattr(importlib.import_module("dgmm"), estimator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a few iterations do not converge, and need not
            fitted = cls(clusters, random_state=seed, **({"n_threads": threads} | settings)).fit(x)
        return np.asarray(fitted.cluster_centers_), {"iterations": int(fitted.n_iter_)}

    words = "".join(f", {key}={value!r}" for key, value in settings.items())
    return Contender(name, library, "dgmm", f"dgmm.{estimator}(M{words})", run, linear)


def _faiss(name: str, cls: str, iterations: int, init: str | None = None) -> Contender:
    def run(x: Array, clusters: int, threads: int, seed: int) -> Outcome:
        import faiss

        faiss.omp_set_num_threads(threads)
        settings: dict[str, Any] = {"niter": iterations, "seed": seed + 1}
        settings |= {"max_points_per_centroid": ALL_POINTS, "min_points_per_centroid": 1}
        if init is not None:
            settings["init_method"] = getattr(faiss, init)
        kmeans = getattr(faiss, cls)(x.shape[1], clusters, **settings)
        kmeans.train(x)
        return kmeans.centroids, {"iterations": len(kmeans.iteration_stats)}

    words = f"faiss.{cls}(D, M, niter={iterations}, all points" + (f", init_method={init})" if init else ")")
    return Contender(name, "faiss", "faiss", words, run)


def _super(name: str, linear: bool, words: str, **settings: Any) -> Contender:
    def run(x: Array, clusters: int, threads: int, seed: int) -> Outcome:
        from superkmeans import SuperKMeans

        kmeans = SuperKMeans(clusters, x.shape[1], n_threads=threads, seed=seed + 42, **settings)
        return kmeans.train(x), {"hierarchical": bool(kmeans.hierarchical_)}

    return Contender(name, name, "superkmeans", f"SuperKMeans(M, D{words})", run, linear)


def _scikit(name: str, library: str, module: str, **settings: Any) -> Contender:
    def run(x: Array, clusters: int, threads: int, seed: int) -> Outcome:
        import threadpoolctl

        cls = importlib.import_module(module).KMeans
        extra = {"n_jobs": threads} if library == "sklearnex" else {}
        with threadpoolctl.threadpool_limits(threads), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = cls(clusters, random_state=seed, **settings, **extra).fit(x)
        return fitted.cluster_centers_, {"iterations": int(fitted.n_iter_)}

    words = "".join(f", {key}={value!r}" for key, value in settings.items())
    return Contender(name, library, module, f"{module}.KMeans(M{words})", run)


def _minibatch(name: str, least: int) -> Contender:
    def run(x: Array, clusters: int, threads: int, seed: int) -> Outcome:
        import threadpoolctl
        from sklearn.cluster import MiniBatchKMeans

        size = max(least, 256 * threads)
        settings: dict[str, Any] = {"n_init": 1, "batch_size": size, "compute_labels": False}
        with threadpoolctl.threadpool_limits(threads), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = MiniBatchKMeans(clusters, random_state=seed, **settings).fit(x)
        return fitted.cluster_centers_, {"iterations": int(fitted.n_iter_), "batches": int(fitted.n_steps_)}

    words = f"sklearn.cluster.MiniBatchKMeans(M, n_init=1, batch_size=max({least}, 256 threads), compute_labels=False)"
    return Contender(name, "minibatch", "sklearn.cluster", words, run)


def _lance(name: str, iterations: int) -> Contender:
    def run(x: Array, clusters: int, threads: int, seed: int) -> Outcome:
        from lance.util import KMeans

        kmeans = KMeans(clusters, metric_type="l2", max_iters=iterations)  # takes no seed, and counts no iterations
        kmeans.fit(x)
        return kmeans.centroids.to_numpy_ndarray(), {}

    words = f"lance.util.KMeans(M, max_iters={iterations})"
    return Contender(name, "lance", "lance.util", words, run)


def _clostera(name: str, algorithm: str) -> Contender:
    def run(x: Array, clusters: int, threads: int, seed: int) -> Outcome:
        from clostera import Clusterer

        fitted = Clusterer(k=clusters, metric="l2", algorithm=algorithm, seed=seed)
        fitted.fit(x)
        centers = fitted.dense_centers_ if fitted.dense_centers_ is not None else fitted.cluster_centers_
        return centers, {"algorithm": fitted.algorithm_}

    words = f'clostera.Clusterer(k=M, metric="l2", algorithm={algorithm!r})'
    return Contender(name, "clostera", "clostera", words, run)


def _rust(library: str, words: str) -> Contender:
    def run(x: Array, clusters: int, threads: int, seed: int) -> Outcome:
        import rust_peers

        return rust_peers.fit(library, x, clusters, seed)

    return Contender(f"{library}-10", library, "rust_peers", words, run)


OUR_CURVE = ("dgmm", "dgmm-curve")  # the settings with a name, and budgets of iterations
BUDGETS = (1, 2, 3, 5, 10, 20)
ROUNDS, FEW_ROUNDS = 10, 3  # of `refine`

OURS = (
    _ours("dgmm-quick", "DGMM", tol="quick"),
    _ours("dgmm", "DGMM"),
    _ours("dgmm-refine", "DGMM", refine=ROUNDS),
    _ours("dgmm-quick-refine", "DGMM", tol="quick", refine=FEW_ROUNDS),
    _ours("dgmm-1e-5", "DGMM", tol=1e-5),
    _ours("dgmm-1e-5-refine", "DGMM", tol=1e-5, refine=ROUNDS),
    *(_ours(f"dgmm-i{i}", "DGMM", library="dgmm-curve", max_iter=i, tol=0.0) for i in BUDGETS),
    _ours("dgmm-1-thread", "DGMM", library="dgmm-1-thread", n_threads=1),
    replace(_ours("dgmm-before-1e-5", "DGMM", library="dgmm-before", tol=1e-5), before=True),
    _ours("vcgmm", "VCGMM", library="vcgmm"),
    _ours("dgmm-kmeans-i10", "KMeans", linear=True, library="kmeans", max_iter=10),
)

PEERS = (
    _faiss("faiss-10", "Kmeans", 10),
    _faiss("faiss-25", "Kmeans", 25),
    _faiss("faiss-100", "Kmeans", 100),
    _faiss("faiss-10-afkmc2", "Kmeans", 10, "ClusteringInitMethod_AFK_MC2"),
    _faiss("faiss-super-10", "SuperKmeans", 10),
    _super("superkmeans", False, ""),
    _super(
        "superkmeans-flat",
        True,
        ", hierarchical=False, sampling_fraction=1.0, all points",
        hierarchical=False,
        sampling_fraction=1.0,
        max_points_per_cluster=ALL_POINTS,
    ),
    *(
        _super(f"superkmeans-{kind}", False, f", quantizer={kind!r}", quantizer=kind)
        for kind in ("sq8", "lvq4", "rabitq")
    ),
    _scikit("sklearn-10", "sklearn", "sklearn.cluster", init="k-means++", n_init=1, max_iter=10, tol=0.0),
    _scikit("sklearn-converged", "sklearn", "sklearn.cluster", init="k-means++", n_init=1),
    _minibatch("minibatch", 1024),
    _minibatch("minibatch-10k", 10_240),
    _scikit("sklearnex-10", "sklearnex", "sklearnex.cluster", init="k-means++", n_init=1, max_iter=10, tol=0.0),
    _lance("lance", 50),
    _lance("lance-10", 10),
    _clostera("clostera", "auto"),
    _rust(
        "fastkmeans-rs", "KMeansConfig::new(M), 10 iterations, all points, tol -1 (crate fastkmeans-rs, without BLAS)"
    ),
    _rust("linfa", "KMeans::params(M), n_runs 1, 10 iterations, k-means|| (crate linfa-clustering)"),
)

CONTENDERS = {contender.name: contender for contender in (*OURS, *PEERS)}
QUICK = ("dgmm-quick", "dgmm", "dgmm-i1", "dgmm-i3", "faiss-10", "superkmeans", "sklearn-10", "minibatch")


def chosen(words: list[str] | None, quick: bool) -> list[Contender]:
    """Contenders named by `words`: a library (all its settings) or a single contender; all of them without words."""
    if not words:
        return [CONTENDERS[name] for name in QUICK] if quick else list(CONTENDERS.values())
    known = {contender.library for contender in CONTENDERS.values()} | set(CONTENDERS)
    unknown = [word for word in words if word not in known]
    if unknown:
        raise ValueError(f"unknown library {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    return [c for c in CONTENDERS.values() if c.name in words or c.library in words]
