"""Tables and arrays of other libraries are accepted, with their column names and without needless copies."""

import subprocess
import sys
import warnings

import dgmm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from dgmm._tables import read
from dgmm._validation import check_matrix, check_rows
from support import ALL, DTYPES, blobs, quiet_fit

NAMES = ["height", "width", "depth"]

TABLES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "Arrow table": pa.table,
    "Arrow batch": pa.RecordBatch.from_pydict,
}


def columns(X):
    return {name: X[:, j].copy() for j, name in enumerate(NAMES)}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("cls", ALL)
def test_a_table_is_its_columns_and_their_names(cls, kind, dtype):
    X = blobs(300, 3, 4, dtype=dtype)
    table = TABLES[kind](columns(X))
    expected = quiet_fit(cls(4, random_state=0), X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = cls(4, random_state=0).fit(table)
        labels = model.predict(table)
    assert model.cluster_centers_.dtype == dtype
    assert model.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(labels, expected.predict(X))


@pytest.mark.parametrize("kind", TABLES)
def test_names_are_compared_whatever_the_library(kind):
    X = blobs(100, 3, 4)
    model = quiet_fit(dgmm.KMeans(4, random_state=0), TABLES[kind](columns(X)))
    turned = pd.DataFrame(columns(X))[NAMES[::-1]]
    with pytest.raises(ValueError, match="same order"):
        model.predict(turned)
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- weight\n.*now missing:\n- width"):
        model.predict(turned.rename(columns={"width": "weight"}))
    with pytest.warns(dgmm.FeatureNamesWarning, match="does not have valid feature names") as caught:
        model.predict(X)
    assert caught[0].filename == __file__
    nameless = quiet_fit(dgmm.KMeans(4, random_state=0), X)
    with pytest.warns(dgmm.FeatureNamesWarning, match="fitted without feature names"):
        nameless.predict(TABLES[kind](columns(X)))
    model.fit(X)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize(
    ("kinds", "dtype"),
    [
        ((np.int16, np.float32, bool), np.float32),
        ((np.uint8, np.uint8, np.uint8), np.float32),
        ((np.int8, np.uint16, bool), np.float32),
        ((np.float16, np.int8, np.float32), np.float32),
        ((np.int32, np.float32, bool), np.float64),
        ((np.int8, np.uint32, np.int8), np.float64),
        ((np.float32, np.float32, np.float64), np.float64),
    ],
)
@pytest.mark.parametrize("table", TABLES)
def test_columns_of_several_types_are_read_in_the_smallest_float_that_holds_all(table, kinds, dtype):
    X = abs(blobs(200, 3, 4) * 9).round()
    given = {name: X[:, j].astype(kind) for j, (name, kind) in enumerate(zip(NAMES, kinds, strict=True))}
    values, names = read("X", TABLES[table](given))
    assert names == NAMES
    assert values.dtype == dtype
    np.testing.assert_array_equal(values, np.column_stack(list(given.values())))


@pytest.mark.parametrize(("kind", "dtype"), [("Int8", np.float32), ("boolean", np.float32), ("Int32", np.float64)])
def test_nullable_columns_of_pandas_are_read_by_the_same_rule(kind, dtype):
    frame = pd.DataFrame({"a": pd.array([1, 0, 1], dtype=kind), "b": np.ones(3, np.float32)})
    values = read("X", frame).values
    assert values.dtype == dtype
    np.testing.assert_array_equal(values, [[1, 1], [0, 1], [1, 1]])


LISTS = pa.list_(pa.float32())
VECTORS = {
    "pandas arrays": lambda rows: pd.DataFrame({"embedding": list(rows)}),
    "pandas lists": lambda rows: pd.DataFrame({"embedding": [row.tolist() for row in rows]}),
    "pandas Arrow": lambda rows: pd.DataFrame({"embedding": pd.Series(list(rows), dtype=pd.ArrowDtype(LISTS))}),
    "polars List": lambda rows: pl.DataFrame({"embedding": pl.Series(list(rows), dtype=pl.List(pl.Float32))}),
    "polars Array": lambda rows: pl.DataFrame({"embedding": pl.Series(rows)}),
    "Arrow list": lambda rows: pa.table({"embedding": pa.array(list(rows), LISTS)}),
    "Arrow large list": lambda rows: pa.table({"embedding": pa.array(list(rows), pa.large_list(pa.float32()))}),
    "Arrow fixed list": lambda rows: pa.table(
        {"embedding": pa.array(list(rows), pa.list_(pa.float32(), len(rows[0])))}
    ),
    "Arrow chunks": lambda rows: pa.concat_tables([VECTORS["Arrow list"](rows[:7]), VECTORS["Arrow list"](rows[7:])]),
    "Arrow batch": lambda rows: VECTORS["Arrow list"](rows).to_batches()[0],
}


@pytest.mark.parametrize("kind", VECTORS)
def test_a_single_column_of_vectors_is_a_matrix(kind):
    X = blobs(60, 3, 4, dtype=np.float32)
    table = VECTORS[kind](X)
    values, names = read("X", table)
    assert names is None
    np.testing.assert_array_equal(values, X)
    model = quiet_fit(dgmm.KMeans(4, random_state=0), table)
    assert model.cluster_centers_.dtype == (np.float64 if kind == "pandas lists" else np.float32)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.predict(table), model.predict(X))


RAGGED = {
    "pandas": lambda column: pd.DataFrame({"embedding": pd.Series(column, dtype=object)}),
    "polars": lambda column: pl.DataFrame({"embedding": column}),
    "Arrow": lambda column: pa.table({"embedding": column}),
}


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([[1.0, 2.0], [3.0, 4.0], [5.0]], "holds vectors of 2 numbers in row 0 but of 1 in row 2; .*equally long"),
        ([[1.0, 2.0], None, [5.0, 6.0]], "has no vector in row 1; .*fill or drop"),
        ([[1.0, 2.0], [3.0, None], [5.0, 6.0]], "has 1 values that are missing .*first in row 1"),
        ([[1.0, 2.0], [3.0, float("inf")], [5.0, 6.0]], "has 1 values that are missing .*first in row 1"),
        ([[], [], []], "(holds empty vectors|must hold numbers)"),
        ([["a", "b"], ["c", "d"]], "must hold numbers"),
        ([[[1.0], [2.0]], [[3.0], [4.0]]], "must hold numbers"),
    ],
)
@pytest.mark.parametrize("kind", RAGGED)
def test_errors_name_columns_whose_vectors_form_no_matrix(kind, column, words):
    with pytest.raises(ValueError, match=f"X: column 'embedding'.* {words}"):
        dgmm.KMeans(1).fit(RAGGED[kind](column))


@pytest.mark.parametrize("kind", TABLES)
def test_other_columns_next_to_vectors_are_refused(kind):
    table = TABLES[kind]({"id": [1, 2], "embedding": [[1.0, 2.0], [3.0, 4.0]]})
    words = "X: column 'embedding' holds vectors, but there are other columns: 'id'; select it: X"
    with pytest.raises(ValueError, match=words):
        dgmm.KMeans(1).fit(table)


@pytest.mark.parametrize("words", [["a", "b", "c", "d"], ["1", "2", "3", "4"]])
@pytest.mark.parametrize("kind", TABLES)
def test_errors_name_non_numeric_columns(kind, words):
    table = TABLES[kind]({"size": [1.0, 2.0, 3.0, 4.0], "color": words})
    with pytest.raises(ValueError, match=r"X: column 'color' has type .*every column must hold numbers"):
        dgmm.KMeans(2).fit(table)
    with pytest.raises(ValueError, match="centers: column 'color'"):
        dgmm.quantization_error([[1.0, 2.0]], table)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", TABLES)
def test_a_missing_value_is_named_by_column_and_row(kind, value):
    table = TABLES[kind]({"size": [1.0, 2.0, 3.0, 4.0], "weight": [1.0, 2.0, value, 3.0]})
    words = "X: column 'weight' has 1 values that are missing .NaN. or infinite, the first in row 2"
    with pytest.raises(ValueError, match=words):
        dgmm.KMeans(2).fit(table)
    model = quiet_fit(dgmm.KMeans(2), TABLES[kind]({"size": [1.0, 2.0], "weight": [1.0, 2.0]}))
    with pytest.raises(ValueError, match=words):
        model.predict(table)


@pytest.mark.parametrize("kind", TABLES)
def test_missing_integers_are_named_too(kind):
    whole = {"pandas": lambda values: pd.array(values, dtype="Int64")}.get(kind, list)
    table = TABLES[kind]({"size": whole([1, 2, 3]), "count": whole([None, 2, None])})
    with pytest.raises(ValueError, match=r"column 'count' has 2 values that are missing .*first in row 0"):
        dgmm.KMeans(2).fit(table)


def test_other_columns_are_refused_by_name():
    with pytest.raises(ValueError, match=r"column 'when' has type datetime64"):
        dgmm.KMeans(1).fit(pd.DataFrame({"size": [1.0], "when": pd.to_datetime(["2020-01-01"])}))
    with pytest.raises(ValueError, match=r"column 'kind' has type category"):
        dgmm.KMeans(1).fit(pd.DataFrame({"kind": pd.Categorical(["a", "b"])}))
    with pytest.raises(ValueError, match=r"column 'z' has type complex"):
        dgmm.KMeans(1).fit(pd.DataFrame({"z": [1j, 2j]}))
    with pytest.raises(ValueError, match=r"column 'mixed' has type object.*'far'"):
        dgmm.KMeans(1).fit(pd.DataFrame({"mixed": pd.Series([1.0, "far"], dtype=object)}))
    with pytest.raises(TypeError, match=r"LazyFrame.*X\.collect\(\)"):
        dgmm.KMeans(1).fit(pl.LazyFrame({"a": [1.0]}))
    with pytest.raises(TypeError, match=r"\['int', 'str'\] as feature name"):
        dgmm.KMeans(1).fit(pd.DataFrame(np.ones((2, 2)), columns=["a", 1]))
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        dgmm.KMeans(1).fit(pd.DataFrame(index=[0, 1]))


def test_decimals_and_objects_that_are_numbers_are_numbers():
    from decimal import Decimal

    exact = {"price": [Decimal("1.50"), Decimal("2.25")]}
    for table in (pa.table(exact), pl.DataFrame(exact), pd.DataFrame(exact)):
        np.testing.assert_array_equal(read("X", table).values, [[1.5], [2.25]])


def test_numbers_as_names_of_columns_are_no_names():
    model = quiet_fit(dgmm.KMeans(2, random_state=0), pd.DataFrame(blobs(50, 3, 2)))
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("kind", ["pandas", "polars", "Arrow"])
def test_weights_may_be_columns(kind):
    X, weights = blobs(100, 3, 4), np.random.default_rng(0).uniform(size=100)
    column = {"pandas": pd.Series, "polars": pl.Series, "Arrow": pa.array}[kind](weights)
    expected = quiet_fit(dgmm.DGMM(4, random_state=0), X, weights)
    model = quiet_fit(dgmm.DGMM(4, random_state=0), X, column)
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)


class OnlyDlpack:
    """Like a tensor: has DLPack, and cannot be converted to an array in any other way."""

    def __init__(self, values, device=(1, 0)):
        self.values, self.at = values, device

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.at

    def __array__(self, *_, **__):
        raise TypeError("no array")

    def __len__(self):
        raise TypeError("no length")


class OldDlpack(OnlyDlpack):
    """As before DLPack 1.0: its method takes a stream and nothing else."""

    def __dlpack__(self, stream=None):
        return self.values.__dlpack__(stream=stream)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [OnlyDlpack, OldDlpack])
@pytest.mark.parametrize("cls", ALL)
def test_tensors_are_read_through_dlpack(cls, kind, dtype):
    X = blobs(200, 3, 4, dtype=dtype)
    model = quiet_fit(cls(4, random_state=0), kind(X), sample_weight=kind(np.ones(200)))
    expected = quiet_fit(cls(4, random_state=0), X, np.ones(200))
    assert model.cluster_centers_.dtype == dtype
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(model.predict(kind(X)), expected.predict(X))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [OnlyDlpack, OldDlpack, pd.DataFrame, np.asarray])
def test_what_is_in_order_already_is_not_copied(kind, dtype):
    X = blobs(100, 3, 2, dtype=dtype)
    model = dgmm.KMeans(2, random_state=0).fit(X)
    given = kind(X, copy=False) if kind is pd.DataFrame else kind(X)
    for seen in (check_rows(model, given, reset=True), check_rows(model, given, reset=False), check_matrix("X", given)):
        assert np.shares_memory(seen, X)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_memory_mapped_file_is_not_copied(tmp_path, dtype):
    X = blobs(100, 3, 2, dtype=dtype)
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = dgmm.KMeans(2, random_state=0).fit(mapped)
    for seen in (check_rows(model, mapped, reset=True), check_rows(model, mapped, reset=False)):
        assert np.shares_memory(seen, mapped)


def test_other_devices_are_named():
    tensor = OnlyDlpack(blobs(10, 2, 2), device=(2, 0))
    with pytest.raises(TypeError, match=r"X is on a device of DLPack type 2; .*X\.cpu\(\)"):
        dgmm.KMeans(2).fit(tensor)
    tensor.device = "cuda:0"
    with pytest.raises(TypeError, match=r"X is on cuda:0"):
        dgmm.KMeans(2).fit(tensor)
    with pytest.raises(TypeError, match=r"sample_weight is on cuda:0"):
        dgmm.KMeans(2).fit(blobs(10, 2, 2), sample_weight=tensor)


def test_what_fails_inside_another_library_is_told():
    class Broken(OnlyDlpack):
        def __dlpack__(self, **options):
            raise RuntimeError("requires grad")

    with pytest.raises(TypeError, match="X cannot be read as an array: no array"):
        dgmm.KMeans(2).fit(Broken(blobs(10, 2, 2)))
    alone = type("Alone", (), {"__dlpack__": Broken.__dlpack__, "__dlpack_device__": lambda self: (1, 0)})
    with pytest.raises(TypeError, match="X cannot be read through DLPack: requires grad"):
        dgmm.KMeans(2).fit(alone())


def test_masked_values_are_refused():
    X = blobs(10, 2, 2)
    masked = np.ma.masked_array(X, mask=np.eye(10, 2, dtype=bool))
    with pytest.raises(ValueError, match="X has masked values"):
        dgmm.KMeans(2).fit(masked)
    assert dgmm.KMeans(2, random_state=0).fit(np.ma.masked_array(X)).n_features_in_ == 2


def test_none_of_these_libraries_is_imported_by_the_package():
    code = """
import sys, sklearn.base, sklearn.utils.validation
before = set(sys.modules)
import dgmm
print({"pandas", "polars", "pyarrow", "matplotlib", "tqdm"} & (set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
