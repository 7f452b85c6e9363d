"""A fit tells what it does, and can be stopped, from the thread that called it."""

import logging
import threading

import dgmm
import numpy as np
import pytest
from dgmm import _core
from support import ALL, blobs, quiet_fit

X = blobs(2000, 4, 20, spread=1.0)


@pytest.mark.parametrize("cls", ALL)
def test_events_tell_of_every_stage_and_iteration(cls):
    events = []
    model = quiet_fit(cls(20, random_state=0, coreset_size=500, n_init=2, max_iter=4, tol=0, callback=events.append), X)
    assert all(isinstance(event, dgmm.Event) for event in events)
    assert [event.stage for event in events] == ["coreset"] + (["seeding"] + ["em"] * 4) * 2
    assert [event.run for event in events if event.stage == "seeding"] == [0, 1]
    last = [event for event in events if event.stage == "em"]
    assert [event.iteration for event in last] == [1, 2, 3, 4] * 2
    assert {event.max_iter for event in last} == {4}
    assert last[0].change == float("inf")
    bounds = [[event.lower_bound for event in last if event.run == run] for run in (0, 1)]
    assert model.history_["lower_bound"].tolist() in bounds


@pytest.mark.parametrize("cls", ALL)
def test_callbacks_run_on_the_thread_that_called_fit(cls):
    threads = set()
    quiet_fit(cls(5, random_state=0, n_threads=2, callback=lambda _: threads.add(threading.get_ident())), X)
    assert threads == {threading.get_ident()}


def stop_iteration(event):
    if event.iteration == 3:
        raise StopIteration


@pytest.mark.parametrize(
    "stop", [stop_iteration, lambda event: event.iteration == 3, lambda event: event.iteration // 3]
)
@pytest.mark.parametrize("cls", ALL)
def test_a_callback_can_end_the_fit_and_keep_the_result(cls, stop):
    model = cls(20, random_state=0, max_iter=50, tol=0, n_init=3, callback=stop).fit(X)
    assert model.n_iter_ == 3
    assert not model.converged_
    np.testing.assert_array_equal(model.labels_.shape, (len(X),))


@pytest.mark.parametrize("error", [RuntimeError("mine"), KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("cls", ALL)
def test_an_exception_in_a_callback_comes_out_and_nothing_is_kept(cls, error):
    def fail(event):
        if event.iteration == 2:
            raise error

    model = cls(20, random_state=0, tol=0, callback=fail)
    with pytest.raises(type(error)) as caught:
        model.fit(X)
    assert caught.value is error
    assert not hasattr(model, "cluster_centers_")
    assert not hasattr(model, "n_features_in_")


def test_a_callable_start_is_called_once_a_run_and_the_best_run_is_kept():
    seen, runs = [], set()

    def start(data, n_clusters, random_state):
        assert data.shape == X.shape
        assert isinstance(random_state, np.random.RandomState)
        seen.append(data[random_state.permutation(len(data))[:n_clusters]])
        return seen[-1]

    model = quiet_fit(dgmm.KMeans(20, init=start, n_init=4, random_state=0, callback=lambda e: runs.add(e.run)), X)
    assert len(seen) == 4
    assert runs == {0, 1, 2, 3}
    single = [quiet_fit(dgmm.KMeans(20, init=centers, random_state=0), X).lower_bound_ for centers in seen]
    assert model.lower_bound_ == max(single)


def test_an_array_start_makes_one_run_and_says_so():
    with pytest.warns(RuntimeWarning, match="one run instead of n_init=5"):
        dgmm.KMeans(20, init=X[:20], n_init=5).fit(X)


def test_verbose_shows_a_bar(capsys):
    quiet_fit(dgmm.DGMM(20, random_state=0, verbose=1, n_init=2, max_iter=5), X)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("DGMM") >= 2
    assert "/5" in shown.err


def test_verbose_writes_to_the_log_where_there_is_no_bar(caplog, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)
    with caplog.at_level(logging.INFO, logger="dgmm"):
        quiet_fit(dgmm.DGMM(20, random_state=0, verbose=1, max_iter=3, tol=0), X)
    lines = [record.getMessage() for record in caplog.records]
    assert "seeding" in lines[0]
    assert "iteration 3 of at most 3" in lines[-2]
    assert "20 clusters of 2000 rows" in lines[-1]
    assert capsys.readouterr() == ("", "")


def test_a_panic_of_the_core_is_an_exception():
    with pytest.raises(RuntimeError, match="please report it: asked to"):
        _core._panic()
    assert dgmm.KMeans(3, random_state=0).fit(X).labels_.shape == (len(X),)
