"""What the documentation shows is what happens."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import dgmm
import pytest
from dgmm.cli import main

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
MODULES = sorted(module.name for module in pkgutil.iter_modules(dgmm.__path__, "dgmm."))


@pytest.mark.parametrize("name", ["dgmm", *MODULES])
def test_examples_in_docstrings_run(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_the_public_names_are_documented():
    for name in dgmm.__all__:
        assert name == "__version__" or getattr(dgmm, name).__doc__


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("page", PAGES)
def test_the_python_and_the_commands_of_a_page_run_from_its_top_to_its_end(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for language, block in re.findall(r"^```(python|sh)\n(.*?)^```", text, re.S | re.M):
        if language == "python":
            exec(compile(block, page, "exec"), names)
        else:
            for line in re.findall(r"^dgmm (.*)$", block, re.M):
                assert main(line.split()) == 0


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        path, _, heading = target.partition("#")
        there = (ROOT / page).parent / path if path else ROOT / page
        assert there.exists(), target
        titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.M) if heading else []
        assert not heading or heading in [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]


def test_the_guide_has_all_its_pages():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index


def test_the_reference_is_built_without_warnings(tmp_path):
    command = [sys.executable, str(ROOT / "docs" / "build.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr.lower()
    page = (tmp_path / "dgmm.html").read_text(encoding="utf-8")
    for name in dgmm.__all__:
        assert f'id="{name}"' in page or (tmp_path / "dgmm" / f"{name}.html").exists(), name
    assert all((tmp_path / "dgmm" / f"{module}.html").exists() for module in ("dask", "io", "shards", "spark"))
    for estimator in ("DGMM", "VCGMM", "ExactGMM", "KMeans"):
        for method in ("fit", "fit_predict", "predict", "predict_proba", "report", "save", "score", "top_k"):
            assert f'id="{estimator}.{method}"' in page, f"{estimator}.{method} is not in the reference"


def test_every_parameter_is_documented():
    for name in dgmm.DGMM().get_params():
        assert re.search(rf"^ *{name} : ", dgmm.DGMM.__doc__ or "", re.M), name
    for cls in (dgmm.VCGMM, dgmm.ExactGMM, dgmm.KMeans):
        documented = (cls.__doc__ or "") + (dgmm.DGMM.__doc__ or "")
        assert all(re.search(rf"^ *{name} : ", documented, re.M) for name in cls().get_params())
