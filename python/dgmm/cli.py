"""The command ``dgmm``: its options, and how errors are reported.

Exit codes: 0 success, 1 failure (a file, the data or a setting is invalid), 2 usage error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from dgmm import __version__, _commands
from dgmm._outputs import UsageError

EPILOG = """\
examples:
  dgmm fit vectors.npy -k 1000 -o model.safetensors --labels labels.npy
  dgmm fit part1.parquet part2.parquet --columns embedding -k 5000 -o model.safetensors
  dgmm predict new.npy -m model.safetensors -o labels.npy
  dgmm info model.safetensors
  dgmm sweep vectors.npy -k 100 200 500 1000 --coreset-size 20000
  dgmm estimate --rows 10000000 --columns 96 -k 20000
  dgmm demo

DATA is a .npy, .npz, .csv, .parquet, .fvecs or .bvecs file; several files are concatenated.
`dgmm COMMAND --help` lists the options of a command.

exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted
"""


class Parser(argparse.ArgumentParser):
    """Reports errors in the arguments in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with the given arguments, by default those of the process, and return the exit code."""
    options = _parser().parse_args(arguments)
    name = f"dgmm {options.command}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of NumPy's parser, about a damaged header
            warnings.showwarning = lambda message, *_, **__: print(f"{name}: warning: {message}", file=sys.stderr)
            options.run(options)
            sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{name}: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    except UsageError as error:
        print(f"{name}: {error} (see {name} --help)", file=sys.stderr)
        return 2
    except (ImportError, MemoryError, TypeError, ValueError) as error:
        print(f"{name}: {' '.join(str(error).split()) or 'out of memory'}", file=sys.stderr)
        return 1
    return 0


def _parser() -> Parser:
    raw = argparse.RawDescriptionHelpFormatter
    about = "Clustering into many clusters at a cost that does not grow with their number."
    parser = Parser(prog="dgmm", description=about, epilog=EPILOG, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"dgmm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def add(name: str, text: str, run: Any, example: str) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=f"example:\n  {example}\n",
            formatter_class=raw,
        )
        command.add_argument("--json", action="store_true", help="print the result as one JSON object")
        command.set_defaults(run=run)
        return command

    vector = ".npy, .csv, .txt or .parquet"
    fit = add(
        "fit", "find clusters and save the model", _commands.fit, "dgmm fit vectors.npy -k 1000 -o model.safetensors"
    )
    _add_data(fit)
    fit.add_argument("-k", "--clusters", type=_count, required=True, metavar="M", help="number of clusters")
    fit.add_argument("-o", "--output", type=Path, metavar="FILE", help="the model, a .safetensors file")
    fit.add_argument("--labels", type=Path, metavar="FILE", help=f"the cluster of each row: {vector}")
    _add_settings(fit)

    text = "label rows with the clusters of a saved model"
    predict = add("predict", text, _commands.predict, "dgmm predict new.npy -m model.safetensors -o labels.npy")
    _add_data(predict, weights=False)
    predict.add_argument("-m", "--model", type=Path, required=True, metavar="FILE", help="a model saved by dgmm fit")
    predict.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help=f"labels: {vector} (default: text on stdout)"
    )
    predict.add_argument(
        "--method",
        choices=("exact", "approximate"),
        default="exact",
        help="how to search (default: %(default)s); approximate search may miss some nearest clusters",
    )
    predict.add_argument(
        "--recall",
        type=_share,
        metavar="X",
        help="share of rows that approximate search must get right (default 0.98)",
    )
    predict.add_argument("--distances", type=Path, metavar="FILE", help=f"distances to the nearest center: {vector}")
    predict.add_argument("--threads", type=_count, metavar="N", help="number of threads")

    info = add("info", "show the contents of a model file", _commands.info, "dgmm info model.safetensors")
    info.add_argument("model", type=Path, metavar="MODEL", help="a model saved by dgmm fit")

    text = "fit several numbers of clusters and compare them"
    sweep = add("sweep", text, _commands.sweep, "dgmm sweep vectors.npy -k 100 200 500 --plot sweep.png")
    _add_data(sweep)
    sweep.add_argument(
        "-k", "--clusters", type=_count, nargs="+", required=True, metavar="M", help="numbers of clusters"
    )
    sweep.add_argument("-o", "--output", type=Path, metavar="FILE", help="the table, a .csv file")
    sweep.add_argument("--plot", type=Path, metavar="FILE", help="a plot of the table, such as .png or .pdf")
    _add_settings(sweep, without=("init",))

    text = "predict the seconds and the memory of a fit"
    estimate = add("estimate", text, _commands.estimate, "dgmm estimate --rows 1000000 --columns 96 -k 10000")
    estimate.add_argument("data", nargs="*", type=Path, metavar="DATA", help="files of rows whose sizes to use")
    estimate.add_argument("--rows", type=_count, metavar="N", help="number of rows, instead of DATA")
    estimate.add_argument("--columns", type=_count, metavar="D", help="number of columns, instead of DATA")
    estimate.add_argument("--float64", action="store_true", help="the rows are float64 (default: float32)")
    estimate.add_argument("-k", "--clusters", type=_count, required=True, metavar="M", help="number of clusters")
    _add_settings(estimate)

    demo = add(
        "demo", "cluster synthetic data and compare with scikit-learn", _commands.demo, "dgmm demo --rows 100000"
    )
    demo.add_argument("--rows", type=_count, default=40_000, help="number of rows (default: %(default)s)")
    demo.add_argument("--clusters", type=_count, default=500, help="number of clusters (default: %(default)s)")
    demo.add_argument("--threads", type=_count, default=None, help="threads for both (default: all available)")
    demo.add_argument("--seed", type=_seed, default=0, help="seed of data and fits (default: %(default)s)")
    demo.add_argument("--output", type=Path, default=Path("demo.png"), help="the picture (default: %(default)s)")
    demo.add_argument("--no-compare", dest="compare", action="store_false", help="leave scikit-learn out")
    return parser


def _add_data(parser: argparse.ArgumentParser, *, weights: bool = True) -> None:
    kinds = ".npy, .npz, .csv, .parquet, .fvecs or .bvecs"
    parser.add_argument("data", nargs="+", type=Path, metavar="DATA", help=f"files of rows: {kinds}")
    parser.add_argument(
        "--columns", type=_names, metavar="A,B", help="columns of .csv and .parquet to use (default: all)"
    )
    parser.add_argument("--key", metavar="NAME", help="array of .npz to use (default: X, or the only one)")
    parser.add_argument("--float32", action="store_true", help="read the rows as float32: half the memory of float64")
    if weights:
        parser.add_argument("--weights", type=Path, metavar="FILE", help="the weight of each row")


def _add_settings(parser: argparse.ArgumentParser, without: Sequence[str] = ()) -> None:
    group = parser.add_argument_group("settings, with the defaults of the estimators")
    kinds = ("dgmm", "vcgmm", "exactgmm", "kmeans", "gaussianmixture")
    group.add_argument("--estimator", choices=kinds, default="dgmm", help="the estimator (default: %(default)s)")
    for option, name, kind, shown, text in _commands.SETTINGS:
        if name not in without:
            how: dict[str, Any] = {"choices": shown} if isinstance(shown, tuple) else {"metavar": shown}
            kind = {"count": _count, "rounds": _rounds}.get(kind, kind)
            group.add_argument(option, type=kind, help=text, **how)
    group.add_argument("--seed", type=_seed, default=0, metavar="N", help="random seed (default: %(default)s)")
    group.add_argument(
        "--quiet", action="store_true", help="no progress bar, and no message about how the files are read"
    )


def _rounds(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, at least 0")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, at least 1")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2**64 - 1")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and at most 1")
    return share


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
