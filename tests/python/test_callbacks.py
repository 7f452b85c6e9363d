"""A fit tells what it does, and can be stopped, from the thread that called it."""

import ast
import logging
import sys
import threading
import typing
import warnings
from pathlib import Path

import dgmm
import numpy as np
import pytest
import sklearn.exceptions
import tqdm.auto
from dgmm import _core
from dgmm._progress import seconds_left
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
    with pytest.warns(dgmm.IgnoredSettingWarning, match="one run instead of n_init=5"):
        dgmm.KMeans(20, init=X[:20], n_init=5).fit(X)


def test_verbose_shows_a_bar_with_the_stage_the_bound_the_change_and_the_time_left(capsys, monkeypatch):
    class Eager(tqdm.auto.tqdm):
        """Shows every step, even if it follows the last one at once."""

        def __init__(self, **options):
            super().__init__(mininterval=0, **options)

    monkeypatch.setattr("tqdm.auto.tqdm", Eager)
    quiet_fit(dgmm.DGMM(20, random_state=0, verbose=1, n_init=2, max_iter=5, tol=0, coreset_size=500), X)
    shown = capsys.readouterr()
    assert shown.out == ""
    for part in ("DGMM coreset", "DGMM seeding", "DGMM em", "DGMM 2 em", "/5", "F=-", "change=", "left=about 00:0"):
        assert part in shown.err


class Shown:
    """What tqdm's bars are told, by the rules of those of a notebook: the total holds from the first moment on."""

    bars: typing.ClassVar = []
    format_interval = staticmethod(lambda seconds: f"{seconds} s")

    def __init__(self, total, **_):
        self.total, self.n, self.postfix, self.open, self.descriptions = total, 0, {}, True, []
        Shown.bars.append(self)

    def set_description_str(self, text, refresh):
        self.descriptions.append(text)

    def set_postfix(self, facts, refresh):
        self.postfix = facts

    def update(self, turns):
        assert turns == 1
        self.n += turns

    def refresh(self):
        pass

    def close(self):
        self.open = False


def test_a_bar_a_run_is_opened_with_its_total_and_closed_complete(monkeypatch):
    monkeypatch.setattr("tqdm.auto.tqdm", Shown)
    Shown.bars = []
    model = quiet_fit(dgmm.DGMM(20, random_state=0, verbose=1, n_init=3), X)
    assert len(Shown.bars) == 3
    assert not any(bar.open for bar in Shown.bars)
    # A notebook shows a bar in red if it is closed before its total, but a converged run is not a failure.
    assert all(0 < bar.n == bar.total < model.max_iter for bar in Shown.bars)
    assert Shown.bars[0].descriptions[:2] == ["DGMM seeding", "DGMM em"]
    assert Shown.bars[2].descriptions[-1] == "DGMM 3 em"

    def fail(event):
        if event.iteration == 2:
            raise RuntimeError

    Shown.bars = []
    with pytest.raises(RuntimeError):
        dgmm.DGMM(20, random_state=0, verbose=1, callback=fail).fit(X)
    assert [(bar.open, bar.n, bar.total) for bar in Shown.bars] == [(False, 2, 100)]


def test_the_time_left_is_that_until_the_change_is_small_enough():
    first = dgmm.Event("em", 0, 4, 100, -1.0, 0.8, 1.0, 8.0)
    second = dgmm.Event("em", 0, 5, 100, -1.0, 0.4, 1.0, 10.0)
    assert seconds_left(second, first, 0.05) == 3 * 2.0  # 0.4, 0.2, 0.1, 0.05
    assert seconds_left(second, None, 0.05) == 95 * 2.0
    assert seconds_left(second, first, 0.0) == 95 * 2.0
    assert seconds_left(first, second, 0.05) == 96 * 2.0  # it grows
    assert seconds_left(second, first, 1.0) == 0


def test_the_log_is_silent_until_it_is_asked(caplog, capsys):
    quiet_fit(dgmm.DGMM(20, random_state=0, max_iter=3, tol=0), X)
    assert capsys.readouterr() == ("", "")
    with caplog.at_level(logging.INFO, logger="dgmm"):
        quiet_fit(dgmm.DGMM(20, random_state=0, max_iter=3, tol=0), X)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("DGMM: 20 clusters of 2000 rows in ")
    assert "not converged after 3 iterations" in line
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="dgmm"):
        quiet_fit(dgmm.DGMM(20, random_state=0, max_iter=3, tol=0), X)
    assert [record.levelname for record in caplog.records] == ["DEBUG"] * 4 + ["INFO"]


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


def test_every_warning_has_a_category_of_the_package():
    categories = {name for name in dir(dgmm) if name.endswith("Warning")}
    assert all(issubclass(getattr(dgmm, name), dgmm.DgmmWarning) for name in categories)
    calls = []
    for path in Path(dgmm.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
                calls.append(ast.unparse(node.args[1]))
    assert len(calls) >= 5
    assert set(calls) <= categories


def test_warnings_can_be_filtered_by_category():
    assert issubclass(dgmm.ConvergenceWarning, sklearn.exceptions.ConvergenceWarning)
    noisy = dgmm.KMeans(20, max_iter=1, tol=1e-9, random_state=0)
    few = dgmm.KMeans(5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", dgmm.DgmmWarning)
        noisy.fit(X)
        few.fit(np.ones((9, 2)))
        dgmm.KMeans(20, init=X[:20], n_init=5).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", dgmm.ConvergenceWarning)
        warnings.simplefilter("ignore", dgmm.EmptyClusterWarning)
        few.fit(np.ones((9, 2)))
        with pytest.raises(dgmm.ConvergenceWarning, match="max_iter=1"):
            noisy.fit(X)
    with pytest.warns(dgmm.ConvergenceWarning) as caught:
        noisy.fit(X)
    assert caught[0].filename == __file__


def interrupt_at(iteration, run=0):
    def callback(event):
        if (event.run, event.iteration) == (run, iteration):
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize("cls", ALL)
def test_an_interrupted_fit_keeps_its_model_if_asked_to(cls):
    settings = {"random_state": 0, "tol": 0, "keep_on_interrupt": True}
    with pytest.warns(dgmm.InterruptWarning, match="keeps its best model so far, after 3 iterations") as caught:
        model = cls(20, callback=interrupt_at(3), **settings).fit(X)
    assert [w.category for w in caught] == [dgmm.InterruptWarning]
    assert caught[0].filename == __file__
    assert model.n_iter_ == 3
    expected = cls(20, callback=lambda event: event.iteration == 3, **settings).fit(X)
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(model.labels_, expected.labels_)


@pytest.mark.parametrize("init", ["auto", lambda data, m, random_state: data[random_state.permutation(len(data))[:m]]])
def test_of_several_runs_an_interrupted_fit_keeps_the_best(init):
    settings = {"random_state": 0, "tol": 0, "max_iter": 30, "init": init}
    best = quiet_fit(dgmm.KMeans(20, **settings), X)
    for stop in (interrupt_at(1, run=1), interrupt_at(0, run=1)):
        with pytest.warns(dgmm.InterruptWarning, match="30 iterations"):
            model = dgmm.KMeans(20, n_init=4, callback=stop, keep_on_interrupt=True, **settings).fit(X)
        np.testing.assert_array_equal(model.cluster_centers_, best.cluster_centers_)


@pytest.mark.parametrize("cls", ALL)
def test_where_there_is_no_model_yet_an_interrupt_is_an_interrupt(cls):
    model = cls(20, random_state=0, keep_on_interrupt=True, callback=interrupt_at(0))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert not hasattr(model, "cluster_centers_")
    model = cls(20, random_state=0, keep_on_interrupt=True, callback=lambda event: 1 / 0 if event.iteration else None)
    with pytest.raises(ZeroDivisionError):
        model.fit(X)
    assert not hasattr(model, "cluster_centers_")


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("stage", ["coreset", "seeding"])
def test_a_fit_that_is_stopped_before_its_first_iteration_makes_just_that(cls, stage):
    stop = lambda event: event.stage == stage  # noqa: E731
    model = cls(20, coreset_size=500, n_init=3, random_state=0, callback=stop).fit(X)
    assert (model.n_iter_, model.converged_) == (1, False)


def test_the_core_waits_until_an_interrupt_is_dealt_with():
    # Another thread takes the interpreter from the callback as it raises, and holds it long enough for an iteration. A
    # core that did not wait would then have a model to keep: not each time, hence the repetitions.
    def hold(begun, done):
        begun.set()
        while not done.is_set():
            sum(range(300_000))

    interval = sys.getswitchinterval()
    for _ in range(30):
        begun, done = threading.Event(), threading.Event()
        other = threading.Thread(target=hold, args=(begun, done))

        def callback(event, begun=begun, other=other):
            other.start()
            begun.wait()
            sys.setswitchinterval(1e-6)
            raise KeyboardInterrupt

        try:
            with pytest.raises(KeyboardInterrupt):
                dgmm.KMeans(20, random_state=0, keep_on_interrupt=True, callback=callback).fit(X)
        finally:
            sys.setswitchinterval(interval)
            done.set()
            other.join()


def test_an_interrupted_fit_of_a_fitted_model_leaves_it_as_it_was():
    model = dgmm.DGMM(20, random_state=0).fit(X)
    before = dict(vars(model))
    model.set_params(callback=interrupt_at(2), tol=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X + 1)
    assert all(vars(model)[name] is value for name, value in before.items() if name not in ("callback", "tol"))
