"""One measurement in its own process.

The request is one JSON object on standard input. The data is loaded and the library is warmed up on a small problem
(imports, thread pools); then the line READY is printed, and only then the clock starts. The answer is a JSON file.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

READY = "READY"
PACKAGES = {
    "dgmm": "dgmm",
    "faiss": "faiss-cpu",
    "superkmeans": "superkmeans",
    "sklearn.cluster": "scikit-learn",
    "sklearnex.cluster": "scikit-learn-intelex",
    "lance.util": "pylance",
    "clostera": "clostera",
    "rust_peers": "fastkmeans-rs and linfa",
}


def status_bytes(field: str) -> int | None:
    """A field of this process's status table, if the system has one."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":")), None)


def highest_bytes() -> int:
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def start_of_peak() -> int:
    """Forget the peak so far, and return the memory held now.

    `ru_maxrss` alone would also count what this process, or the one that started it, held before the fit.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return highest_bytes()
    return status_bytes("VmRSS") or highest_bytes()


def peak() -> int:
    return status_bytes("VmHWM") or highest_bytes()


def busy_seconds() -> float:
    """The CPU seconds of all processes of this machine so far, if the system counts them."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return 0.0
    user, nice, system, _idle, _wait, irq, soft = map(int, fields[:7])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def announce() -> None:
    print(READY, flush=True)


def probe(request: dict[str, Any]) -> dict[str, Any]:
    """Which libraries can be imported, and their versions, or why not."""
    try:
        module = importlib.import_module(request["module"])
    except Exception as error:  # noqa: BLE001  a broken library of any kind is only reported
        return {"version": None, "reason": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {"version": getattr(module, "VERSION", None) or metadata.version(PACKAGES[request["module"]])}


def fit(request: dict[str, Any]) -> dict[str, Any]:
    import numpy as np
    from contenders import CONTENDERS

    x = np.load(request["data"])
    run = CONTENDERS[request["contender"]].run
    clusters, threads, seed = request["clusters"], request["threads"], request["seed"]
    run(np.ascontiguousarray(x[:4_000]), min(clusters, 40, len(x)), threads, seed)
    announce()
    load, before, busy = os.getloadavg()[0], start_of_peak(), busy_seconds()
    begin, begin_cpu = time.perf_counter(), time.process_time()
    centers, facts = run(x, clusters, threads, seed)
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - begin_cpu
    above, others = max(0, peak() - before), max(0.0, busy_seconds() - busy - cpu_seconds)
    np.save(request["centers"], np.asarray(centers, dtype=np.float32))
    quiet = {"load": round(load, 2), "cpu_seconds_of_others": round(others, 2)}
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_bytes": above, **quiet, **facts}


def small(request: dict[str, Any]) -> dict[str, Any]:
    """The median time of many fits from given starting centers: problems too small for one clock reading."""
    import warnings

    import numpy as np
    import threadpoolctl

    x, start, threads = np.load(request["data"]), np.load(request["start"]), request["threads"]
    module, name = request["estimator"].rsplit(".", 1)
    cls = getattr(importlib.import_module(module), name)
    extra = {"n_threads": threads} if module == "dgmm" else {}
    settings = {"init": start, "n_init": 1, "random_state": request["seed"], **request["settings"], **extra}
    seconds = []
    announce()
    with threadpoolctl.threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(request["inner"] + 2):
            estimator = cls(len(start), **settings)
            begin = time.perf_counter()
            estimator.fit(x)
            seconds.append(time.perf_counter() - begin)
    np.save(request["centers"], np.asarray(estimator.cluster_centers_, dtype=np.float32))
    return {"seconds": statistics.median(seconds[2:]), "iterations": int(estimator.n_iter_)}


def predict(request: dict[str, Any]) -> dict[str, Any]:
    """Approximate and exact search of the fitted rows with an existing index: seconds and recall."""
    import dgmm
    import numpy as np

    x = np.load(request["data"])
    announce()
    model = dgmm.DGMM(request["clusters"], random_state=request["seed"], n_threads=request["threads"]).fit(x)
    seconds, labels = {}, {}
    for method in ("approximate", "exact"):
        model.predict(x[:1_000], method=method)
        times = []
        for _ in range(request["inner"]):
            begin = time.perf_counter()
            labels[method] = np.asarray(model.predict(x, method=method))
            times.append(time.perf_counter() - begin)
        seconds[method] = statistics.median(times)
    centers = np.asarray(model.cluster_centers_, dtype=np.float64)
    distance = {method: np.sqrt(((x - centers[found]) ** 2).sum(axis=1)) for method, found in labels.items()}
    return {
        "approximate_seconds": seconds["approximate"],
        "exact_seconds": seconds["exact"],
        "same_label": float((labels["approximate"] == labels["exact"]).mean()),
        "within_1_percent": float((distance["approximate"] <= 1.01 * distance["exact"]).mean()),
    }


OPERATIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "probe": probe,
    "fit": fit,
    "small": small,
    "predict": predict,
}


def keep_to_cpus(threads: int) -> None:
    """Pin the process to as many CPUs as it may have threads, before any library counts them."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def main() -> None:
    request = json.loads(sys.stdin.read())
    keep_to_cpus(request["threads"])
    try:
        answer = {"status": "ok", **OPERATIONS[request["operation"]](request)}
    except Exception as error:  # noqa: BLE001  whatever a library raises belongs in the table
        first = (str(error).splitlines() or [""])[0]
        answer = {"status": "failed", "reason": f"{type(error).__name__}: {first}"[:200]}
    Path(request["answer"]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
