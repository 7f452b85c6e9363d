"""Imports of optional packages, with an error that says how to install a missing one."""

from __future__ import annotations

import importlib
from typing import Any


class MissingExtraError(ImportError):
    """A package of an extra is not installed."""


def need(module: str, extra: str | None, what: str) -> Any:
    """Import ``module`` for ``what``; if it is missing, say how to install it and which extra includes it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        brought = f" (included in dgmm's extra {extra!r})" if extra else ""
        raise MissingExtraError(f"{what} needs {package}: pip install {package}{brought}") from error
