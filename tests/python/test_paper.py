"""The paper's experiments run from one command, resume, and report problems with the data."""

from __future__ import annotations

import dataclasses
import gzip
import importlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

PAPER = Path(__file__).parents[2] / "benches" / "paper"
pytest.importorskip("matplotlib", reason="the figures need the extra `plot`")

EXPERIMENTS = (
    "artificial",
    "bound",
    "table",
    "tradeoff",
    "complexity",
    "stability",
    "hyperparameters",
    "large",
    "similarity",
)
FIGURES = {*EXPERIMENTS, "artificial-run", "complexity-large"}


@pytest.fixture(scope="module")
def modules() -> dict[str, ModuleType]:
    """The scripts as modules, which are removed afterwards because other tests have modules of the same names."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(PAPER))
    names = ("sets", "made", "matching", "published", "consistency", "experiments", "experiments.table", "run")
    yield {name: importlib.import_module(name) for name in names}
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if str(PAPER.parent) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def command(*arguments: object) -> list[str]:
    return [sys.executable, str(PAPER / "run.py"), *map(str, arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a complete quick run, which the tests do not change."""
    output = tmp_path_factory.mktemp("quick")
    done = run("--quick", "--output", output)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\[1/\d+\] artificial: .* left", done.stderr)
    return output


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, modules: dict[str, ModuleType]) -> Path:
    """Small versions of all data sets, in files of the public formats."""
    folder = tmp_path_factory.mktemp("data")
    modules["made"].write_all(folder)
    return folder


def test_quick_makes_every_table_and_figure(quick: Path) -> None:
    assert {path.stem for path in (quick / "results").glob("*.json")} == set(EXPERIMENTS)
    for name in FIGURES:
        assert (quick / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name
        assert "</svg>" in (quick / "figures" / f"{name}.svg").read_text(), name
    text = (quick / "RESULTS.md").read_text()
    assert text.count("\n## ") == len(EXPERIMENTS)
    assert "Not run yet" not in text
    assert "nan" not in text.lower().split()
    assert set(re.findall(r"\(figures/([\w-]+)\.png\)", text)) == FIGURES
    parts = text.split("\n## ")[1:]
    assert all("| --- |" in part for part in parts)


def test_a_results_file_has_settings_versions_and_every_trial(quick: Path) -> None:
    for path in (quick / "results").glob("*.json"):
        content = json.loads(path.read_text())
        assert content["quick"] is True
        assert content["absent"] == {}
        assert content["trials"]
        (where,) = content["environments"]
        assert where["versions"].keys() == {"dgmm", "numpy", "scipy", "scikit-learn", "matplotlib"}
        assert where["cpus"] >= 1
        assert where["cpu"]
        assert all(trial["environment"] == 0 and trial["result"] for trial in content["trials"])
        assert str(quick) not in path.read_text()


def test_the_papers_numbers_stand_beside_ours(quick: Path) -> None:
    text = (quick / "RESULTS.md").read_text()
    for number in ("622.1 ± 28.0", "731.5 ± 41.9", "862.1 ± 18.3", "605.7 ± 11.1", "21.4 ± 1.2", "55.6 ± 1.0"):
        assert number in text


def test_evaluations_are_counted_by_stage(quick: Path) -> None:
    trials = json.loads((quick / "results" / "table.json").read_text())["trials"]
    for trial in trials:
        settings, result = trial["settings"], trial["result"]
        counts = result["evaluations"]
        assert counts["coreset"] == (0 if settings["coreset"] is None else result["rows"])
        assert counts["seeding"] > 0
        assert counts["em"] > 0
        assert result["wall"] > 0
        if settings["system"] == "k-means":
            assert counts["em"] == result["rows"] * settings["clusters"] * result["iterations"]
        if settings["system"] == "D-GMM":
            assert counts["em"] <= settings["coreset"] * 10 * result["iterations"]


def test_a_finished_trial_is_not_run_again(quick: Path, tmp_path: Path) -> None:
    shutil.copytree(quick / "results", tmp_path / "results")
    path = tmp_path / "results" / "hyperparameters.json"
    content = json.loads(path.read_text())
    dropped = content["trials"].pop()
    content["trials"][0]["result"]["wall"] = 123.0
    path.write_text(json.dumps(content))
    done = run("--quick", "--only", "hyperparameters", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 trials to run" in done.stderr
    after = json.loads(path.read_text())["trials"]
    assert after[0]["result"]["wall"] == 123.0
    # The same seed and the same data: the same numbers, times aside.
    assert after[-1]["settings"] == dropped["settings"]
    same = ("iterations", "error", "evaluations")
    assert {k: after[-1]["result"][k] for k in same} == {k: dropped["result"][k] for k in same}


def test_an_interrupted_run_keeps_what_it_has_and_goes_on(
    tmp_path: Path, modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = modules["experiments.table"]
    plan = table.plan

    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    def plan_with_an_end(quick: bool) -> list[object]:
        trials = plan(quick)
        return [*trials[:3], dataclasses.replace(trials[3], run=ctrl_c), *trials[4:]]

    monkeypatch.setattr(table, "plan", plan_with_an_end)
    monkeypatch.setattr(modules["run"], "stop_cleanly", lambda: None)
    arguments = ("--quick", "--only", "table", "--repeats", "1", "--output", str(tmp_path))
    assert modules["run"].main(arguments) == 130
    kept = json.loads((tmp_path / "results" / "table.json").read_text())["trials"]
    assert len(kept) == 3
    assert "## The table" in (tmp_path / "RESULTS.md").read_text()
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    after = json.loads((tmp_path / "results" / "table.json").read_text())["trials"]
    assert after[:3] == kept
    assert len(after) == 20
    assert {trial["settings"]["repeat"] for trial in after} == {0}


def test_any_part_of_the_trials_can_be_shown(quick: Path, tmp_path: Path, modules: dict[str, ModuleType]) -> None:
    for name, experiment in modules["experiments"].EXPERIMENTS.items():
        trials = json.loads((quick / "results" / f"{name}.json").read_text())["trials"]
        for count in (0, 1, 2, 3, 5, len(trials) // 2, len(trials) - 1):
            assert all(isinstance(line, str) for line in experiment.report(trials[:count], {}))
        for count in (0, 1, 3):
            drawn = experiment.draw(trials[:count], tmp_path)
            assert all((tmp_path / f"{picture}.png").exists() for picture in drawn)
            assert drawn == {} or count > 0


def test_missing_data_is_named_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    done = run("--data-dir", tmp_path / "data", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    for file, origin in (
        ("YearPredictionMSD.txt", "archive.ics.uci.edu"),
        ("SUSY.csv.gz", "archive.ics.uci.edu"),
        ("train_data_batch_*", "image-net.org"),
        ("kdd_bio.npz", "kddcup"),
        ("cifar10.npz", "cs.toronto.edu"),
    ):
        assert any(file in line and origin in line for line in done.stderr.splitlines()), file
    text = (tmp_path / "RESULTS.md").read_text()
    assert text.count("Data not at hand") > len(EXPERIMENTS)
    assert str(tmp_path) not in text


def test_a_malformed_file_is_named_and_the_other_experiments_go_on(tmp_path: Path, data: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(data / "s4.npz", folder)
    (folder / "kdd_bio.npz").write_bytes(b"no archive")
    np.savez(folder / "s1.npz", X=np.zeros((100, 3), dtype=np.float32))
    done = run("--data-dir", folder, "--only", "bound", "artificial", "--output", tmp_path)
    assert done.returncode == 1
    assert re.search(r"KDD: kdd_bio\.npz does not read as \.npz.*expected X, 74 columns.*kddcup", done.stderr)
    assert re.search(r"S1: s1\.npz has 3 columns; expected", done.stderr)
    assert "Traceback" not in done.stderr
    content = json.loads((tmp_path / "results" / "artificial.json").read_text())
    assert {trial["settings"]["data"] for trial in content["trials"]} == {"s4"}
    assert "s1" in content["absent"]
    assert "a1" in content["absent"]


def load(modules: dict[str, ModuleType], folder: Path, name: str) -> object:
    return modules["sets"].Library(folder).load(name)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("song", (600, 90)),
        ("susy", (600, 18)),
        ("imagenet64", (300, 3 * 64 * 64)),
        ("kdd", (2400, 74)),
        ("cifar10", (600, 3072)),
        ("cifar10-held-out", (480, 3072)),
        ("patches", (4800, 192)),
        ("glove50", (600, 50)),
        ("s1", (2000, 2)),
    ],
)
def test_loaders_read_files_of_the_public_form(
    modules: dict[str, ModuleType], data: Path, name: str, shape: tuple[int, int]
) -> None:
    loaded = load(modules, data, name)
    assert loaded.rows.shape == shape
    assert loaded.rows.dtype == np.float32
    assert loaded.rows.flags.c_contiguous


def test_the_first_column_is_not_a_feature(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    values = np.arange(2 * 91).reshape(2, 91)
    (tmp_path / "YearPredictionMSD.txt").write_text("".join(",".join(map(str, row)) + "\n" for row in values))
    assert np.array_equal(load(modules, tmp_path, "song").rows, values[:, 1:])
    with gzip.open(tmp_path / "SUSY.csv.gz", "wt") as stream:
        stream.write("1.000000000000000000e+00," + ",".join(["9.728614687919616699e-01"] * 18) + "\n")
    assert np.allclose(load(modules, tmp_path, "susy").rows, 0.9728614687919617)


def test_images_are_read_from_pickled_and_plain_batches(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(256, size=(6, 12288), dtype=np.uint8)
    (tmp_path / "train_data_batch_1").write_bytes(pickle.dumps({"data": images[:4], "labels": [1, 2, 3, 4]}))
    np.savez(tmp_path / "train_data_batch_2.npz", data=images[4:], labels=np.arange(2))
    assert np.array_equal(load(modules, tmp_path, "imagenet64").rows, images.astype(np.float32) / np.float32(255))
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for k in range(1, 6):
        (folder / f"data_batch_{k}").write_bytes(pickle.dumps({b"data": images[:2, :3072], b"labels": [0, 1]}))
    assert load(modules, tmp_path, "cifar10").rows.shape == (10, 3072)


def test_the_public_text_of_kdd_is_read(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    values = np.arange(3 * 77).reshape(3, 77)
    (tmp_path / "bio_train.dat").write_text("".join("\t".join(map(str, row)) + "\n" for row in values))
    assert np.array_equal(load(modules, tmp_path, "kdd").rows, values[:, 3:])


BAD_FILES = {
    "too few columns": ("song", "YearPredictionMSD.txt", b"2001,1.5,2.5\n", "has 3 columns"),
    "words": ("song", "YearPredictionMSD.txt", b"year,a,b\n", "does not read as a table"),
    "ragged": ("song", "YearPredictionMSD.txt", b"1,2,3\n1,2\n", "does not read as a table"),
    "not finite": ("song", "YearPredictionMSD.txt", b"2001" + b",nan" * 90 + b"\n", "not finite in row 1"),
    "not packed": ("susy", "SUSY.csv.gz", b"0,1,2\n", "does not read as a table"),
    "cut short": ("susy", "SUSY.csv.gz", gzip.compress(b"0" + b",1" * 18 + b"\n" * 99)[:-9], "does not read"),
    "no pickle": ("imagenet64", "train_data_batch_1", b"image", "does not read as a batch"),
    "no images": ("imagenet64", "train_data_batch_1", pickle.dumps({"labels": [1]}), "no array of bytes named data"),
    "a program": ("imagenet64", "train_data_batch_1", pickle.dumps(os.system), "it asks for"),
    "small images": (
        "imagenet64",
        "train_data_batch_1",
        pickle.dumps({"data": np.zeros((2, 3072), dtype=np.uint8)}),
        "has 3072 columns",
    ),
    "no npy": ("glove50", "glove50.npy", b"array", "does not read as .npy"),
}


@pytest.mark.filterwarnings("ignore:loadtxt")
@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_named_with_what_was_expected_and_its_source(
    modules: dict[str, ModuleType], tmp_path: Path, case: str
) -> None:
    name, file, content, words = BAD_FILES[case]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(modules["sets"].MalformedDataError) as caught:
        load(modules, tmp_path, name)
    message = str(caught.value)
    assert file in message
    assert words in message
    assert "; expected " in message
    assert "The public data: " in message
    assert str(tmp_path) not in message


def test_matching_finds_the_same_centers_in_any_order(modules: dict[str, ModuleType]) -> None:
    rng = np.random.default_rng(0)
    centers = 1e6 + rng.normal(size=(30, 4))
    shuffled = centers[rng.permutation(30)]
    assert modules["matching"].matched_rmse(centers, shuffled) == pytest.approx(0, abs=1e-4)
    moved = shuffled + np.array([0.003, 0, 0, 0.004])
    assert modules["matching"].matched_rmse(centers, moved) == pytest.approx(0.005, rel=0.01)


def test_the_paper_counted_eight_evaluations_per_point(modules: dict[str, ModuleType]) -> None:
    """k-means + lwcs of KDD is N M 5 / (N' M 5 + N), and D-GMM's rows agree once the baseline is taken from there."""
    consistency, published = modules["consistency"], modules["published"]
    made = 2**16 * 4000 * 5 + 515_345
    assert published.TABLE["song"]["k-means + lwcs"].speedup[0] == pytest.approx(515_345 * 4000 * 5 / made, rel=0.01)
    for data in ("cifar10", "song", "susy"):
        lwcs, clusters = published.TABLE[data]["k-means + lwcs"], published.CLUSTERS[data]
        made = published.CORESETS[data] * clusters * lwcs.iterations[0] + published.ROWS[data]
        assert consistency.implied(data, "D-GMM", lwcs.speedup[0] * made) == pytest.approx(8, abs=0.3)


def test_a_rule_with_looser_units_stops_earlier(modules: dict[str, ModuleType]) -> None:
    stops = modules["experiments.table"].stops
    bound = [100.0, 150.0, 152.0, 152.2, 152.3]
    assert stops(bound, 0.0) == 5
    assert stops(bound, 1000.0) == 4
    assert stops([1.0, 2.0], 0.0) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--data-dir is needed"),
        (("--quick", "--only", "everything"), "--only everything: choose from artificial"),
        (("--data-dir", "absent-folder"), "is not a folder"),
        (("--quick", "--threads", "0"), "not a positive number"),
    ],
)
def test_malformed_arguments_give_one_clear_line(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = run(*arguments, "--output", tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert words in done.stderr


def test_results_of_another_kind_are_not_mixed(quick: Path, tmp_path: Path) -> None:
    shutil.copytree(quick / "results", tmp_path / "results")
    done = run("--data-dir", tmp_path, "--output", tmp_path)
    assert done.returncode == 2
    assert "is of a quick run: choose another --output" in done.stderr
    (tmp_path / "results" / "table.json").write_text("{}")
    done = run("--quick", "--output", tmp_path)
    assert done.returncode == 2
    assert "table.json is no results file" in done.stderr


def test_the_committed_report_is_what_the_committed_results_give(tmp_path: Path) -> None:
    shutil.copytree(PAPER / "results", tmp_path / "results")
    done = run("--report", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "RESULTS.md").read_text() == (PAPER / "RESULTS.md").read_text()
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {p.name for p in (PAPER / "figures").iterdir()}
