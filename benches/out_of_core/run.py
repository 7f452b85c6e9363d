"""Fits of rows that are not in memory: bytes read, memory, seconds and error, compared with fits in memory and peers.

    python benches/out_of_core/run.py --folder SCRATCH

Makes its own data in SCRATCH (about 4 GB), runs every case in its own process, and writes
results/out_of_core.json and .md. Linux only: memory and bytes read come from /proc, and the case with little memory
needs a memory cgroup that the user may write to; if there is none, it says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "results"
CGROUPS = Path("/sys/fs/cgroup/memory")

PRELUDE = """
import json, os, sys, threading, time, warnings
import numpy as np, dgmm
warnings.simplefilter("ignore")
def status(key):
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))
def bytes_read():
    return next(int(line.split()[1]) for line in open("/proc/self/io") if line.startswith("read_bytes"))
class Watch(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True); self.peak, self.done = 0, threading.Event()
    def run(self):
        while not self.done.is_set():
            self.peak = max(self.peak, status("RssAnon")); time.sleep(0.005)
    def __enter__(self):
        self.start(); return self
    def __exit__(self, *_):
        self.done.set(); self.join()
def evict(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
def tell(**values):
    print(json.dumps(values))
"""

CASES = {
    "little memory": """
path, group = sys.argv[1], sys.argv[2]
open(os.path.join(group, "cgroup.procs"), "w").write(str(os.getpid()))
evict(path)
before = bytes_read()
model = dgmm.DGMM(1000, random_state=0, n_threads=2, max_iter=8, tol=0, memory_limit="200MB", labels=None).fit(path)
# One pass for the summary, then one for each iteration over all rows, and the last look.
passes = 1 + int((model.history_["rows"] == model.history_["rows"][-1]).sum()) + 1
tell(read=bytes_read() - before, passes=passes, size=os.path.getsize(path))
""",
    "in memory": """
X = np.load(sys.argv[1])
dgmm.DGMM(8, random_state=0).fit(X[:5000])
began = time.perf_counter()
model = dgmm.DGMM(1000, random_state=0, n_threads=2).fit(X)
seconds = time.perf_counter() - began
tell(seconds=seconds, error=dgmm.quantization_error(X, model.cluster_centers_))
""",
    "from the page cache": """
np.load(sys.argv[1]).sum()
dgmm.DGMM(8, random_state=0).fit(np.zeros((100, 2), "float32") + np.arange(100, dtype="float32")[:, None])
began = time.perf_counter()
model = dgmm.DGMM(1000, random_state=0, n_threads=2).fit(sys.argv[1])
seconds = time.perf_counter() - began
tell(seconds=seconds, error=dgmm.quantization_error(sys.argv[1], model.cluster_centers_))
""",
    "limit": """
path = sys.argv[1]
with Watch() as watch:
    began = time.perf_counter()
    model = dgmm.DGMM(1000, random_state=0, n_threads=2, memory_limit="600MB").fit(path)
    seconds = time.perf_counter() - began
same = None
if sys.argv[2] == "compare":
    whole = dgmm.DGMM(1000, random_state=0, n_threads=2, memory_limit="600MB").fit(np.load(path))
    same = bool((whole.cluster_centers_ == model.cluster_centers_).all() and (whole.labels_ == model.labels_).all())
tell(seconds=seconds, peak=watch.peak, size=os.path.getsize(path), same=same)
""",
    "one epoch of MiniBatchKMeans": """
from sklearn.cluster import MiniBatchKMeans
X = np.load(sys.argv[1], mmap_mode="r")
began = time.perf_counter()
peer = MiniBatchKMeans(1000, random_state=0, n_init=1)
for start in range(0, len(X), 50_000):
    peer.partial_fit(X[start : start + 50_000])
seconds = time.perf_counter() - began
tell(seconds=seconds, error=dgmm.quantization_error(sys.argv[1], peer.cluster_centers_.astype("float32")))
""",
    "one epoch of partial_fit": """
X = np.load(sys.argv[1], mmap_mode="r")
began = time.perf_counter()
model = dgmm.DGMM(1000, random_state=0, n_threads=2)
for start in range(0, len(X), 50_000):
    model.partial_fit(np.ascontiguousarray(X[start : start + 50_000]))
seconds = time.perf_counter() - began
tell(seconds=seconds, error=dgmm.quantization_error(sys.argv[1], model.cluster_centers_))
""",
}


def made(path: Path, rows: int, columns: int) -> Path:
    """Rows of 3,000 clusters of different widths around 200 places, in float32."""
    if path.exists():
        return path
    rng = np.random.default_rng(1)
    top = rng.normal(scale=2, size=(200, columns))
    centers = (top[rng.integers(200, size=3000)] + rng.normal(scale=0.8, size=(3000, columns))).astype(np.float32)
    part = path.with_suffix(".part")
    out = np.lib.format.open_memmap(part, "w+", np.float32, (rows, columns))
    for start in range(0, rows, 250_000):
        count = min(250_000, rows - start)
        widths = rng.uniform(0.3, 0.9, size=(count, 1)).astype(np.float32)
        noise = rng.standard_normal((count, columns), dtype=np.float32)
        out[start : start + count] = centers[rng.integers(3000, size=count)] + widths * noise
    out.flush()
    part.rename(path)
    return path


def parquet_files(path: Path, folder: Path) -> list[Path]:
    """Write the same rows as ten Parquet files."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    folder.mkdir(exist_ok=True)
    rows = np.load(path, mmap_mode="r")
    for i, part in enumerate(np.array_split(rows, 10)):
        if not (file := folder / f"{i}.parquet").exists():
            columns = {f"c{j}": np.ascontiguousarray(part[:, j]) for j in range(part.shape[1])}
            parquet.write_table(arrow.table(columns), file, row_group_size=100_000)
    return sorted(folder.iterdir())


def run(case: str, *arguments: str) -> dict[str, float]:
    """Run a case in its own process."""
    command = [sys.executable, "-c", PRELUDE + CASES[case], *arguments]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(case, said.strip(), flush=True)
    result: dict[str, float] = json.loads(said)
    return result


def little_memory(path: Path) -> dict[str, float | str]:
    """One pass over a memory map of which only a quarter fits in memory, limited by a cgroup."""
    group = CGROUPS / "dgmm-bench"
    try:
        group.mkdir(exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(str(path.stat().st_size // 4 + (200 << 20)))
    except OSError as error:
        return {"skipped": f"no memory cgroup can be made: {error.strerror}"}
    try:
        found = run("little memory", str(path), str(group))
    finally:
        group.rmdir()
    return {**found, "ratio": found["read"] / found["passes"] / found["size"]}


def command_line(path: Path, folder: Path) -> dict[str, float]:
    """The peak memory of the command line with ten Parquet files."""
    files = parquet_files(path, folder / "parquet")
    command = [sys.executable, "-m", "dgmm", "fit", *map(str, files), "-k", "1000", "-o", str(folder / "m.safetensors")]
    command += ["--threads", "2", "--memory-limit", "150MB", "--json"]
    process, peak = subprocess.Popen(command, stdout=subprocess.DEVNULL), 0
    while process.poll() is None:
        # The resource usage of a child would include the memory of its parent before it started.
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            peak = max(peak, next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")))
        time.sleep(0.01)
    if process.returncode:
        raise RuntimeError("the command failed")
    found = {"peak": peak, "size": path.stat().st_size}
    print("command line", found, flush=True)
    return {**found, "ratio": found["peak"] / found["size"]}


def medians(turns: int, path: Path, *cases: str) -> dict[str, dict[str, float]]:
    """Run cases in turns: median seconds, and the error, which is the same in all turns."""
    runs = [{case: run(case, str(path)) for case in cases} for _ in range(turns)]
    seconds = {case: statistics.median(turn[case]["seconds"] for turn in runs) for case in cases}
    return {case: {"seconds": seconds[case], "error": runs[0][case]["error"]} for case in cases}


def main() -> None:
    """Run all cases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where to make the data")
    parser.add_argument("--turns", type=int, default=3, help="of cases that are compared (default: %(default)s)")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    path, large = made(options.folder / "x.npy", 5_000_000, 32), made(options.folder / "large.npy", 4_700_000, 128)
    results: dict[str, object] = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "dgmm": _version()},
        "little_memory": little_memory(path),
        "command_line": command_line(path, options.folder),
        "limit": run("limit", str(large), "compare"),
        "seconds": medians(options.turns, path, *list(CASES)[1:3], *list(CASES)[4:]),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "out_of_core.json").write_text(json.dumps(results, indent=1) + "\n")
    report()


def _version() -> str:
    from dgmm import __version__

    return __version__


def report() -> None:
    """Write the table from the results."""
    r = json.loads((RESULTS / "out_of_core.json").read_text())
    seconds, limit, little, cli = r["seconds"], r["limit"], r["little_memory"], r["command_line"]
    memory, cache = seconds["in memory"], seconds["from the page cache"]
    batch, stream = seconds["one epoch of MiniBatchKMeans"], seconds["one epoch of partial_fit"]
    read = little.get("skipped") or f"{little['ratio']:.2f} x the file"
    mb = 1e6
    rows = [
        ("bytes read per pass, a quarter of the file fits in memory", "at most 1.2 x the file", read),
        (
            "seconds from the page cache, beside those of the fit in memory",
            "at most 1.3 x",
            f"{cache['seconds'] / memory['seconds']:.2f} x ({cache['seconds']:.2f} s and {memory['seconds']:.2f} s; "
            f"errors {cache['error']:.5g} and {memory['error']:.5g})",
        ),
        (
            f"anonymous memory of a fit of {limit['size'] / 1e9:.1f} GB with a limit of 600 MB",
            "below 600 MB, the bits of the fit in memory with the same shards",
            f"{limit['peak'] / mb:.0f} MB, {'the same' if limit['same'] else 'OTHER'} bits, {limit['seconds']:.1f} s",
        ),
        (
            f"all memory of the command line on ten Parquet files, {cli['size'] / mb:.0f} MB as float32",
            "at most 0.5 x the input",
            f"{cli['ratio']:.2f} x ({cli['peak'] / mb:.0f} MB)",
        ),
        (
            "5,000,000 x 32, 1,000 clusters: the default fit beside one epoch of MiniBatchKMeans",
            "no higher error in at most half its time",
            f"error {memory['error'] / batch['error']:.4f} x in {memory['seconds'] / batch['seconds']:.2f} x the time",
        ),
        (
            "the same rows by `partial_fit`, 50,000 at a time, both",
            "lower error",
            f"error {stream['error'] / batch['error']:.4f} x in {stream['seconds'] / batch['seconds']:.2f} x the time",
        ),
    ]
    machine = r["machine"]
    lines = [
        "# Fits out of core",
        "",
        f"Made by `python benches/out_of_core/run.py`: dgmm {machine['dgmm']}, {machine['cores']} cores, 2 threads.",
        "",
        "| what | goal | measured |",
        "|---|---|---|",
        *(f"| {what} | {goal} | {found} |" for what, goal, found in rows),
        "",
    ]
    (RESULTS / "out_of_core.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
