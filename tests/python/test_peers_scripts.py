"""The peer benchmarks run, and say in one line what is wrong with their arguments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PEERS = Path(__file__).parents[2] / "benches" / "peers"
pytest.importorskip("matplotlib", reason="the pictures need the extra `bench`")
pytest.importorskip("threadpoolctl", reason="the peers need the extra `bench`")


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PEERS / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def check_results(folder: Path, name: str) -> dict[str, object]:
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "Goals" in (folder / f"{name}.md").read_text()
    text = (folder / f"{name}.json").read_text()
    assert str(folder) not in text
    return json.loads(text)


def test_pareto_quick_measures_and_judges(tmp_path: Path) -> None:
    done = run(
        "pareto.py", "--quick", "--threads", 1, "--libraries", "dgmm-i1", "dgmm-i3", "sklearn-10", "--output", tmp_path
    )
    assert done.returncode == 0, done.stderr
    results = check_results(tmp_path, "pareto")
    assert {m["contender"]: m["status"] for m in results["measurements"]} == {
        "dgmm-i1": "ok",
        "dgmm-i3": "ok",
        "sklearn-10": "ok",
    }
    assert all(m["seconds"] > 0 and m["error"] > 0 and m["peak_bytes"] >= 0 for m in results["measurements"])


def test_pareto_reads_data_and_reports_what_does_not_run(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(500, 3)).astype(np.float32)
    np.savez(tmp_path / "mine.npz", X=x)
    arguments = ("--data-dir", tmp_path, "--datasets", "mine", "--clusters", 5, 501, "--repeats", 1, "--threads", 1)
    done = run("pareto.py", *arguments, "--libraries", "faiss-10", "sklearn-10", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "M = 501 is left out" in done.stderr
    results = check_results(tmp_path / "out", "pareto")
    assert results["data"]["mine"] == {"name": "mine", "rows": 500, "columns": 3, "scaling": "raw", "bytes": 6000}
    status = {m["contender"]: m["status"] for m in results["measurements"]}
    assert status["sklearn-10"] == "ok"
    assert status["faiss-10"] in ("ok", "not installed")


def test_scaling_quick_fits_exponents_and_judges(tmp_path: Path) -> None:
    done = run("scaling.py", "--quick", "--threads", 1, "--parts", "clusters", "rows", "small", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    results = check_results(tmp_path, "scaling")
    assert [sweep["part"] for sweep in results["sweeps"]] == ["clusters", "rows"]
    assert all(sweep["exponent"] is not None for sweep in results["sweeps"])
    assert any(line.startswith("Goal 4") for line in results["goals"])


@pytest.mark.parametrize(
    ("script", "arguments", "words"),
    [
        ("pareto.py", (), "--datasets and --clusters are needed"),
        ("pareto.py", ("--datasets", "made", "--clusters", "0"), "not a positive number"),
        ("pareto.py", ("--datasets", "made", "--clusters", "many"), "invalid whole number value"),
        ("pareto.py", ("--quick", "--libraries", "nobody"), "unknown library nobody"),
        ("pareto.py", ("--datasets", "glove50", "--clusters", "5"), "--data-dir is needed"),
        ("pareto.py", ("--data-dir", ".", "--datasets", "absent", "--clusters", "5"), "no absent.npy"),
        ("pareto.py", ("--quick", "--time-limit", "0"), "--time-limit"),
        ("scaling.py", ("--quick", "--threads", "100000"), "more than the"),
        ("scaling.py", ("--parts", "everything"), "invalid choice"),
    ],
)
def test_malformed_arguments_give_one_clear_line(
    tmp_path: Path, script: str, arguments: tuple[str, ...], words: str
) -> None:
    done = run(script, "--threads", 1, *arguments, "--output", tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert words in done.stderr
