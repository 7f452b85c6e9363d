"""Fits over the partitions of Dask collections: the bits of a fit in one process, whatever happens to the workers."""

import os
import pickle
import time
from contextlib import contextmanager

import dgmm
import numpy as np
import pytest
from dgmm import shards
from partitioned import LENGTHS, ROWS, array, rows, with_nan
from sklearn.base import clone
from support import blobs

dask = pytest.importorskip("dask", reason="needs the extra `dask`")
da = pytest.importorskip("dask.array", reason="needs the extra `dask`")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra `dask`")
distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")
import dgmm.dask  # noqa: E402

SETTINGS = {"random_state": 1, "tol": 0, "max_iter": 6}


def in_process(estimator, weights=None):
    """The same shards in this process."""
    X, pieces, first = rows(), [], 0
    for length in LENGTHS:
        part = slice(first, first + length)
        pieces.append(shards.Shard(X[part], None if weights is None else weights[part], first))
        first += length
    return shards.fit(estimator, pieces)


def assert_same(found, expected):
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(found.labels_.compute(), expected.labels_)
    assert (found.variance_, found.inertia_, found.lower_bound_) == (
        expected.variance_,
        expected.inertia_,
        expected.lower_bound_,
    )


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes over TCP."""
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "protocol": "tcp://"}
    with distributed.LocalCluster(dashboard_address=None, **settings) as made:
        yield made


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as made:
        made.wait_for_workers(2)
        yield made


@contextmanager
def nothing_left(client):
    """Whatever a call has created on the workers is released soon after it."""
    yield
    wait_for(client, set())


def wait_for(client, kinds):
    """Wait until the workers hold what is named and nothing else, and nothing runs."""
    deadline = time.time() + 20
    while held(client) != kinds or any(client.processing().values()):
        assert time.time() < deadline, (client.has_what(), client.processing())
        time.sleep(0.05)


def held(client):
    return {str(key[0]).rpartition("-")[0] for keys in client.has_what().values() for key in keys}


@pytest.mark.parametrize("name", ["DGMM", "VCGMM", "ExactGMM", "KMeans"])
def test_the_fit_without_a_client_is_that_of_the_same_shards_in_process(name):
    clusters = 120 if name in ("DGMM", "VCGMM") else 20
    model = getattr(dgmm.dask, name)(clusters, **SETTINGS)
    assert_same(model.fit(array()), in_process(getattr(dgmm, name)(clusters, **SETTINGS)))
    assert model.labels_.chunks == (LENGTHS,)
    assert model.n_features_in_ == 4


@pytest.mark.parametrize("name", ["DGMM", "KMeans"])
def test_refinement_over_partitions_is_that_of_the_same_shards_in_process(name):
    settings = SETTINGS | {"init": "random", "refine": 2, "tol": 1.0, "max_iter": 12}
    model = getattr(dgmm.dask, name)(120, **settings).fit(array())
    assert_same(model, in_process(getattr(dgmm, name)(120, **settings)))
    assert model.history_["refine"].any()


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_any_scheduler_gives_the_same_bits(scheduler):
    with dask.config.set(scheduler=scheduler):
        model = dgmm.dask.DGMM(120, **SETTINGS).fit(array())
        assert_same(model, in_process(dgmm.DGMM(120, **SETTINGS)))


def test_a_cluster_gives_the_same_bits_and_keeps_nothing_but_the_labels(client):
    expected = in_process(dgmm.DGMM(120, **SETTINGS))
    with nothing_left(client):
        model = dgmm.dask.DGMM(120, **SETTINGS).fit(array())
        assert_same(model, expected)
        wait_for(client, {"dgmm-labels"})
        del model


def test_a_killed_worker_costs_time_and_no_bit(client):
    victims = client.run(os.getpid)
    killed = []

    def kill_one(event):
        if event.iteration == 3 and not killed:
            killed.append(next(iter(victims.values())))
            os.kill(killed[0], 9)

    model = dgmm.dask.DGMM(120, callback=kill_one, **SETTINGS).fit(array())
    assert killed
    assert killed[0] not in client.run(os.getpid).values()
    assert_same(model, in_process(dgmm.DGMM(120, **SETTINGS)))


def test_an_added_worker_is_used(cluster, client):
    known = set(client.nthreads())
    used = []

    def add_one(event):
        if event.iteration == 2:
            cluster.scale(3)
            client.wait_for_workers(3)
        if event.iteration > 3:
            held = client.has_what()
            used.extend(key for worker in set(held) - known for key in held[worker] if "dgmm-step" in str(key))

    # The scheduler may take a while.
    settings = SETTINGS | {"max_iter": 20}
    model = dgmm.dask.DGMM(120, callback=add_one, **settings).fit(array())
    cluster.scale(2)
    assert used
    assert_same(model, in_process(dgmm.DGMM(120, **settings)))


def test_answers_are_lazy_and_those_of_the_plain_estimator(client):
    model = dgmm.dask.DGMM(30, random_state=0).fit(array())
    plain, X, lazy = model.to_local(), rows(), array(columns=(3, 1))
    assert type(plain) is dgmm.DGMM
    answers = {
        "predict": (model.predict(lazy), plain.predict(X)),
        "approximate": (model.predict(lazy, method="approximate"), plain.predict(X)),
        "predict_proba": (model.predict_proba(lazy), plain.predict_proba(X)),
        "transform": (model.transform(lazy), plain.transform(X)),
        "score_samples": (model.score_samples(lazy), plain.score_samples(X)),
        "indices": (model.top_k(lazy, 3).indices, plain.top_k(X, 3).indices),
        "distances": (model.top_k(lazy, 3).distances, plain.top_k(X, 3).distances),
    }
    for name, (answer, expected) in answers.items():
        assert isinstance(answer, da.Array), name
        assert answer.chunks[0] == LENGTHS, name
        assert (answer.shape, answer.dtype) == (expected.shape, expected.dtype), name
        np.testing.assert_array_equal(answer.compute(), expected, err_msg=name)
    sparse = model.predict_proba(lazy, sparse=True).blocks[1].compute()
    np.testing.assert_array_equal(sparse.toarray(), plain.predict_proba(X)[700:1500])
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_scores_are_those_of_the_plain_estimator_and_batches_must_be_in_memory():
    weights = np.arange(ROWS) % 4 * 1.0
    for kind in (dgmm.dask.KMeans, dgmm.dask.DGMM):
        model = kind(20, random_state=0).fit(array())
        assert model.score(array()) == pytest.approx(model.to_local().score(rows()))
        weighted = model.to_local().score(rows(), sample_weight=weights)
        assert model.score(array(), sample_weight=weights) == pytest.approx(weighted)
        with pytest.raises(TypeError, match="X is a Array; a batch must be in memory"):
            model.partial_fit(array())
        assert model.fit_transform(array()).shape == (ROWS, 20)


def test_dataframes_of_unknown_length_keep_their_names():
    pandas = pytest.importorskip("pandas", reason="Dask's dataframes need pandas")
    X = rows().astype(np.float64)
    frame = dd.from_pandas(pandas.DataFrame(X, columns=list("abcd")), npartitions=4)
    frame = frame[frame["a"] > frame["a"].min().compute()]  # of unknown lengths
    model = dgmm.dask.KMeans(10, random_state=0).fit(frame)
    assert model.feature_names_in_.tolist() == list("abcd")
    labels = model.predict(frame)
    expected = model.to_local().predict(frame.compute())
    np.testing.assert_array_equal(labels.compute(), expected)
    np.testing.assert_array_equal(model.labels_.compute(), expected)
    assert model.labels_.shape == (ROWS - 1,)
    unknown = frame.to_dask_array()
    with pytest.warns(dgmm.FeatureNamesWarning):
        np.testing.assert_array_equal(model.predict(unknown).compute(), expected)
    again = dgmm.dask.KMeans(10, random_state=0).fit(unknown)
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)


@pytest.mark.parametrize("kind", ["array", "dask", "other chunks", "series"])
def test_weights_of_any_kind_count(kind):
    weights = np.arange(ROWS) % 4 * 1.0
    weights[700:1500] = 0  # a whole partition
    given = {
        "array": weights,
        "dask": da.from_array(weights, chunks=(LENGTHS,)),
        "other chunks": da.from_array(weights, chunks=999),
    }
    if kind == "series":
        lazy = da.from_array(weights, chunks=(LENGTHS,))
        given[kind] = dd.from_dask_array(lazy, columns="w")
    model = dgmm.dask.KMeans(20, random_state=0).fit(array(), sample_weight=given[kind])
    kept = weights > 0
    np.testing.assert_allclose(
        model.inertia_, dgmm.quantization_error(rows()[kept], model.cluster_centers_, sample_weight=weights[kept])
    )
    np.testing.assert_array_equal(model.labels_.compute(), model.to_local().predict(rows()))


def test_a_weight_for_all_rows_changes_no_center():
    plain = dgmm.dask.KMeans(20, random_state=0).fit(array())
    doubled = dgmm.dask.KMeans(20, random_state=0).fit(array(), sample_weight=2.0)
    np.testing.assert_allclose(doubled.cluster_centers_, plain.cluster_centers_, rtol=1e-5)


def test_given_centers_are_where_the_fit_starts():
    start = rows()[:120]
    model = dgmm.dask.DGMM(120, init=start, **SETTINGS).fit(array())
    assert_same(model, in_process(dgmm.DGMM(120, init=start, **SETTINGS)))
    assert not np.array_equal(model.cluster_centers_, dgmm.dask.DGMM(120, **SETTINGS).fit(array()).cluster_centers_)


def test_a_warm_start_begins_where_the_last_fit_ended():
    model = dgmm.dask.KMeans(20, random_state=0, warm_start=True).fit(array())
    iterations, error = model.n_iter_, model.inertia_
    model.fit(array())
    assert model.n_iter_ < iterations
    assert model.inertia_ <= error


def test_many_rows_begin_with_a_sample_of_them_and_end_with_all():
    X = da.from_array(blobs(90_000, 2, 100, dtype=np.float32), chunks=(20_000, 2))
    heard = []
    model = dgmm.dask.DGMM(100, random_state=0, callback=lambda event: heard.append(event.iteration)).fit(X)
    seen = model.history_["rows"]
    assert seen[0] == 65_536
    assert seen[-1] == 90_000
    assert heard == [0, *range(1, model.n_iter_ + 1)]


def test_empty_partitions_and_partitions_of_other_sizes_are_fine():
    X = da.concatenate([array()[:0], array()[:1], array()[1:1], array()[1:]])
    model = dgmm.dask.KMeans(20, random_state=0).fit(X)
    assert model.labels_.shape == (ROWS,)
    assert model.predict(X).compute().shape == (ROWS,)


def test_exact_labels_and_none():
    exact = dgmm.dask.DGMM(120, labels="exact", random_state=0).fit(array())
    np.testing.assert_array_equal(exact.labels_.compute(), exact.to_local().predict(rows()))
    assert exact.inertia_ == pytest.approx(dgmm.quantization_error(rows(), exact.cluster_centers_))
    assert not hasattr(dgmm.dask.DGMM(120, labels=None, random_state=0).fit(array()), "labels_")


def test_a_coreset_of_partitions_stands_for_all_rows():
    coreset = dgmm.dask.lightweight_coreset(array(), 2000, random_state=0)
    np.testing.assert_array_equal(coreset.points, rows()[coreset.indices])
    assert coreset.weights.sum() == pytest.approx(ROWS, rel=0.05)
    again = dgmm.dask.lightweight_coreset(array(), 2000, random_state=0)
    np.testing.assert_array_equal(again.indices, coreset.indices)
    model = dgmm.dask.DGMM(30, coreset_size=1500, random_state=0).fit(array())
    np.testing.assert_array_equal(model.labels_.compute(), model.to_local().predict(rows()))
    full = dgmm.dask.DGMM(30, random_state=0).fit(array())
    assert model.inertia_ < 1.3 * full.inertia_


def test_a_fit_of_a_coreset_starts_from_given_centers():
    start = rows()[:30]
    model = dgmm.dask.KMeans(30, init=start, coreset_size=1500, random_state=0).fit(array())
    coreset = dgmm.dask.lightweight_coreset(array(), 1500, random_state=0)
    plain = dgmm.KMeans(30, init=start).fit(coreset.points, sample_weight=coreset.weights)
    np.testing.assert_array_equal(model.cluster_centers_, plain.cluster_centers_)


def test_progress_comes_by_callback_which_can_end_the_fit():
    events = []

    def two(event):
        events.append((event.stage, event.iteration))
        if event.iteration == 2:
            raise StopIteration

    model = dgmm.dask.KMeans(20, random_state=0, callback=two).fit(array())
    assert events == [("seeding", 0), ("em", 1), ("em", 2)]
    assert model.n_iter_ == 2


def test_an_estimator_is_cloned_pickled_and_saved(tmp_path):
    model = dgmm.dask.DGMM(30, random_state=0).fit(array())
    assert clone(model).get_params() == model.get_params()
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.cluster_centers_, model.cluster_centers_)
    assert not hasattr(back, "labels_")
    model.to_local().save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(dgmm.load(tmp_path / "model.safetensors").predict(rows()), model.predict(rows()))


def test_an_error_on_a_worker_leaves_nothing_running(client):
    with nothing_left(client):
        with pytest.raises(ValueError, match=r"X\[1777, 2\] is NaN"):
            dgmm.dask.KMeans(20, random_state=0).fit(with_nan())

        def fail(event):
            if event.iteration == 2:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            dgmm.dask.DGMM(120, callback=fail, **SETTINGS).fit(array())


def test_workers_with_another_version_are_refused(client, monkeypatch):
    monkeypatch.setattr(dgmm._core, "__version__", "9.9.9")
    with pytest.raises(RuntimeError, match=r"worker tcp://.* has dgmm 0\..*, but this process has dgmm 9\.9\.9"):
        dgmm.dask.KMeans(2).fit(array())


def test_rows_of_a_closed_client_are_refused(cluster):
    with distributed.Client(cluster) as client:
        X = client.persist(array())
        distributed.wait(X)
    with pytest.raises(RuntimeError, match="X: its rows are on a Dask cluster whose client was closed"):
        dgmm.dask.KMeans(2).fit(X)


def test_rows_that_were_cancelled_are_refused(client):
    X = client.persist(array())
    client.cancel(X)
    with pytest.raises(RuntimeError, match="X: partitions were lost and cannot be recomputed"):
        dgmm.dask.KMeans(2).fit(X)
