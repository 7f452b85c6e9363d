"""Files that are written whole or not at all: at any time there is the old file or the new one."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file whose content takes the place of ``path`` when the block ends; if it fails, nothing has happened.

    The content is written to a folder of its own beside the target, which no other process or thread knows, and is on
    the disk before it is moved. A link stays, and what it points to is replaced. Permissions are those of the file
    that was there, else those of any new file. What is not a regular file, such as a pipe or a device, is written to
    directly. Errors of the system name ``path``.
    """
    name = os.fspath(path)
    with _naming(name):
        mode = _mode(name)
        if mode is not None and not stat.S_ISREG(mode):
            with open(name, "wb") as file:  # for a folder, this is the error
                yield file
            return
        target = os.path.realpath(name)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(target), prefix=".dgmm-") as folder:
            part = os.path.join(folder, "part")
            with open(part, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if mode is not None:
                os.chmod(part, stat.S_IMODE(mode))
            os.replace(part, target)
        _sync_folder(os.path.dirname(target))


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise what ``replacing`` would raise at once: to be called before long work whose result goes to ``path``."""
    name = os.fspath(path)
    with _naming(name):
        mode = _mode(name)
        if mode is not None and stat.S_ISDIR(mode):
            open(name, "wb").close()
        if mode is None or stat.S_ISREG(mode):
            with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.realpath(name)), prefix=".dgmm-"):
                pass


def _mode(name: str) -> int | None:
    try:
        return os.stat(name).st_mode
    except FileNotFoundError:
        return None


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Put the name that the user knows into errors of the system, which have none or that of the temporary file."""
    try:
        yield
    except OSError as error:
        if error.filename is None or ".dgmm-" in str(error.filename):
            error.filename, error.filename2 = name, None
        raise


def _sync_folder(folder: str) -> None:
    """Make the move itself last, on systems that can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
