"""Fits of rows that are read shard by shard: data larger than memory, and fits with a checkpoint."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgmm import _core
from dgmm._base import Mixture
from dgmm._checkpoint import Checkpoint, CheckpointError, State, checksum_of, trainer_from
from dgmm._memory import return_freed_memory
from dgmm._progress import tell_end
from dgmm._reading import Part, Reader
from dgmm._report import peak_bytes
from dgmm._sources import Source
from dgmm._training import Pairwise, Training, empty_clusters, settings_of, start

PROGRAM = 96 * 2**20
"""The memory of the process without any data; the core assumes the same."""
WHOLE = 2**32 - 1
"""The size of a shard that has all rows."""


class Kept:
    """The memberships of the shards: in memory, or in a temporary folder until the fit ends."""

    def __init__(self, on_disk: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dgmm-") if on_disk else None
        self._parts: list[Any] = []

    def __len__(self) -> int:
        """Return the number of shards so far."""
        return len(self._parts)

    def get(self, shard: int) -> _core.Memberships | None:
        """Return the memberships of a shard; None if it was not processed yet."""
        if shard >= len(self._parts) or self._parts[shard] is None:
            return None
        if self._folder is None:
            return self._parts[shard]  # type: ignore[no-any-return]
        with open(self._parts[shard], "rb") as file:
            return _core.Memberships.from_bytes(file.read())

    def put(self, shard: int, memberships: _core.Memberships) -> None:
        """Store the memberships of a shard."""
        self._parts.extend([None] * (shard + 1 - len(self._parts)))
        if self._folder is None:
            self._parts[shard] = memberships
            return
        path = os.path.join(self._folder.name, str(shard))
        with open(path, "wb") as file:
            file.write(memberships.to_bytes())
        self._parts[shard] = path

    def to_bytes(self) -> list[bytes | None]:
        """Return all memberships, for a checkpoint."""
        found = (self.get(shard) for shard in range(len(self)))
        return [None if known is None else known.to_bytes() for known in found]

    def labels(self) -> NDArray[np.int32]:
        """Return the nearest clusters of all rows."""
        found = (self.get(shard) for shard in range(len(self)))
        return np.concatenate([known.labels() for known in found if known is not None])

    def close(self) -> None:
        """Remove the files."""
        if self._folder is not None:
            self._folder.cleanup()


class Streamed:
    """A fit over the shards of a source, one after another."""

    def __init__(
        self,
        estimator: Mixture,
        source: Source,
        sample_weight: NDArray[np.float64] | None,
        memory_limit: int | None,
        *,
        whole: bool = False,
    ) -> None:
        self.settings = settings_of(estimator)
        self.limited = memory_limit is not None
        self.estimator, self.source = estimator, source
        if whole:
            self.sizes: tuple[int | None, int | None] = (WHOLE, None)
        else:
            itemsize = np.dtype(source.dtype).itemsize
            self.sizes = _core.shards_within(self.settings, source.n_columns, itemsize, memory_limit)
        self.reader = Reader(source, 1, sample_weight)
        self.checkpoint = self._checkpoint()
        self.resumed = None if self.checkpoint is None else self.checkpoint.resume()
        if self.resumed is not None:
            self.sizes = self.resumed.sizes
            self.settings["seed"] = self.resumed.seed
        self.settings["shard_rows"], self.settings["sample_rows"] = self.sizes
        assert self.sizes[0] is not None
        self.reader.part_rows = self.sizes[0]
        kept = 4 * (source.n_rows or 0) * self._members()
        self.kept = Kept(on_disk=memory_limit is not None and kept >= (memory_limit - PROGRAM) // 4)
        self.first: int | None = None

    def _members(self) -> int:
        plan = _core.plan(
            self.settings, max(self.source.n_rows or 0, self.settings["n_clusters"]), self.source.n_columns, 4
        )
        return 1 if plan["search"] == "exhaustive" else int(plan["truncation"])

    def _checkpoint(self) -> Checkpoint | None:
        if self.estimator.checkpoint is None:
            return None
        # If the seed is drawn at random each time, the checkpoint's seed is used.
        drawn = not isinstance(self.estimator.random_state, int | np.integer)
        left_out = {"n_threads", "seed"} if drawn else {"n_threads"}
        fit = {name: value for name, value in self.settings.items() if name not in left_out}
        if not isinstance(self.estimator.init, str):
            fit["init"] = checksum_of([np.ascontiguousarray(self.estimator.init)])
        fit |= {"n_columns": self.source.n_columns, "dtype": np.dtype(self.source.dtype).name}
        if self.source.n_rows is not None:
            fit["n_rows"] = self.source.n_rows
        return Checkpoint(self.estimator.checkpoint, fit)

    def run(self) -> tuple[_core.Fitted, bool]:
        """Fit; return the model, and whether Ctrl-C ended it."""
        training = Training(self.estimator)
        fitted = training.run_from(self._begin, self._advance, self._save)
        if self.checkpoint is not None:
            self.checkpoint.remove()
        return fitted, training.interrupted

    def _begin(self, heard: Any) -> _core.Trainer:
        if self.resumed is not None and self.checkpoint is not None:
            trainer = trainer_from(self.resumed, self.checkpoint.path, self.settings["n_threads"])
            for shard, known in enumerate(self.resumed.memberships):
                if known is not None:
                    self.kept.put(shard, _core.Memberships.from_bytes(known))
            return trainer
        threads = self.settings["n_threads"]
        summaries = Pairwise(lambda a, b: _core.merge_summaries([a, b], threads))
        for part in self.reader.parts():
            self._look_at(part)
            n_rows = self.source.n_rows
            summaries.add(_core.summarize(part.rows, part.weights, part.first_row, self.settings, n_rows))
            if self.limited:
                return_freed_memory()
        return start(self.estimator, summaries.finish(), heard, self.settings)

    def _advance(self, round: _core.Round) -> _core.Statistics:
        threads = self.settings["n_threads"]
        sums = Pairwise(lambda a, b: _core.merge([a, b], threads))
        for shard, part in enumerate(self.reader.parts()):
            self._look_at(part)
            known = self.kept.get(shard)
            statistics, known = _core.step(part.rows, part.weights, part.first_row, round, known, threads)
            self.kept.put(shard, known)
            sums.add(statistics)
            if self.limited:
                return_freed_memory()
        merged: _core.Statistics = sums.finish()
        return merged

    def _look_at(self, part: Part) -> None:
        """Check that the data is that of the checkpoint."""
        if self.checkpoint is None or part.first_row:
            return
        found = checksum_of([part.rows, part.weights])
        if self.first is None and self.resumed is not None and found != self.resumed.first:
            message = f"the checkpoint {self.checkpoint.path} belongs to another fit: the first rows of X differ"
            raise CheckpointError(f"{message}; remove it to start over")
        self.first = found

    def _save(self, trainer: _core.Trainer) -> None:
        if self.checkpoint is not None and self.checkpoint.is_due():
            assert self.first is not None
            state = State(trainer.to_bytes(), self.kept.to_bytes(), self.settings["seed"], self.sizes, self.first)
            self.checkpoint.write(state)

    def parts(self) -> Iterator[Part]:
        """Read the rows again, for labels."""
        return self.reader.parts()


def fit(
    estimator: Mixture,
    source: Source,
    sample_weight: NDArray[np.float64] | None,
    memory_limit: int | None,
    *,
    whole: bool = False,
) -> None:
    """Fit ``estimator`` to the rows of a source, and set its fitted attributes."""
    streamed = Streamed(estimator, source, sample_weight, memory_limit, whole=whole)
    try:
        fitted, interrupted = streamed.run()
        estimator._keep(fitted)
        estimator.n_features_in_ = source.n_columns
        labels = streamed.kept.labels()
        if estimator.labels == "exact":
            labels, estimator.inertia_ = _exact(estimator, streamed)
        used = np.bincount(labels, minlength=len(fitted.centers)) > 0
        if estimator.labels is not None:
            estimator.labels_ = labels
    finally:
        streamed.kept.close()
    n_rows = streamed.reader.n_rows or 0
    estimator._facts = {"peak_bytes": peak_bytes()}
    tell_end(estimator, fitted, n_rows, interrupted, empty_clusters(fitted.centers, used))


def _exact(estimator: Mixture, streamed: Streamed) -> tuple[NDArray[np.int32], float]:
    labels, inertia = [], 0.0
    if not estimator._goes_by_distance:
        found = [_core.predict(part.rows, *estimator._model()) for part in streamed.parts()]
        return np.concatenate(found), estimator.inertia_
    for part in streamed.parts():
        nearest, squares = _core.top_k(part.rows, *estimator._model()[:2], 1, streamed.settings["n_threads"])
        labels.append(nearest[:, 0].astype(np.int32))
        each = squares[:, 0].astype(np.float64)
        inertia += float(each.sum() if part.weights is None else each @ part.weights)
    return np.concatenate(labels), inertia
