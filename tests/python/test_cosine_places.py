"""``metric="cosine"`` in shards, streams, files and on the command line."""

import itertools
import json
import pickle

import dgmm
import numpy as np
import pytest
from dgmm import shards
from dgmm.cli import main
from directions import cosines, rows, zero_row
from support import ALL, DTYPES, quiet_fit


def test_weights_coresets_and_several_runs():
    X = rows(4000, 6, 20, dtype=np.float32)
    weights = np.random.default_rng(0).integers(0, 3, size=len(X)).astype(float)
    start = X[:20]
    repeated = quiet_fit(dgmm.KMeans(20, metric="cosine", init=start, max_iter=5), np.repeat(X, weights.astype(int), 0))
    weighted = quiet_fit(dgmm.KMeans(20, metric="cosine", init=start, max_iter=5), X, sample_weight=weights)
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, atol=1e-5)
    small = quiet_fit(dgmm.DGMM(20, metric="cosine", coreset_size=1500, random_state=0), X)
    whole = quiet_fit(dgmm.DGMM(20, metric="cosine", random_state=0), X)
    np.testing.assert_array_equal(small.labels_, small.predict(X))
    assert small.inertia_ < 1.3 * whole.inertia_
    best = quiet_fit(dgmm.DGMM(20, metric="cosine", n_init=4, random_state=0), X)
    assert best.lower_bound_ >= whole.lower_bound_


def test_shards_memory_maps_and_checkpoints_have_the_same_bits(tmp_path):
    X = rows(20_000, 8, 40, dtype=np.float32)
    estimator = dgmm.DGMM(150, metric="cosine", engine="grouped", random_state=1, max_iter=6, tol=0)
    cuts = [0, 7000, 15_000, 20_000]
    pieces = [shards.Shard(X[a:b], None, a) for a, b in itertools.pairwise(cuts)]
    summaries = [pickle.loads(pickle.dumps(piece.summarize(estimator, len(X)))) for piece in pieces]
    trainer = shards.Trainer(estimator, shards.merge_summaries(summaries))
    known = [None] * 3
    while not trainer.finished:
        taken = [piece.step(trainer.round, kept) for piece, kept in zip(pieces, known, strict=True)]
        known = [kept for _, kept in taken]
        trainer.absorb(shards.merge([sums for sums, _ in taken]))
        trainer = pickle.loads(pickle.dumps(trainer))
    elsewhere = trainer.to_estimator(np.concatenate([kept.labels() for kept in known]))
    assert elsewhere.concentration_ == pytest.approx(1 / elsewhere.variance_)
    assert (elsewhere.predict(X) == cosines(X, elsewhere.cluster_centers_).argmax(axis=1)).mean() > 0.9999
    np.save(tmp_path / "x.npy", X)
    limited = {"memory_limit": "150MB", "random_state": 1, "metric": "cosine"}
    here = quiet_fit(dgmm.DGMM(50, **limited), X)
    mapped = quiet_fit(dgmm.DGMM(50, **limited), np.load(tmp_path / "x.npy", mmap_mode="r"))
    file = quiet_fit(dgmm.DGMM(50, checkpoint=tmp_path / "state", **limited), str(tmp_path / "x.npy"))
    for other in (mapped, file):
        np.testing.assert_array_equal(other.cluster_centers_, here.cluster_centers_)
        np.testing.assert_array_equal(other.labels_, here.labels_)
        assert other.concentration_ == here.concentration_
    with pytest.raises(ValueError, match=r"metric is 'euclidean'; it must be 'cosine' as in the summary"):
        shards.Trainer(dgmm.DGMM(150, random_state=1), shards.merge_summaries(summaries))


def test_dask_workers_compare_directions():
    array = pytest.importorskip("dask.array", reason="needs the extra `dask`")
    distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")
    import dgmm.dask

    X = rows(4000, 6, 20, dtype=np.float32)
    with distributed.Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None):
        parts = array.from_array(X, chunks=(1000, 6))
        model = quiet_fit(dgmm.dask.KMeans(20, metric="cosine", labels="exact", random_state=0), parts)
        labels, score = np.asarray(model.labels_), model.score(parts)
    exact = cosines(X, model.cluster_centers_)
    assert (labels == exact.argmax(axis=1)).mean() > 0.999
    np.testing.assert_allclose([model.inertia_, -score], (2 - 2 * exact.max(axis=1)).sum(), rtol=1e-4)
    assert model.concentration_ > 0


def test_a_zero_row_of_a_shard_has_its_number_in_all_rows():
    piece = shards.Shard(zero_row(np.float32), None, 1000)
    with pytest.raises(ValueError, match="row 1017 of X is all zeros"):
        piece.summarize(dgmm.DGMM(5, metric="cosine", random_state=0), 2000)


def test_bytes_of_an_earlier_version_are_refused():
    X = rows(300, dtype=np.float32)
    piece = shards.Shard(X, None, 0)
    summary = piece.summarize(dgmm.DGMM(5, metric="cosine", random_state=0), 300)
    content = bytearray(summary.to_bytes())
    assert content[4] == 3
    content[4] = 1
    with pytest.raises(ValueError, match="version 1, not 3"):
        type(summary).from_bytes(bytes(content))


def test_streams_and_warm_starts_go_on():
    X = rows(6000, 6, 10, dtype=np.float32)
    model = dgmm.DGMM(10, metric="cosine", random_state=0)
    for batch in np.split(X, 12):
        model.partial_fit(batch)
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1, atol=1e-6)
    whole = quiet_fit(dgmm.DGMM(10, metric="cosine", random_state=0), X)
    error = [dgmm.quantization_error(X, m.cluster_centers_, metric="cosine") for m in (model, whole)]
    assert error[0] < 1.15 * error[1]
    assert model.concentration_ == pytest.approx(whole.concentration_, rel=0.3)
    bound = whole.lower_bound_
    assert quiet_fit(whole.set_params(warm_start=True), X).lower_bound_ >= bound


def test_a_fitted_model_keeps_its_metric():
    X = rows(500, dtype=np.float32)
    model = quiet_fit(dgmm.DGMM(5, metric="cosine", random_state=0), X)
    labels = model.predict(X)
    model.set_params(metric="euclidean")
    np.testing.assert_array_equal(model.predict(X), labels)
    model = quiet_fit(model, X)
    assert not hasattr(model, "concentration_")


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("dtype", DTYPES)
def test_files_and_pickles_answer_to_the_bit(cls, dtype, tmp_path):
    X = rows(800, dtype=dtype)
    model = quiet_fit(cls(10, metric="cosine", random_state=0), X)
    path = tmp_path / "model.safetensors"
    model.save(path)
    for again in (dgmm.load(path), pickle.loads(pickle.dumps(model))):
        assert (again.metric, again.concentration_) == ("cosine", pytest.approx(model.concentration_, rel=1e-15))
        np.testing.assert_array_equal(again.transform(X), model.transform(X))
        np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    plain = quiet_fit(cls(10, random_state=0), X)
    plain.save(path)
    assert b'"format_version":"1"' in path.read_bytes()[:4096]


def test_approximate_search_finds_the_same():
    X = rows(20_000, 24, 500, dtype=np.float32)
    model = quiet_fit(dgmm.DGMM(500, metric="cosine", random_state=0), X)
    labels = model.predict(X, method="approximate")
    exact = cosines(X, model.cluster_centers_)
    found = exact[np.arange(len(X)), labels]
    assert (2 - 2 * found <= 1.0202 * (2 - 2 * exact.max(axis=1))).mean() > 0.97
    assert model.approximate_recall_ > 0.95


def test_the_command_the_report_and_the_plots_know_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X = rows(400, 3, 6, dtype=np.float32)
    np.save("x.npy", X)
    assert main(["fit", "x.npy", "-k", "6", "--metric", "cosine", "-o", "m.safetensors", "--seed", "1"]) == 0
    model = dgmm.load("m.safetensors")
    assert model.metric == "cosine"
    np.testing.assert_array_equal(model.predict(X), dgmm.DGMM(6, metric="cosine", random_state=1).fit(X).predict(X))
    capsys.readouterr()
    report = quiet_fit(dgmm.DGMM(6, metric="cosine", random_state=1), X).report(X)
    audit = json.loads(json.dumps(report.to_dict()))["audit"]
    assert audit["true_nearest"] > 0.95
    assert audit["error_above_exact"] < 0.05
    with pytest.raises(SystemExit):
        main(["fit", "x.npy", "-k", "6", "--metric", "manhattan", "-o", "m.safetensors"])
    assert "manhattan" in capsys.readouterr().err
