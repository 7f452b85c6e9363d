"""``DGMM``: the documentation of the parameters, which the other estimators share, and its settings for the core."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal, get_args

from dgmm import _core
from dgmm._base import Init, LabelSearch, Mixture, Stop
from dgmm._progress import Callback
from dgmm._queries import Metric
from dgmm._validation import check_auto, check_int, check_max_size, check_option, check_step_length

Engine = Literal["auto", "pointwise", "grouped"]
Similarity = Literal["cooccurrence", "posterior", "kernel", "uniform"]

POSTERIORS = 5
"""The least number of clusters that share a row, unless ``truncation`` is given."""


class Truncated(Mixture):
    """The base class of mixtures in which each row keeps a few clusters, K(n) in the paper."""

    truncation: int | Literal["auto"]

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        truncation, n_clusters = check_auto("truncation", self.truncation), settings["n_clusters"]
        if truncation is not None:
            check_int("truncation", truncation, most=n_clusters, most_is=f"{self._count_name}={n_clusters}")
        return settings | {"truncation": truncation}

    def _like(self, clusters: int) -> Truncated:
        """An estimator of the same kind with default settings."""
        return type(self)(clusters, random_state=0)

    def _posterior_width(self) -> int:
        clusters, columns = len(self.cluster_centers_), self.cluster_centers_.shape[1]
        if self.truncation != "auto":
            return min(int(self.truncation), clusters)
        plan = _core.plan(self._like(clusters)._settings(), clusters, columns, self.cluster_centers_.itemsize)
        return max(int(plan["truncation"]), min(POSTERIORS, clusters))


class DGMM(Truncated):
    """Round clusters of equal width, found by iterations whose cost does not grow with the number of clusters.

    A mixture of ``n_clusters`` equally likely isotropic Gaussians with one variance, fitted by truncated EM (D-GMM):
    each row keeps the ``truncation`` nearest clusters found so far. In each iteration it tries others (``proposals``),
    drawn from the clusters that rows often keep together with its nearest one.

    Parameters
    ----------
    n_clusters : int
        M, the number of clusters.
    truncation : int or "auto"
        H, how many clusters each row keeps. "auto" is 3 for the grouped engine, and 5 for "pointwise" and with a
        ``max_size`` below 2; 1 with at most 100 clusters (each row is then compared with all of them, and the error is
        smallest if it belongs to one); and never more than ``n_clusters``. With ``truncation=n_clusters`` the fit is
        exact EM.
    proposals : int or "auto"
        "pointwise": how many clusters each row tries per iteration (R); "auto" is 5. "grouped": how many candidates
        each group of rows has (G), including the clusters that its rows keep; "auto" is 56. If the rows keep many, the
        list is longer, because it always has at least 12 others.
    engine : {"auto", "pointwise", "grouped"}
        "pointwise": each row draws its own proposals, as in the paper. "grouped": rows with the same nearest cluster
        share them, which is much faster; it needs the similarity "cooccurrence". "auto" is "grouped" with that
        similarity and "pointwise" with others; with "cooccurrence" and at most 100 clusters it compares each row with
        all of them.
    similarity : {"cooccurrence", "posterior", "kernel", "uniform"}
        What makes two clusters likely proposals for each other: how many rows keep both, the product of their
        posteriors there, the paper's kernel of the distances, or nothing (all are equally likely).
    metric : {"euclidean", "cosine"}
        How rows are compared. "cosine": only their directions matter. Rows are normalized on the fly, without a
        copy; centers are unit vectors, and clusters are von Mises-Fisher distributions with one concentration.
        Distances are then those between unit vectors, whose squares are 2 - 2 cos. A row of all zeros has no direction
        and is refused, by ``fit`` and by every method of a fitted model.
    init : {"auto", "afk-mc2", "hierarchical", "k-means++", "random"}, array or callable
        Where to start; "auto" is "hierarchical" (coarse cells first, AFK-MC2 and a few steps of k-means inside them)
        from 200 clusters on; below that greedy k-means++ if rows times clusters is at most 2**22, else "afk-mc2". An
        array of shape (n_clusters, n_features) has the centers to start from, in a single run. A callable is called as
        ``init(X, n_clusters, random_state=...)`` once per run and returns such an array.
    chain_length : int
        Steps of AFK-MC2's Markov chains; four times as many inside the cells of "hierarchical".
    coreset_size : int or None
        If given, fit a lightweight coreset of this many weighted rows instead of all rows. At most 16 times the number
        of rows or 2**20, whichever is larger.
    max_size : float or None
        The largest mass of a cluster in ``labels_``, in multiples of the mean mass (the total weight divided by
        ``n_clusters``); at least 1. After EM, labels are changed at the least cost until no cluster has more, and
        centers move to the means of their rows. Below 2, clusters far below the mean are also filled up, or used to
        split large ones. ``predict`` returns the nearest center, without a bound. If whole rows do not fit, an
        ``OversizedClusterWarning`` says so. The rows must be in memory. None: no bound.
    max_iter : int
        The maximum number of iterations, including those of ``refine``.
    tol : float, "auto" or "quick"
        The fit stops when the change of the lower bound is at most this. "auto" is 1e-3 (with ``stop="per_dim"`` the
        error then falls by less than 0.2 % per iteration), but 3e-5 if ``engine`` is "auto" and there are at most 100
        clusters, and 5e-4 for the grouped engine with a ``max_size`` below 2. "quick" is 7e-3, for a first impression
        of many clusters: the error then falls by less than 1.5 % per iteration, and there is no refinement unless
        ``refine`` is given.
    step_length : float or "auto"
        How far centers move in each iteration: 1 is to the mean of their rows, as in EM. Above 1 and below 2 they go
        farther; the lower bound still rises, in fewer iterations. "auto" is 1.6 for the grouped engine and with at most
        100 clusters, if ``truncation`` is below ``n_clusters``; else 1.
    refine : int or "auto"
        The maximum number of rounds of refinement, which begin when the change falls to 7e-3 (or to ``tol``, if that is
        larger). In each round, up to 8 % of the clusters, the least useful ones, move next to clusters with a large
        error; 3 iterations follow, and more in later rounds. A round is kept if the lower bound ends up higher;
        otherwise the model from before it is kept, and refinement ends. Then EM continues until it converges. "auto" is
        2 for the grouped engine with ``stop="per_dim"`` and a ``tol`` below 7e-3, unless the fit starts from given
        centers or ``truncation`` is 1; otherwise 0.
    stop : {"per_dim", "relative"}
        What is compared with ``tol``: the change divided by the number of columns, which does not depend on the data's
        units, or divided by the lower bound, as in the paper.
    n_init : int
        Runs from different starts; the one with the highest lower bound is kept.
    warm_start : bool
        Whether to start from the centers of the previous fit, if there was one.
    labels : {"auto", "exact", "approximate"} or None
        Which labels the rows get. "auto": those of the fit's own search; after a coreset fit, the nearest centers, by
        exact search for all rows. "exact": the nearest centers, as ``predict`` returns them. "approximate": after a
        coreset fit, approximately nearest centers, by the search of ``predict(X, method="approximate")``; otherwise as
        "auto". None: no labels.
    memory_limit : int, str or None
        The memory that the process may use, in bytes or as "600MB" or "2GB". Rows are then processed in shards that are
        small enough, and a memory map is read shard by shard, in order, never as a whole. None: no limit; data that is
        not in memory (files, datasets, chunks) is read in shards of 256 rows per cluster, or 64 MiB if that is more.
        Fits with the same shards have the same bits, wherever the rows are.
    checkpoint : path or None
        A file to which the state of the fit is written from time to time. If the file exists, the fit resumes from it
        and ends with the same bits; when it has finished, the file is removed. Fits of at most 2,048 rows in memory
        write none.
    random_state : int, RandomState or None
        An int gives the same result every time, to the bit, for any number of threads.
    n_threads : int or None
        Number of threads, at most 1024. None: as many as the process is allowed to use.
    verbose : int
        1 shows a bar on stderr with the stage, the lower bound, the change and the time left (this needs tqdm, the
        extra "progress"; without it, the logger "dgmm" is used); 2 writes to that logger, at level INFO.
    callback : callable or None
        Called with a ``dgmm.Event`` before the coreset and each seeding and after each iteration. If it returns a true
        value, or raises StopIteration, the fit ends and keeps the best model so far.
    keep_on_interrupt : bool
        What Ctrl-C does. With False it ends the fit at once with KeyboardInterrupt, and the estimator stays as it was.
        With True it ends the fit after the current iteration, and the best model so far is kept, with an
        ``InterruptWarning``; if there is no model yet, or on a second Ctrl-C, it does the same as with False.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centers, in the type of X.
    variance_ : float
        The variance of every cluster in every direction; with ``metric="cosine"`` one over the concentration.
    concentration_ : float
        The concentration of every cluster, from 1e-12 to 1e12. Only with ``metric="cosine"``.
    labels_ : ndarray of shape (n_samples,)
        The nearest cluster of each row, as found by the search that ``labels`` names. With "auto" that is the fit's
        own, truncated search among the final centers: a few percent of the rows may have a different nearby cluster
        than from ``predict(X)``. With ``max_size`` it is the cluster that the row has under the bound, usually the
        nearest. Absent with ``labels=None``.
    inertia_ : float
        The weighted sum of squared distances of the rows to the centers of their labels. With ``labels=None`` it is the
        sum over the fitted rows, which are those of the coreset if there is one.
    lower_bound_ : float
        The lower bound of the log-likelihood, per unit of weight. With ``max_size`` it and ``variance_`` belong to a
        posterior that assigns each row to its label alone; ``history_`` describes the iterations before.
    n_iter_ : int
        Iterations of the best run, including refinement.
    converged_ : bool
        Whether ``tol`` was reached.
    history_ : dict of arrays
        One entry per iteration: "lower_bound", "variance", "seconds", "distance_evals", "rows" (the number of rows that
        it used) and "refine" (the round of refinement, from 1; 0 before and after). In a round, "lower_bound" is that
        of the better model, the one from before the round or the one that the round leads to; a fit that ends there
        keeps it. With at least 1,024 rows per cluster and 2**18 rows, the first iterations, and refinement, use a
        sample of the rows, and the last iterations use all.
    n_distance_evals_ : dict of int
        The number of distances computed in "coreset", "seeding" and "em".
    seconds_ : dict of float
        The time that these stages took, in all runs; "labels" is the time for labels that need a search after the fit.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Their names, if X has any.
    centroid_neighbors_ : ndarray of shape (n_clusters, min(16, n_clusters - 1))
        The clusters with the nearest centers to each, nearest first; computed exactly on first access.
    approximate_reach_ : dict
        How far approximate search goes beyond the nearest cell of centers, for each pair of ``recall`` and ``k`` that
        was requested; None means exact search. Set by the first such call, saved with the model, and dropped by the
        next fit.
    approximate_recall_ : float
        The share of the audited rows of ``predict(X, method="approximate")`` that got their nearest cluster or one at
        most 1 % farther, over all calls with the same ``recall`` since the fit or since the search was extended.

    Examples
    --------
    >>> import numpy as np, dgmm
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(-10, 10, size=(20, 2))
    >>> X = np.repeat(truth, 50, axis=0) + rng.normal(scale=0.01, size=(1000, 2))
    >>> model = dgmm.DGMM(20, n_init=5, random_state=0).fit(X)
    >>> model.cluster_centers_.shape, model.labels_.shape
    ((20, 2), (1000,))
    >>> int(model.predict([truth[7]])[0]) == int(model.labels_[350])
    True
    """

    _system: ClassVar[str] = "DGMM"
    _named_tolerances: ClassVar[dict[str, float]] = {"quick": _core.QUICK_TOL}
    proposals: int | Literal["auto"]

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        truncation: int | Literal["auto"] = "auto",
        proposals: int | Literal["auto"] = "auto",
        engine: Engine = "auto",
        similarity: Similarity = "cooccurrence",
        metric: Metric = "euclidean",
        init: Init = "auto",
        chain_length: int = 5,
        coreset_size: int | None = None,
        max_size: float | None = None,
        max_iter: int = 100,
        tol: float | Literal["auto", "quick"] = "auto",
        step_length: float | Literal["auto"] = "auto",
        refine: int | Literal["auto"] = "auto",
        stop: Stop = "per_dim",
        n_init: int = 1,
        warm_start: bool = False,
        labels: LabelSearch | None = "auto",
        memory_limit: int | str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callback: Callback | None = None,
        keep_on_interrupt: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.truncation = truncation
        self.proposals = proposals
        self.engine = engine
        self.similarity = similarity
        self.metric = metric
        self.init = init
        self.chain_length = chain_length
        self.coreset_size = coreset_size
        self.max_size = max_size
        self.max_iter = max_iter
        self.tol = tol
        self.step_length = step_length
        self.refine = refine
        self.stop = stop
        self.n_init = n_init
        self.warm_start = warm_start
        self.labels = labels
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callback = callback
        self.keep_on_interrupt = keep_on_interrupt

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {
            "proposals": check_auto("proposals", self.proposals),
            "engine": check_option("engine", self.engine, get_args(Engine)),
            "similarity": check_option("similarity", self.similarity, get_args(Similarity)),
            "max_size": check_max_size("max_size", self.max_size),
            "step_length": check_step_length("step_length", self.step_length),
        }
