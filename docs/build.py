"""Makes the reference of the Python package from its docstrings: ``python docs/build.py FOLDER``.

Needs pdoc, the extra "docs". Any warning is an error.
"""

import sys
import typing
import warnings
from pathlib import Path

import dgmm
import pdoc


def main(folder: Path) -> None:
    warnings.simplefilter("error")
    for value in [*vars(dgmm).values(), *vars(dgmm.io).values()]:
        if isinstance(value, type) and issubclass(value, tuple):
            # The constructor of a named tuple belongs to no module, so pdoc cannot find what its annotations mean.
            value.__new__.__annotations__ = typing.get_type_hints(value)
    pdoc.render.configure(docformat="numpy", footer_text=f"dgmm {dgmm.__version__}")
    pdoc.pdoc("dgmm", output_directory=folder)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "site"))
