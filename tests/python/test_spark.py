"""Fits of Spark dataframes: the bits of a fit in one process, whatever Spark recomputes."""

import os
import re
import shutil
import sys
from pathlib import Path

import dgmm
import numpy as np
import pytest
from dgmm import shards
from support import blobs

if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    if os.environ.get("DGMM_NEEDS_JAVA"):
        raise RuntimeError("DGMM_NEEDS_JAVA is set, but there is no java")
    pytest.skip("NO JAVA: Spark needs it", allow_module_level=True)
pyspark = pytest.importorskip("pyspark", reason="needs the extra `spark`")
pytest.importorskip("pyarrow", reason="needs the extra `spark`")
pytest.importorskip("pandas", reason="needs the extra `spark`")
import dgmm.spark  # noqa: E402

ROWS, PARTS = 1800, 3
SETTINGS = {"random_state": 1, "tol": 0, "max_iter": 3}


@pytest.fixture(scope="module")
def session():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = pyspark.sql.SparkSession.builder.master("local[2,4]").appName("dgmm")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
    }.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


def rows(dtype=np.float32):
    return blobs(ROWS, 4, 60, dtype=dtype)


def vectors(session, X=None, parts=PARTS, **columns):
    """A dataframe whose partitions are consecutive rows."""
    X = rows() if X is None else X
    kind = "float" if X.dtype == np.float32 else "double"
    names, more = (
        ", ".join(f"{name} double" for name in columns),
        [np.asarray(c, dtype=float).tolist() for c in columns.values()],
    )
    listed = [tuple(row) for row in zip(X.tolist(), *more, strict=True)]
    spread = session.sparkContext.parallelize(listed, parts)
    return session.createDataFrame(spread, f"v array<{kind}>" + (f", {names}" if names else ""))


def in_process(estimator, dataframe, X=None, weights=None):
    """A fit of the same shards in this process."""
    X, first, pieces = rows() if X is None else X, 0, []
    for length in dataframe.rdd.mapPartitions(lambda some: [sum(1 for _ in some)]).collect():
        part = slice(first, first + length)
        if length and (weights is None or weights[part].any()):
            pieces.append(shards.Shard(X[part], None if weights is None else weights[part], first))
        first += length
    return shards.fit(estimator, pieces)


def cached(session):
    return [rdd.toString() for rdd in session.sparkContext._jsc.getPersistentRDDs().values()]


def assert_same(found, expected):
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
    assert (found.variance_, found.inertia_) == (expected.variance_, expected.inertia_)


def test_the_fit_is_that_of_the_same_shards_in_process(session):
    frame = vectors(session, rows(np.float64))
    model = dgmm.spark.fit(frame, "v", 120, **SETTINGS)
    assert type(model) is dgmm.DGMM
    assert model.cluster_centers_.dtype == np.float64
    assert_same(model, in_process(dgmm.DGMM(120, **SETTINGS), frame, rows(np.float64)))


def test_refinement_over_partitions_is_that_of_the_same_shards_in_process(session):
    settings = SETTINGS | {"init": "random", "refine": 1, "tol": 1.0, "max_iter": 12}
    frame = vectors(session, rows())
    model = dgmm.spark.fit(frame, "v", 120, **settings)
    assert_same(model, in_process(dgmm.DGMM(120, **settings), frame))
    assert model.history_["refine"].any()


def test_many_partitions_are_merged_in_groups_with_the_same_bits(session, monkeypatch):
    monkeypatch.setattr(dgmm.spark, "GATHERED", 2)
    frame = vectors(session, parts=5)
    model = dgmm.spark.fit(frame, "v", 20, estimator=dgmm.KMeans, **SETTINGS)
    assert_same(model, in_process(dgmm.KMeans(20, **SETTINGS), frame))


def test_cached_rows_and_states_that_are_lost_are_computed_again_with_the_same_bits(session):
    frame = vectors(session)
    lost = []

    def lose(event):
        if event.iteration == 2:
            cached = session.sparkContext._jsc.getPersistentRDDs()
            for key in list(cached):
                cached[key].unpersist(True)
                lost.append(key)

    model = dgmm.spark.fit(frame, "v", 120, callback=lose, **SETTINGS)
    assert len(lost) >= 2
    assert_same(model, in_process(dgmm.DGMM(120, **SETTINGS), frame))
    assert cached(session) == []


def test_a_task_that_fails_is_tried_again_with_the_same_bits(session, tmp_path):
    marker = str(tmp_path)

    def fail_once(batches):
        from pyspark import TaskContext

        try:
            os.mkdir(os.path.join(marker, str(TaskContext.get().partitionId())))
        except FileExistsError:
            yield from batches
        else:
            os._exit(1)

    plain = vectors(session)
    shaky = plain.mapInArrow(fail_once, plain.schema)
    assert_same(dgmm.spark.fit(shaky, "v", 120, **SETTINGS), in_process(dgmm.DGMM(120, **SETTINGS), plain))
    assert len(os.listdir(marker)) == PARTS


def test_columns_of_numbers_and_weights(session):
    weights = np.arange(ROWS) % 3 * 1.0
    weights[:600] = 0  # a whole partition
    frame = vectors(session, w=weights).selectExpr(*(f"v[{i}] as c{i}" for i in range(4)), "w")
    names = [f"c{i}" for i in range(4)]
    model = dgmm.spark.fit(frame, names, 120, weight_column="w", **SETTINGS)
    assert model.feature_names_in_.tolist() == names
    assert_same(model, in_process(dgmm.DGMM(120, **SETTINGS), frame, weights=weights))


def test_labels_are_added_lazily_and_are_those_of_the_model(session):
    frame = vectors(session, n=np.arange(ROWS))
    model = dgmm.DGMM(30, random_state=0).fit(rows())
    labeled = dgmm.spark.predict(frame, "v", model)
    assert labeled.columns == ["v", "n", "cluster"]
    found = labeled.toPandas().sort_values("n")
    np.testing.assert_array_equal(found["cluster"], model.predict(rows()))
    split = frame.selectExpr(*(f"v[{i}] as c{i}" for i in range(4)), "n")
    again = dgmm.spark.predict(split, [f"c{i}" for i in range(4)], model, output_column="k").toPandas()
    np.testing.assert_array_equal(again.sort_values("n")["k"], found["cluster"])


@pytest.mark.parametrize("kind", ["diag", "spherical", "tied_diag", "isotropic"])
def test_mixtures_are_fitted_and_their_weights_and_variances_decide_labels(session, kind):
    # Two clusters at almost the same place, one wide and one narrow and rare, and a third one far away.
    rng = np.random.default_rng(0)
    X = rng.permutation(rng.normal(0, [[3.0, 1.0]], (ROWS, 2)) * np.repeat([1, 0.1, 1], [1200, 100, 500])[:, None])
    X[:, 1] += 20 * (np.arange(ROWS) % 3 == 0)
    frame = vectors(session, X, n=np.arange(ROWS))
    settings = {"covariance_type": kind, "random_state": 0, "max_iter": 5, "truncation": 4}
    model = dgmm.spark.fit(frame, "v", 4, estimator=dgmm.GaussianMixture, **settings)
    assert type(model) is dgmm.GaussianMixture
    expected = in_process(dgmm.GaussianMixture(4, **settings), frame, X)
    assert_same(model, expected)
    np.testing.assert_array_equal(model.weights_, expected.weights_)
    np.testing.assert_array_equal(model.covariances_, expected.covariances_)
    found = dgmm.spark.predict(frame, "v", model).toPandas().sort_values("n")
    np.testing.assert_array_equal(found["cluster"], model.predict(X))
    nearest = ((X[:, None] - model.means_) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest != model.predict(X)).any()


def test_labels_and_callbacks_of_the_model_are_not_sent_to_executors(session, monkeypatch):
    sent, init = [], dgmm.spark.Labeler.__init__

    def remember(self, model, *more):
        sent.append(model.value)
        init(self, model, *more)

    monkeypatch.setattr(dgmm.spark.Labeler, "__init__", remember)
    model = dgmm.GaussianMixture(5, random_state=0, callback=lambda event: None).fit(rows())
    before = dict(vars(model))
    dgmm.spark.predict(vectors(session), "v", model)
    assert all(vars(model)[name] is value for name, value in before.items())
    assert not hasattr(sent[0], "labels_")
    assert (sent[0].callback, sent[0].n_threads) == (None, 1)
    np.testing.assert_array_equal(sent[0].predict(rows()), model.predict(rows()))


def test_vectors_of_mllib_are_rows(session):
    from pyspark.ml.functions import array_to_vector

    frame = vectors(session, rows(np.float64), n=np.arange(ROWS))
    dense = frame.select(array_to_vector("v").alias("features"), "n")
    model = dgmm.spark.fit(dense, "features", 20, estimator=dgmm.KMeans, **SETTINGS)
    assert_same(model, in_process(dgmm.KMeans(20, **SETTINGS), frame, rows(np.float64)))
    found = dgmm.spark.predict(dense, "features", model).select("n", "cluster").toPandas().sort_values("n")
    np.testing.assert_array_equal(found["cluster"], model.predict(rows(np.float64)))


def test_progress_comes_by_callback_which_can_end_the_fit(session):
    heard = []

    def two(event):
        heard.append(event.stage)
        return event.iteration == 2

    model = dgmm.spark.fit(vectors(session), "v", 20, estimator=dgmm.KMeans, random_state=0, callback=two)
    assert heard == ["seeding", "em", "em"]
    assert model.n_iter_ == 2


def with_nan(session):
    X = rows()
    X[1300, 2] = np.nan
    return vectors(session, X)


def ragged(session):
    return session.createDataFrame([([1.0, 2.0],), ([1.0],)] * 20, "v array<double>").repartition(2)


BAD = {
    "no dataframe": (lambda _: rows(), {}, TypeError, r"dataframe is a ndarray; it must be a dataframe of a classic"),
    "no column": (vectors, {"column": "x"}, ValueError, r"column is 'x'; it must name columns of \['v'\]"),
    "no weights": (vectors, {"weight_column": "x"}, ValueError, r"weight_column is 'x'; it must be one of \['v'\]"),
    "texts": (
        lambda s: s.createDataFrame([("a",)], "v string"),
        {},
        TypeError,
        r"column 'v' is of type string; it must hold numbers",
    ),
    "no rows": (lambda s: vectors(s).where("false"), {}, ValueError, r"dataframe has 0 rows"),
    "NaN": (with_nan, {}, ValueError, r"column.*row 100.*\(partition 2, whose rows begin at 1200\)"),
    "ragged": (ragged, {}, ValueError, r"column.*\(partition 0, whose rows begin at 0\)"),
    "weight": (
        lambda s: vectors(s, w=-np.eye(1, ROWS, 700)[0]),
        {"weight_column": "w"},
        ValueError,
        r"weight_column: row 100 has -1; .*\(partition 1, whose rows begin at 600\)",
    ),
    "zero weights": (
        lambda s: vectors(s, w=np.zeros(ROWS)),
        {"weight_column": "w"},
        ValueError,
        r"weight_column is zero for every row",
    ),
    "clusters": (vectors, {"n_clusters": ROWS + 1}, ValueError, r"n_clusters is 1801; .* at most n_samples=1800"),
    "coreset": (vectors, {"coreset_size": 10}, ValueError, r"coreset_size is 10; .* must be None"),
    "estimator": (vectors, {"estimator": 3}, TypeError, r"estimator is 3; it must be dgmm.DGMM, .* or GaussianMixture"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_name(session, case):
    make, more, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        dgmm.spark.fit(make(session), **{"column": "v", "n_clusters": 2, "estimator": dgmm.KMeans} | more)
    assert cached(session) == []


def test_the_code_of_the_guide_runs(session, capsys):
    page = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```py\n(.*?)^```", page, re.S | re.M)
    exec(compile(block, "docs/distributed.md", "exec"), {"spark": session})
    assert "cluster" in capsys.readouterr().out


def test_a_taken_name_is_refused(session):
    model = dgmm.KMeans(2, random_state=0).fit(rows())
    with pytest.raises(ValueError, match="output_column is 'v'; it must not be the name of an existing column"):
        dgmm.spark.predict(vectors(session), "v", model, output_column="v")
