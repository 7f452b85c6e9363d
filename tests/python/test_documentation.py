"""What the documentation shows is what happens."""

import doctest
import importlib
import pkgutil
import re
import warnings
from pathlib import Path

import dgmm
import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(module.name for module in pkgutil.iter_modules(dgmm.__path__, "dgmm."))


@pytest.mark.parametrize("name", ["dgmm", *MODULES])
def test_examples_in_docstrings_run(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_the_public_names_are_documented():
    for name in dgmm.__all__:
        assert name == "__version__" or getattr(dgmm, name).__doc__


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S | re.M)
    assert blocks
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in blocks:
            exec(compile(block, "README.md", "exec"), names)


def test_every_parameter_is_documented():
    for name in dgmm.DGMM().get_params():
        assert re.search(rf"^    {name} : ", dgmm.DGMM.__doc__ or "", re.M), name
    for cls in (dgmm.VCGMM, dgmm.ExactGMM, dgmm.KMeans):
        documented = (cls.__doc__ or "") + (dgmm.DGMM.__doc__ or "")
        assert all(re.search(rf"^    {name} : ", documented, re.M) for name in cls().get_params())
