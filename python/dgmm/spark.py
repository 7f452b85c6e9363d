"""Fits of Spark dataframes, and labels for their rows.

``fit`` turns the partitions of a dataframe into shards, which stay cached on the executors, and returns a plain
estimator; ``predict`` adds the cluster of each row to a dataframe. The same partitions give the same bits as
``dgmm.shards.fit``, whatever is lost and recomputed in between.

Needs the extra "spark", Java, and a classic session (not Spark Connect), whose dataframes have an ``rdd``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dgmm import _core
from dgmm._base import Mixture
from dgmm._estimators import DGMM
from dgmm._extras import need
from dgmm._progress import tell_end
from dgmm._tables import float_for, read
from dgmm._training import Training, check_elsewhere
from dgmm._validation import check_int, check_seed
from dgmm.shards import Memberships, Round, Shard, Statistics, Summary, check_finite, merge, merge_summaries

__all__ = ["fit", "predict"]

RDD = Any
"""A ``pyspark.RDD``."""
DataFrame = Any
"""A ``pyspark.sql.DataFrame``."""
State = tuple[Memberships, Statistics]
"""What a step over a shard returns."""
GATHERED = 16
"""Up to this many statistics are merged on the driver; more are first merged in groups on the executors."""


class Checked(NamedTuple):
    """The facts about a loaded partition."""

    partition: int
    rows: int
    columns: int
    weight: float
    version: str
    problem: str


def fit(
    dataframe: DataFrame,
    column: str | Sequence[str],
    n_clusters: int = 8,
    *,
    estimator: type[Mixture] = DGMM,
    weight_column: str | None = None,
    **settings: Any,
) -> Mixture:
    """Find the clusters of the rows of a Spark dataframe.

    Parameters
    ----------
    dataframe : pyspark.sql.DataFrame
        The rows. Its partitions are the shards of the fit, ideally with a few hundred rows per cluster. They must be
        the same whenever Spark recomputes them: sort or write the result of a shuffle.
    column : str or list of str
        The column of vectors (arrays of numbers, or MLlib vectors), or several numeric columns.
    n_clusters : int
        The number of clusters.
    estimator : class
        DGMM, VCGMM, ExactGMM, KMeans or GaussianMixture.
    weight_column : str, optional
        The column of the weights of the rows, 1 by default.
    **settings
        Parameters of the estimator. ``callback`` and ``verbose`` work as in a local fit; ``init`` must be a name and
        ``n_init`` 1.

    Returns
    -------
    model : estimator
        The fitted estimator, without ``labels_``: ``predict`` adds labels to a dataframe.
    """
    model = _settled(estimator, n_clusters, settings)
    session = _session(dataframe)
    blocks, dtype = _blocks(dataframe, column, weight_column)
    level = need("pyspark", "spark", "dgmm.spark").StorageLevel.MEMORY_AND_DISK
    rows = blocks.mapPartitionsWithIndex(Loader(dtype)).persist(level)
    fleet = None
    try:
        checked = rows.map(check).collect()
        _refuse_problems(checked)
        total = sum(part.rows for part in checked)
        check_int("n_clusters", n_clusters, most=total, most_is=f"n_samples={total}")
        fleet = _Fleet(session.sparkContext, rows, checked, level)
        training, plain = Training(model), type(model)(**model.get_params() | {"callback": None, "verbose": 0})
        fitted = training.run(plain, lambda: fleet.summary(plain, total), fleet.advance)
    finally:
        rows.unpersist()
        if fleet is not None:
            fleet.close()
    model._keep(fitted)
    model.n_features_in_ = model.cluster_centers_.shape[1]
    if not isinstance(column, str):
        model.feature_names_in_ = np.asarray(column, dtype=object)
    tell_end(model, fitted, total, training.interrupted, fitted.empty_clusters)
    return model


def predict(
    dataframe: DataFrame, column: str | Sequence[str], model: Mixture, *, output_column: str = "cluster"
) -> DataFrame:
    """Add the cluster of each row, as ``model.predict`` finds it, to a dataframe as an integer column.

    Parameters
    ----------
    dataframe : pyspark.sql.DataFrame
        The rows. The result is lazy.
    column : str or list of str
        As in ``fit``.
    model : DGMM, VCGMM, ExactGMM, KMeans or GaussianMixture
        A fitted estimator.
    output_column : str
        The name of the new column.
    """
    types = need("pyspark.sql.types", "spark", "dgmm.spark")
    if output_column in dataframe.columns:
        raise ValueError(f"output_column is {output_column!r}; it must not be the name of an existing column")
    check_is_fitted(model)
    numbers, _ = _numbers(dataframe, column)
    schema = types.StructType([*dataframe.schema.fields, types.StructField(output_column, types.IntegerType())])
    local = copy.copy(model).set_params(n_threads=1, callback=None)
    for name in ("labels_", "feature_names_in_"):  # labels can be large, and batches have no names
        vars(local).pop(name, None)
    sent = _session(dataframe).sparkContext.broadcast(local)
    return dataframe.select("*", *numbers).mapInArrow(Labeler(sent, len(numbers), output_column), schema)


class Labeler:
    """Labels batches of rows, whose vectors are the last columns, and replaces these columns by the labels."""

    def __init__(self, model: Any, numbers: int, name: str) -> None:
        self._model, self._numbers, self._name = model, numbers, name

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Label the batches."""
        arrow = need("pyarrow", "spark", "dgmm.spark")
        for batch in batches:
            kept = batch.num_columns - self._numbers
            labels = np.empty(0, dtype=np.int32)
            if batch.num_rows:
                labels = self._model.value.predict(_values(batch, range(kept, batch.num_columns), "column"))
            columns = [*batch.columns[:kept], arrow.array(labels, type=arrow.int32())]
            yield arrow.record_batch(columns, names=[*batch.schema.names[:kept], self._name])


class _Fleet:
    """The shards of a fit and their states, on the executors.

    States are a chain of cached RDDs: Spark recomputes what is lost from what is left, with the same bits. This needs
    the rounds of all previous steps.
    """

    def __init__(self, context: Any, rows: RDD, checked: Sequence[Checked], level: Any) -> None:
        self._context, self._level, self._shards = context, level, rows.mapPartitions(Placer(checked))
        counting = [part.partition for part in sorted(checked) if part.weight > 0]
        self._ranks = {partition: rank for rank, partition in enumerate(counting)}
        self._states: RDD | None = None
        self._sent: list[Any] = []

    def summary(self, estimator: Mixture, n_rows: int) -> Summary:
        """The merged summary of the shards."""
        return merge_summaries(self._shards.map(lambda shard: shard.summarize(estimator, n_rows)).collect())

    def advance(self, round: Round) -> Statistics:
        """Take a step over every shard, and merge the statistics in the order of the shards."""
        sent = self._context.broadcast(round)
        self._sent.append(sent)
        if self._states is None:
            states = self._shards.map(lambda shard: _step(shard, None, sent.value))
        else:
            states = self._shards.zip(self._states).map(lambda pair: _step(pair[0], pair[1], sent.value))
        states.persist(self._level)
        try:
            total = merged(states.map(lambda state: state[1]), self._ranks)
        except BaseException:
            states.unpersist()
            raise
        if self._states is not None:
            self._states.unpersist()
        self._states = states
        return total

    def close(self) -> None:
        """Release the memory of the executors."""
        if self._states is not None:
            self._states.unpersist()
        for sent in self._sent:
            sent.destroy()


def _step(shard: Shard, state: State | None, round: Round) -> State:
    statistics, kept = shard.step(round, None if state is None else state[0], n_threads=1)
    return kept, statistics


def merged(statistics: RDD, ranks: dict[int, int]) -> Statistics:
    """Merge statistics, one in each partition that has a rank, in the order of the ranks.

    Groups of neighbors are merged on the executors first. Their size is a power of two, so the tree of pairs is the
    same.
    """
    parts, size = len(ranks), 1
    if parts <= GATHERED:
        return merge(statistics.collect())
    while size * size < parts:
        size *= 2
    ranked = statistics.mapPartitionsWithIndex(lambda i, some: [(ranks[i], part) for part in some])
    numbered = ranked.map(lambda pair: (pair[0] // size, pair))
    groups = numbered.groupByKey(-(-parts // size), lambda key: key)
    sums = groups.mapValues(lambda some: merge([part for _, part in sorted(some, key=lambda pair: pair[0])]))
    return merge([part for _, part in sorted(sums.collect(), key=lambda pair: pair[0])])


def _settled(estimator: type[Mixture], n_clusters: int, settings: dict[str, Any]) -> Mixture:
    """The estimator, with a seed that all shards share."""
    if not (isinstance(estimator, type) and issubclass(estimator, Mixture)):
        raise TypeError(f"estimator is {estimator!r}; it must be dgmm.DGMM, VCGMM, ExactGMM, KMeans or GaussianMixture")
    model = estimator(n_clusters, **settings)
    model.set_params(random_state=check_seed(model.random_state))
    check_elsewhere(model)
    if model.coreset_size is not None:
        raise ValueError(f"coreset_size is {model.coreset_size!r}; it must be None for a fit on Spark")
    return model


def _session(dataframe: DataFrame) -> Any:
    need("pyspark", "spark", "dgmm.spark")
    if not hasattr(dataframe, "sparkSession") or not hasattr(dataframe.sparkSession, "sparkContext"):
        kind = type(dataframe).__name__
        raise TypeError(f"dataframe is a {kind}; it must be a dataframe of a classic Spark session (not Connect)")
    return dataframe.sparkSession


def _numbers(dataframe: DataFrame, column: str | Sequence[str]) -> tuple[list[Any], Any]:
    """The columns of the vectors or numbers, in types that Arrow supports, and the type to compute with."""
    names = [column] if isinstance(column, str) else list(column)
    fields = {field.name: field.dataType for field in dataframe.schema.fields}
    missing = [name for name in names if name not in fields]
    if missing or not names:
        raise ValueError(f"column is {column!r}; it must name columns of {list(fields)}")
    chosen, kinds = [], []
    for i, name in enumerate(names):
        kind, value = fields[name].typeName(), dataframe[name]
        if kind == "vector" or type(fields[name]).__name__ == "VectorUDT":
            value = need("pyspark.ml.functions", "spark", "dgmm.spark").vector_to_array(value)
            kind = "double"
        elif kind == "array":
            kind = fields[name].elementType.typeName()
        if kind not in WIDTHS:
            raise TypeError(f"column {name!r} is of type {fields[name].simpleString()}; it must hold numbers")
        chosen.append(value.alias(f"dgmm_{i}_{name}"))
        kinds.append(np.dtype(WIDTHS[kind]))
    return chosen, np.dtype(float_for(*kinds))


WIDTHS = {"float": "f4", "double": "f8", "byte": "i1", "short": "i2", "integer": "i4", "long": "i8", "boolean": "?"}
"""The NumPy types of Spark's number types."""


def _blocks(dataframe: DataFrame, column: str | Sequence[str], weight_column: str | None) -> tuple[RDD, Any]:
    """The rows as an RDD of packed blocks, with the partitions of the dataframe."""
    numbers, dtype = _numbers(dataframe, column)
    weights = []
    if weight_column is not None:
        if weight_column not in dataframe.columns:
            raise ValueError(f"weight_column is {weight_column!r}; it must be one of {dataframe.columns}")
        weights = [dataframe[weight_column].cast("double").alias("dgmm_weight")]
    packed = dataframe.select(*numbers, *weights).mapInArrow(Packer(dtype, bool(weights)), "kind string, block binary")
    return packed.rdd, dtype


class Packer:
    """Packs batches of rows into a few large blocks, which are cheap to transfer."""

    def __init__(self, dtype: Any, weighted: bool) -> None:
        self._dtype, self._weighted = dtype, weighted

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Pack the batches. An error in a batch is reported in a block of its own."""
        arrow = need("pyarrow", "spark", "dgmm.spark")
        for batch in batches:
            if not batch.num_rows:
                continue
            last = batch.num_columns - self._weighted
            try:
                rows = np.ascontiguousarray(_values(batch, range(last), "column"), dtype=self._dtype)
                kinds, blocks = [str(rows.shape[1])], [rows.tobytes()]
                if self._weighted:
                    weights = batch.column(last).to_numpy(zero_copy_only=False).astype(np.float64)
                    kinds, blocks = [*kinds, "weight"], [*blocks, weights.tobytes()]
            except ValueError as error:
                kinds, blocks = ["problem"], [str(error).encode()]
            yield arrow.record_batch([arrow.array(kinds), arrow.array(blocks, arrow.binary())], names=["kind", "block"])


def _values(batch: Any, columns: Iterable[int], name: str) -> NDArray[Any]:
    """The numbers of a batch, read like a table; errors use the user's names of the columns."""
    arrow = need("pyarrow", "spark", "dgmm.spark")
    names = [batch.schema.names[i] for i in columns]
    own = [text.split("_", 2)[2] for text in names]
    table = arrow.Table.from_arrays([batch.column(text) for text in names], names=own)
    return np.asarray(read(name, table).values)


class Loader:
    """Joins the blocks of a partition to a shard whose first row number is not known yet."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = dtype

    def __call__(self, partition: int, blocks: Iterable[Any]) -> Iterator[Any]:
        """Join the blocks."""
        rows: list[Any] = []
        weights: list[Any] = []
        for kind, block in blocks:
            if kind == "problem":
                yield partition, bytes(block).decode(), None, None
                return
            values = np.frombuffer(block, dtype=np.float64 if kind == "weight" else self._dtype)
            (weights if kind == "weight" else rows).append(
                values if kind == "weight" else values.reshape(-1, int(kind))
            )
        widths = sorted({part.shape[1] for part in rows})
        problem = (
            f"column: rows have {widths[0]} and {widths[1]} numbers; all must have the same number"
            if widths[1:]
            else ""
        )
        together = np.concatenate(rows) if rows and not problem else np.empty((0, 1), dtype=self._dtype)
        yield partition, problem, together, np.concatenate(weights) if weights else None


def check(part: tuple[int, str, Any, Any]) -> Checked:
    """Check the rows of a partition."""
    partition, problem, rows, weights = part
    if problem:
        return Checked(partition, 0, 0, 0.0, _core.__version__, problem)
    try:
        check_finite("column", rows, 0)
    except ValueError as error:
        problem = str(error)
    weight = float(len(rows))
    if weights is not None:
        bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
        if bad.size:
            problem = f"weight_column: row {bad[0]} has {weights[bad[0]]:g}; weights must be finite and at least 0"
        weight = float(weights.sum())
    return Checked(partition, len(rows), rows.shape[1], weight, _core.__version__, problem)


def _refuse_problems(checked: Sequence[Checked]) -> None:
    first = 0
    width = next((part.columns for part in checked if part.rows), 0)
    for part in sorted(checked):
        if part.version != _core.__version__:
            raise RuntimeError(f"the executors have dgmm {part.version}, but the driver has dgmm {_core.__version__}")
        problem = part.problem
        if part.rows and part.columns != width:
            problem = problem or f"column: rows have {width} and {part.columns} numbers; all must have the same number"
        if problem:
            raise ValueError(f"{problem} (partition {part.partition}, whose rows begin at {first})")
        first += part.rows
    if first == 0:
        raise ValueError("dataframe has 0 rows; it must have at least 1")
    if not any(part.weight for part in checked):
        raise ValueError("weight_column is zero for every row; at least one must be positive")


class Placer:
    """Sets the first row number of shards, and leaves out shards whose weights are all 0."""

    def __init__(self, checked: Sequence[Checked]) -> None:
        ordered = sorted(checked)
        ends = np.cumsum([part.rows for part in ordered])
        self._first = {part.partition: int(end) - part.rows for part, end in zip(ordered, ends, strict=True)}
        self._counts = {part.partition for part in ordered if part.weight > 0}

    def __call__(self, parts: Iterable[Any]) -> Iterator[Shard]:
        """Set the row numbers."""
        for partition, _, rows, weights in parts:
            if partition in self._counts:
                yield Shard.of_checked(rows, weights, self._first[partition])
