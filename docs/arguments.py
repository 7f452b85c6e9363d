"""Writes ``arguments.md``: the error for each bad value of an argument, from the cases that the tests check.

``python docs/arguments.py`` writes the file; a test compares it with the cases.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests" / "python"

HEAD = """# Arguments and the errors for bad values

`docs/arguments.py` generates this page from the cases in `tests/python/test_bad_input.py`. Each line is tested with
every estimator that has the argument, both unfitted and fitted; a fitted estimator stays unchanged. A message about a
parameter names it, shows the value, and says what is allowed.
"""


def words(pattern: str) -> str:
    """The pattern of a message, in a readable form."""
    return re.sub(r"\\(.)", r"\1", pattern).replace(".*", " ... ").replace("|", " or ").strip()


def names(error: Any) -> str:
    kinds = error if isinstance(error, tuple) else (error,)
    return " or ".join(f"`{kind.__name__}`" for kind in kinds)


def section(title: str, first: str, rows: list[tuple[str, str, str]]) -> str:
    lines = [f"\n## {title}\n", f"| {first} | error | the message contains |", "|---|---|---|"]
    lines += [f"| {case} | {error} | {text.replace('|', chr(92) + '|')} |" for case, error, text in rows]
    return "\n".join(lines) + "\n"


def text() -> str:
    """The page."""
    sys.path.insert(0, str(TESTS))
    import test_bad_input as cases

    page = HEAD
    rows = sorted((f"`{name}={value!r}`", names(error), words(said)) for name, value, error, said in cases.PARAMETERS)
    page += section("Parameters", "parameter", rows)
    for title, table in (("Rows", cases.ROWS), ("`sample_weight`", cases.WEIGHTS), ("`init`", cases.STARTS)):
        page += section(title, "value", [(k, names(e), words(said)) for k, (_, e, said) in table.items()])
    return page


if __name__ == "__main__":
    (HERE / "arguments.md").write_text(text(), encoding="utf-8")
