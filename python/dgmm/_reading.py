"""Reads the rows of a source in parts of equal size; the next part is read while the current one is processed."""

from __future__ import annotations

import functools
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dgmm._columns import check_names
from dgmm._memory import memory_errors
from dgmm._progress import logger
from dgmm._sources import Matrix, Source, source_of
from dgmm._validation import NamedBefore, check_weights

Answer = TypeVar("Answer", bound=Callable[..., Any])

SLAB = 1 << 22
"""Bytes that are copied at a time, so that Ctrl-C takes effect soon."""
ANSWERED = 1 << 25
"""Bytes of the rows that a query processes at a time."""


class Part(NamedTuple):
    """Consecutive rows, their weights, and the number of the first row."""

    first_row: int
    rows: NDArray[Any]
    weights: NDArray[np.float64] | None


class Reader:
    """Reads a source as often as needed, always in the same parts.

    The rows of a part are valid only until the next part is requested, which may reuse their memory.
    """

    def __init__(
        self, source: Source, part_rows: int, sample_weight: NDArray[np.float64] | None = None, dtype: Any = None
    ) -> None:
        self.source, self.part_rows, self.dtype = source, part_rows, dtype or source.dtype
        self._weights = sample_weight
        self.n_rows = source.n_rows

    def parts(self) -> Iterator[Part]:
        """Read all rows once, in order."""
        seen = 0
        with memory_errors():
            for part in self._at_hand() if self._is_at_hand() else self._ahead():
                seen += len(part.rows)
                yield part
        if self.n_rows is None:
            self.n_rows = seen
        if seen != self.n_rows:
            raise ValueError(
                f"{self.source.name} had {self.n_rows} rows and now has {seen}; it must not change while it is read"
            )

    def _is_at_hand(self) -> bool:
        """Whether the rows are in memory in the required type and order."""
        values = getattr(self.source, "values", None)
        if not isinstance(values, np.ndarray) or isinstance(values, np.memmap):
            return False
        return values.dtype == self.dtype and values.flags.c_contiguous and values.flags.aligned

    def _at_hand(self) -> Iterator[Part]:
        ((values, _),) = self.source.pieces()
        for first in range(0, len(values), self.part_rows):
            rows = values[first : first + self.part_rows]
            yield self._part(rows, None, first, len(rows))

    def _ahead(self) -> Iterator[Part]:
        """The parts, each read by another thread while the previous one is processed."""
        free: queue.Queue[NDArray[Any] | None] = queue.Queue()
        ready: queue.Queue[Part | BaseException | None] = queue.Queue()
        stopped = threading.Event()

        def work() -> None:
            try:
                for part in self._filled(free, stopped):
                    ready.put(part)
                ready.put(None)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the caller must see it
                ready.put(error)

        rows = self.part_rows if self.n_rows is None else min(self.part_rows, self.n_rows)
        for _ in range(2):
            free.put(np.empty((rows, self.source.n_columns), dtype=self.dtype))
        thread = threading.Thread(target=work, name="dgmm-reader", daemon=True)
        thread.start()
        try:
            while True:
                part = _taken(ready)
                if part is None:
                    return
                if isinstance(part, BaseException):
                    raise part
                yield part
                free.put(part.rows if part.rows.base is None else part.rows.base)
        finally:
            stopped.set()
            free.put(None)
            thread.join()

    def _filled(self, free: queue.Queue[NDArray[Any] | None], stopped: threading.Event) -> Iterator[Part]:
        """Copy the pieces of the source into the memory of parts."""
        buffer: NDArray[Any] | None = None
        weights: NDArray[np.float64] | None = None
        first_row = filled = 0
        for values, own in self.source.pieces():
            start = 0
            while start < len(values):
                if buffer is None:
                    buffer, weights = free.get(), None
                    if buffer is None or stopped.is_set():
                        return
                count = min(
                    len(values) - start, len(buffer) - filled, max(1, SLAB // (values.itemsize * values.shape[1]))
                )
                with np.errstate(over="ignore"):  # too large values become infinite, which the core refuses
                    buffer[filled : filled + count] = values[start : start + count]
                if own is not None:
                    if weights is None:
                        weights = np.ones(len(buffer))
                    weights[filled : filled + count] = own[start : start + count]
                start, filled = start + count, filled + count
                if stopped.is_set():
                    return
                if filled == len(buffer):
                    yield self._part(buffer, weights, first_row, filled)
                    first_row, filled, buffer = first_row + filled, 0, None
        if buffer is not None and filled:
            yield self._part(buffer, weights, first_row, filled)

    def _part(self, buffer: NDArray[Any], weights: NDArray[np.float64] | None, first_row: int, filled: int) -> Part:
        if self._weights is not None:
            own = self._weights[first_row : first_row + filled]
            if len(own) < filled:
                raise ValueError(f"sample_weight has {len(self._weights)} entries; {self.source.name} has more rows")
            weights = own if weights is None else weights[:filled] * own
        elif weights is not None:
            weights = weights[:filled]
        return Part(first_row, buffer if filled == len(buffer) else buffer[:filled], weights)


def streamed(X: Any, memory_limit: int | None) -> Source | None:
    """The source if a fit must read ``X`` shard by shard: data that is not in memory, or a map that is too large."""
    source = source_of(X)
    if source is not None or not isinstance(X, np.memmap):
        return source
    if memory_limit is None:
        free = free_memory()
        if free is None or X.nbytes <= free // 2:
            return None
        logger.info("X is larger than half of the free memory (%d bytes): it is read shard by shard", free)
    return Matrix(X)


def parts_of(X: Any, sample_weight: Any = None, dtype: Any = None) -> Iterator[Part] | None:
    """The parts of data that is read piece by piece; None if ``X`` is in memory."""
    source = source_of(X)
    if source is None:
        return None
    rows = max(1, ANSWERED // (source.n_columns * np.dtype(dtype or source.dtype).itemsize))
    return Reader(source, rows, check_weights(sample_weight, source.n_rows), dtype).parts()


def by_parts(answer: Answer) -> Answer:
    """Make a method of a fitted estimator accept data that is read piece by piece: its results are joined."""

    @functools.wraps(answer)
    def answered(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        source = source_of(X)
        if source is None:
            return answer(self, X, *args, **kwargs)
        check_is_fitted(self)
        check_names(self, source.names, reset=False)
        dtype = self.cluster_centers_.dtype
        rows = max(1, ANSWERED // (source.n_columns * dtype.itemsize))
        parts = Reader(source, rows, dtype=dtype).parts()
        found = [answer(self, part.rows.view(NamedBefore), *args, **kwargs) for part in parts]
        return _joined(found)

    return cast(Answer, answered)


def _joined(answers: list[Any]) -> Any:
    first = answers[0]
    if isinstance(first, tuple):
        return type(first)(*(np.concatenate(arrays) for arrays in zip(*answers, strict=True)))
    if isinstance(first, np.ndarray):
        return np.concatenate(answers)
    return scipy.sparse.vstack(answers, format="csr")


def _taken(ready: queue.Queue[Any]) -> Any:
    """The next entry; waiting for it can be interrupted by Ctrl-C."""
    while True:
        try:
            return ready.get(timeout=0.1)
        except queue.Empty:
            continue


def free_memory() -> int | None:
    """The bytes that the process may still use, according to the system and the container's limit, if known."""
    found = []
    try:
        with open("/proc/meminfo") as file:
            found += [1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable:")]
    except OSError:
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    try:
        with open("/sys/fs/cgroup/memory.max") as limit, open("/sys/fs/cgroup/memory.current") as current:
            text = limit.read().strip()
            if text != "max":
                found.append(max(0, int(text) - int(current.read())))
    except (OSError, ValueError):
        pass
    return min(found, default=None)
