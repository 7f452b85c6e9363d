"""All kinds of input are accepted, and arrays are used in place if possible."""

import subprocess
import sys
import tracemalloc

import dgmm
import numpy as np
import pandas as pd
import pytest
from dgmm._validation import check_matrix, check_rows
from support import ALL, DTYPES, blobs, quiet_fit


class Wrapped:
    """Something that is not an array but can be converted to one."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


def strided(X):
    wide = np.zeros((2 * len(X), 3 * X.shape[1]), dtype=X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def readonly(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def misaligned(X):
    buffer = np.zeros(X.nbytes + 1, dtype=np.uint8)
    view = buffer[1:].view(X.dtype).reshape(X.shape)
    view[:] = X
    return view


KINDS = {
    "C order": np.ascontiguousarray,
    "F order": np.asfortranarray,
    "strided": strided,
    "backwards": lambda X: np.ascontiguousarray(X[::-1])[::-1],
    "read-only": readonly,
    "misaligned": misaligned,
    "other byte order": lambda X: X.astype(X.dtype.newbyteorder()),
    "__array__": Wrapped,
    "frame": pd.DataFrame,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cls", ALL)
def test_every_layout_gives_the_same_fit(cls, kind, dtype):
    X = blobs(300, 4, 6, dtype=dtype)
    expected = quiet_fit(cls(6, random_state=0), X)
    given = KINDS[kind](X)
    model = quiet_fit(cls(6, random_state=0), given)
    assert model.cluster_centers_.dtype == dtype
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(model.predict(given), expected.predict(X))


@pytest.mark.parametrize("cls", ALL)
def test_a_memory_mapped_file_is_data_like_any_other(cls, tmp_path):
    X = blobs(3000, 4, 6, dtype=np.float32)
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = quiet_fit(cls(6, random_state=0), mapped)
    np.testing.assert_array_equal(model.cluster_centers_, quiet_fit(cls(6, random_state=0), X).cluster_centers_)
    np.testing.assert_array_equal(model.predict(mapped), model.predict(X))
    assert dgmm.quantization_error(mapped, model.cluster_centers_) == dgmm.quantization_error(X, model.cluster_centers_)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (">f4", np.float32),
        (np.int8, np.float32),
        (np.uint8, np.float32),
        (np.int16, np.float32),
        (np.uint16, np.float32),
        (bool, np.float32),
        (np.int32, np.float64),
        (np.uint32, np.float64),
        (np.int64, np.float64),
        (np.longdouble, np.float64),
        (object, np.float64),
    ],
)
@pytest.mark.parametrize("cls", ALL)
def test_types_are_kept_or_widened(cls, given, kept):
    X = (abs(blobs(60, 3, 4)) * 4).round().astype(given)
    model = quiet_fit(cls(2, random_state=0), X)
    assert model.cluster_centers_.dtype == kept
    assert model.transform(X).dtype == kept
    np.testing.assert_array_equal(model.predict(X), model.predict(X.astype(kept)))


def test_bytes_take_four_times_their_memory_and_not_eight():
    X = np.random.default_rng(0).integers(0, 256, size=(20_000, 64), dtype=np.uint8)
    tracemalloc.start()
    dgmm.KMeans(4, random_state=0, max_iter=2, tol=0).fit(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * X.nbytes


@pytest.mark.parametrize("cls", ALL)
def test_lists_are_data(cls):
    model = quiet_fit(cls(2, random_state=0), [[0, 1], [0, 2], [9, 9], [9, 8]], sample_weight=[1, 2, 1, 2])
    assert sorted(np.bincount(model.predict([[0, 0], [8, 8]])).tolist()) == [1, 1]


@pytest.mark.parametrize("weight", [2, 2.0, np.float32(2), np.array(2.0)])
@pytest.mark.parametrize("cls", ALL)
def test_a_single_weight_is_that_of_every_row(cls, weight):
    X = blobs(60, 3, 4)
    model = quiet_fit(cls(4, random_state=0), X, weight)
    expected = quiet_fit(cls(4, random_state=0), X, np.full(60, 2.0))
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert model.score(X, sample_weight=weight) == expected.score(X, sample_weight=np.full(60, 2.0))
    centers = model.cluster_centers_
    assert dgmm.quantization_error(X, centers, sample_weight=weight) == pytest.approx(model.inertia_)


@pytest.mark.parametrize("scale", [2.0**1020, 2.0**-1060])
def test_only_the_ratios_of_weights_matter_for_a_mean_score(scale):
    X, weights = blobs(60, 3, 4), np.arange(1.0, 9.0).repeat(8)[:60]
    model = quiet_fit(dgmm.DGMM(4, random_state=0), X)
    assert model.score(X, sample_weight=weights * scale) == model.score(X, sample_weight=weights)


@pytest.mark.parametrize("cls", ALL)
def test_a_fit_reads_new_rows_in_the_type_of_its_centers(cls):
    X = blobs(200, 3, 4)
    model = quiet_fit(cls(4, random_state=0), X.astype(np.float32))
    assert model.transform(X).dtype == np.float32
    np.testing.assert_array_equal(model.predict(X), model.predict(X.astype(np.float32)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [np.ascontiguousarray, readonly])
def test_contiguous_rows_are_not_copied_by_the_checks(dtype, make):
    X = make(blobs(100, 3, 2, dtype=dtype))
    model = dgmm.KMeans(2, random_state=0).fit(X)
    for seen in (check_rows(model, X, reset=True), check_rows(model, X, reset=False), check_matrix("X", X)):
        assert np.shares_memory(seen, X)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cls", ALL)
def test_fit_and_predict_allocate_far_less_than_the_rows_in_python(cls, dtype):
    X = blobs(20_000, 64, 4, dtype=dtype)
    tracemalloc.start()
    model = quiet_fit(cls(4, random_state=0, max_iter=2), X)
    model.predict(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < X.nbytes / 4


PEAK = """
import resource, sys, warnings
import numpy as np, dgmm
warnings.simplefilter("ignore")
name, rows, columns, clusters = sys.argv[1], *map(int, sys.argv[2:])
X = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
getattr(dgmm, name)(50, max_iter=2, random_state=0, n_threads=2).fit(X[:3000]).predict(X[:3000])
unit = 1 if sys.platform == "darwin" else 1024
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
getattr(dgmm, name)(clusters, max_iter=2, random_state=0, n_threads=2).fit(X).predict(X)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
print(after - before)
"""


def peak_above_input(cls, rows, columns, clusters):
    """Bytes that fit and predict hold at most above their input, in a process of their own."""
    command = [sys.executable, "-c", PEAK, cls.__name__, str(rows), str(columns), str(clusters)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


if sys.platform != "win32":  # Windows has no resource module

    @pytest.mark.parametrize("cls", ALL)
    def test_no_copy_of_the_rows_is_made_in_rust_either(cls):
        assert peak_above_input(cls, 60_000, 512, 50) < 60_000 * 512 * 4 / 2

    @pytest.mark.parametrize("cls", ALL)
    def test_no_array_of_rows_by_clusters_is_made(cls):
        assert peak_above_input(cls, 60_000, 4, 2000) < 60_000 * 2000 * 4 / 2
