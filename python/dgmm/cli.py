"""The command ``dgmm``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dgmm import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with the given arguments, by default those of the process."""
    parser = argparse.ArgumentParser(prog="dgmm", description="Clustering into many clusters.")
    parser.add_argument("--version", action="version", version=f"dgmm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add_demo(commands)
    options = parser.parse_args(arguments)

    from dgmm._demo import demo
    from dgmm._extras import MissingExtraError

    try:
        demo(
            rows=options.rows,
            clusters=options.clusters,
            threads=options.threads,
            seed=options.seed,
            output=options.output,
            compare=options.compare,
        )
    except (MissingExtraError, ValueError) as error:
        print(f"dgmm {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"dgmm {options.command}: interrupted", file=sys.stderr)
        return 130
    return 0


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "Cluster patches of a made scene, compare with scikit-learn's KMeans and save a picture."
    parser = commands.add_parser("demo", help="cluster made data and compare", description=text)
    parser.add_argument("--rows", type=int, default=40_000, help="rows to make (default: %(default)s)")
    parser.add_argument("--clusters", type=int, default=500, help="clusters to find (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=None, help="threads for both (default: all there are)")
    parser.add_argument("--seed", type=int, default=0, help="seed of data and fits (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("demo.png"), help="the picture (default: %(default)s)")
    parser.add_argument("--no-compare", dest="compare", action="store_false", help="leave scikit-learn out")


if __name__ == "__main__":
    sys.exit(main())
