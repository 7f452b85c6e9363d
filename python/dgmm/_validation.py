"""Checks of arguments. Each message names the argument, the value and what is allowed.

Types and signs are checked here, because Rust's types cannot represent wrong ones. The core checks ranges that depend
on several arguments, weights, and non-finite values of the data to be fitted, by the same rules for Rust and Python.
"""

from __future__ import annotations

import math
import numbers
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state

from dgmm._columns import check_names, check_number
from dgmm._tables import float_for, read

FLOATS = (np.float64, np.float32)


def check_int(name: str, value: Any, *, least: int = 1, most: int | None = None, most_is: str = "") -> int:
    """Return ``value`` as an int if it is a whole number from ``least`` to ``most``."""
    allowed = f"an integer, at least {least}"
    if most is not None:
        allowed += f" and at most {most_is or most}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} is {value!r}; it must be {allowed}")
    number = int(value)
    if most is None and number >= 2**63:
        allowed += " and below 2**63"
    if number < least or number > (2**63 - 1 if most is None else most):
        raise ValueError(f"{name} is {value!r}; it must be {allowed}")
    return number


def check_auto(name: str, value: Any, *, least: int = 1) -> int | None:
    """Return None for "auto", else ``value`` as an int of at least ``least``."""
    if isinstance(value, str):
        check_option(name, value, ("auto",), f"an integer, at least {least}, or ")
        return None
    return check_int(name, value, least=least)


def check_tolerance(name: str, value: Any, named: dict[str, float] | None = None) -> float | None:
    """Return ``value`` as a float, if finite and not negative; None for "auto"; the value of a name in ``named``."""
    named = named or {}
    if isinstance(value, str) and value in named:
        return named[value]
    names = " or ".join(map(repr, ["auto", *named]))
    return _number_or_auto(
        name, value, f"a finite number, at least 0, or {names}", lambda number: 0 <= number < math.inf
    )


def check_step_length(name: str, value: Any) -> float | None:
    """Return ``value`` as a float if it is above 0 and below 2, None for "auto"."""
    return _number_or_auto(name, value, "a number above 0 and below 2, or 'auto'", lambda number: 0 < number < 2)


def check_non_negative(name: str, value: Any) -> float:
    """Return ``value`` as a float if it is finite and not negative."""
    return _number(name, value, "a finite number, at least 0", lambda number: 0 <= number < math.inf)


def check_max_size(name: str, value: Any) -> float | None:
    """Return ``value`` as a float if it is finite and at least 1, None for None."""
    if value is None:
        return None
    return _number(name, value, "None or a finite number, at least 1", lambda number: 1 <= number < math.inf)


def check_share(name: str, value: Any) -> float:
    """Return ``value`` as a float if it is above 0 and at most 1."""
    return _number(name, value, "a number above 0 and at most 1", lambda number: 0 < number <= 1)


def _number_or_auto(name: str, value: Any, allowed: str, fits: Callable[[float], bool]) -> float | None:
    return None if isinstance(value, str) and value == "auto" else _number(name, value, allowed, fits)


def _number(name: str, value: Any, allowed: str, fits: Callable[[float], bool]) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; it must be {allowed}")
    number = float(value)
    if not fits(number):
        raise ValueError(f"{name} is {value!r}; it must be {allowed}")
    return number


UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def check_bytes(name: str, value: Any) -> int | None:
    """Return a number of bytes that is given as an integer or as text such as "600MB"; None for None."""
    if value is None:
        return None
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9]+\.?[0-9]*)\s*([a-z]*)\s*", value.lower(), re.ASCII)
        if found is None or found[2] not in UNITS:
            raise ValueError(f"{name} is {value!r}; it must be a number of bytes or text such as '600MB'")
        value = int(float(found[1]) * UNITS[found[2]])
    return check_int(name, value)


def check_path(name: str, value: Any) -> None:
    """Refuse a value that is neither None nor a path."""
    if value is not None and not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} is {value!r}; it must be a path or None")


def check_flag(name: str, value: Any) -> bool:
    """Return ``value`` as a bool if it is one."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {value!r}; it must be True or False")
    return bool(value)


def check_option(name: str, value: Any, allowed: Sequence[str], also: str = "") -> str:
    """Return ``value`` if it is one of the strings ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        kind = ValueError if isinstance(value, str) else TypeError
        raise kind(f"{name} is {value!r}; it must be {also}{' or '.join(map(repr, allowed))}")
    return value


def check_callable(name: str, value: Any) -> None:
    """Refuse a value that is neither None nor callable."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} is {value!r}; it must be None or callable")


def check_seed(random_state: Any) -> int:
    """Turn None, an int or a RandomState into one unsigned 64-bit seed. An int is the seed itself."""
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool | np.bool_):
        return check_int("random_state", random_state, least=0, most=2**64 - 1, most_is="2**64 - 1")
    if random_state is not None and not isinstance(random_state, np.random.RandomState):
        raise TypeError(f"random_state is {random_state!r}; it must be None, an integer or a numpy.random.RandomState")
    high, low = check_random_state(random_state).randint(0, 2**32, size=2, dtype=np.uint64)
    return int(high) << 32 | int(low)


class NamedBefore(np.ndarray[Any, Any]):
    """Rows whose column names were checked before, such as the parts of a file."""


def check_rows(estimator: Any, X: Any, *, reset: bool, dtype: Any = None) -> NDArray[Any]:
    """Return ``X`` as rows in C order, without a copy if possible.

    Unless ``dtype`` is given, float32, float16, bool and integers of at most 16 bits become float32, which represents
    them exactly, and everything else becomes float64. With ``reset`` (in fit) the estimator stores the number and names
    of the columns, and the core checks that values are finite while it computes the mean. Without it (in predict)
    columns and values are checked here.
    """
    values, names = read("X", X)
    refuse_what_is_no_number("X", values)
    if not isinstance(X, NamedBefore):
        check_names(estimator, names, reset=reset)
    checks = {"dtype": dtype or _dtype_for(values), "order": "C", "copy": False, "ensure_all_finite": not reset}
    with _naming("X"):
        rows = check_array(values, input_name="X", estimator=estimator, **checks)
    check_number(estimator, rows.shape[1], reset=reset)
    return _native(rows)


def check_matrix(name: str, value: Any, *, dtype: Any = None, finite: bool = True) -> NDArray[Any]:
    """Return a matrix by the rules of ``check_rows``, but without an estimator.

    With ``finite=False`` the core must check that values are finite.
    """
    value = read(name, value).values
    refuse_what_is_no_number(name, value)
    checks = {"dtype": dtype or _dtype_for(value), "order": "C", "copy": False, "ensure_all_finite": finite}
    with _naming(name):
        rows = check_array(value, input_name=name, **checks)
    return _native(rows)


def check_centers(name: str, centers: Any, n_clusters: int | None, like: NDArray[Any]) -> NDArray[Any]:
    """Return ``centers`` in the type of the rows ``like``; the numbers of columns must be equal."""
    found = check_matrix(name, centers, dtype=like.dtype.type)
    wanted = (found.shape[0] if n_clusters is None else n_clusters, like.shape[1])
    if found.shape != wanted:
        raise ValueError(f"{name} has shape {found.shape}; it must be {wanted}")
    return found


def check_weights(sample_weight: ArrayLike | None, n_rows: int | None) -> NDArray[np.float64] | None:
    """Return the weights as a vector of ``n_rows`` entries; the core or ``check_weight_values`` checks the values.

    A single number is the weight of every row. ``n_rows`` is None if the number of rows is unknown.
    """
    if sample_weight is None:
        return None
    values = read("sample_weight", sample_weight).values
    refuse_what_is_no_number("sample_weight", values)
    if isinstance(values, numbers.Real) or (isinstance(values, np.ndarray) and values.ndim == 0):
        if n_rows is None:
            raise ValueError(
                f"sample_weight is {values}; it must be None or an array, because the number of rows is unknown: pass "
                "tuples of a chunk and its weights"
            )
        values = np.full(n_rows, values)
    with _naming("sample_weight"):
        weights: NDArray[Any] = check_array(
            values, dtype=np.float64, ensure_2d=False, ensure_all_finite=False, input_name="sample_weight"
        )
    if weights.ndim != 1 or n_rows not in (None, len(weights)):
        raise ValueError(f"sample_weight has shape {weights.shape}; it must be ({n_rows},) or a number")
    return _native(weights)


def check_weight_values(weights: NDArray[np.float64]) -> None:
    """Refuse the weights that the core would refuse, if they are not passed to it."""
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise ValueError(f"sample_weight[{bad[0]}] is {weights[bad[0]]:g}; weights must be finite and at least 0")
    if not weights.any():
        raise ValueError("sample_weight is zero for every row; at least one must be positive")


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore the estimator's attributes if the block fails or is interrupted."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Add the argument's name to an error of scikit-learn or NumPy that does not contain it."""
    try:
        yield
    except (OverflowError, TypeError, ValueError) as error:
        if name in str(error) and not isinstance(error, OverflowError):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}") from error


def refuse_what_is_no_number(name: str, values: Any) -> None:
    """Refuse dates, strings and records; the error names their type."""
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "mMSUV":
        raise TypeError(f"{name} is of type {dtype}; it must be numeric")


def _dtype_for(value: Any) -> Any:
    dtype = getattr(value, "dtype", None)
    return float_for(dtype) if isinstance(dtype, np.dtype) and dtype.kind != "O" else FLOATS


def _native(values: NDArray[Any]) -> NDArray[Any]:
    """Copy the values if they are not aligned, which is rare."""
    return np.require(np.asarray(values), requirements=["C", "A"])
