"""Checks of the number and the names of columns, with scikit-learn's attributes and messages.

scikit-learn's own check finds names only in the tables that its version knows; here the caller passes the names.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dgmm._warnings import FeatureNamesWarning, caller_level


def check_names(estimator: Any, names: Sequence[Any] | None, *, reset: bool) -> None:
    """Store the names of the columns or, without ``reset``, compare them with the stored names."""
    found = _usable(names)
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        if found is not None:
            estimator.feature_names_in_ = np.asarray(found, dtype=object)
        return
    known = getattr(estimator, "feature_names_in_", None)
    kind = type(estimator).__name__
    if found is not None and known is None:
        message = f"X has feature names, but {kind} was fitted without feature names"
        warnings.warn(message, FeatureNamesWarning, stacklevel=caller_level())
    elif found is None and known is not None:
        message = f"X does not have valid feature names, but {kind} was fitted with feature names"
        warnings.warn(message, FeatureNamesWarning, stacklevel=caller_level())
    elif found is not None and known is not None and found != known.tolist():
        raise ValueError(_difference(found, known.tolist()))


def check_number(estimator: Any, columns: int, *, reset: bool) -> None:
    """Store the number of columns or, without ``reset``, compare it with the stored number."""
    if reset:
        estimator.n_features_in_ = columns
    elif columns != estimator.n_features_in_:
        raise ValueError(
            f"X has {columns} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input"
        )


def _usable(names: Sequence[Any] | None) -> list[str] | None:
    """The names if all are strings, None if none is."""
    kinds = sorted({type(name).__qualname__ for name in names or ()})
    if len(kinds) > 1 and any(isinstance(name, str) for name in names or ()):
        raise TypeError(
            "X: feature names are only supported if all input features have string names, but your input has "
            f"{kinds} as feature name / column name types: rename the columns, or pass X as an array"
        )
    return [str(name) for name in names] if names and isinstance(names[0], str) else None


def _difference(found: list[str], known: list[str]) -> str:
    message = "The feature names should match those that were passed during fit.\n"
    for title, some in (
        ("Feature names unseen at fit time:", sorted(set(found) - set(known))),
        ("Feature names seen at fit time, yet now missing:", sorted(set(known) - set(found))),
    ):
        if some:
            message += "\n".join([title, *(f"- {name}" for name in some[:5]), *(["- ..."] if some[5:] else []), ""])
    if set(found) == set(known):
        message += "Feature names must be in the same order as they were in fit.\n"
    return message
