"""Files that are written completely or not at all: at any time there is either the old file or the new one."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` when the block ends; if the block fails, ``path`` stays as it was.

    The content is written to a temporary folder next to the target, which no other process or thread knows, and is
    flushed to disk before it is moved. If ``path`` is a link, the file it points to is replaced. Permissions are those
    of the old file, or of any new file if there is none. A pipe, a device or anything else that is not a regular file
    is written to directly. Errors of the system name ``path``.
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
    """Raise now what ``replacing`` would raise later; call it before long work whose result goes to ``path``."""
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
    """Put the user's file name into errors of the system, which have no name or that of the temporary file."""
    try:
        yield
    except OSError as error:
        if error.filename is None or ".dgmm-" in str(error.filename):
            error.filename, error.filename2 = name, None
        raise


def _sync_folder(folder: str) -> None:
    """Flush the move itself to disk, on systems that can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
