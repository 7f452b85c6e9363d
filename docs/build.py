"""Builds the reference of the Python package from its docstrings: ``python docs/build.py FOLDER``.

Needs pdoc (the extra "docs"). Any warning is an error.
"""

import sys
import typing
import warnings
from pathlib import Path

import dgmm
import dgmm.dask
import pdoc
from sklearn.base import BaseEstimator


def main(folder: Path) -> None:
    warnings.simplefilter("error")
    for value in [*vars(dgmm).values(), *vars(dgmm.io).values()]:
        if isinstance(value, type) and issubclass(value, tuple):
            # The constructor of a named tuple belongs to no module, so pdoc cannot resolve its annotations.
            value.__new__.__annotations__ = typing.get_type_hints(value)
    for estimator in [*vars(dgmm).values(), *vars(dgmm.dask).values()]:
        if isinstance(estimator, type) and issubclass(estimator, BaseEstimator):
            show_inherited(estimator)
    pdoc.render.configure(docformat="numpy", footer_text=f"dgmm {dgmm.__version__}")
    pdoc.pdoc("dgmm", "dgmm.dask", "dgmm.spark", output_directory=folder)


def show_inherited(estimator: type) -> None:
    """Copy inherited members into the estimator's class, because pdoc omits those from private modules."""
    for base in estimator.__mro__[1:]:
        if base.__module__.startswith("dgmm."):
            for name, value in vars(base).items():
                if not name.startswith("_") and name not in vars(estimator):
                    setattr(estimator, name, value)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "site"))
