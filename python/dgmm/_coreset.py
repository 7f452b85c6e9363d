"""Coresets: a few weighted rows that represent many, drawn from data in memory, from chunks or from a stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dgmm import _core
from dgmm._sources import Chunks, Source, is_matrix, pieces_of
from dgmm._tables import read
from dgmm._validation import check_int, check_matrix, check_seed, check_weights

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Coreset", "CoresetBuilder", "lightweight_coreset"]

AT_ONCE = 1 << 25
"""Bytes that are read from a file at a time."""


class Coreset(NamedTuple):
    """A few weighted rows that represent many."""

    points: NDArray[Any]
    """The rows drawn, of the type of X."""
    weights: NDArray[np.float64]
    """How many rows each represents; on average they sum to the total weight of X."""
    indices: NDArray[np.int64]
    """The positions of the rows in X, ascending; a row may be drawn more than once, unless X came in chunks."""


def lightweight_coreset(
    X: ArrayLike | str | os.PathLike[str] | Callable[[], Iterable[Any]] | Sequence[Any],
    size: int,
    *,
    sample_weight: ArrayLike | None = None,
    random_state: Any = None,
) -> Coreset:
    """Draw a lightweight coreset (Bachem, Lucic and Krause, 2018).

    Row y is drawn with probability q(y), half of which is uniform and half proportional to its squared distance to the
    mean, and gets the weight 1 / (size q(y)), so weighted sums over the coreset are unbiased estimates of sums over X.
    This takes two passes over the data.

    Data that does not fit into memory is read piece by piece. Each row is then drawn at most once, by priority sampling
    with the same q, so the coreset has no more rows than X. ``CoresetBuilder`` needs only one pass.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), or rows that are read piece by piece
        The data, or where to read it, as in ``DGMM.fit``: the path of a file or a folder, a list of paths, an Arrow
        dataset, a list of chunks, or a function without arguments that returns a new iterable of chunks each time, such
        as a generator function. A chunk is a matrix, or a tuple of a matrix and its weights. All chunks are converted
        to the type of the first, and both passes must see the same chunks.
    size : int
        The number of rows to draw.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows, 1 by default. With chunks, pass the weights in tuples.
    random_state : int, RandomState or None
        The seed; an int gives the same coreset each time.

    Returns
    -------
    Coreset
        With ``points``, ``weights`` and ``indices``.

    Examples
    --------
    >>> import numpy as np, dgmm
    >>> X = np.arange(2000.0).reshape(1000, 2)
    >>> coreset = dgmm.lightweight_coreset(X, 50, random_state=0)
    >>> coreset.points.shape, coreset.weights.shape
    ((50, 2), (50,))
    >>> bool((coreset.points == X[coreset.indices]).all())
    True

    In chunks, here of 300 rows:

    >>> def chunks():
    ...     for start in range(0, 1000, 300):
    ...         yield X[start : start + 300]
    >>> coreset = dgmm.lightweight_coreset(chunks, 50, random_state=0)
    >>> bool((coreset.points == X[coreset.indices]).all())
    True
    """
    source = pieces_of(X)
    if source is not None:
        if sample_weight is not None and isinstance(source, Chunks):
            raise TypeError(
                "sample_weight is given; it must be None for chunks: pass tuples of a chunk and its weights"
            )
        weights = check_weights(sample_weight, source.n_rows)
        return _in_two_passes(source, weights, check_int("size", size), check_seed(random_state))
    rows = check_matrix("X", X)
    weights = check_weights(sample_weight, len(rows))
    # The core has the same bound for coreset_size.
    size = check_int("size", size, most=max(16 * len(rows), 2**20))
    return Coreset(*_core.lightweight_coreset(rows, weights, size, check_seed(random_state), None))


def _in_two_passes(source: Source, weights: NDArray[np.float64] | None, size: int, seed: int) -> Coreset:
    first = _first_pass(source, weights)
    second = first.second_pass(size, seed)
    for _, rows, own in _chunks(source, weights, np.float32 if first.single else np.float64):
        second.add(rows, own, None)
        del rows, own
    return Coreset(*second.result())


def _first_pass(source: Source, weights: NDArray[np.float64] | None) -> _core.FirstPass:
    first: _core.FirstPass | None = None
    for name, rows, own in _chunks(source, weights, getattr(source, "dtype", None)):
        if first is None:
            first = _core.FirstPass(rows.dtype == np.float32)
        try:
            first.add(rows, own, None)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        del rows, own
    if first is None:
        raise ValueError("X has no rows; at least 1 is needed")
    return first


def _chunks(source: Source, weights: NDArray[np.float64] | None, dtype: Any) -> Iterator[tuple[str, Any, Any]]:
    """Names, rows and weights of the pieces of a source, in one type: by default that of the first piece."""
    numbers, seen = count(), 0
    for values, own in source.pieces():
        in_chunks = isinstance(source, Chunks)
        name = f"chunk {next(numbers)} of X" if in_chunks else source.name
        # The piece of a mapped file is the whole file.
        at_once = len(values) if in_chunks else AT_ONCE // (values.itemsize * values.shape[1])
        for start in range(0, len(values), max(1, at_once)):
            rows = check_matrix(name, values[start : start + max(1, at_once)], dtype=dtype, finite=False)
            dtype, first, seen = rows.dtype.type, seen, seen + len(rows)
            yield name, rows, own if weights is None else weights[first:seen]
            del rows
        del values, own


class CoresetBuilder:
    """Build a coreset of a stream of rows in one pass, on one machine or on many.

    Each row is read once. Its importance is that of ``lightweight_coreset``, with the mean and spread of the rows so
    far. A priority sample keeps ``size`` rows, with random numbers that are derived from ``random_state`` and the
    number of the row. Weighted sums over the coreset are unbiased estimates of sums over all rows, in any order. The
    builder takes the memory of 2 ``size`` rows, however long the stream is.

    The same rows in the same order give the same bits, for any split into chunks and any number of threads.

    Parameters
    ----------
    size : int
        The maximum number of rows of the coreset. If no more rows were added, it contains all of them and their
        weights.
    random_state : int, RandomState or None
        The seed; an int gives the same coreset each time.
    first_row : int
        The number of the first row that is added; later rows are numbered consecutively. Builders that will be merged
        must not share numbers: give each the position of its rows in the whole data set or, if that is unknown, numbers
        far apart, such as ``i * 2**40`` for part i.
    n_threads : int or None
        The number of threads, by default as many as the process may use.

    Examples
    --------
    >>> import numpy as np, dgmm
    >>> X = np.random.default_rng(0).normal(size=(10_000, 3))
    >>> builder = dgmm.CoresetBuilder(500, random_state=0)
    >>> for start in range(0, 6_000, 1_000):
    ...     builder = builder.add(X[start : start + 1_000])

    The rest of the rows, on another machine:

    >>> other = dgmm.CoresetBuilder(500, random_state=0, first_row=6_000).add(X[6_000:])
    >>> content = other.to_bytes()

    And back:

    >>> coreset = builder.merge(dgmm.CoresetBuilder.from_bytes(content)).result()
    >>> builder.n_rows_seen, coreset.points.shape
    (10000, (500, 3))
    >>> bool((coreset.points == X[coreset.indices]).all())
    True
    >>> model = dgmm.KMeans(5, random_state=0).fit(coreset.points, sample_weight=coreset.weights)
    """

    def __init__(
        self, size: int, *, random_state: Any = None, first_row: int = 0, n_threads: int | None = None
    ) -> None:
        size, first_row = check_int("size", size), check_int("first_row", first_row, least=0)
        self.n_threads = None if n_threads is None else check_int("n_threads", n_threads)
        # The first rows determine the type.
        self._core = _core.CoresetBuilder(size, check_seed(random_state), first_row, False)

    @property
    def size(self) -> int:
        """The maximum number of rows of the coreset."""
        return self._core.size

    @property
    def n_rows_seen(self) -> int:
        """How many rows were added to this builder and to those merged into it."""
        return self._core.rows_seen

    @property
    def next_row(self) -> int:
        """The number of the next row that is added."""
        return self._core.next_row

    def add(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add a chunk of rows. An error leaves the builder unchanged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows, all in the type of the first chunk. A chunk without rows changes nothing.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, 1 by default.

        Returns
        -------
        CoresetBuilder
            The builder itself.
        """
        dtype = None if self.n_rows_seen == 0 else np.float32 if self._core.single else np.float64
        values = read("X", X).values
        if is_matrix(values) and not len(values):
            return self
        rows = check_matrix("X", values, dtype=dtype, finite=False)
        core = self._of_type(single=rows.dtype == np.float32)
        core.add(rows, check_weights(sample_weight, len(rows)), self.n_threads)
        self._core = core
        return self

    def merge(self, other: CoresetBuilder) -> Self:
        """Add everything that another builder has seen; the other builder stays as it is.

        The order of merges does not matter. The merged builder has the smaller of the two sizes. Builders that have
        seen rows with the same numbers are refused.

        Parameters
        ----------
        other : CoresetBuilder
            The other builder, with rows of the same width and type.

        Returns
        -------
        CoresetBuilder
            The builder itself.
        """
        if not isinstance(other, CoresetBuilder):
            raise TypeError(f"other is {other!r}; it must be a CoresetBuilder")
        if other is self:
            raise ValueError("other is this builder itself; it must be another builder")
        if other.n_rows_seen == 0:
            self._core.merge(other._of_type(single=self._core.single))
            return self
        core = self._of_type(single=other._core.single)
        if core.single != other._core.single:
            types = ("float32", "float64") if core.single else ("float64", "float32")
            raise TypeError(f"other has rows of type {types[1]}; they must be of type {types[0]}, as in this builder")
        core.merge(other._core)
        self._core = core
        return self

    def result(self) -> Coreset:
        """Return the coreset of all rows so far. More rows may be added afterwards.

        Returns
        -------
        Coreset
            With ``points``, ``weights`` and ``indices`` (the numbers of the rows). No row occurs twice.
        """
        return Coreset(*self._core.result())

    def to_bytes(self) -> bytes:
        """Return the builder as bytes, to send or to store. Pickling uses the same bytes."""
        return self._core.to_bytes()

    @classmethod
    def from_bytes(cls, content: bytes, *, n_threads: int | None = None) -> Self:
        """Restore a builder from ``to_bytes``; it continues where the original was. Damaged bytes are refused.

        Parameters
        ----------
        content : bytes
            What ``to_bytes`` returned.
        n_threads : int or None
            The number of threads, by default as many as the process may use.
        """
        if not isinstance(content, bytes | bytearray | memoryview):
            raise TypeError(f"content is of type {type(content).__name__}; it must be bytes")
        builder = cls.__new__(cls)
        builder.n_threads = None if n_threads is None else check_int("n_threads", n_threads)
        builder._core = _core.CoresetBuilder.from_bytes(bytes(content))
        return builder

    def _of_type(self, *, single: bool) -> _core.CoresetBuilder:
        """The core's builder; before the first row, a new one for rows of this type."""
        core = self._core
        if self.n_rows_seen or core.single == single:
            return core
        return _core.CoresetBuilder(core.size, core.seed, core.next_row, single)

    def __getstate__(self) -> dict[str, Any]:
        return {"content": self.to_bytes(), "n_threads": self.n_threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.n_threads = state["n_threads"]
        self._core = _core.CoresetBuilder.from_bytes(state["content"])

    def __repr__(self) -> str:
        return f"CoresetBuilder({self.size}): {self.n_rows_seen} rows seen"
