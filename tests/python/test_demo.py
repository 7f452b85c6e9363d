"""``dgmm demo``."""

import sys
from pathlib import Path

import pytest
from dgmm._demo import patches
from dgmm.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_demo_compares_and_saves_a_picture(capsys):
    assert main(["demo", "--rows", "3000", "--clusters", "30", "--threads", "2", "--output", "demo.png"]) == 0
    assert Path("demo.png").read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr()
    for part in ("dgmm.DGMM", "sklearn.cluster.KMeans", "seconds", "3000 patches", "2 threads", "demo.png"):
        assert part in shown.out


def test_the_demo_runs_alone(capsys):
    assert main(["demo", "--rows", "500", "--clusters", "5", "--no-compare"]) == 0
    assert "sklearn" not in capsys.readouterr().out


def test_the_demo_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["demo", "--rows", "5", "--clusters", "3"]) == 1
    assert "pip install matplotlib (included in dgmm's extra 'plot')" in capsys.readouterr().err


def test_the_data_of_the_demo_are_the_same_for_a_seed():
    assert (patches(50, 1) == patches(50, 1)).all()
    assert patches(50, 1).shape == (50, 64)
