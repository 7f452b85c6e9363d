"""Coresets of a stream, built in one pass, compared with those drawn in two passes."""

import copy
import itertools
import pickle

import dgmm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import assert_same, built, chunks_of, skewed
from support import DTYPES, blobs, damaged, quiet_fit


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_streamed_coreset_is_rows_of_the_data_with_weights(dtype):
    X = blobs(9000, 4, 5, dtype=dtype)
    builder = built(X, 300, random_state=0, cut=777)
    coreset = builder.result()
    assert isinstance(coreset, dgmm.Coreset)
    assert coreset.points.dtype == dtype
    np.testing.assert_array_equal(coreset.points, X[coreset.indices])
    assert len(np.unique(coreset.indices)) == 300 == builder.size
    assert (builder.n_rows_seen, builder.next_row) == (9000, 9000)
    assert coreset.weights.sum() == pytest.approx(9000, rel=0.2)
    assert repr(builder) == "CoresetBuilder(300): 9000 rows seen"


@given(cut=st.integers(1, 6000), threads=st.integers(1, 4), size=st.integers(1, 400))
def test_bits_are_the_same_for_any_cut_and_any_number_of_threads(cut, threads, size):
    X, weights = skewed(6000), np.arange(6000.0) % 4
    whole = dgmm.CoresetBuilder(size, random_state=3, n_threads=1).add(X, weights).result()
    cut = max(cut, 50)
    assert_same(built(X, size, weights=weights, cut=cut, random_state=3, n_threads=threads).result(), whole)


def test_the_result_may_be_asked_for_at_any_time():
    X = skewed(8000)
    builder = dgmm.CoresetBuilder(100, random_state=1)
    for start in range(0, 8000, 500):
        builder.add(X[start : start + 500])
        assert builder.result().indices.max() < start + 500
    assert_same(builder.result(), built(X, 100, random_state=1).result())


@pytest.mark.parametrize("size", [40, 10_000])
def test_a_builder_goes_on_after_bytes_pickling_and_copying(size):
    X = skewed(7000)
    whole = built(X, size, random_state=1).result()
    half = built(X[:3300], size, random_state=1, n_threads=2)
    content = half.to_bytes()
    ways = [
        dgmm.CoresetBuilder.from_bytes(content, n_threads=2),
        dgmm.CoresetBuilder.from_bytes(memoryview(content)),
        pickle.loads(pickle.dumps(half)),
        copy.deepcopy(half),
    ]
    for moved in ways:
        assert_same(moved.add(X[3300:]).result(), whole)
    assert half.n_rows_seen == 3300
    assert ways[2].n_threads == 2
    empty = pickle.loads(pickle.dumps(dgmm.CoresetBuilder(size, random_state=1)))
    assert_same(empty.add(X).result(), whole)


def test_damaged_bytes_are_refused():
    content = built(skewed(3000), 50, random_state=0).to_bytes()
    for copied in damaged(content, 300):
        if copied != content:
            with pytest.raises(ValueError, match="these bytes do not hold a coreset builder"):
                dgmm.CoresetBuilder.from_bytes(copied)
    with pytest.raises(TypeError, match="content is of type str; it must be bytes"):
        dgmm.CoresetBuilder.from_bytes("text")  # type: ignore[arg-type]


def test_builders_merge_in_any_order_and_stay_as_they_are():
    X = skewed(9000)
    bounds = [0, 2500, 4000, 9000]
    parts = [built(X[a:b], 200, random_state=0, first_row=a) for a, b in itertools.pairwise(bounds)]

    def merged(order):
        first, *others = (copy.copy(parts[i]) for i in order)
        for other in others:
            first.merge(other)
        return first

    expected = merged([0, 1, 2]).result()
    np.testing.assert_array_equal(expected.points, X[expected.indices])
    for order in ([0, 2, 1], [2, 1, 0], [1, 0, 2]):
        assert_same(merged(order).result(), expected)
    left = copy.copy(parts[0]).merge(copy.copy(parts[1]).merge(parts[2]))
    assert_same(left.result(), expected)
    assert [part.n_rows_seen for part in parts] == [2500, 1500, 5000]
    assert left.n_rows_seen == left.next_row == 9000
    assert_same(dgmm.CoresetBuilder(200).merge(left).result(), expected)
    assert_same(left.merge(dgmm.CoresetBuilder(200)).result(), expected)


def test_parts_of_unknown_position_have_numbers_far_apart():
    X = skewed(6000)
    parts = [built(X[i::3], 150, random_state=0, first_row=i * 2**40) for i in range(3)]
    coreset = parts[0].merge(parts[1]).merge(parts[2]).result()
    part, row = coreset.indices // 2**40, coreset.indices % 2**40
    np.testing.assert_array_equal(coreset.points, X[3 * row + part])


@pytest.mark.parametrize("way", ["one pass", "merged", "two passes"])
def test_streamed_coresets_are_unbiased_for_the_quantization_error(way):
    X, weights = skewed(5000, dtype=np.float64), np.random.default_rng(0).uniform(0, 3, size=5000)
    weights[::5] = 0
    centers = X[:7]
    exact = dgmm.quantization_error(X, centers, sample_weight=weights)

    def draw(seed):
        if way == "two passes":
            return dgmm.lightweight_coreset(chunks_of(X, 1300, weights), 100, random_state=seed)
        if way == "one pass":
            return built(X, 100, weights=weights, random_state=seed).result()
        one = built(X[:700], 100, weights=weights[:700], random_state=seed)
        return one.merge(built(X[700:], 100, weights=weights[700:], random_state=seed, first_row=700)).result()

    errors, totals = [], []
    for seed in range(250):
        coreset = draw(seed)
        assert (weights[coreset.indices] > 0).all()
        errors.append(dgmm.quantization_error(coreset.points, centers, sample_weight=coreset.weights))
        totals.append(coreset.weights.sum())
    for found, expected in ((errors, exact), (totals, weights.sum())):
        assert abs(np.mean(found) - expected) < 4 * np.std(found) / np.sqrt(len(found))


@pytest.mark.parametrize("order", ["mixed", "sorted"])
@pytest.mark.parametrize("data", ["even", "skewed"])
def test_a_fit_of_a_streamed_coreset_is_as_good_as_one_of_a_lightweight_coreset(data, order):
    X = blobs(40_000, 4, 30, dtype=np.float32) if data == "even" else skewed(40_000)
    if order == "sorted":
        X = X[np.argsort(X[:, 0])]
    # The same start for all, so that only the coresets differ.
    start = quiet_fit(dgmm.KMeans(30, random_state=0), X).cluster_centers_
    errors: dict[str, list[float]] = {"whole": [], "one pass": [], "merged": [], "two passes": []}
    for seed in range(12):
        parts = [built(X[i : i + 10_000], 2000, random_state=seed, first_row=i) for i in range(0, 40_000, 10_000)]
        for part in parts[1:]:
            parts[0].merge(part)
        drawn = {
            "whole": dgmm.lightweight_coreset(X, 2000, random_state=seed),
            "one pass": built(X, 2000, random_state=seed).result(),
            "merged": parts[0].result(),
            "two passes": dgmm.lightweight_coreset(chunks_of(X, 7000), 2000, random_state=seed),
        }
        for name, coreset in drawn.items():
            model = quiet_fit(dgmm.KMeans(30, init=start), coreset.points, coreset.weights)
            errors[name].append(dgmm.quantization_error(X, model.cluster_centers_))
    middle = {name: np.median(values) for name, values in errors.items()}
    for name in ("one pass", "merged", "two passes"):
        assert middle[name] < 1.05 * middle["whole"], middle


def test_few_rows_stand_for_themselves():
    X, weights = skewed(60), np.arange(60.0) % 3
    kept = np.flatnonzero(weights)
    ways = [
        built(X, 100, weights=weights, cut=7).result(),
        dgmm.lightweight_coreset([(X[:9], weights[:9]), (X[9:], weights[9:])], 100),
    ]
    for coreset in ways:
        assert_same(coreset, (X[kept], weights[kept], kept))


def test_chunks_may_be_tables_other_types_and_empty():
    pandas = pytest.importorskip("pandas", reason="chunks of pandas need pandas")
    X = np.random.default_rng(0).integers(0, 99, size=(4000, 3)).astype(np.uint8)
    expected = built(X.astype(np.float32), 50, random_state=0).result()
    assert expected.points.dtype == np.float32
    builder = dgmm.CoresetBuilder(50, random_state=0).add(np.empty((0, 3)))
    builder.add(X[:1000]).add(pandas.DataFrame(X[1000:2500])).add(X[:0]).add(X[2500:].astype(np.float64))
    assert_same(builder.result(), expected)
    two = dgmm.lightweight_coreset([X[:0], X[:100], pandas.DataFrame(X[100:])], 50, random_state=0)
    np.testing.assert_array_equal(two.points, X[two.indices])


def test_chunks_of_weight_zero_count_and_are_never_drawn():
    X, weights = skewed(4000), np.zeros(4000)
    builder = dgmm.CoresetBuilder(30, random_state=0).add(X, weights)
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        builder.result()
    builder.add(X)
    assert builder.n_rows_seen == 8000
    assert builder.result().indices.min() >= 4000
    assert dgmm.lightweight_coreset([(X, weights), X], 30).indices.min() >= 4000


def test_errors_of_a_builder_name_the_row_and_change_nothing():
    X = skewed(5000)
    builder = built(X, 100, random_state=0)
    before = builder.to_bytes()
    bad = X[:3000].copy()
    bad[2345, 2] = np.nan
    calls = [
        (lambda: builder.add(bad), ValueError, "row 7345 of the stream is NaN in column 2; every value must be finite"),
        (lambda: builder.add(X[:, :3]), ValueError, "X has 3 columns but the rows before it have 4"),
        (lambda: builder.add(X, -np.ones(5000)), ValueError, r"sample_weight\[0\] is -1"),
        (lambda: builder.add(X, [1.0]), ValueError, r"sample_weight has shape \(1,\); it must be \(5000,\)"),
        (lambda: builder.add([["a"]]), ValueError, "X"),
        (lambda: builder.add(X[0]), ValueError, "X"),
        (lambda: builder.merge(X), TypeError, "it must be a CoresetBuilder"),
        (lambda: builder.merge(builder), ValueError, "it must be another builder"),
        (lambda: builder.merge(copy.copy(builder)), ValueError, "rows 0 to 4999 of the stream are there already"),
        (lambda: builder.merge(built(X[:, :2], 9, first_row=9000)), ValueError, "2 columns but .* have 4"),
        (
            lambda: builder.merge(built(X.astype(float), 9, first_row=9000)),
            TypeError,
            "other has rows of type float64; they must be of type float32",
        ),
    ]
    for call, error, message in calls:
        with pytest.raises(error, match=message):
            call()
        assert builder.to_bytes() == before


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"size": 0}, ValueError, "size is 0; it must be an integer, at least 1"),
        ({"size": 2.0}, TypeError, "size is 2.0; it must be an integer"),
        ({"size": 5, "first_row": -1}, ValueError, "first_row is -1; it must be an integer, at least 0"),
        ({"size": 5, "random_state": "a"}, TypeError, "random_state is 'a'"),
        ({"size": 5, "n_threads": 0}, ValueError, "n_threads is 0"),
    ],
)
def test_parameters_of_a_builder_are_checked(parameters, error, message):
    with pytest.raises(error, match=message):
        dgmm.CoresetBuilder(**parameters)


def test_numbers_of_rows_end_somewhere():
    builder = dgmm.CoresetBuilder(5, first_row=2**63 - 10)
    with pytest.raises(ValueError, match="first_row is 9223372036854775798; it must be at most 2\\^63 - 11"):
        builder.add(np.ones((11, 2)))
    assert builder.add(np.ones((10, 2))).next_row == 2**63
    with pytest.raises(ValueError, match="X has 0 rows; at least 1 is needed"):
        dgmm.CoresetBuilder(5).result()


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e10, 1e18])
def test_scales_do_not_matter(scale):
    X = skewed(3000, dtype=np.float64)
    expected = built(X, 50, random_state=0).result()
    found = built(X * scale, 50, random_state=0).result()
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-9)


def test_the_meaning_of_a_seed_is_frozen():
    """These numbers may change only together with a line in the CHANGELOG that says so."""
    X = np.arange(60.0).reshape(20, 3) ** 2 % 17
    assert dgmm.CoresetBuilder(6, random_state=7).add(X).result().indices.tolist() == [1, 2, 3, 8, 11, 18]
    assert dgmm.lightweight_coreset([X], 6, random_state=7).indices.tolist() == [1, 2, 3, 8, 11, 18]
