"""Files that the command ``dgmm`` writes, and damaged ones that it reads."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import dgmm
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dgmm.cli import main
from support import blobs, damaged

X = blobs(400, 3, 6, dtype=np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)


LABELS = {
    "l.npy": np.load,
    "l.csv": dgmm.io.read_vector,
    "l.TXT": np.loadtxt,
    "l.parquet": dgmm.io.read_vector,
}


@pytest.mark.parametrize("name", LABELS)
def test_the_ending_says_how_labels_and_distances_are_written(name, capsys):
    assert main(["fit", "x.npy", "-k", "6", "-o", "m.safetensors", "--labels", name]) == 0
    model = dgmm.load("m.safetensors")
    np.testing.assert_array_equal(LABELS[name](name), model.predict(X))
    assert main(["predict", "x.npy", "-m", "m.safetensors", "-o", f"2{name}", "--distances", f"3{name}"]) == 0
    nearest = model.top_k(X, 1)
    np.testing.assert_array_equal(LABELS[name](f"2{name}"), nearest.indices[:, 0])
    np.testing.assert_array_equal(np.float32(LABELS[name](f"3{name}")), nearest.distances[:, 0])


def test_labels_as_text_are_one_per_line_and_as_table_have_a_name():
    for name in ("l.txt", "l.csv", "l.parquet"):
        assert main(["fit", "x.npy", "-k", "2", "--labels", name]) == 0
    lines = Path("l.txt").read_text().splitlines()
    assert len(lines) == 400
    assert set(lines) == {"0", "1"}
    assert Path("l.csv").read_text().splitlines() == ["label", *lines]
    assert pq.read_table("l.parquet").to_pydict() == {"label": list(map(int, lines))}
    assert pq.read_table("l.parquet").schema.field("label").type == "int32"


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of file sizes")
@pytest.mark.parametrize(
    "command",
    [
        *(["fit", "x.npy", "-k", "6", "--labels", f"old{ending}"] for ending in (".npy", ".csv", ".txt", ".parquet")),
        ["predict", "x.npy", "-m", "m.safetensors", "-o", "old.npy"],
        ["predict", "x.npy", "-m", "m.safetensors", "--distances", "old.npy"],
        ["sweep", "x.npy", "-k", "2", "3", "4", "5", "6", "-o", "old.csv"],
        ["sweep", "x.npy", "-k", "2", "3", "--plot", "old.png"],
        ["sweep", "x.npy", "-k", "2", "3", "--plot", "old.pdf"],
        ["demo", "--rows", "300", "--clusters", "3", "--no-compare", "--output", "old.png"],
    ],
)
def test_a_full_disk_is_reported_in_one_line_and_the_old_file_is_kept(command, capsys):
    import resource
    import signal

    assert main(["fit", "x.npy", "-k", "6", "-o", "m.safetensors"]) == 0
    old = Path(next(word for word in command if word.startswith("old")))
    old.write_bytes(b"old")
    before = sorted(os.listdir())
    capsys.readouterr()
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
    try:
        assert main(command) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert capsys.readouterr().err == f"dgmm {command[0]}: {old}: File too large\n"
    assert old.read_bytes() == b"old"
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet", "fvecs", "bvecs"])
def test_every_command_reports_a_damaged_file_in_one_line(kind, capsys):
    assert main(["fit", "x.npy", "-k", "2", "-o", "m.safetensors"]) == 0
    path, rows = Path(f"d.{kind}"), X[:20]
    if kind == "npz":
        np.savez_compressed(path, X=rows)
    elif kind == "csv":
        np.savetxt(path, rows, delimiter=",", fmt="%.3f")
    elif kind == "parquet":
        pq.write_table(pa.table({"vector": rows.tolist()}), path)
    elif kind != "npy":
        item = "<f4" if kind == "fvecs" else "u1"
        path.write_bytes(b"".join(struct.pack("<i", 3) + row.astype(item).tobytes() for row in abs(rows)))
    else:
        np.save(path, rows)
    refused = 0
    for i, content in enumerate(damaged(path.read_bytes(), 60, seed=1)):
        path.write_bytes(content)
        commands = [
            ["estimate", str(path), "-k", "2"],
            ["fit", str(path), "-k", "2", "--labels", "l.npy"],
            ["predict", str(path), "-m", "m.safetensors", "-o", "l.npy"],
            ["sweep", str(path), "-k", "2"],
            ["fit", "x.npy", "-k", "2", "--weights", str(path), "--labels", "l.npy"],
        ]
        capsys.readouterr()
        code, said = main(commands[i % 5]), capsys.readouterr()
        assert code in (0, 1)
        if code == 1:
            refused += 1
            errors = [line for line in said.err.splitlines() if "warning" not in line]
            assert len(errors) == 1
            assert errors[0].startswith(f"dgmm {commands[i % 5][0]}: ")
    assert refused > 10


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_standard_output_is_reported_in_one_line():
    command = f"{sys.executable} -m dgmm estimate --rows 100 --columns 3 -k 2 > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr == "dgmm estimate: No space left on device\n"
    assert done.returncode == 1
