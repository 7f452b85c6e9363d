"""The command ``dgmm``."""

import dgmm
import pytest
from dgmm._demo import patches
from dgmm.cli import main


def test_the_demo_compares_and_saves_a_picture(tmp_path, capsys):
    picture = tmp_path / "demo.png"
    assert main(["demo", "--rows", "3000", "--clusters", "30", "--threads", "2", "--output", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr()
    for part in ("dgmm.DGMM", "sklearn.cluster.KMeans", "seconds", "3000 patches", "2 threads", str(picture)):
        assert part in shown.out
    assert "DGMM" in shown.err


def test_the_demo_runs_alone(tmp_path, capsys):
    assert main(["demo", "--rows", "500", "--clusters", "5", "--no-compare", "--output", str(tmp_path / "p.png")]) == 0
    assert "sklearn" not in capsys.readouterr().out


def test_the_demo_says_what_is_wrong_or_missing(tmp_path, capsys, monkeypatch):
    options = ["demo", "--rows", "5", "--clusters", "8", "--output", str(tmp_path / "p.png")]
    assert main(options) == 2
    assert "n_clusters is 8" in capsys.readouterr().err
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert main(options) == 2
    assert "dgmm[plot]" in capsys.readouterr().err


def test_the_data_of_the_demo_are_the_same_for_a_seed():
    assert (patches(50, 1) == patches(50, 1)).all()
    assert patches(50, 1).shape == (50, 64)


def test_the_version_is_that_of_the_crate(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.strip() == f"dgmm {dgmm.__version__}"
