"""Each promise of the README names its tests, and the table of arguments is that of the cases."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")][1:]
NAMES = sorted(set(re.findall(r"`([\w/]+\.(?:py|rs)(?:::\w+)?)`", PAGE)))


def words(text):
    return " ".join(text.split()[:4])


def test_every_promise_has_a_row_and_every_row_a_promise():
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Promises")[1].split("\n## ")[0]
    promises = [" ".join(part.split()) for part in section.split("\n- ")[1:]]
    assert len(promises) >= 9
    for promise in promises:
        assert any(words(row) in promise for row, _ in ROWS), promise
    for row, tests in ROWS:
        assert any(words(row) in promise for promise in promises), row
        assert "`" in tests, row


@pytest.mark.parametrize("name", NAMES)
def test_a_named_test_exists(name):
    file, _, test = name.partition("::")
    found = [path for path in (ROOT / "tests").rglob(Path(file).name) if path.as_posix().endswith(file)]
    assert len(found) == 1, name
    assert re.search(rf"\b(?:def|fn) {test}\(" if test else r"\b(?:def|fn) ", found[0].read_text(encoding="utf-8"))


def test_the_table_of_arguments_is_that_of_the_cases():
    spec = importlib.util.spec_from_file_location("arguments", ROOT / "docs" / "arguments.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "arguments.md").read_text(encoding="utf-8") == module.text()
