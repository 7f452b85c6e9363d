"""Packages that only some uses need: imported when used, with an error that says how to get them."""

from __future__ import annotations

import importlib
from typing import Any


class MissingExtraError(ImportError):
    """A package of an extra is not installed."""


def need(module: str, extra: str | None, what: str) -> Any:
    """Import ``module`` for ``what``; if it is not there, say how to get it and which extra would have brought it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        brought = f" (the extra {extra!r} of dgmm has it)" if extra else ""
        raise MissingExtraError(f"{what} needs {package}: pip install {package}{brought}") from error
