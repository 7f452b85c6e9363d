"""Dask arrays and dataframes as the shards of a fit: one shard for each partition that has rows."""

from __future__ import annotations

import math
import numbers
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgmm._extras import need
from dgmm._tables import float_for, read
from dgmm._validation import check_weights
from dgmm.shards import Shard

Delayed = Any
"""A ``dask.delayed.Delayed``; Dask ships no types."""


@dataclass
class Partitions:
    """The rows and weights of each partition, as lazy Dask objects."""

    blocks: list[Delayed]
    weights: list[Any]
    lengths: list[int]
    columns: int
    names: list[Any] | None
    dtype: Any

    @property
    def n_rows(self) -> int:
        """The number of rows of all partitions."""
        return sum(self.lengths)

    @property
    def first_rows(self) -> list[int]:
        """The number of rows before each partition."""
        return [sum(self.lengths[:i]) for i in range(len(self.lengths))]

    def shards(self) -> list[tuple[int, Delayed]]:
        """The partitions that have rows as lazy shards, with the number of each partition."""
        lazy = need("dask", "dask", "dgmm.dask").delayed(make_shard, pure=False)
        parts = enumerate(zip(self.blocks, self.weights, self.first_rows, self.lengths, strict=True))
        return [
            (i, lazy(block, weights, first, length, self.columns, self.dtype, i))
            for i, (block, weights, first, length) in parts
            if length > 0
        ]


def is_collection(X: Any) -> bool:
    """Whether X is a Dask array or dataframe, without importing Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed") and (is_frame(X) or hasattr(X, "chunks"))


def is_frame(X: Any) -> bool:
    """Whether a collection is a dataframe."""
    return hasattr(X, "npartitions") and hasattr(X, "columns")


def check_client(name: str, X: Any) -> None:
    """Refuse a collection whose rows are on a cluster whose client is closed."""
    distributed = sys.modules.get("distributed")
    for future in () if distributed is None else distributed.futures_of(X):
        if future.client is None or future.client.status != "running":
            raise RuntimeError(
                f"{name}: its rows are on a Dask cluster whose client was closed; create it with an open client"
            )


def single_columns(name: str, X: Any) -> Any:
    """Return X as a Dask array whose blocks contain whole rows; it must have two dimensions."""
    if X.ndim != 2:
        raise ValueError(f"{name} has {X.ndim} dimensions; it must have 2, rows and columns")
    if math.isnan(X.shape[1]):
        raise ValueError(f"{name} has an unknown number of columns; only the number of rows may be unknown")
    if X.dtype.kind not in "fiub":
        raise TypeError(f"{name} is of type {X.dtype}; it must be numeric")
    return X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})


def partitions(X: Any, sample_weight: Any = None) -> Partitions:
    """Split X and its weights into partitions. If their lengths are unknown, rows are loaded and counted."""
    dask = need("dask", "dask", "dgmm.dask")
    if not is_collection(X):
        raise TypeError(
            f"X is a {type(X).__name__}; it must be a Dask array or dataframe (use dgmm.DGMM for other data)"
        )
    check_client("X", X)
    if is_frame(X):
        blocks, names, columns = list(X.to_delayed()), list(X.columns), len(X.columns)
        dtype, lengths = _dtype_of_frame(X), None
    else:
        X = single_columns("X", X)
        blocks, names, columns = list(X.to_delayed().ravel()), None, X.shape[1]
        dtype, lengths = float_for(X.dtype), _known(X)
    if columns == 0:
        raise ValueError("X has 0 columns; it must have at least 1")
    if lengths is None:
        blocks = list(dask.persist(*blocks))
        lengths = list(dask.compute(*[dask.delayed(len)(block) for block in blocks]))
    if sum(lengths) == 0:
        raise ValueError(f"X has 0 rows in {len(lengths)} partitions; it must have at least 1")
    weights = _weights(sample_weight, lengths)
    return Partitions(blocks, weights, lengths, columns, names, np.dtype(dtype))


def _known(X: Any) -> list[int] | None:
    return None if any(math.isnan(length) for length in X.chunks[0]) else [int(length) for length in X.chunks[0]]


def _dtype_of_frame(X: Any) -> Any:
    for column, kind in X.dtypes.items():
        if getattr(kind, "kind", "O") not in "fiub":
            raise ValueError(f"X: column {column!r} has type {kind}; every column must hold numbers")
    return float_for(*[getattr(kind, "numpy_dtype", kind) for kind in X.dtypes])


def _weights(sample_weight: Any, lengths: list[int]) -> list[Any]:
    """Split the weights like the rows."""
    if sample_weight is None or isinstance(sample_weight, numbers.Real):
        return [sample_weight] * len(lengths)
    if not hasattr(sample_weight, "__dask_graph__"):
        weights = check_weights(sample_weight, sum(lengths))
        assert weights is not None
        ends = np.cumsum(lengths)
        return [weights[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    if hasattr(sample_weight, "to_dask_array"):
        sample_weight = sample_weight.to_dask_array()
    if sample_weight.ndim != 1:
        raise ValueError(f"sample_weight has {sample_weight.ndim} dimensions; it must have 1")
    known = _known(sample_weight)
    if known is not None and sum(known) != sum(lengths):
        raise ValueError(f"sample_weight has shape {sample_weight.shape}; it must be ({sum(lengths)},) or a number")
    if known is not None and known != lengths:
        sample_weight = sample_weight.rechunk((tuple(lengths),))
    blocks = list(sample_weight.to_delayed().ravel())
    if len(blocks) != len(lengths):
        raise ValueError(f"sample_weight has {len(blocks)} partitions; it must have as many as X, {len(lengths)}")
    return blocks


def make_shard(
    block: Any, weights: Any, first_row: int, length: int, columns: int, dtype: Any, partition: int
) -> Shard:
    """Make a shard of a partition, on its worker. Errors name the partition, or the row in the whole data."""
    rows = rows_of(block, dtype, partition, first_row)
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise ValueError(f"X: partition {partition} has shape {rows.shape}; it must have {columns} columns")
    if len(rows) != length:
        raise ValueError(f"X: partition {partition} has {len(rows)} rows; {length} were expected")
    try:
        weights = check_weights(weights, len(rows))
    except ValueError as error:
        raise ValueError(f"{error} (partition {partition})") from None
    if weights is not None:
        bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
        if bad.size:
            number, value = first_row + bad[0], weights[bad[0]]
            raise ValueError(f"sample_weight[{number}] is {value:g}; weights must be finite and at least 0")
    return Shard.of_checked(rows, weights, first_row)


def rows_of(block: Any, dtype: Any, partition: int, first_row: int) -> NDArray[Any]:
    """Return the rows of a partition in C order, without a copy if they already are."""
    try:
        values = read("X", block).values
    except ValueError as error:
        raise ValueError(f"{error} (partition {partition}, whose rows begin at {first_row})") from None
    return np.require(np.asarray(values, dtype=dtype), requirements=["C", "A"])


def has_weight(shard: Shard) -> bool:
    """Whether any row of the shard has a positive weight."""
    return shard.sample_weight is None or bool(shard.sample_weight.any())
