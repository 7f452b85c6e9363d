"""Rows from all kinds of files, and errors for invalid files."""

import errno
import pickle
import struct
import sys
import tracemalloc
import zipfile
import zlib

import dgmm
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dgmm.io import DataFileError
from support import damaged

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


@pytest.mark.parametrize(("name", "dtype"), [("a.fvecs", np.float32), ("a.bvecs", np.uint8)])
def test_vecs_are_mapped_in_the_type_that_they_are_stored_in(name, dtype, tmp_path):
    rows = np.arange(12, dtype=np.uint8).reshape(4, 3) + 200
    read = dgmm.io.read(write(tmp_path, name, rows)).values
    np.testing.assert_array_equal(read, rows)
    assert read.dtype == dtype
    assert isinstance(read, np.memmap)
    assert dgmm.KMeans(2, random_state=0).fit(read).cluster_centers_.dtype == np.float32


def test_vecs_are_not_read_into_memory(tmp_path):
    path = write(tmp_path, "a.bvecs", np.ones((50_000, 64), np.uint8))
    tracemalloc.start()
    dgmm.io.read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000 * 68 / 4


def test_a_row_of_vecs_of_another_width_is_named(tmp_path):
    path = tmp_path / "a.fvecs"
    content = vecs(ROWS, "<f4")
    path.write_bytes(content[:32] + struct.pack("<i", 2) + content[36:])
    with pytest.raises(DataFileError, match=r"a\.fvecs: row 2 has 2 columns, but row 0 has 3"):
        dgmm.io.read(path)


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


CSV = {
    "plain": ("1,2\n3,4\n", None),
    "no last newline": ("1,2\n3,4", None),
    "blank first line": ("\n1,2\n3,4\n", None),
    "blank lines before a header": ("\n \n\na,b\n1,2\n3,4\n", ["a", "b"]),
    "blank line after a header": ("a,b\n\n1,2\n3,4\n", ["a", "b"]),
    "blank inner and last lines": ("1,2\n\n  \n3,4\n\n\n", None),
    "CRLF": ("\r\na,b\r\n1,2\r\n\r\n3,4\r\n", ["a", "b"]),
    "CR": ("a,b\r1,2\r3,4\r", ["a", "b"]),
    "byte order mark": ("\ufeff1,2\n3,4\n", None),
    "byte order mark and header": ("\ufeffa,b\n1,2\n3,4\n", ["a", "b"]),
    "quoted numbers": ('"1","2"\n"3","4"\n', None),
    "comma in a name": ('"height, cm",b\n1,2\n3,4\n', ["height, cm", "b"]),
    "quote in a name": ('"6"" pipe",b\n1,2\n3,4\n', ['6" pipe', "b"]),
    "newline in a name": ('"height\nin cm",b\n1,2\n3,4\n', ["height\nin cm", "b"]),
    "spaces": (' "a", b \n 1 , 2\n 3 ,\t4\n', ["a", "b"]),
    "names with digits": ("2020_01,2020_02\n1,2\n3,4\n", ["2020_01", "2020_02"]),
    "some names are numbers": ("2020,b\n1,2\n3,4\n", ["2020", "b"]),
    "an empty name": (",b\n1,2\n3,4\n", ["", "b"]),
}


@pytest.mark.parametrize("kind", CSV)
def test_csv_of_every_make_gives_the_same_rows(kind, tmp_path):
    content, names = CSV[kind]
    (tmp_path / "a.csv").write_bytes(content.encode())
    rows = dgmm.io.read(tmp_path / "a.csv")
    assert rows.values.tolist() == [[1, 2], [3, 4]]
    assert rows.values.dtype == np.float64
    assert rows.names == names


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "a.csv has no rows"),
        ("\n\n", "a.csv has no rows"),
        ("a,b\n\n", "a.csv has no rows"),
        ("1,2\n\n3\n", "line 3: 1 cells, but line 1 has 2"),
        ("\n1,2\n3,4,5\n", "line 3: 3 cells, but line 2 has 2"),
        ("a,b,c\n1,2\n", "line 2: 2 cells, but line 1 has 3"),
        ("a,b\n1,2\n3,x\n", "line 3, column 'b': 'x' is not a number"),
        ("1,2\n\n3,4\n5,1_0\n", "line 4, column '1': '1_0' is not a number"),
        ("1,2\n3,\n", "line 2, column '1': '' is not a number"),
        ("1,,3\n4,5,6\n", "line 1, column '1': '' is not a number"),
        ("1.5,NA\n4,5\n", "line 1, column '1': 'NA' is not a number"),
        ('a\n1\n""\n', "line 3, column 'a': '' is not a number"),
        ("1;2\n3;4\n", "line 2, column '1;2': '3;4' is not a number"),
        ('a,b\n1,"2\n3,4\n', "line 3: unexpected end of data"),
        ("a,b\n1,2\0\n", "line 2"),
        ("a\n1\n" + "9" * 200_000 + "\n", "line 3: field larger"),
    ],
)
def test_errors_in_a_csv_name_line_and_column(content, words, tmp_path):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataFileError, match=words):
        dgmm.io.read(tmp_path / "a.csv")


def test_csv_with_chosen_columns_may_hold_words_elsewhere_but_no_ragged_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('name,x,y\nred_1,1,2\n"green, light",3,4\n')
    assert dgmm.io.read(path, columns=["y", "x"]).values.tolist() == [[2, 1], [4, 3]]
    assert dgmm.io.read(path, columns=["y"]).names == ["y"]
    path.write_text("\n")
    with pytest.raises(DataFileError, match="has no rows"):
        dgmm.io.read(path, columns=["y"])
    path.write_text("name,x,y\nred,1,2\ngreen,3,4,5\n")
    with pytest.raises(DataFileError, match="line 3: 4 cells, but line 1 has 3"):
        dgmm.io.read(path, columns=["y", "x"])


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 3), pa.large_list(pa.float32())])
def test_a_column_of_vectors_is_a_matrix(kind, tmp_path):
    table = pa.table({"text": list("abcd"), "vector": pa.array(ROWS.tolist(), type=kind)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    rows = dgmm.io.read(tmp_path / "a.parquet", columns=["vector"])
    np.testing.assert_array_equal(rows.values, ROWS)
    assert (rows.values.dtype, rows.names) == (np.float32, None)


def test_other_columns_next_to_vectors_must_be_chosen(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [7, 8], "vector": [[1.0, 2.0], [3.0, 4.0]]}), path)
    with pytest.raises(
        ValueError,
        match=r"a.parquet: column 'vector' holds vectors, but there are other columns: 'id'; .*: columns=\['vector'\]",
    ):
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
    with pytest.raises(ValueError, match=r"shape \(4, 3\); it must have one number per row"):
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


@pytest.mark.parametrize(("name", "content"), [(name, content) for name in WRONG for content in WRONG[name]])
def test_a_file_that_is_not_right_is_named_and_never_run(name, content, tmp_path, capsys):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=path.name):
        dgmm.io.read(path)
    assert capsys.readouterr().out == ""


def read_as_damaged(path):
    """The file is either read or refused by an error that names it; nothing else comes out."""
    try:
        rows = dgmm.io.read(path)
    except (DataFileError, OSError) as error:
        said = str(error)
    else:
        assert rows.values.ndim == 2
        assert np.isscalar(rows.values.sum())
        return True
    assert path.name in said
    assert "Errno" not in said
    assert len(said.splitlines()) == 1
    return False


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "z.npz", "a.csv", "a.parquet", "l.parquet", "a.fvecs", "a.bvecs"])
def test_a_damaged_file_is_read_or_refused_by_name(name, tmp_path):
    path = write(tmp_path, name)
    if name == "z.npz":
        np.savez_compressed(path, X=ROWS)
    if name == "l.parquet":
        pq.write_table(pa.table({"vector": ROWS.tolist()}), path)
    assert read_as_damaged(path)
    refused = 0
    for content in damaged(path.read_bytes(), 400):
        path.write_bytes(content)
        refused += not read_as_damaged(path)
    assert refused > 50


def npy(header, data=b""):
    text = header.encode("latin1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


HEADERS = [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999, 3), }\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-4, 3), }\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 3), }\n",
    "{'descr': '|O', 'fortran_order': False, 'shape': (4, 3), }\n",
    "{'descr': '<f9', 'fortran_order': False, 'shape': (4, 3), }\n",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4, 3), }\n",
    "{'shape': (4, 3), }\n",
    "((((((",
    "\x00\x00",
]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_header_that_is_not_that_of_the_array_is_refused(name, header, tmp_path):
    path, content = tmp_path / name, npy(header, ROWS.tobytes())
    if name == "a.npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", content)
    else:
        path.write_bytes(content)
    with pytest.raises(DataFileError, match=path.name):
        dgmm.io.read(path)


@pytest.mark.parametrize(("real", "name"), [("a.npz", "b.npy"), ("a.npy", "b.npz"), ("a.parquet", "b.npz")])
def test_a_file_of_another_kind_than_its_name_says_is_refused(real, name, tmp_path):
    path = write(tmp_path, real).rename(tmp_path / name)
    with pytest.raises(DataFileError, match=rf"{name} .*not a \{path.suffix} file"):
        dgmm.io.read(path)


@pytest.mark.parametrize("error", [OSError("short read"), zlib.error("bad data"), NotImplementedError("method 99")])
def test_what_a_reader_raises_becomes_one_kind_of_error(error, tmp_path, monkeypatch):
    def fails(*_):
        raise error

    monkeypatch.setitem(dgmm.io.READERS, ".npy", fails)
    with pytest.raises(DataFileError, match=rf"a\.npy .*{error}"):
        dgmm.io.read(write(tmp_path, "a.npy"))


def test_an_error_of_the_system_keeps_its_kind_and_gets_the_name(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setitem(dgmm.io.READERS, ".npy", fails)
    path = write(tmp_path, "a.npy")
    with pytest.raises(OSError, match="Input/output error") as caught:
        dgmm.io.read(path)
    assert caught.value.filename == str(path)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([["a"]]), "must be numbers"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.array([1j]).reshape(1, 1), "must be numbers"),
        (np.array([[None]]), "must be numbers"),
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
    with pytest.raises(ValueError, match=r"columns is .*; it must be None except for \.csv"):
        dgmm.io.read(a, columns=["x"])
    with pytest.raises(ValueError, match=r"key is 'x'; it must be None except for \.npz"):
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
        (["a", "b"], "column 'c' has type string"),
        ([1.0, None], "column 'c' has .*missing"),
        ([[1.0], [1.0, 2.0]], "vectors of 1 numbers in row 0 but of 2 in row 1"),
        ([[1.0], [None]], "column 'c' has .*missing"),
        ([[1.0], None], "column 'c' has no vector in row 1"),
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
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install pyarrow \(included in dgmm's extra 'io'"):
        dgmm.io.read(path)
