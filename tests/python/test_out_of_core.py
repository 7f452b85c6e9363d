"""Rows that are read shard by shard: the same bits wherever they are, bounded memory, clear errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import dgmm
import numpy as np
import pytest
from dgmm.cli import main

LIMIT = "130MB"


def rows(count: int = 120_000, columns: int = 6, dtype: str = "float32") -> np.ndarray:
    """Blobs in random order."""
    rng = np.random.default_rng(3)
    centers = rng.normal(scale=5, size=(200, columns))
    return (centers[rng.integers(200, size=count)] + rng.normal(size=(count, columns))).astype(dtype)


def assert_same(one: dgmm.DGMM, other: dgmm.DGMM) -> None:
    """The results of the fits have the same bits."""
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert (one.inertia_, one.lower_bound_, one.variance_) == (other.inertia_, other.lower_bound_, other.variance_)
    for name in ("lower_bound", "variance", "distance_evals", "rows"):
        np.testing.assert_array_equal(one.history_[name], other.history_[name])


@pytest.fixture(scope="module", name="X")
def some_rows() -> np.ndarray:
    return rows()


@pytest.fixture(scope="module")
def in_memory(X: np.ndarray) -> dgmm.DGMM:
    return dgmm.DGMM(110, memory_limit=LIMIT, random_state=0).fit(X)


def test_a_limit_cuts_rows_in_memory_into_shards(X: np.ndarray, in_memory: dgmm.DGMM) -> None:
    seen = in_memory.history_["rows"]
    assert 110 * 64 < seen[0] < 2**16
    assert seen[-1] == len(X)
    assert in_memory.converged_
    assert dgmm.DGMM(110, random_state=0).fit(X).history_["rows"][0] == len(X)


@pytest.mark.parametrize("kind", ["npy", "map", "fvecs", "chunks", "list", "parts", "parquet", "folder", "dataset"])
def test_rows_from_anywhere_give_the_bits_of_those_in_memory(
    kind: str, X: np.ndarray, in_memory: dgmm.DGMM, tmp_path: Path
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)
    if kind == "fvecs":
        path = tmp_path / "x.fvecs"
        record = np.zeros(len(X), dtype=[("columns", "<i4"), ("values", "<f4", X.shape[1])])
        record["columns"], record["values"] = X.shape[1], X
        record.tofile(path)
    if kind in ("parquet", "folder", "dataset"):
        arrow, parquet = (
            pytest.importorskip(name, reason="needs the extra `io`") for name in ("pyarrow", "pyarrow.parquet")
        )
        path = tmp_path / "parts"
        path.mkdir()
        names = [f"c{j}" for j in range(X.shape[1])]
        for i, part in enumerate(np.array_split(X, 7)):
            parquet.write_table(arrow.table(list(part.T), names=names), path / f"{i}.parquet", row_group_size=5000)
    source = {
        "map": lambda: np.load(path, mmap_mode="r"),
        "chunks": lambda: lambda: np.array_split(X, 37),
        "list": lambda: np.array_split(X, 5),
        "parts": lambda: [str(path), str(path)],
        "parquet": lambda: sorted(path.iterdir()),
        "dataset": lambda: __import__("pyarrow.dataset").dataset.dataset(path),
    }.get(kind, lambda: path)()
    model = dgmm.DGMM(110, memory_limit=LIMIT, random_state=0).fit(source)
    if kind == "parts":
        twice = np.concatenate([X, X])
        assert_same(model, dgmm.DGMM(110, memory_limit=LIMIT, random_state=0).fit(twice))
        return
    assert_same(model, in_memory)
    assert (list(getattr(model, "feature_names_in_", [])) == [f"c{j}" for j in range(6)]) == (
        kind in ("parquet", "folder", "dataset")
    )
    labels = model.predict(source)
    np.testing.assert_array_equal(labels, in_memory.predict(X))
    np.testing.assert_array_equal(model.top_k(source, 3).indices, in_memory.top_k(X, 3).indices)
    np.testing.assert_array_equal(model.score_samples(source), in_memory.score_samples(X))
    np.testing.assert_allclose(model.score(source), in_memory.score(X))
    error = dgmm.quantization_error(X, model.cluster_centers_)
    np.testing.assert_allclose(dgmm.quantization_error(source, model.cluster_centers_), error)
    sparse = model.predict_proba(source, sparse=True)
    assert (sparse != in_memory.predict_proba(X, sparse=True)).nnz == 0


@pytest.mark.parametrize("estimator", [dgmm.KMeans, dgmm.VCGMM, dgmm.ExactGMM])
def test_every_estimator_reads_in_shards_with_weights(estimator: type[dgmm.DGMM], tmp_path: Path) -> None:
    X, weights = rows(30_000).astype("float64"), np.random.default_rng(0).integers(0, 3, 30_000).astype("float64")
    weights[:9000] = 0  # a whole shard without weight
    np.save(tmp_path / "x.npy", X)
    settings = {"memory_limit": "116MB", "random_state": 1, "max_iter": 12, "tol": 0}
    expected = estimator(20, **settings).fit(X, sample_weight=weights)
    assert_same(estimator(20, **settings).fit(tmp_path / "x.npy", sample_weight=weights), expected)
    pairs = [(X[i : i + 7000], weights[i : i + 7000]) for i in range(0, 30_000, 7000)]
    assert_same(estimator(20, **settings).fit(lambda: iter(pairs)), expected)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int16"])
def test_narrow_types_are_widened_piece_by_piece(dtype: str, tmp_path: Path) -> None:
    X = (rows(20_000) * 4 + 100).clip(0, 255).astype(dtype)
    np.save(tmp_path / "x.npy", X)
    model = dgmm.KMeans(30, random_state=0, memory_limit="112MB").fit(tmp_path / "x.npy")
    assert model.cluster_centers_.dtype == np.float32
    assert_same(model, dgmm.KMeans(30, random_state=0, memory_limit="112MB").fit(X))


def test_exact_labels_and_no_labels(X: np.ndarray, in_memory: dgmm.DGMM) -> None:
    chunks = lambda: np.array_split(X, 5)  # noqa: E731
    exact = dgmm.DGMM(110, memory_limit=LIMIT, random_state=0, labels="exact").fit(chunks)
    np.testing.assert_array_equal(exact.labels_, in_memory.predict(X))
    np.testing.assert_allclose(exact.inertia_, dgmm.quantization_error(X, exact.cluster_centers_), rtol=1e-6)
    assert not hasattr(dgmm.DGMM(110, memory_limit=LIMIT, random_state=0, labels=None).fit(chunks), "labels_")


def test_a_fit_stays_within_its_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.npy"
    large = np.lib.format.open_memmap(path, "w+", np.float32, (1_500_000, 40))
    part = rows(100_000, 40)
    for i in range(15):
        large[i * 100_000 : (i + 1) * 100_000] = part + np.float32(0.01) * i
    large.flush()
    script = f"""
import sys, threading, time, dgmm, warnings
warnings.simplefilter("ignore")
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
peak, done = [0], threading.Event()
def watch():
    while not done.is_set():
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.002)
watcher = threading.Thread(target=watch); watcher.start()
model = dgmm.DGMM(200, memory_limit="200MB", random_state=0, max_iter=4).fit({str(path)!r})
done.set(); watcher.join()
print(peak[0] * 1024, len(model.labels_))
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("the system does not tell the memory of a process in /proc")
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert int(said[0]) < 200e6 < path.stat().st_size, said
    assert int(said[1]) == 1_500_000


def test_what_cannot_be_read_is_said_and_nothing_is_left_running(X: np.ndarray, tmp_path: Path) -> None:
    before = threading.active_count()

    def refused(X: object, words: str, kind: type[Exception] = ValueError, **settings: object) -> None:
        model = dgmm.DGMM(20, random_state=0, **settings)
        with pytest.raises(kind, match=words):
            model.fit(X)
        assert not hasattr(model, "cluster_centers_")

    small = X[:9000]
    refused((chunk for chunk in [small]), "can be read only once", TypeError)
    once = iter([small])
    refused(lambda: once, "the same iterator twice", TypeError)
    refused(lambda: [small, small[:, :3]], "chunk 1 of X has 3 columns but the rows before it have 6")
    refused(lambda: [], "has no rows")
    refused(lambda: [small[0]], "must have rows and columns")
    refused(lambda: [small.astype(str)], "must be numeric", TypeError)
    refused(tmp_path / "missing.npy", "missing.npy", FileNotFoundError)
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "has no files that end in")
    bad = small.copy()
    bad[7000, 2] = np.nan
    refused(lambda: [bad[:5000], bad[5000:]], r"X\[7000, 2\] is NaN")
    refused(lambda: [small], "memory_limit is '5 parsecs'", memory_limit="5 parsecs")
    refused(lambda: [small], "memory_limit is 1000; it must be at least", memory_limit=1000)
    refused(lambda: [small], "n_init is 3", n_init=3)
    refused(lambda: [small], "coreset_size is 50", coreset_size=50)
    counts = iter([9000, 9000, 8000, 8000, 8000])
    refused(lambda: [small[: next(counts)]], "rows and now has 8000")
    with pytest.raises(ValueError, match="sample_weight has"):
        dgmm.DGMM(20, random_state=0).fit(lambda: [small], sample_weight=np.ones(10))
    assert threading.active_count() == before


def test_a_file_that_changes_between_passes_is_refused(X: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)

    def change(event: dgmm.Event) -> None:
        if event.iteration == 1:
            np.save(path, X[:-1])

    with pytest.raises(dgmm.io.DataFileError, match=r"x.npy has changed; it must not change"):
        dgmm.KMeans(20, random_state=0, callback=change, memory_limit=LIMIT).fit(path)
    os.unlink(path)
    with pytest.raises(FileNotFoundError, match=r"x.npy"):
        dgmm.KMeans(20, random_state=0).fit(path)


def test_a_callback_ends_a_fit_that_reads(X: np.ndarray) -> None:
    stopped = dgmm.DGMM(110, memory_limit=LIMIT, random_state=0, callback=lambda event: event.iteration == 2)
    stopped.fit(lambda: [X])
    assert (stopped.n_iter_, stopped.converged_, len(stopped.labels_)) == (2, False, len(X))


def test_warm_starts_begin_where_the_last_fit_ended(X: np.ndarray) -> None:
    model = dgmm.KMeans(30, random_state=0, warm_start=True, tol=1e-4).fit(X[:20_000])
    first, iterations = model.cluster_centers_.copy(), model.n_iter_
    assert model.fit(X[:20_000]).n_iter_ < iterations
    np.testing.assert_allclose(model.cluster_centers_, first, atol=0.5)
    again = dgmm.KMeans(30, random_state=0, init=first, tol=1e-4).fit(X[:20_000])
    np.testing.assert_array_equal(model.cluster_centers_, again.cluster_centers_)
    assert model.set_params(n_clusters=31).fit(X[:20_000]).cluster_centers_.shape == (31, 6)
    with pytest.raises(TypeError, match="warm_start is 'yes'; it must be True or False"):
        dgmm.KMeans(3, warm_start="yes").fit(X[:100])


def test_the_command_line_reads_in_pieces_and_says_so(
    X: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(tmp_path / name) for name in ("a.npy", "b.npy")]
    np.save(paths[0], X[:50_000])
    np.save(paths[1], X[50_000:])
    model, labels = str(tmp_path / "m.safetensors"), str(tmp_path / "labels.npy")
    settings = ["-k", "110", "--memory-limit", LIMIT, "--checkpoint", str(tmp_path / "fit.checkpoint")]
    assert main(["fit", *paths, *settings, "-o", model, "--labels", labels]) == 0
    said = capsys.readouterr()
    assert "piece by piece: memory_limit is set" in said.err
    assert "120000 rows of 6 columns (float32) in 110 clusters" in said.out
    expected = dgmm.DGMM(110, memory_limit=LIMIT, random_state=0).fit(X)
    np.testing.assert_array_equal(np.load(labels), expected.labels_)
    found = dgmm.load(model)
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
    assert main(["predict", *paths, "-m", model, "-o", labels]) == 0
    np.testing.assert_array_equal(np.load(labels), expected.predict(X))
    assert main(["fit", *paths, "-k", "110", "--memory-limit", "1MB", "-o", model]) == 1
    assert "memory_limit is 1000000; it must be at least" in capsys.readouterr().err
