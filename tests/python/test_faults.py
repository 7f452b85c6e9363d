"""After any failure there is a clear error, the old file, and a working interpreter."""

import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import dgmm
import numpy as np
import pytest
from dgmm.cli import main
from support import ALL, blobs, quiet_fit

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX")

STAGES = """
import signal, sys, threading, time, warnings
import numpy as np, dgmm
warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)
X = np.random.default_rng(0).standard_normal((300_000, 16), dtype=np.float32)
few = dgmm.KMeans(3000, init=X[:3000], max_iter=1).fit(X[:6000])
one = dict(max_iter=1, tol=0, random_state=0)
stages = {
    "coreset": lambda: dgmm.lightweight_coreset(X, 200_000, random_state=0),
    "afk-mc2": lambda: dgmm.afkmc2(X, 3000, random_state=0),
    "k-means++": lambda: dgmm.KMeans(3000, init="k-means++", **one).fit(X),
    "hierarchical": lambda: dgmm.DGMM(3000, init="hierarchical", **one).fit(X),
    "random": lambda: dgmm.DGMM(3000, init="random", **one).fit(X),
    "exact labels": lambda: dgmm.DGMM(3000, coreset_size=9000, labels="exact", **one).fit(X),
    "approximate labels": lambda: dgmm.DGMM(3000, coreset_size=9000, labels="approximate", **one).fit(X),
    "predict": lambda: few.predict(X),
    "approximate": lambda: few.predict(X, method="approximate"),
    "top_k": lambda: few.top_k(X, 10),
    "score_samples": lambda: dgmm.ExactGMM.score_samples(few, X),
    "quantization_error": lambda: dgmm.quantization_error(X, few.cluster_centers_),
    "report": lambda: few.report(X),
    "sweep": lambda: dgmm.sweep(X, [1000, 2000, 3000], random_state=0),
}
sent = []
def interrupt():
    time.sleep(1)
    sent.append(time.monotonic())
    signal.raise_signal(signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    while True:
        stages[sys.argv[1]]()
except KeyboardInterrupt:
    print("stopped", time.monotonic() - sent[0] < 30)
print(dgmm.KMeans(5, random_state=0).fit(X[:1000]).cluster_centers_.shape)
"""
NAMES = [
    line.split('"')[1] for line in STAGES.split("stages = {")[1].split("\n}")[0].splitlines() if ": lambda" in line
]


@pytest.mark.parametrize("stage", NAMES)
def test_ctrl_c_stops_every_stage(stage):
    run = subprocess.run([sys.executable, "-c", STAGES, stage], capture_output=True, text=True, timeout=300, check=True)
    # The limit is generous for a busy machine; without an interrupt the child would run forever.
    assert run.stdout == "stopped True\n(5, 16)\n"


@posix
@pytest.mark.parametrize(
    "command",
    [
        ["fit", "x.npy", "-k", "3", "-o", "closed/m.safetensors"],
        ["fit", "x.npy", "-k", "3", "--labels", "closed/l.npy"],
        ["predict", "x.npy", "-m", "m.safetensors", "-o", "closed/l.csv"],
        ["predict", "x.npy", "-m", "m.safetensors", "--distances", "closed/d.npy"],
        ["sweep", "x.npy", "-k", "2", "3", "-o", "closed/s.csv"],
        ["sweep", "x.npy", "-k", "2", "3", "--plot", "closed/s.png"],
    ],
)
def test_a_read_only_folder_is_reported_in_one_line_before_the_work(command, tmp_path, monkeypatch, capsys):
    # matplotlib would look for its settings as the other user.
    import matplotlib.pyplot  # noqa: F401

    monkeypatch.chdir(tmp_path)
    np.save("x.npy", blobs(60, 2, 3, dtype=np.float32))
    assert main(["fit", "x.npy", "-k", "3", "-o", "m.safetensors"]) == 0
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    # Others must be able to read what is here, if this is root, who may write anywhere.
    folders = [tmp_path, *list(tmp_path.parents)[:3]]
    modes = [stat.S_IMODE(folder.stat().st_mode) for folder in folders]
    root = os.geteuid() == 0
    capsys.readouterr()
    if root:
        for folder, mode in zip(folders, modes, strict=True):
            folder.chmod(mode | 0o055)
        os.seteuid(65534)
    try:
        code = main(command)
    finally:
        if root:
            os.seteuid(0)
            for folder, mode in zip(folders, modes, strict=True):
                folder.chmod(mode)
        closed.chmod(0o755)
    assert code != 0
    said = capsys.readouterr().err
    assert (said.count("\n"), "Permission denied" in said, command[-1] in said) == (1, True, True)
    assert os.listdir(closed) == []


@pytest.mark.parametrize("cls", ALL)
def test_a_callback_may_fit_and_save_and_the_fit_around_it_is_the_same(cls, tmp_path):
    X = blobs(2500, 3, 10)
    plain = quiet_fit(cls(10, random_state=0, max_iter=5, tol=0), X)
    inner = []

    def callback(event):
        if event.iteration == 2:
            model = quiet_fit(cls(7, random_state=1, max_iter=3, tol=0), X)
            model.save(tmp_path / "inner.safetensors")
            inner.append(model)

    outer = quiet_fit(cls(10, random_state=0, max_iter=5, tol=0, callback=callback), X)
    np.testing.assert_array_equal(outer.cluster_centers_, plain.cluster_centers_)
    again = dgmm.load(tmp_path / "inner.safetensors")
    np.testing.assert_array_equal(again.cluster_centers_, inner[0].cluster_centers_)


@pytest.mark.parametrize("cls", ALL)
def test_a_callback_may_refit_the_estimator_that_called_it(cls):
    X, depth = blobs(2500, 3, 10), []

    def callback(event):
        if event.iteration == 1 and not depth:
            depth.append(1)
            quiet_fit(model, X[::2])
            assert model.labels_.shape == (1250,)

    model = cls(10, random_state=0, max_iter=4, tol=0, callback=callback)
    quiet_fit(model, X)
    plain = quiet_fit(cls(10, random_state=0, max_iter=4, tol=0), X)
    assert depth == [1]
    # The fit that ended last counts.
    np.testing.assert_array_equal(model.cluster_centers_, plain.cluster_centers_)
    np.testing.assert_array_equal(model.labels_, plain.labels_)


@pytest.mark.parametrize("cls", ALL)
def test_data_that_are_rewritten_during_a_fit_do_no_harm(cls):
    X = blobs(5000, 3, 40, dtype=np.float32)

    def callback(event):
        X[:] = np.roll(X, 1, axis=0) * 3 + 1 if event.iteration == 1 else X

    model = quiet_fit(cls(40, random_state=0, max_iter=4, tol=0, callback=callback), X)
    assert np.isfinite(model.cluster_centers_).all()
    assert 0 <= model.labels_.min() <= model.labels_.max() < 40
    assert model.predict(X).shape == (5000,)


def test_four_different_fits_in_threads_give_what_they_give_alone():
    data = [blobs(3000, dim, 12, seed=dim) for dim in (2, 3, 5, 8)]

    def fit(number):
        return quiet_fit(ALL[number](12, random_state=number, n_threads=2), data[number]).cluster_centers_

    alone = [fit(number) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            for centers, expected in zip(pool.map(fit, range(4)), alone, strict=True):
                np.testing.assert_array_equal(centers, expected)


FORKED = """
import os, sys, threading, warnings
import numpy as np, dgmm
warnings.simplefilter("ignore")
X = np.random.default_rng(0).standard_normal((60_000, 8), dtype=np.float32)
settings = dict(random_state=0, max_iter=8, tol=0, n_threads=2)
expected = dgmm.DGMM(300, **settings).fit(X).cluster_centers_
begun, codes, fits = threading.Event(), [], []
def fit():
    for _ in range(4):
        model = dgmm.DGMM(300, callback=lambda event: begun.set() or False, **settings).fit(X)
        fits.append(np.array_equal(model.cluster_centers_, expected))
worker = threading.Thread(target=fit)
worker.start()
begun.wait()
for _ in range(4):
    child = os.fork()
    if child == 0:
        same = np.array_equal(dgmm.DGMM(300, **settings).fit(X).cluster_centers_, expected)
        os._exit(0 if same else 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
worker.join()
print(codes, fits)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_while_a_fit_runs_can_fit():
    run = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=300, check=True)
    assert run.stdout == "[0, 0, 0, 0] [True, True, True, True]\n"


def test_an_exception_in_one_thread_leaves_the_fits_of_others_alone():
    X = blobs(3000, 4, 12)
    expected = quiet_fit(dgmm.DGMM(12, random_state=0, n_threads=2), X).cluster_centers_
    raised = threading.Event()

    def fails(event):
        raised.set()
        raise RuntimeError("mine")

    def other(_):
        with pytest.raises(RuntimeError, match="mine"):
            dgmm.DGMM(12, random_state=0, n_threads=2, callback=fails).fit(X)
        return quiet_fit(dgmm.DGMM(12, random_state=0, n_threads=2), X).cluster_centers_

    with ThreadPoolExecutor(4) as pool:
        for centers in pool.map(other, range(8)):
            np.testing.assert_array_equal(centers, expected)
    assert raised.is_set()
