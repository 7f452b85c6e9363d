"""Writes ``arguments.md``: what each bad value of an argument gets, by the cases that the tests check.

``python docs/arguments.py`` writes the file; a test compares it with the cases.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests" / "python"

HEAD = """# Arguments and what bad values get

Made by `docs/arguments.py` from the cases of `tests/python/test_bad_input.py`, so each line is tested: for every
estimator that has the argument, on a new estimator and on a fitted one, which stays as it was. The message of a
parameter names it, shows the value, and says what is allowed.
"""


def words(pattern: str) -> str:
    """What a pattern of a message looks for, for people."""
    return re.sub(r"\\(.)", r"\1", pattern).replace(".*", " ... ").replace("|", " or ").strip()


def names(error: Any) -> str:
    kinds = error if isinstance(error, tuple) else (error,)
    return " or ".join(f"`{kind.__name__}`" for kind in kinds)


def section(title: str, first: str, rows: list[tuple[str, str, str]]) -> str:
    lines = [f"\n## {title}\n", f"| {first} | error | the message has |", "|---|---|---|"]
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
        page += section(title, "what is given", [(k, names(e), words(said)) for k, (_, e, said) in table.items()])
    return page


if __name__ == "__main__":
    (HERE / "arguments.md").write_text(text(), encoding="utf-8")
