"""The code in the documentation runs, and its claims have their conditions."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import dgmm
import dgmm.dask
import pytest
from dgmm.cli import main
from sklearn.base import BaseEstimator

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


CONDITIONS = [
    ("docs/coming_from.md", "`MiniBatchKMeans(k)`", "plain `DGMM(k)`"),
    ("docs/coming_from.md", "scikit-learn's error to 0.1 %", "From the same start"),
    ("docs/coming_from.md", "empty clusters to the rows farthest", "still count for their old cluster"),
    ("docs/choosing.md", "the same error to 0.1 %", "from the same start"),
    ("docs/choosing.md", "More `proposals` help less", "only a much larger number"),
    (
        "docs/resources.md",
        "A memory map works like an array",
        "with too little memory each iteration would read the file many",
    ),
    ("docs/resources.md", '`predict(X, method="approximate")`', "AVX2"),
    ("docs/results.md", '`predict(X, method="approximate")` is several times as fast', "AVX2"),
]


@pytest.mark.parametrize(("page", "claim", "condition"), CONDITIONS)
def test_claims_stand_with_their_conditions(page, claim, condition):
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\n|\n- ", (ROOT / page).read_text(encoding="utf-8"))]
    found = [part for part in paragraphs if claim in part]
    assert found
    assert all(condition in part for part in found)


def test_the_guide_has_all_its_pages():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index


def test_the_map_of_the_source_names_what_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|python|tests|benches|docs|examples)/[^` ]*)`", text)
    assert len(named) > 20
    for place in named:
        before, brace, rest = place.partition("{")
        names, _, after = rest.partition("}")
        for name in names.split(","):
            assert list(ROOT.glob(before + name + after if brace else place)), place


def test_the_reference_is_built_without_warnings(tmp_path):
    command = [sys.executable, str(ROOT / "docs" / "build.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr.lower()
    page = (tmp_path / "dgmm.html").read_text(encoding="utf-8")
    for name in dgmm.__all__:
        assert f'id="{name}"' in page or (tmp_path / "dgmm" / f"{name}.html").exists(), name
    assert all((tmp_path / "dgmm" / f"{module}.html").exists() for module in ("dask", "io", "shards", "spark"))
    for module, name in ((dgmm, "dgmm.html"), (dgmm.dask, "dgmm/dask.html")):
        page = (tmp_path / name).read_text(encoding="utf-8")
        public = [getattr(module, name) for name in module.__all__]
        found = [cls for cls in public if isinstance(cls, type) and issubclass(cls, BaseEstimator)]
        assert len(found) >= 4
        for cls in found:
            missing = [method for method in own_names(cls) if f'id="{cls.__name__}.{method}"' not in page]
            assert not missing, f"{cls.__module__}.{cls.__name__} is without {missing} in the reference"


def own_names(cls):
    """The public methods and properties of a class, inherited ones included, but for those of scikit-learn."""
    bases = [base for base in cls.__mro__ if base.__module__.startswith("dgmm")]
    names = {name for base in bases for name in vars(base) if not re.match(r"_|set_.*_request", name)}
    assert {"fit", "fit_predict", "predict", "predict_proba", "report", "save", "score", "top_k"} <= names
    return sorted(names)


def test_every_parameter_is_documented():
    for name in dgmm.DGMM().get_params():
        assert re.search(rf"^ *{name} : ", dgmm.DGMM.__doc__ or "", re.M), name
    for cls in (dgmm.VCGMM, dgmm.ExactGMM, dgmm.GaussianMixture, dgmm.KMeans):
        documented = (cls.__doc__ or "") + (dgmm.DGMM.__doc__ or "")
        missing = [
            name for name in cls().get_params() if not re.search(rf"^ *(\w+, )*{name}(, \w+)* : ", documented, re.M)
        ]
        assert not missing, (cls, missing)
