"""``partial_fit``: learning from the batches of a stream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dgmm import _core
from dgmm._sources import source_of
from dgmm._validation import check_weights

if TYPE_CHECKING:
    from dgmm._base import Mixture


PER_CLUSTER = 64
"""Rows per cluster up to which batches are kept and refitted: a start from fewer rows would have a lasting effect."""


def partial_fit(model: Mixture, X: Any, sample_weight: ArrayLike | None) -> None:
    """Let ``model`` learn from a batch."""
    if source_of(X) is not None:
        raise TypeError("X is not in memory; it must be one batch in memory for partial_fit: call it for each batch")
    bound = getattr(model, "max_size", None)
    if bound is not None:
        raise ValueError(f"max_size is {bound!r}; it must be None for partial_fit, which never sees all rows at once")
    rounds = getattr(model, "refine", 0)
    if rounds not in (0, "auto"):
        raise ValueError(f"refine is {rounds!r}; it must be 0 for partial_fit, which never sees all rows at once")
    kept: list[tuple[NDArray[Any], NDArray[np.float64] | None]] | None = vars(model).get("_batches")
    if not hasattr(model, "cluster_centers_"):
        model.fit(X, sample_weight=sample_weight)
        rows = model._test_rows(X)
        weights = check_weights(sample_weight, len(rows))
        _remember(model, _labels(model, rows), weights)
        _keep_batches(model, [(rows.copy(), weights)])
        return
    if not hasattr(model, "cluster_masses_"):
        labels = getattr(model, "labels_", None)
        # Without labels, the sizes of the clusters are unknown and taken to be equal.
        _remember(model, np.arange(len(model.cluster_centers_)) if labels is None else labels, None)
    rows = model._test_rows(X)
    weights = check_weights(sample_weight, len(rows))
    if kept is not None:
        kept = [*kept, (rows.copy(), weights)]
        total = sum(len(batch) for batch, _ in kept)
        if total >= 2 * model._rows_fitted or total >= PER_CLUSTER * model.n_clusters:
            _fit_anew(model, kept)
            return
    _learn(model, rows, weights)
    if kept is not None:
        model._batches = kept


def _learn(model: Mixture, rows: NDArray[Any], weights: NDArray[np.float64] | None) -> None:
    settings = model._settings()
    began = time.perf_counter()
    state = (model.cluster_masses_, model.weight_seen_, model.n_samples_seen_)
    centers, scale, _ = model._model()
    learned = _core.learn(rows, weights, centers, scale, *state, settings)
    _keep(model, learned, len(rows), time.perf_counter() - began)


def _fit_anew(model: Mixture, batches: list[tuple[NDArray[Any], NDArray[np.float64] | None]]) -> None:
    rows = np.concatenate([batch for batch, _ in batches])
    weights = None
    if any(each is not None for _, each in batches):
        weights = np.concatenate([np.ones(len(batch)) if each is None else each for batch, each in batches])
    names = getattr(model, "feature_names_in_", None)
    model.fit(rows, sample_weight=weights)
    if names is not None:
        model.feature_names_in_ = names
    _remember(model, _labels(model, rows), weights)
    _keep_batches(model, batches)


def _keep_batches(model: Mixture, batches: list[tuple[NDArray[Any], NDArray[np.float64] | None]]) -> None:
    """Keep the batches if they will be refitted with the next ones."""
    total = sum(len(batch) for batch, _ in batches)
    model.__dict__.pop("_batches", None)
    if total < PER_CLUSTER * model.n_clusters:
        model._batches, model._rows_fitted = batches, total


def _labels(model: Mixture, rows: NDArray[Any]) -> NDArray[np.int32]:
    labels: NDArray[np.int32] | None = getattr(model, "labels_", None)
    return _core.predict(rows, *model._model()) if labels is None else labels


def _remember(model: Mixture, labels: NDArray[Any], weights: NDArray[np.float64] | None) -> None:
    """Store the share of the rows that each cluster has."""
    sizes = np.bincount(labels, weights=weights, minlength=len(model.cluster_centers_)).astype(np.float64)
    total = float(sizes.sum())
    model.cluster_masses_, model.weight_seen_, model.n_samples_seen_ = sizes / total, total, len(labels)


def _keep(model: Mixture, learned: _core.Learned, n_rows: int, seconds: float) -> None:
    batches = model.n_iter_ + 1
    model.cluster_centers_ = learned.centers
    model._keep_scale(learned.variance, learned.concentration)
    model.labels_, model.inertia_, model.lower_bound_ = learned.labels, learned.inertia, learned.lower_bound
    model.converged_, model.n_iter_ = False, batches
    model.history_ = {
        "lower_bound": np.array([learned.lower_bound]),
        "variance": np.array([learned.variance]),
        "seconds": np.array([seconds]),
        "distance_evals": np.array([learned.distance_evals]),
        "rows": np.array([n_rows]),
        "refine": np.array([0]),
    }
    model.n_distance_evals_ = {"coreset": 0, "seeding": 0, "em": learned.distance_evals}
    model.seconds_ = {"coreset": 0.0, "seeding": 0.0, "em": seconds, "labels": 0.0}
    model.cluster_masses_, model.weight_seen_, model.n_samples_seen_ = learned.masses, learned.weight, learned.rows
    if model.labels is None:
        del model.labels_
    model._forget_searches()
