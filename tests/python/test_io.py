"""Rows from files of every kind, and what is said of files that are not right."""

import pickle
import struct
import sys

import dgmm
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3) / 2


def vecs(rows, kind):
    return b"".join(struct.pack("<i", len(row)) + row.astype(kind).tobytes() for row in rows)


def write(folder, name, rows=ROWS):
    path = folder / name
    if name.endswith(".npy"):
        np.save(path, rows)
    elif name.endswith(".npz"):
        np.savez(path, X=rows, other=np.zeros(2))
    elif name.endswith(".csv"):
        path.write_text("\n".join(",".join(map(str, row)) for row in rows.tolist()))
    elif name.endswith(".parquet"):
        pq.write_table(pa.table({f"c{i}": column for i, column in enumerate(rows.T)}), path)
    else:
        path.write_bytes(vecs(rows, "<f4" if name.endswith(".fvecs") else "u1"))
    return path


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "a.parquet", "a.fvecs"])
def test_every_kind_of_file_gives_the_same_rows(name, tmp_path):
    rows = dgmm.io.read(write(tmp_path, name))
    np.testing.assert_array_equal(rows.values, ROWS)
    assert rows.values.dtype == (np.float64 if name == "a.csv" else np.float32)
    assert rows.names == (["c0", "c1", "c2"] if name == "a.parquet" else None)


def test_bytes_become_float32(tmp_path):
    rows = np.arange(12, dtype=np.uint8).reshape(4, 3) + 200
    read = dgmm.io.read(write(tmp_path, "a.bvecs", rows)).values
    np.testing.assert_array_equal(read, rows)
    assert read.dtype == np.float32


def test_a_single_npy_is_mapped_and_several_files_are_put_below_each_other(tmp_path):
    one, two = write(tmp_path, "a.npy"), write(tmp_path, "b.fvecs")
    assert isinstance(dgmm.io.read(one).values, np.memmap)
    np.testing.assert_array_equal(dgmm.io.read(one, two).values, np.concatenate([ROWS, ROWS]))
    assert dgmm.io.read(one, dtype=np.float64).values.dtype == np.float64


def test_csv_may_have_names_quotes_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "a.CSV"
    path.write_bytes('\ufeff"größe", y ,2020\r\n1,2,3\r\n4,"5",6e0\r\n'.encode())
    rows = dgmm.io.read(path)
    assert rows.names == ["größe", "y", "2020"]
    np.testing.assert_array_equal(rows.values, [[1, 2, 3], [4, 5, 6]])
    chosen = dgmm.io.read(path, columns=["2020", "0"])
    assert chosen.names == ["2020", "größe"]
    np.testing.assert_array_equal(chosen.values, [[3, 1], [6, 4]])


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 3), pa.large_list(pa.float32())])
def test_a_column_of_vectors_is_a_matrix(kind, tmp_path):
    table = pa.table({"text": list("abcd"), "vector": pa.array(ROWS.tolist(), type=kind)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    rows = dgmm.io.read(tmp_path / "a.parquet", columns=["vector"])
    np.testing.assert_array_equal(rows.values, ROWS)
    assert (rows.values.dtype, rows.names) == (np.float32, None)


def test_what_stands_beside_a_column_of_vectors_is_not_taken_without_asking(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [7, 8], "vector": [[1.0, 2.0], [3.0, 4.0]]}), path)
    with pytest.raises(ValueError, match="has the vectors 'vector' and beside them 'id'; choose columns to read"):
        dgmm.io.read(path)
    np.testing.assert_array_equal(dgmm.io.read(path, columns=["vector"]).values, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(dgmm.io.read(path, columns=["id", "vector"]).values, [[7, 1, 2], [8, 3, 4]])
    pq.write_table(pa.table({"vector": [[1.0, 2.0], [3.0, 4.0]]}), path)
    np.testing.assert_array_equal(dgmm.io.read(path).values, [[1, 2], [3, 4]])


def test_whole_numbers_and_doubles_of_parquet_are_float64(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": [0.5, 1.5]}), tmp_path / "a.parquet")
    rows = dgmm.io.read(tmp_path / "a.parquet").values
    np.testing.assert_array_equal(rows, [[1, 0.5], [2, 1.5]])
    assert rows.dtype == np.float64


def test_vectors_are_read_from_any_kind(tmp_path):
    np.save(tmp_path / "w.npy", [1.0, 2.0])
    (tmp_path / "w.csv").write_text("weight\n1\n2\n")
    for name in ("w.npy", "w.csv"):
        np.testing.assert_array_equal(dgmm.io.read_vector(tmp_path / name), [1, 2])
    with pytest.raises(ValueError, match=r"shape \(4, 3\); it must have one number a row"):
        dgmm.io.read_vector(write(tmp_path, "a.npy"))


class Evil:
    def __reduce__(self):
        return (print, ("evil",))


WRONG = {
    "a.npy": [b"", b"\x93NUMPY", b"words", pickle.dumps(Evil())],
    "a.npz": [b"", b"words", pickle.dumps(Evil())],
    "a.csv": [b"", b"a,b\n", b"1,2\n3\n", b"1,2\n3,x\n", b"1,2\n3,\n", b"\xff\xfe\x00"],
    "a.parquet": [b"", b"words", b"PAR1PAR1"],
    "a.fvecs": [
        b"",
        b"abc",
        vecs(ROWS, "<f4")[:-1],
        struct.pack("<i", -3),
        vecs(ROWS[:, :2], "<f4") + vecs(ROWS, "<f4"),
    ],
    "a.bvecs": [b"", struct.pack("<i", 0)],
    "a.txt": [b"1 2"],
    "plain": [b"1 2"],
}


@pytest.mark.filterwarnings("ignore:.*input contained no data")
@pytest.mark.parametrize(("name", "content"), [(name, content) for name in WRONG for content in WRONG[name]])
def test_a_file_that_is_not_right_is_named_and_never_run(name, content, tmp_path, capsys):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=path.name):
        dgmm.io.read(path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([["a"]]), "must be numbers"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.array([1j]).reshape(1, 1), "must be numbers"),
        (np.array([[None]]), "cannot be used"),
    ],
)
def test_arrays_that_are_no_rows_of_numbers_are_refused(array, words, tmp_path):
    np.savez(tmp_path / "a.npz", array)
    with pytest.raises(ValueError, match=words):
        dgmm.io.read(tmp_path / "a.npz")


def test_what_does_not_fit_together_or_is_not_there_is_said(tmp_path):
    a, b = write(tmp_path, "a.npy"), write(tmp_path, "b.npy", ROWS[:, :2])
    with pytest.raises(ValueError, match=r"a.npy has 3 columns but .*b.npy has 2"):
        dgmm.io.read(a, b)
    with pytest.raises(ValueError, match="no files"):
        dgmm.io.read()
    with pytest.raises(FileNotFoundError, match=r"c\.npy"):
        dgmm.io.read(tmp_path / "c.npy")
    with pytest.raises(ValueError, match="columns can be chosen of"):
        dgmm.io.read(a, columns=["x"])
    with pytest.raises(ValueError, match="key='x' has no meaning"):
        dgmm.io.read(a, key="x")
    with pytest.raises(ValueError, match="no array 'Y'; it has 'X', 'other'"):
        dgmm.io.read(write(tmp_path, "a.npz"), key="Y")
    with pytest.raises(ValueError, match="no column 'z'; it has 'c0', 'c1', 'c2'"):
        dgmm.io.read(write(tmp_path, "a.parquet"), columns=["z"])
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    (tmp_path / "y.csv").write_text("b,a\n1,2\n")
    with pytest.raises(ValueError, match="different names"):
        dgmm.io.read(tmp_path / "x.csv", tmp_path / "y.csv")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (["a", "b"], "column 'c' is of type string"),
        ([1.0, None], "column 'c' has missing values"),
        ([[1.0], [1.0, 2.0]], "vectors of 2 different lengths"),
        ([[1.0], [None]], "column 'c' has missing values"),
        ([[1.0], None], "column 'c' has missing values"),
        ([["a"], ["b"]], "type list<"),
    ],
)
def test_columns_of_parquet_that_are_no_numbers_are_named(column, words, tmp_path):
    pq.write_table(pa.table({"c": column}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=words):
        dgmm.io.read(tmp_path / "a.parquet")


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    path = write(tmp_path, "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install pyarrow \(the extra 'io'"):
        dgmm.io.read(path)
