"""Fits can be interrupted, and work in threads, in forked processes and under joblib."""

import multiprocessing
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import dgmm
import joblib
import numpy as np
import pytest
from support import ALL, blobs, fit_in_child, quiet_fit

INTERRUPTED = """
import signal, sys, threading, time
import numpy as np, dgmm
signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background may have it ignored
X = np.random.default_rng(0).standard_normal((200_000, 16), dtype=np.float32)
sent = []
def interrupt():
    time.sleep(1.5)
    sent.append(time.monotonic())
    signal.raise_signal(signal.SIGINT)
threading.Thread(target=interrupt).start()
model = getattr(dgmm, sys.argv[1])(3000, max_iter=10**6, tol=0, random_state=0, n_threads=2)
try:
    for _ in range(10**6):
        model.fit(X)
except KeyboardInterrupt:
    print("stopped", time.monotonic() - sent[0], hasattr(model, "cluster_centers_"))
print("goes on", dgmm.KMeans(5, random_state=0).fit(X[:1000]).cluster_centers_.shape)
"""


@pytest.mark.parametrize("cls", ALL)
def test_ctrl_c_stops_a_fit_and_the_interpreter_goes_on(cls):
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, cls.__name__], capture_output=True, text=True, timeout=300, check=True
    )
    stopped, goes_on = run.stdout.splitlines()
    # It takes a fraction of a second, longer on a busy machine; the fit would take hours.
    assert float(stopped.split()[1]) < 30
    assert stopped.endswith("False")
    assert goes_on == "goes on (5, 16)"


KEPT = """
import signal, sys, threading, warnings
import numpy as np, dgmm
signal.signal(signal.SIGINT, signal.default_int_handler)
X = np.random.default_rng(0).standard_normal((100_000, 32), dtype=np.float32)
model = getattr(dgmm, sys.argv[1])(1000, max_iter=10**6, tol=0, random_state=0, n_threads=2, keep_on_interrupt=True)
interrupt = lambda: signal.raise_signal(signal.SIGINT)
delay = 0.1
if sys.argv[2] == "heard":
    model.set_params(callback=lambda event: event.iteration == 2 and threading.Thread(target=interrupt).start())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    while not hasattr(model, "labels_"):
        if sys.argv[2] == "unheard":
            threading.Timer(delay, interrupt).start()
        try:
            model.fit(X)
        except KeyboardInterrupt:  # there was no model yet
            delay *= 2
good = model.report(X).to_dict()["audit"]["true_nearest"] > 0.5
print([w.category.__name__ for w in caught], model.n_iter_ >= 1, model.labels_.shape, good)
"""


@pytest.mark.parametrize("heard", ["heard", "unheard"])
@pytest.mark.parametrize("cls", ALL)
def test_ctrl_c_keeps_the_model_if_asked_to(cls, heard):
    run = subprocess.run(
        [sys.executable, "-c", KEPT, cls.__name__, heard], capture_output=True, text=True, timeout=300, check=True
    )
    assert run.stdout == "['InterruptWarning'] True (100000,) True\n"


def test_python_runs_on_while_the_core_works():
    X = blobs(20_000, 16, 50, dtype=np.float32)
    worker = threading.Thread(target=quiet_fit, args=(dgmm.ExactGMM(200, max_iter=100, tol=0, random_state=0), X))
    worker.start()
    turns = 0
    while worker.is_alive():
        turns += 1
        time.sleep(0.002)
    assert turns > 10


@pytest.mark.parametrize("cls", ALL)
def test_threads_can_fit_the_same_rows_at_once(cls):
    X = blobs(5000, 4, 12)
    expected = quiet_fit(cls(12, random_state=3, n_threads=2), X)
    with ThreadPoolExecutor(4) as pool:
        fits = list(pool.map(lambda _: quiet_fit(cls(12, random_state=3, n_threads=2), X), range(8)))
    for model in fits:
        np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_a_child_process_can_fit_after_its_parent_did(method):
    centers, labels = fit_in_child(0)
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map_async(fit_in_child, [0, 1, 0]).get(timeout=240)
    for index in (0, 2):
        np.testing.assert_array_equal(found[index][0], centers)
        np.testing.assert_array_equal(found[index][1], labels)
    assert not np.array_equal(found[1][0], centers)


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_joblib_runs_fits(backend):
    centers, _ = fit_in_child(0)
    found = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(fit_in_child)(seed) for seed in (0, 0, 5))
    np.testing.assert_array_equal(found[0][0], centers)
    np.testing.assert_array_equal(found[1][0], centers)
