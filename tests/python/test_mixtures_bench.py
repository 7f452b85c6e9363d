"""The comparison of soft EM over all clusters runs, and its committed page is that of its committed results."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benches" / "mixtures"


def test_a_small_comparison_runs(tmp_path):
    command = [sys.executable, str(FOLDER / "few_components.py"), "--quick", "--output", str(tmp_path)]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    result = json.loads((tmp_path / "few_components.json").read_text(encoding="utf-8"))
    assert set(result["sizes"][0]["wall"]["medians"]) >= {"dgmm.KMeans", "dgmm.ExactGMM", 'GaussianMixture("diag")'}
    assert "| dgmm.ExactGMM |" in (tmp_path / "few_components.md").read_text(encoding="utf-8")


def test_the_committed_page_is_that_of_the_committed_results():
    result = json.loads((FOLDER / "results" / "few_components.json").read_text(encoding="utf-8"))
    page = runpy.run_path(str(FOLDER / "few_components.py"))["page"](result)
    assert page == (FOLDER / "results" / "few_components.md").read_text(encoding="utf-8")
