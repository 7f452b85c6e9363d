"""The command ``dgmm``."""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import dgmm
import numpy as np
import pytest
from dgmm import cli
from dgmm.cli import main
from support import blobs

X = blobs(400, 3, 6, dtype=np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    return tmp_path


def run(*arguments, **options):
    command = [sys.executable, "-m", "dgmm", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)


def test_fit_predict_and_info_work_together(capsys):
    settings = ["--n-init", "2", "--tol", "1e-4", "--truncation", "4", "--threads", "1", "--seed", "5"]
    assert main(["fit", "x.npy", "-k", "6", "-o", "m.safetensors", "--labels", "l.npy", *settings]) == 0
    said = capsys.readouterr()
    assert "400 rows of 3 columns (float32) in 6 clusters" in said.out
    assert "saved m.safetensors\nsaved l.npy" in said.out
    assert said.err == ""
    alone = dgmm.DGMM(6, n_init=2, tol=1e-4, truncation=4, n_threads=1, random_state=5).fit(X)
    np.testing.assert_array_equal(np.load("l.npy"), alone.labels_)
    model = dgmm.load("m.safetensors")
    np.testing.assert_array_equal(model.cluster_centers_, alone.cluster_centers_)
    assert model.get_params() == alone.get_params()

    assert main(["predict", "x.npy", "-m", "m.safetensors", "-o", "p.npy", "--distances", "d.npy"]) == 0
    nearest = alone.top_k(X, 1)
    np.testing.assert_array_equal(np.load("p.npy"), nearest.indices[:, 0])
    np.testing.assert_array_equal(np.load("d.npy"), nearest.distances[:, 0])
    capsys.readouterr()
    assert main(["predict", "x.npy", "-m", "m.safetensors"]) == 0
    assert list(map(int, capsys.readouterr().out.split())) == alone.predict(X).tolist()

    assert main(["predict", "x.npy", "-m", "m.safetensors", "--method", "approximate", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert np.mean(said["labels"] == alone.predict(X)) >= 0.9
    assert said["recall"] > 0.9

    options = ["--label-search", "exact", "--labels", "l.npy", "--threads", "1"]
    assert main(["fit", "x.npy", "-k", "6", "-o", "e.safetensors", *options]) == 0
    exact = dgmm.load("e.safetensors")
    assert (exact.labels, exact.n_threads) == ("exact", 1)
    np.testing.assert_array_equal(np.load("l.npy"), exact.predict(X))
    assert main(["fit", "x.npy", "-k", "6", "-o", "e.safetensors", "--label-search", "none"]) == 0
    assert dgmm.load("e.safetensors").labels is None
    capsys.readouterr()

    assert main(["info", "m.safetensors"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^n_clusters +6$", said, re.M)
    assert "n_init=2" in said


def test_json_is_one_object_on_stdout(capsys):
    commands = [
        ["fit", "x.npy", "-k", "6", "-o", "m.safetensors"],
        ["info", "m.safetensors"],
        ["predict", "x.npy", "-m", "m.safetensors"],
        ["sweep", "x.npy", "-k", "3", "6"],
        ["estimate", "--rows", "1000", "--columns", "3", "-k", "6"],
        ["demo", "--rows", "300", "--clusters", "3", "--no-compare", "--output", "d.png"],
    ]
    results = {}
    for command in commands:
        assert main([*command, "--json"]) == 0
        results[command[0]] = json.loads(capsys.readouterr().out)
    assert results["fit"]["n_clusters"] == 6
    assert results["fit"]["output"] == "m.safetensors"
    assert results["info"]["settings"]["random_state"] == 0
    assert len(results["predict"]["labels"]) == 400
    assert results["sweep"]["n_clusters"] == [3, 6]
    assert results["estimate"]["data_bytes"] == 12_000
    assert results["demo"]["outcomes"][0]["name"] == "dgmm.DGMM"


def test_files_are_joined_weighted_and_their_columns_chosen(capsys):
    np.save("w.npy", np.r_[np.ones(400), np.zeros(200)])
    assert main(["fit", "x.npy", "x.npy", "-k", "3", "-o", "m.safetensors", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_rows"] == 800
    np.save("y.npy", X[:200])
    assert main(["fit", "x.npy", "y.npy", "-k", "3", "--weights", "w.npy", "-o", "m.safetensors"]) == 0
    weighted = dgmm.DGMM(3, random_state=0).fit(X)
    np.testing.assert_array_equal(dgmm.load("m.safetensors").cluster_centers_, weighted.cluster_centers_)

    np.savetxt("t.csv", X, delimiter=",", header="a,b,c", comments="")
    assert main(["fit", "t.csv", "--columns", "c,a", "--float32", "-k", "3", "-o", "m.safetensors"]) == 0
    model = dgmm.load("m.safetensors")
    assert model.feature_names_in_.tolist() == ["c", "a"]
    assert model.cluster_centers_.dtype == np.float32
    assert main(["predict", "t.csv", "--columns", "c,a", "-m", "m.safetensors", "-o", "p.npy"]) == 0
    capsys.readouterr()
    assert main(["predict", "t.csv", "--columns", "a,c", "-m", "m.safetensors"]) == 1
    assert "differ from those that m.safetensors was fitted to" in capsys.readouterr().err


def test_a_sweep_is_printed_and_saved(capsys):
    assert main(["sweep", "x.npy", "-k", "6", "3", "-o", "t.csv", "--estimator", "kmeans", "--coreset-size", "50"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[1].split()[0] == "3"
    assert "of the coreset, 50 weighted rows\nsaved t.csv" in said
    header, *lines = Path("t.csv").read_text().splitlines()
    table = dgmm.sweep(X, [3, 6], estimator=dgmm.KMeans, coreset_size=50, random_state=0)
    assert header == ",".join(table)
    assert float(lines[1].split(",")[header.split(",").index("inertia")]) == table["inertia"][1]


def test_an_estimate_takes_the_sizes_from_files_or_options(capsys):
    assert main(["estimate", "x.npy", "-k", "6", "--max-iter", "2"]) == 0
    assert "above the data's 4.8 kB" in capsys.readouterr().out
    for wrong in (["x.npy", "--rows", "5"], ["--rows", "5"], []):
        assert main(["estimate", *wrong, "-k", "2"]) == 2
        assert "give either DATA or both --rows and --columns" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "required: command"),
        (["dance"], 2, "invalid choice: 'dance'"),
        (["fit", "x.npy", "-k", "3"], 2, "no output: give -o FILE"),
        (["fit", "-k", "3", "-o", "m.safetensors"], 2, "required: DATA"),
        (["fit", "x.npy", "-o", "m.safetensors"], 2, "required: -k"),
        (["fit", "x.npy", "-k", "0", "-o", "m.safetensors"], 2, "'0' is not a whole number, at least 1"),
        (["fit", "x.npy", "-k", "many", "-o", "m.safetensors"], 2, "'many' is not a whole number"),
        (
            ["fit", "x.npy", "-k", "3", "-o", "m.safetensors", "--seed", "-1"],
            2,
            "not a whole number from 0 to 2**64 - 1",
        ),
        (
            ["fit", "x.npy", "-k", "3", "-o", "m.safetensors", "--neighbors", "3"],
            2,
            "not an option of the estimator dgmm",
        ),
        (["fit", "x.npy", "-k", "3", "-o", "m.safetensors", "--engine", "steam"], 2, "invalid choice: 'steam'"),
        (["fit", "y.npy", "-k", "3", "-o", "m.safetensors"], 1, "y.npy: No such file"),
        (["fit", "x.npy", "-k", "401", "-o", "m.safetensors"], 1, "n_clusters is 401"),
        (["fit", "x.npy", "-k", "3", "-o", "no/m.safetensors"], 1, "no/m.safetensors: its folder does not exist"),
        (["fit", "x.npy", "-k", "3", "-o", "f.safetensors"], 1, "f.safetensors: Is a directory"),
        (["fit", "x.npy", "-k", "3", "-o", "m.safetensors", "--weights", "x.npy"], 1, "one number per row"),
        (["fit", "x.npy", "-k", "3", "-o", "m.safetensors", "--tol", "nan"], 1, "tol is nan"),
        (["fit", "bad.npy", "-k", "3", "-o", "m.safetensors"], 1, "bad.npy is damaged or not a .npy file"),
        (["fit", "nan.npy", "-k", "2", "-o", "m.safetensors"], 1, "every value must be finite"),
        (["predict", "x.npy", "-m", "x.npy"], 1, "x.npy is damaged or not a safetensors file"),
        (
            ["predict", "x.npy", "-m", "m.safetensors", "--method", "approximate", "--distances", "d.npy"],
            2,
            "--distances needs --method exact",
        ),
        (["predict", "x.npy", "-m", "m.safetensors", "--recall", "0.9"], 2, "--recall 0.9 needs --method approximate"),
        (["predict", "x.npy", "-m", "m.safetensors", "--recall", "2"], 2, "above 0 and at most 1"),
        (["fit", "x.npy", "-k", "3", "--labels", "l.npy", "--label-search", "none"], 2, "leave out --labels"),
        (["fit", "x.npy", "-k", "3", "-o", "m.pt"], 2, "-o is 'm.pt'; it must end in .safetensors"),
        (["fit", "x.npy", "-k", "3", "-o", "m"], 2, "-o is 'm'; it must end in .safetensors"),
        (
            ["fit", "x.npy", "-k", "3", "--labels", "l.xls"],
            2,
            "--labels is 'l.xls'; it must end in .npy, .csv, .txt or .p",
        ),
        (["fit", "x.npy", "-k", "3", "--labels", "npy"], 2, "--labels is 'npy'; it must end in .npy"),
        (
            ["predict", "x.npy", "-m", "m.safetensors", "-o", "l.safetensors"],
            2,
            "-o is 'l.safetensors'; it must end in .npy",
        ),
        (
            ["predict", "x.npy", "-m", "m.safetensors", "--distances", "d.pkl"],
            2,
            "--distances is 'd.pkl'; it must end in",
        ),
        (["predict", "x.npy", "-m", "m.safetensors", "-o", "a.npy", "--distances", "./a.npy"], 2, "name the same file"),
        (["fit", "x.npy", "-k", "3", "--labels", "./x.npy"], 2, "--labels is 'x.npy', which is an input; it must be"),
        (
            ["fit", "x.npy", "-k", "3", "--labels", "w.npy", "--weights", "w.npy"],
            2,
            "--labels is 'w.npy', which is an input",
        ),
        (["predict", "x.npy", "-m", "m.safetensors", "-o", "x.npy"], 2, "-o is 'x.npy', which is an input"),
        (["sweep", "x.npy", "-k", "3", "-o", "t.xlsx"], 2, "-o is 't.xlsx'; it must end in .csv"),
        (["sweep", "x.npy", "-k", "3", "--plot", "t.docx"], 2, "--plot is 't.docx'; it must end in "),
        (["demo", "--rows", "50", "--clusters", "5", "--output", "demo"], 2, "--output is 'demo'; it must end in "),
        (["info", "gone.safetensors"], 1, "gone.safetensors: No such file"),
        (["sweep", "x.npy", "-k", "3", "500"], 1, "n_clusters[1] is 500"),
        (["demo", "--rows", "5", "--clusters", "8", "--json"], 1, "n_clusters is 8"),
    ],
)
def test_errors_are_one_line_with_their_exit_code(arguments, code, words, capsys):
    Path("bad.npy").write_text("words")
    Path("f.safetensors").mkdir()
    np.save("nan.npy", np.full((3, 2), np.nan))
    try:
        ended = main(arguments)
    except SystemExit as error:
        ended = error.code
    said = capsys.readouterr()
    assert ended == code
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("dgmm")
    assert words in said.err
    assert sorted(os.listdir()) == ["bad.npy", "f.safetensors", "nan.npy", "x.npy"]


def test_an_estimate_of_bytes_is_one_of_float32(capsys):
    np.save("b.npy", np.ones((100, 3), np.uint8))
    np.save("i.npy", np.ones((100, 3), np.int32))
    for name, size in (("b.npy", 1200), ("i.npy", 2400)):
        assert main(["estimate", name, "-k", "6", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["data_bytes"] == size


def test_a_warning_is_one_line_too(capsys):
    assert main(["fit", "x.npy", "-k", "6", "--max-iter", "1", "-o", "m.safetensors"]) == 0
    assert capsys.readouterr().err.startswith("dgmm fit: warning: DGMM did not converge in max_iter=1")


def test_an_interrupt_ends_with_130(capsys, monkeypatch):
    monkeypatch.setattr(dgmm.DGMM, "fit", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(["fit", "x.npy", "-k", "3", "-o", "m.safetensors"]) == 130
    assert capsys.readouterr().err == "dgmm fit: interrupted\n"


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo terminal")
def test_the_bar_is_on_a_terminals_stderr_only():
    import fcntl
    import pty
    import termios

    command = ["fit", "x.npy", "-k", "6", "-o", "m.safetensors"]
    assert run(*command).stderr == ""
    shown = {}
    for extra in ("", "--quiet"):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        arguments = [sys.executable, "-m", "dgmm", *command, *filter(None, [extra])]
        done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=theirs, timeout=300, check=True)
        assert b"400 rows" in done.stdout
        os.set_blocking(ours, False)
        try:
            shown[extra] = os.read(ours, 100_000)
        except BlockingIOError:
            shown[extra] = b""
        os.close(theirs)
        os.close(ours)
    assert b"DGMM" in shown[""]
    assert shown["--quiet"] == b""


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_a_closed_pipe_gives_no_traceback():
    assert run("fit", "x.npy", "-k", "6", "-o", "m.safetensors").returncode == 0
    command = f"{sys.executable} -m dgmm predict x.npy x.npy x.npy x.npy -m m.safetensors | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr == ""


def test_help_has_examples_and_they_parse(capsys):
    examples = re.findall(r"^  dgmm (.*)$", cli.EPILOG, re.M)
    for name in ("fit", "predict", "info", "sweep", "estimate", "demo"):
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
        examples += re.findall(r"^  dgmm (.*)$", capsys.readouterr().out, re.M)
    assert len(examples) == 13
    for example in examples:
        assert cli._parser().parse_args(example.split()).command == example.split()[0]


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("matplotlib", ["sweep", "x.npy", "-k", "6", "--plot", "t.png"]),
        ("pyarrow", ["fit", "x.npy", "-k", "6", "--labels", "l.parquet"]),
    ],
)
def test_packages_missing_for_the_output_are_reported_before_the_work(package, command, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(dgmm.DGMM, "fit", None)
    assert main(command) == 1
    assert f"needs {package}: pip install {package}" in capsys.readouterr().err


def test_a_model_is_saved_without_the_package_safetensors(monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    assert main(["fit", "x.npy", "-k", "6", "-o", "m.safetensors"]) == 0


def test_the_version_is_that_of_the_crate(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.strip() == f"dgmm {dgmm.__version__}"
