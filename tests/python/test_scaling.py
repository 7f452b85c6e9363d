"""The cost model of fits over shards runs, and its pages are those of its committed results."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benches" / "scaling"
TABLE = re.compile(r"(?:^\|.*\n)+", re.M)


def run(*arguments):
    subprocess.run([sys.executable, str(FOLDER / "model.py"), *arguments], check=True, timeout=300, capture_output=True)


def test_a_small_run_measures_and_reports(tmp_path):
    run("--share", "0.02", "--repeats", "1", "--output", str(tmp_path))
    found = json.loads((tmp_path / "scaling.json").read_text(encoding="utf-8"))
    for row in found["simulated"]:
        allowed = 12 * row["clusters"] * row["columns"] + 2 * row["clusters"] * (8 * 64 + 16)
        assert row["worker_bytes"] < 1.1 * allowed
    assert len(TABLE.findall((tmp_path / "scaling.md").read_text(encoding="utf-8"))) == 10


def test_the_committed_pages_are_those_of_the_committed_results(tmp_path):
    shutil.copy(FOLDER / "results" / "scaling.json", tmp_path)
    run("--report", "--output", str(tmp_path))
    page = (FOLDER / "results" / "scaling.md").read_text(encoding="utf-8")
    assert page == (tmp_path / "scaling.md").read_text(encoding="utf-8")
    guide = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert TABLE.findall(guide) == TABLE.findall(page)
