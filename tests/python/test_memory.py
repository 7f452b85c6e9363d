"""Running out of memory is a MemoryError, after which the interpreter goes on."""

import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")

LIMITED = """
import resource, sys, warnings
import numpy as np, dgmm
warnings.simplefilter("ignore")
work, room = sys.argv[1], int(sys.argv[2]) << 20
rng = np.random.default_rng(0)
X = rng.standard_normal((4_000_000, 2), dtype=np.float32)
model = dgmm.KMeans(2000, init=X[:2000], max_iter=1, n_threads=2).fit(X[:4000])
tasks = {
    "transform": lambda: model.transform(X),
    "top_k": lambda: model.top_k(X, 100),
    "predict_proba": lambda: dgmm.ExactGMM.predict_proba(model, X[:60_000]),
}
def fit(name, **settings):
    return lambda: getattr(dgmm, name)(1000, random_state=0, n_threads=2, max_iter=2, **settings).fit(X)
tasks |= {name: fit(name) for name in ("DGMM", "VCGMM", "ExactGMM", "KMeans")}
tasks |= {"pointwise": fit("DGMM", engine="pointwise"), "coreset": fit("DGMM", coreset_size=3_000_000)}
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
try:
    tasks[work]()
except MemoryError as error:
    print("MemoryError", bool(str(error)))
print(dgmm.KMeans(5, n_threads=2, random_state=0).fit(X[:1000]).cluster_centers_.shape)
"""


@pytest.mark.parametrize(
    ("work", "megabytes"),
    [
        ("transform", 32),
        ("top_k", 32),
        ("predict_proba", 32),
        ("DGMM", 32),
        ("pointwise", 32),
        ("VCGMM", 32),
        ("ExactGMM", 16),
        ("KMeans", 16),
        ("coreset", 32),
    ],
)
def test_too_little_memory_is_a_memory_error(work, megabytes):
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, work, str(megabytes)], capture_output=True, text=True, timeout=300, check=False
    )
    assert (run.returncode, run.stdout) == (0, "MemoryError True\n(5, 2)\n"), run.stderr


FROM_FILE = """
import resource, sys, warnings
import numpy as np, dgmm
warnings.simplefilter("ignore")
work, path, room = sys.argv[1], sys.argv[2], int(sys.argv[3]) << 20
shared = dict(memory_limit="3GB", max_iter=2, random_state=0, n_threads=2)
small = dgmm.DGMM(20, random_state=0, n_threads=2, max_iter=2).fit(np.load(path, mmap_mode="r")[:2000])
some = np.ascontiguousarray(np.load(path, mmap_mode="r")[:20_000])
tasks = {
    "DGMM": lambda: dgmm.DGMM(2000, **shared).fit(path),
    "VCGMM": lambda: dgmm.VCGMM(500, **shared).fit(path),
    "KMeans": lambda: dgmm.KMeans(200, **shared).fit(path),
    "GaussianMixture": lambda: dgmm.GaussianMixture(500, **shared).fit(path),
    "mixture in memory": lambda: dgmm.GaussianMixture(500, max_iter=2, random_state=0, n_threads=2).fit(some),
    "predict": lambda: small.predict(path),
    "approximate": lambda: many.predict(some, method="approximate"),
}
if work == "approximate":
    rows = np.repeat(some[:600], 2, axis=0)
    many = dgmm.KMeans(600, init=some[:600], max_iter=1, n_threads=2).fit(rows)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
try:
    tasks[work]()
except MemoryError as error:
    print("MemoryError", bool(str(error)))
else:
    print("done")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(dgmm.KMeans(5, n_threads=2, random_state=0).fit(some[:1000]).cluster_centers_.shape)
"""


@pytest.fixture(scope="module")
def rows_in_a_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("memory") / "rows.npy"
    np.save(path, np.random.default_rng(0).standard_normal((200_000, 16), dtype=np.float32))
    return path


# From limits at which no thread can start to limits at which the fit fails at one of its arrays.
@pytest.mark.parametrize("megabytes", [1, 12, 28, 44, 60])
@pytest.mark.parametrize("work", ["DGMM", "VCGMM", "KMeans", "GaussianMixture"])
def test_a_fit_from_a_file_with_too_little_memory_is_done_or_a_memory_error(work, megabytes, rows_in_a_file):
    _done_or_memory_error(work, megabytes, rows_in_a_file)


@pytest.mark.parametrize("megabytes", [0, 1, 8, 24])
@pytest.mark.parametrize("work", ["mixture in memory", "predict", "approximate"])
def test_answers_with_too_little_memory_are_given_or_a_memory_error(work, megabytes, rows_in_a_file):
    _done_or_memory_error(work, megabytes, rows_in_a_file)


def _done_or_memory_error(work, megabytes, path):
    run = subprocess.run(
        [sys.executable, "-c", FROM_FILE, work, str(path), str(megabytes)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout in ("MemoryError True\n(5, 16)\n", "done\n(5, 16)\n"), run.stderr


THREADS = """
import os, resource, sys, warnings
import numpy as np, dgmm
warnings.simplefilter("ignore")
X = np.random.default_rng(0).standard_normal((2000, 4), dtype=np.float32)
dgmm.KMeans(5, n_threads=2, random_state=0, max_iter=2).fit(X)
def fit(threads, room):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
    try:
        dgmm.KMeans(5, n_threads=threads, random_state=0, max_iter=2).fit(X)
    except MemoryError:
        return 1
    return 0
codes = set()
for threads, step in (3, 40 << 10), (16, 200 << 10), (64, 1000 << 10):
    for room in range(0, (3 * threads + 5) << 20, step):
        child = os.fork()
        if child == 0:
            code = 2
            try:
                code = fit(threads, room)
            finally:
                os._exit(code)
        codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(sorted(codes))
"""


def test_threads_without_room_are_a_memory_error():
    # From limits at which no thread can start, through some threads, to enough memory for all.
    run = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=300, check=False)
    assert (run.returncode, run.stdout) == (0, "[0, 1]\n"), run.stderr


CHANGED = """
import sys
import numpy as np, dgmm
X = np.random.default_rng(0).standard_normal((20_000, 4), dtype=np.float32)
def spoil(event):
    if event.iteration == 1:
        X[::2] = np.nan
model = getattr(dgmm, sys.argv[1])(20, random_state=0, tol=0, max_iter=4, callback=spoil)
try:
    print("finite" if np.isfinite(model.fit(X).cluster_centers_).all() else "not finite")
except ValueError as error:
    print(error, hasattr(model, "cluster_centers_"))
"""


@pytest.mark.parametrize("name", ["DGMM", "VCGMM", "ExactGMM", "KMeans"])
def test_data_that_turn_to_nan_during_a_fit_are_an_error_or_leave_the_model_of_before(name):
    run = subprocess.run(
        [sys.executable, "-c", CHANGED, name], capture_output=True, text=True, timeout=300, check=False
    )
    error = "the fit produced values that are not finite: X was changed while it ran False\n"
    assert run.returncode == 0, run.stderr
    assert run.stdout in (error, "finite\n")
