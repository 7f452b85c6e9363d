"""The peer benchmarks run, and report invalid arguments in one line."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

PEERS = Path(__file__).parents[2] / "benches" / "peers"
pytest.importorskip("matplotlib", reason="the pictures need the extra `bench`")
pytest.importorskip("threadpoolctl", reason="the peers need the extra `bench`")


NAMES = ("contenders", "data", "features", "goals", "headline", "many_clusters", "plan")


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    """The scripts as modules, which are removed afterwards because other tests have modules of the same names."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(PEERS))
    yield {name: importlib.import_module(name) for name in NAMES}
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if str(PEERS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


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


def test_a_stopped_race_resumes_and_measures_nothing_twice(tmp_path: Path) -> None:
    arguments = ("--quick", "--threads", 1, "--output", tmp_path, "--libraries")
    assert run("pareto.py", *arguments, "dgmm-i1").returncode == 0
    path = tmp_path / "pareto.json"
    first = json.loads(path.read_text())["measurements"]
    done = run("pareto.py", *arguments, "dgmm-i1", "dgmm-i3", "--resume")
    assert done.returncode == 0, done.stderr
    after = json.loads(path.read_text())["measurements"]
    assert after[: len(first)] == first
    assert [m["contender"] for m in after] == ["dgmm-i1", "dgmm-i3"]
    assert all(m["load"] >= 0 and m["cpu_seconds_of_others"] >= 0 for m in after)


def test_results_of_another_machine_are_not_continued(tmp_path: Path) -> None:
    arguments = ("--quick", "--threads", 1, "--output", tmp_path, "--libraries", "dgmm-i1")
    assert run("pareto.py", *arguments).returncode == 0
    path = tmp_path / "pareto.json"
    results = json.loads(path.read_text())
    results["machine"]["cpu"] = "another"
    path.write_text(json.dumps(results))
    done = run("pareto.py", *arguments, "--resume")
    assert done.returncode == 2
    assert "another machine" in done.stderr
    assert json.loads(path.read_text()) == results


def measured(name: str, seconds: float, error: float, clusters: int = 1_000) -> dict[str, Any]:
    facts = {"dataset": "made", "clusters": clusters, "contender": name, "status": "ok"}
    return facts | {"seconds": seconds, "error": error, "peak_bytes": 10}


def made_results(*measurements: dict[str, Any]) -> dict[str, Any]:
    facts = {"name": "made", "rows": 50_000, "columns": 4, "scaling": "raw", "bytes": 100}
    return {"data": {"made": facts}, "measurements": list(measurements)}


def verdict(modules: dict[str, ModuleType], goal: str, *measurements: dict[str, Any]) -> bool | None:
    found = [v.met for v in modules["goals"].verdicts(made_results(*measurements)) if v.goal == goal]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("goal", "ours", "peer", "met"),
    [
        ("quick", ("dgmm-quick", 0.7, 9.0), ("superkmeans", 1.0, 10.0), True),
        ("quick", ("dgmm-quick", 0.71, 9.0), ("superkmeans", 1.0, 10.0), False),
        ("quick", ("dgmm-quick", 0.1, 10.0), ("superkmeans", 1.0, 10.0), False),
        ("quick, reach", ("dgmm-i1", 0.4, 10.0), ("superkmeans", 1.0, 10.0), True),
        ("quick, reach", ("dgmm-i1", 0.4, 10.1), ("superkmeans", 1.0, 10.0), False),
        ("default", ("dgmm", 1.0, 10.0), ("faiss-10", 15.0, 10.0), True),
        ("default", ("dgmm", 1.1, 10.0), ("faiss-10", 15.0, 10.0), False),
        ("default", ("dgmm", 1.0, 10.1), ("faiss-10", 15.0, 10.0), False),
        ("converged", ("dgmm-1e-5", 1.0, 10.0), ("dgmm-before-1e-5", 5.0, 10.0), True),
        ("converged", ("dgmm-1e-5", 1.1, 10.0), ("dgmm-before-1e-5", 5.0, 10.0), False),
        ("refined", ("dgmm-1e-5-refine", 1.0, 10.0), ("faiss-100", 20.0, 10.0), True),
        ("refined", ("dgmm-1e-5-refine", 1.0, 10.1), ("faiss-100", 20.0, 10.0), False),
        ("threads", ("dgmm", 1.0, 10.0), ("dgmm-1-thread", 1.8, 10.0), True),
        ("threads", ("dgmm", 1.0, 10.0), ("dgmm-1-thread", 1.7, 10.0), False),
    ],
)
def test_goals_are_judged_by_time_and_error(
    modules: dict[str, ModuleType],
    goal: str,
    ours: tuple[str, float, float],
    peer: tuple[str, float, float],
    met: bool,
) -> None:
    assert verdict(modules, goal, measured(*ours), measured(*peer)) is met


def test_growth_with_the_number_of_clusters_is_judged(modules: dict[str, ModuleType]) -> None:
    assert verdict(modules, "growth", measured("dgmm", 1, 9), measured("dgmm", 1.9, 5, 16_000)) is True
    assert verdict(modules, "growth", measured("dgmm", 1, 9), measured("dgmm", 2.0, 5, 16_000)) is False


def test_the_headline_names_every_peer_that_is_ahead(modules: dict[str, ModuleType]) -> None:
    results = made_results(
        measured("dgmm-quick", 1.0, 12.0),
        measured("dgmm", 2.0, 10.0),
        measured("superkmeans", 3.0, 11.0),
        measured("faiss-10", 1.5, 10.5),
        measured("faiss-100", 90.0, 9.0),
    )
    (panel,) = modules["goals"].panels(results)
    cells = {peer.name: modules["headline"].reach_cell(panel, peer) for peer in panel.peers()}
    assert cells["superkmeans"] == "2.00 of 3.00 s: 1.5 x"
    assert cells["faiss-10"] == "**2.00 of 1.50 s: 0.75 x**"
    assert cells["faiss-100"] == "**not reached**: +11.1 % after 2.00 s"
    ahead = "\n".join(modules["headline"].ahead_lines([panel]))
    assert "faiss-10 " in ahead
    assert "faiss-100 " in ahead
    assert "superkmeans" not in ahead


def test_the_readme_shows_the_committed_results(modules: dict[str, ModuleType]) -> None:
    folder = PEERS / "results"
    section = modules["headline"].section(
        *(json.loads((folder / f"{n}.json").read_text()) for n in ("pareto", "scaling"))
    )
    assert section in (PEERS.parents[1] / "README.md").read_text()


def test_the_race_has_known_contenders_and_described_data(modules: dict[str, ModuleType]) -> None:
    described = (PEERS / "README.md").read_text()
    race = modules["plan"].RACE
    assert len({(case.dataset, case.clusters) for case in race}) == len(race)
    for case in race:
        assert case.repeats.keys() <= modules["contenders"].CONTENDERS.keys()
        assert f"`{case.dataset}`" in described
        assert case.dataset in modules["headline"].TITLES
    assert set(modules["plan"].HEADLINE) <= {(case.dataset, case.clusters) for case in race}


def test_the_exact_error_is_the_exact_error(modules: dict[str, ModuleType]) -> None:
    rng = np.random.default_rng(0)
    x, centers = rng.normal(size=(3_000, 7)).astype(np.float32), rng.normal(size=(40, 7)).astype(np.float32)
    squares = ((x[:, None].astype(np.float64) - centers) ** 2).sum(axis=2)
    assert modules["data"].exact_error(x, centers) == pytest.approx(squares.min(axis=1).sum(), rel=1e-12)


def test_descriptors_of_pictures_tell_orientations_apart(modules: dict[str, ModuleType]) -> None:
    waves = 40 * np.sin(np.arange(64, dtype=np.float32))
    upright, lying = np.tile(waves, (64, 1)), np.tile(waves[:, None], (1, 64))
    found = [modules["features"].dense_sift(picture) for picture in (upright, lying)]
    for rows in found:
        assert rows.shape == (17 * 17, 128)
        assert np.array_equal(rows, np.floor(rows))
        assert rows.max() <= 255
    turns = [rows.reshape(-1, 16, 8).sum(axis=(0, 1)) for rows in found]
    assert turns[0][[0, 4]].sum() > 0.95 * turns[0].sum()
    assert turns[1][[2, 6]].sum() > 0.95 * turns[1].sum()
    assert len(modules["features"].dense_sift(np.zeros((64, 64), dtype=np.float32))) == 0


def test_cepstra_leave_silence_out_and_have_slopes(modules: dict[str, ModuleType]) -> None:
    tone = (8_000 * np.sin(np.arange(4_000) * 0.7)).astype(np.int16)
    rows = modules["features"].mfcc(tone, 8_000)
    assert rows.shape == ((3_999 - 200) // 40 + 1, 39)
    assert np.abs(rows[10:-10, 13:]).max() < 0.05 * np.abs(rows[:, :13]).max()
    assert len(modules["features"].mfcc(np.zeros(4_000, dtype=np.int16), 8_000)) == 0
    assert modules["features"].mfcc(tone[:100], 8_000).shape == (0, 39)


def test_scaling_quick_fits_exponents_and_judges(tmp_path: Path) -> None:
    done = run("scaling.py", "--quick", "--threads", 1, "--parts", "clusters", "rows", "small", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    results = check_results(tmp_path, "scaling")
    assert [sweep["part"] for sweep in results["sweeps"]] == ["clusters", "rows"]
    assert all(sweep["exponent"] is not None for sweep in results["sweeps"])
    assert any(line.startswith("Goal 4") for line in results["goals"])


def test_many_clusters_quick_measures_growth_and_memory(tmp_path: Path) -> None:
    done = run("many_clusters.py", "--quick", "--repeats", 1, "--threads", 1, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "many_clusters.json").read_text())
    ours = [m for m in results["measurements"] if m["contender"] != "superkmeans"]
    assert [(m["clusters"], m["status"]) for m in ours] == [(m, "ok") for m in (100, 300, 1_000) for _ in range(2)]
    errors = [m["error"] for m in ours if m["contender"] == "dgmm"]
    assert errors == sorted(errors, reverse=True)
    assert done.stdout.count("the seconds grow") == 2
    assert done.stdout.count("times the input") == 2


def test_the_page_on_many_clusters_is_that_of_the_committed_results(modules: dict[str, ModuleType]) -> None:
    results = json.loads((PEERS / "results" / "many_clusters.json").read_text())
    page = modules["many_clusters"].page(results)
    assert page == (PEERS / "results" / "many_clusters.md").read_text()


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
