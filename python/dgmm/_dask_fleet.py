"""Steps over shards that stay on Dask workers.

Everything is a plain task: a shard is computed from its partition, a round from its bytes, and the state of a shard
from its previous state and the round. The scheduler can therefore recompute whatever a lost worker held, with the same
bits, by repeating the steps of its shards. Nothing is scattered, pinned to a worker or kept in an actor.
"""

from __future__ import annotations

import pydoc
import sys
import uuid
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgmm import _core
from dgmm._approximate import Scale
from dgmm._base import Mixture
from dgmm._dask_partitions import has_weight
from dgmm._extras import need
from dgmm._training import tree
from dgmm.shards import Memberships, Round, Shard, Statistics, Summary, merge, merge_summaries

State = tuple[Statistics, Memberships]
"""What a step over a shard returns."""


def client_in_use() -> Any | None:
    """Return the distributed client that Dask would compute with now; None for its schedulers in this process."""
    base, distributed = need("dask.base", "dask", "dgmm.dask"), sys.modules.get("distributed")
    owner = getattr(base.get_scheduler(), "__self__", None)
    return owner if distributed is not None and isinstance(owner, distributed.Client) else None


def check_workers(client: Any) -> None:
    """Refuse workers that have another version of this package, or none."""
    # A function of the standard library, because ours cannot be found if the package is missing.
    found = client.run(pydoc.locate, "dgmm.__version__")
    if not found:
        raise RuntimeError("the Dask cluster has no workers; start at least one")
    for worker, version in found.items():
        if version != _core.__version__:
            has = "no dgmm" if version is None else f"dgmm {version}"
            raise RuntimeError(
                f"worker {worker} has {has}, but this process has dgmm {_core.__version__}: install the same version"
            )


def threads_per_step(client: Any | None, shards: int) -> int:
    """The number of threads per step, at least one, so that all steps together use the threads of the workers."""
    if client is not None:
        return max(1, int(sum(client.nthreads().values())) // shards)
    base = need("dask.base", "dask", "dgmm.dask")
    alone = base.get_scheduler() is need("dask.local", "dask", "dgmm.dask").get_sync
    total: int = need("dask.system", "dask", "dgmm.dask").CPU_COUNT
    return total if alone else max(1, total // shards)


class Fleet:
    """The shards of a fit and their states, on the workers."""

    def __init__(self, shards: Sequence[Any], n_threads: int | None) -> None:
        self._dask = need("dask", "dask", "dgmm.dask")
        self._client = client_in_use()
        self._threads = n_threads or threads_per_step(self._client, len(shards))
        self._name, self._turn = uuid.uuid4().hex, 0
        self._latest: list[Any] = []
        self.shards = self._persisted([self._task("shard", same, shard, i=i) for i, shard in enumerate(shards)])
        self.states: list[Any] = [None] * len(self.shards)
        self._workers: set[str] = set() if self._client is None else set(self._client.nthreads())

    def summary(self, estimator: Mixture, n_rows: int) -> Summary:
        """The merged summary of the shards."""
        parts = [self._task("summary", summarize, s, estimator, n_rows, i=i) for i, s in enumerate(self.shards)]
        (merged,) = self._persisted([self._tree("summaries", merge_two, parts)])
        summary: Summary | None = self._result(merged)
        if summary is None:
            raise ValueError("sample_weight is zero for every row; at least one must be positive")
        return summary

    def advance(self, round: Round) -> Statistics:
        """Take a step over every shard and merge the statistics pair by pair on the workers."""
        self._use_new_workers()
        self._turn += 1
        sent = self._task("round", Round.from_bytes, round.to_bytes())
        pairs = enumerate(zip(self.shards, self.states, strict=True))
        states = [self._task("step", take_step, s, state, sent, self._threads, i=i) for i, (s, state) in pairs]
        parts = [self._task("statistics", statistics_of, state, i=i) for i, state in enumerate(states)]
        *states, total = self._persisted([*states, self._tree("merge", merge_two, parts)])
        sums: Statistics = self._result(total)
        self.states = states
        return sums

    def labels(self, centers: NDArray[Any], variance: Scale, *, exact: bool) -> list[Any]:
        """The labels of each shard, kept on the workers: those of the last step, or the nearest centers."""
        model = self._task("model", same, (centers, variance, self._threads))
        known = [(shard, None if exact else state) for shard, state in zip(self.shards, self.states, strict=True)]
        return self._persisted([self._task("labels", labels_of, *pair, model, i=i) for i, pair in enumerate(known)])

    def counts(self, labels: Sequence[Any], clusters: int) -> NDArray[np.int64]:
        """How many rows each cluster has."""
        parts = [self._task("counts", np.bincount, part, None, clusters, i=i) for i, part in enumerate(labels)]
        (merged,) = self._persisted([self._tree("sum", np.add, parts)])
        counts: NDArray[np.int64] = self._result(merged)
        return counts

    def gathered(self, what: str, function: Any, args: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Call a function for each shard with its own arguments, and return the results."""
        each = enumerate(zip(self.shards, args or [()] * len(self.shards), strict=True))
        tasks = [self._task(what, function, shard, *more, i=i) for i, (shard, more) in each]
        return [self._result(task) for task in self._persisted(tasks)]

    @contextmanager
    def nothing_left_on_error(self) -> Iterator[None]:
        """Release all tasks if the block fails or is interrupted; otherwise the traceback would keep them alive."""
        try:
            yield
        except BaseException:
            if self._client is not None:
                futures_of = need("distributed", "dask", "dgmm.dask").futures_of
                for future in futures_of([self.shards, self.states, self._latest]):
                    future.release()
            raise

    def _task(self, what: str, function: Any, *args: Any, i: int = 0) -> Any:
        # The name without the number is that of the group; the scheduler learns durations per group.
        key = (f"dgmm-{what}-{self._name}{self._turn:04}", i)
        return self._dask.delayed(function, pure=False)(*args, dask_key_name=key)

    def _tree(self, what: str, function: Any, parts: Sequence[Any]) -> Any:
        numbers = iter(range(len(parts)))
        return tree(parts, lambda a, b: self._task(what, function, a, b, i=next(numbers)))

    def _persisted(self, tasks: Sequence[Any]) -> list[Any]:
        with quiet_about_large_graphs():
            self._latest = list(self._dask.persist(*tasks, optimize_graph=False))
        return self._latest

    def _result(self, persisted: Any) -> Any:
        if self._client is None:
            return persisted.compute()
        (future,) = need("distributed", "dask", "dgmm.dask").futures_of(persisted)
        return self._client.gather(future)

    def _use_new_workers(self) -> None:
        """Copy a share of the shards and states to workers that have joined since the last step.

        The scheduler runs a step where its rows are, so a new worker would get none.
        """
        if self._client is None:
            return
        threads = self._client.nthreads()
        new, self._workers = set(threads) - self._workers, set(threads)
        if not new or any(state is None for state in self.states):
            return
        futures_of = need("distributed", "dask", "dgmm.dask").futures_of
        pairs = [futures_of([shard, state]) for shard, state in zip(self.shards, self.states, strict=True)]
        held = self._client.who_has([shard for shard, _ in pairs])
        owned: dict[str, list[int]] = defaultdict(list)
        for i, (shard, _) in enumerate(pairs):
            for worker in held.get(shard.key, ())[:1]:
                owned[worker].append(i)
        for worker in new:
            share = len(pairs) * threads[worker] // sum(threads.values()) - len(owned[worker])
            moved = [max(owned.values(), key=len).pop() for _ in range(share)]
            owned[worker] += moved
            if moved:
                self._client.replicate([f for i in moved for f in pairs[i]], n=1, workers=[worker])


def same(value: Any) -> Any:
    """Return the value, as a task of its own."""
    return value


def summarize(shard: Shard, estimator: Mixture, n_rows: int) -> Summary | None:
    """The summary of a shard; None if all its weights are 0."""
    return shard.summarize(estimator, n_rows) if has_weight(shard) else None


def take_step(shard: Shard, state: State | None, round: Round, n_threads: int) -> State | None:
    """Take a step over a shard from its state; None if all its weights are 0."""
    if not has_weight(shard):
        return None
    return shard.step(round, None if state is None else state[1], n_threads=n_threads)


def statistics_of(state: State | None) -> Statistics | None:
    """The part of a state that is sent."""
    return None if state is None else state[0]


def merge_two(first: Any, second: Any) -> Any:
    """Merge the statistics or summaries of neighbors."""
    if first is None or second is None:
        return second if first is None else first
    return merge_summaries([first, second]) if isinstance(first, Summary) else merge([first, second])


def labels_of(shard: Shard, state: State | None, model: tuple[NDArray[Any], Scale, int]) -> NDArray[np.int32]:
    """The labels of a shard: those of its state or, without one, the nearest centers."""
    return _core.predict(shard.rows, *model) if state is None else state[1].labels()


@contextmanager
def quiet_about_large_graphs() -> Iterator[None]:
    """Silence Dask's warning about the size of a graph: rounds are part of it, so that they can be recomputed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield
