"""Coresets of data that comes in chunks, drawn in two passes."""

import gc
import weakref

import dgmm
import numpy as np
import pytest
from streams import chunks_of, skewed
from support import DTYPES


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_passes_draw_by_the_importance_of_the_paper_for_any_cut(dtype):
    X = skewed(5000, dtype=dtype)
    coreset = dgmm.lightweight_coreset(chunks_of(X, 1200), 200, random_state=0)
    assert coreset.points.dtype == dtype
    np.testing.assert_array_equal(coreset.points, X[coreset.indices])
    squares = ((X - X.mean(axis=0, dtype=float)) ** 2).sum(axis=1)
    q = 0.5 / len(X) + 0.5 * squares / squares.sum()
    drawn = coreset.weights > 1
    factor = np.median(coreset.weights[drawn] * q[coreset.indices[drawn]])
    np.testing.assert_allclose(coreset.weights[drawn], factor / q[coreset.indices[drawn]], rtol=1e-4)
    for cut in (100, 5000):
        other = dgmm.lightweight_coreset(list(chunks_of(X, cut)()), 200, random_state=0)
        np.testing.assert_array_equal(other.indices, coreset.indices)
        np.testing.assert_allclose(other.weights, coreset.weights, rtol=1e-9)


def test_a_coreset_is_drawn_from_all_that_a_fit_reads(tmp_path, monkeypatch):
    arrow, dataset, parquet = (
        pytest.importorskip(name, reason="needs the extra `io`")
        for name in ("pyarrow", "pyarrow.dataset", "pyarrow.parquet")
    )
    X = skewed(5000)
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(X))
    expected = dgmm.lightweight_coreset([X], 200, random_state=0)
    weighted = dgmm.lightweight_coreset([(X, weights)], 200, random_state=0)
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "parts").mkdir()
    table = arrow.table({f"c{i}": column for i, column in enumerate(X.T)})
    parquet.write_table(table, tmp_path / "parts" / "x.parquet")
    monkeypatch.setattr("dgmm._coreset.AT_ONCE", 20_000)  # so that the file is read in several pieces
    for source in (tmp_path / "x.npy", str(tmp_path / "parts"), dataset.dataset(tmp_path / "parts")):
        found = dgmm.lightweight_coreset(source, 200, random_state=0)
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_array_equal(found.points, expected.points)
        found = dgmm.lightweight_coreset(source, 200, sample_weight=weights, random_state=0)
        np.testing.assert_array_equal(found.indices, weighted.indices)
    with pytest.raises(ValueError, match="sample_weight has shape"):
        dgmm.lightweight_coreset(tmp_path / "x.npy", 200, sample_weight=np.ones(9))


def test_one_chunk_is_in_memory_at_a_time():
    made: list[weakref.ref[object]] = []

    def chunks():
        for seed in range(4):
            gc.collect()
            assert all(ref() is None for ref in made)
            chunk = skewed(3000, seed=seed)
            made.append(weakref.ref(chunk))
            yield chunk
            del chunk

    assert len(dgmm.lightweight_coreset(chunks, 50, random_state=0).weights) == 50
    assert len(made) == 8


def test_what_can_be_read_once_is_refused_where_two_passes_are_needed():
    X = skewed(3000)
    chunks = chunks_of(X, 1000)
    with pytest.raises(
        TypeError, match=r"X is a generator, which can be read only once.*CoresetBuilder need only one pass"
    ):
        dgmm.lightweight_coreset(chunks(), 10)
    once = chunks()
    with pytest.raises(TypeError, match=r"X\(\) returned the same iterator twice"):
        dgmm.lightweight_coreset(lambda: once, 10)
    with pytest.raises(TypeError, match=r"X\(\) returned ndarray; it must return an iterable of chunks"):
        dgmm.lightweight_coreset(lambda: X, 10)
    with pytest.raises(TypeError, match=r"X\(\) returned NoneType"):
        dgmm.lightweight_coreset(lambda: None, 10)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="sample_weight is given; it must be None for chunks"):
        dgmm.lightweight_coreset(chunks, 10, sample_weight=np.ones(3000))


def test_chunks_that_change_between_the_passes_are_named():
    X = skewed(3000)
    turns: list[int] = []

    def changing(second):
        turns.clear()

        def chunks():
            turns.append(1)
            return [X[:1000], X[1000:]] if len(turns) == 1 else second

        return chunks

    for second, message in [
        (
            [X[:1000]],
            r"chunk 1 of the stream has another number of rows in the second pass \(0\) than in the first \(2000\)",
        ),
        ([X[:1000], X[1001:]], r"chunk 1 .* number of rows in the second pass \(1999\) than in the first \(2000\)"),
        ([X[:1000], X[1000:], X], "chunk 2 .* number of rows"),
        ([X[:1000] + 1, X[1000:]], "chunk 0 .* sum of squared distances"),
        ([(X[:1000], np.full(1000, 2.0)), X[1000:]], "chunk 0 .* sum of the weights"),
        ([X[:1000, :2]], "X has 2 columns but the rows before it have 4"),
    ]:
        with pytest.raises(ValueError, match=message):
            dgmm.lightweight_coreset(changing(second), 10)


def test_errors_of_chunks_say_which_and_where():
    X = skewed(3000)
    bad = X.copy()
    bad[7, 1] = np.inf
    for chunks, message in [
        ([X, X[:, :2]], "chunk 1 of X: X has 2 columns but the rows before it have 4"),
        ([X, bad], "chunk 1 of X: row 3007 of the stream is inf in column 1"),
        ([X, (X, -np.ones(3000))], r"chunk 1 of X: sample_weight\[0\] is -1"),
        ([X[:0]], "X has no rows"),
        ([(X, np.zeros(3000))], "sample_weight is zero for every row"),
        ([X * 1e30], "chunk 0 of X: X spans .* squared distances overflow float32"),
    ]:
        with pytest.raises(ValueError, match=message):
            dgmm.lightweight_coreset(chunks, 10)
