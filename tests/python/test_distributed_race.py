"""The race of distributed fits runs, and its committed page is that of its committed results."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benches" / "distributed"


def test_a_small_race_runs(tmp_path):
    pytest.importorskip("distributed", reason="needs the extra `dask`")
    sizes = ["--rows", "20000", "--columns", "8", "--clusters", "120", "--partitions", "4", "--repeats", "1"]
    command = [sys.executable, str(FOLDER / "dask_race.py"), *sizes, "--folder", str(tmp_path)]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    result = json.loads((tmp_path / "dask_race.json").read_text(encoding="utf-8"))
    assert result["figures"]["error_dask_over_local"] < 1.1
    assert result["figures"]["bytes_over_allowed"] < 1.1
    assert "| dgmm.dask.DGMM |" in (tmp_path / "dask_race.md").read_text(encoding="utf-8")


def test_the_committed_page_is_that_of_the_committed_results():
    result = json.loads((FOLDER / "results" / "dask_race.json").read_text(encoding="utf-8"))
    page = runpy.run_path(str(FOLDER / "dask_race.py"))["page"](result)
    assert page == (FOLDER / "results" / "dask_race.md").read_text(encoding="utf-8")
