"""Saved models: pickle, joblib, clone, and files with clear errors."""

import json
import os
import pickle
import stat
import sys
import zlib
from pathlib import Path

import dgmm
import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_fixture import rows as fixture_rows
from safetensors.numpy import load as parse
from safetensors.numpy import save as serialize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from support import ALL, DTYPES, blobs, quiet_fit

DATA = Path(__file__).parents[1] / "data"


def same(a, b):
    """Whether two estimators have the same settings and have learned the same."""
    assert type(a) is type(b)
    for name in vars(b):
        old, new = getattr(b, name), getattr(a, name)
        if isinstance(old, dict):
            assert list(old) == list(new)
            old, new = list(old.values()), list(new.values())
        np.testing.assert_equal(new, old)
        assert getattr(old, "dtype", None) == getattr(new, "dtype", None)
    assert vars(a).keys() == vars(b).keys()


def answers_the_same(a, b, X):
    for method in ("predict", "transform", "predict_proba", "score_samples"):
        np.testing.assert_array_equal(getattr(a, method)(X), getattr(b, method)(X))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def model():
    return dgmm.DGMM(5, random_state=0).fit(blobs(100, 3, 5))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cls", ALL)
def test_a_loaded_estimator_is_the_one_that_was_saved(cls, dtype, path):
    X = blobs(400, 3, 7, dtype=dtype) + dtype(1000)
    model = quiet_fit(cls(7, random_state=3, coreset_size=200, max_iter=5, n_threads=1), X)
    model.save(path)
    again = dgmm.load(path)
    same(again, model)
    answers_the_same(again, model, blobs(50, 3, 7, seed=1, dtype=dtype))
    np.testing.assert_array_equal(quiet_fit(again, X).cluster_centers_, model.cluster_centers_)


@pytest.mark.parametrize("cls", ALL)
def test_pickle_and_joblib_keep_everything(cls, tmp_path):
    X = blobs(300, 3, 5)
    model = quiet_fit(cls(5, random_state=0), X)
    joblib.dump(model, tmp_path / "model.joblib")
    for again in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        same(again, model)
        answers_the_same(again, model, X)


@pytest.mark.parametrize("cls", ALL)
def test_a_clone_of_a_loaded_estimator_fits_the_same(cls, path):
    X = blobs(300, 3, 5)
    model = quiet_fit(cls(5, random_state=0), X)
    model.save(path)
    again = clone(dgmm.load(path))
    assert not hasattr(again, "cluster_centers_")
    np.testing.assert_array_equal(quiet_fit(again, X).cluster_centers_, model.cluster_centers_)


def test_names_of_columns_and_given_centers_are_kept(path):
    X = pd.DataFrame(blobs(100, 2, 3), columns=["height", "größe"])
    model = quiet_fit(dgmm.KMeans(3, init=X.to_numpy()[:3]), X)
    model.save(path)
    again = dgmm.load(path)
    same(again, model)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_centers_given_as_a_table_are_kept_as_an_array(path):
    X = blobs(100, 2, 4)
    start = pd.DataFrame(X[:4])
    quiet_fit(dgmm.KMeans(4, init=start), X).save(path)
    np.testing.assert_array_equal(dgmm.load(path).init, start.to_numpy())


def test_labels_can_be_left_out(model, path):
    model.save(path, labels=False)
    again = dgmm.load(path)
    assert not hasattr(again, "labels_")
    answers_the_same(again, model, blobs(10, 3, 5))
    with pytest.raises(TypeError, match="labels is 1"):
        model.save(path, labels=1)


def test_settings_with_code_are_left_out_with_a_warning(path):
    X = blobs(100, 3, 5)
    start = lambda X, n_clusters, random_state: X[:n_clusters]  # noqa: E731
    model = dgmm.DGMM(5, init=start, callback=print, random_state=np.random.RandomState(0)).fit(X)
    with pytest.warns(UserWarning, match="cannot be saved") as said:
        model.save(path)
    assert sorted(str(warning.message).split()[0] for warning in said) == ["callback", "init", "random_state"]
    assert {warning.filename for warning in said} == {__file__}
    again = dgmm.load(path)
    assert (again.init, again.callback, again.random_state) == ("auto", None, None)
    answers_the_same(again, model, X)


def test_loading_leaves_the_global_generator_alone(model, path):
    model.set_params(random_state=None).save(path)
    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    dgmm.load(path)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_only_the_fitted_can_be_saved(path):
    with pytest.raises(NotFittedError):
        dgmm.DGMM().save(path)

    class Mine(dgmm.DGMM):
        pass

    with pytest.raises(TypeError, match="the estimator is a Mine; only DGMM"):
        Mine(2).fit(blobs(10, 2, 2)).save(path)
    assert not path.exists()


@pytest.mark.skipif(os.name == "nt", reason="there are no such permissions")
def test_others_may_read_the_file_if_they_may_read_new_files(model, path):
    old = os.umask(0o022)
    try:
        model.save(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_files_need_no_other_package(model, path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    model.save(path)
    same(dgmm.load(path), model)


def test_other_readers_of_the_format_read_the_arrays(model, path):
    model.save(path)
    arrays = parse(path.read_bytes())
    np.testing.assert_array_equal(arrays["cluster_centers_"], model.cluster_centers_)
    np.testing.assert_array_equal(arrays["labels_"], model.labels_)


def test_arrays_in_another_order_are_kept(model, path):
    model.cluster_centers_ = np.asfortranarray(model.cluster_centers_)
    model.labels_ = model.labels_.astype(">i4")
    model.save(path)
    again = dgmm.load(path)
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    answers_the_same(again, model, blobs(10, 3, 5))


def test_the_files_of_format_version_1_are_read():
    X = fixture_rows()
    model = dgmm.load(DATA / "from_python.safetensors")
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    rust = dgmm.load(DATA / "from_rust.safetensors")
    assert (type(rust), rust.n_clusters, rust.n_features_in_) == (dgmm.DGMM, 20, 2)
    nearest = rust.predict(rust.cluster_centers_)
    np.testing.assert_array_equal(nearest, np.arange(20))


def test_an_absent_file_is_an_absent_file(path):
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        dgmm.load(path)


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("evil",))


FOREIGN = {
    "empty": b"",
    "text": b"just words, and quite a few of them",
    "pickle": pickle.dumps(Evil()),
    "npy": b"\x93NUMPY\x01\x00",
    "long header": (2**40).to_bytes(8, "little") + b"{}",
    "no metadata": serialize({"w": np.zeros(3)}),
    "other metadata": serialize({"w": np.zeros(3)}, {"format": "pt"}),
    "odd version": serialize({"w": np.zeros(3)}, {"format": "dgmm", "format_version": "one"}),
    "nothing but the version": serialize({"w": np.zeros(3)}, {"format": "dgmm", "format_version": "1"}),
    "odd type": serialize({"w": np.zeros(3, bool)}, {"format": "dgmm", "format_version": "1"}),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_others_are_refused_and_never_run(name, path, monkeypatch):
    monkeypatch.chdir(path.parent)
    path.write_bytes(FOREIGN[name])
    with pytest.raises(dgmm.ModelFileError, match=r"model\.safetensors"):
        dgmm.load(path)
    assert not Path("evil").exists()


def test_errors_say_that_a_file_is_newer(path):
    metadata = {"format": "dgmm", "format_version": "3", "dgmm_version": "9.8.7"}
    path.write_bytes(serialize({"w": np.zeros(3)}, metadata))
    with pytest.raises(dgmm.ModelFileError, match=r"format version 3, written by dgmm 9.8.7.* up to 2.*newer"):
        dgmm.load(path)


def test_a_file_that_is_cut_off_is_refused(path):
    content = (DATA / "from_python.safetensors").read_bytes()
    for length in range(0, len(content), 37):
        path.write_bytes(content[:length])
        with pytest.raises(dgmm.ModelFileError, match="damaged"):
            dgmm.load(path)


@given(at=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_a_changed_byte_is_noticed_or_changes_nothing(at, flip, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "flipped.safetensors"
    content = bytearray((DATA / "from_python.safetensors").read_bytes())
    content[at % len(content)] ^= flip
    path.write_bytes(content)
    try:
        again = dgmm.load(path)
    except dgmm.ModelFileError:
        return
    same(again, dgmm.load(DATA / "from_python.safetensors"))


TYPES = {"float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64", "uint32": "U32", "uint64": "U64"}


def checksum(metadata, tensors):
    """A second implementation of the format's checksum: names, strings, types, shapes and bytes, sorted by name."""
    crc = 0
    for key in sorted(metadata.keys() - {"crc32"}):
        crc = zlib.crc32(f"{key}\0{metadata[key]}\0".encode(), crc)
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        crc = zlib.crc32(f"{name}\0{TYPES[array.dtype.name]}{list(array.shape)}\0".encode(), crc)
        crc = zlib.crc32(array.tobytes(), crc)
    return f"{crc:08x}"


def changed(content, metadata=(), tensors=()):
    """The file with other metadata and arrays, and a checksum that fits them."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    header = {key: value for key, value in {**header, **dict(metadata)}.items() if value is not None}
    arrays = {key: value for key, value in {**parse(content), **dict(tensors)}.items() if value is not None}
    header["crc32"] = checksum(header, arrays)
    return serialize(arrays, header)


@pytest.mark.parametrize(
    ("metadata", "tensors", "words"),
    [
        ({"estimator": "os.system"}, {}, "estimator is 'os.system'"),
        ({"estimator": None}, {}, "'estimator' is missing"),
        ({"settings": "[1]"}, {}, "no usable model"),
        ({"settings": "{"}, {}, "no usable model"),
        ({"settings": '{"n_clusters": -3}'}, {}, "n_clusters is -3"),
        ({"settings": '{"speed": 3}'}, {}, "KMeans has no setting 'speed'"),
        ({"settings": '{"callback": "print"}'}, {}, "callback is 'print'"),
        ({"settings": '{"init": {"tensor": "gone"}}'}, {}, "'gone' is missing"),
        ({"settings": '{"init": {"code": "print()"}}'}, {}, "'code' is not a kind of value"),
        ({"attributes": '{"predict": 3}'}, {}, "no attribute 'predict'"),
        ({"attributes": '{"__class__": 3}'}, {}, "no attribute '__class__'"),
        ({"attributes": '{"n_features_in_": 4}'}, {}, "the centers have 3 columns"),
        ({"attributes": '{"feature_names_in_": {"strings": ["a"]}}'}, {}, "3 entries"),
        ({}, {"cluster_centers_": None}, "'cluster_centers_' is missing"),
        ({}, {"cluster_centers_": np.zeros(3)}, "cluster_centers_ is of shape"),
        ({}, {"cluster_centers_": np.zeros((9, 3), np.int64)}, "type int64"),
        ({}, {"cluster_centers_": np.full((9, 3), np.nan)}, "must be finite"),
        ({}, {"variance_": np.array([-1.0])}, "variance_ is"),
        ({}, {"variance_": np.array([1.0, 2.0])}, "variance_ is"),
        ({}, {"labels_": np.full(200, 9, np.int32)}, "labels_ must be"),
    ],
)
def test_a_whole_file_with_wrong_contents_is_refused(metadata, tensors, words, path):
    path.write_bytes(changed((DATA / "from_python.safetensors").read_bytes(), metadata, tensors))
    with pytest.raises(dgmm.ModelFileError, match="holds no usable model") as said:
        dgmm.load(path)
    assert words in str(said.value)
