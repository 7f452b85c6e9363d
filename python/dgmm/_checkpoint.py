"""Checkpoints: what a fit needs to resume after its process has ended, in a file that is always complete."""

from __future__ import annotations

import json
import os
import struct
import warnings
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from dgmm import _core
from dgmm._atomic import check_writable, replacing
from dgmm._warnings import CheckpointWarning

MAGIC = b"dgmm-checkpoint\n"
VERSION = 1
PAUSE = 10.0
"""The next checkpoint waits until the fit has run for this many times as long as writing the last one took."""


class CheckpointError(ValueError):
    """A checkpoint cannot be used: it is damaged, or belongs to another fit. The message names the file."""


class State(NamedTuple):
    """Where a fit was left."""

    trainer: bytes
    memberships: list[bytes | None]
    seed: int
    sizes: tuple[int | None, int | None]
    """Rows of a shard, and of the sample."""
    first: int
    """A checksum of the first shard."""


class Checkpoint:
    """The file of a fit, and the one before it (with ``.before`` after its name), which is used if it is damaged.

    Parameters
    ----------
    path : path
        Where to write. An existing checkpoint is resumed if it is of the same fit.
    fit : dict
        What distinguishes this fit from others; ``json`` must be able to write it.
    """

    def __init__(self, path: str | os.PathLike[str], fit: dict[str, Any]) -> None:
        self.path, self.before = Path(path), Path(f"{os.fspath(path)}.before")
        self.fit = json.loads(json.dumps(fit))
        self._next = 0.0
        check_writable(self.path)

    def resume(self) -> State | None:
        """Read where the fit was left; None if there is no checkpoint."""
        for path in (self.path, self.before):
            if not path.exists():
                continue
            try:
                return self._read(path)
            except _DamagedError as error:
                if path == self.before or not self.before.exists():
                    raise CheckpointError(
                        f"the checkpoint {path} is damaged: {error}; remove it to start over"
                    ) from error
                message = f"the checkpoint {path} is damaged ({error}): resuming from the one before it, {self.before}"
                warnings.warn(message, CheckpointWarning, stacklevel=6)
        return None

    def is_due(self) -> bool:
        """Whether it is time for the next."""
        return perf_counter() >= self._next

    def write(self, state: State) -> None:
        """Put the file in place; the last one becomes the one before."""
        began = perf_counter()
        parts = [state.trainer, *(part or b"" for part in state.memberships)]
        header = {
            "version": VERSION,
            "fit": self.fit,
            "seed": state.seed,
            "sizes": state.sizes,
            "first": state.first,
            "parts": [(len(part), zlib.crc32(part)) for part in parts],
        }
        text = json.dumps(header).encode()
        with replacing(self.path) as file:
            file.write(MAGIC + struct.pack("<QI", len(text), zlib.crc32(text)) + text)
            for part in parts:
                file.write(part)
            if self.path.exists():
                os.replace(self.path, self.before)
        now = perf_counter()
        self._next = now + PAUSE * (now - began)

    def remove(self) -> None:
        """The fit is complete."""
        for path in (self.path, self.before):
            with suppress(FileNotFoundError):
                path.unlink()

    def _read(self, path: Path) -> State:
        content = path.read_bytes()
        start = len(MAGIC) + 12
        if content[: len(MAGIC)] != MAGIC or len(content) < start:
            raise _DamagedError("it does not begin as one of dgmm does")
        length, checksum = struct.unpack("<QI", content[len(MAGIC) : start])
        text = content[start : start + length]
        if len(text) != length or zlib.crc32(text) != checksum:
            raise _DamagedError("its header is not what was written")
        header = json.loads(text)
        if header["version"] != VERSION:
            raise CheckpointError(f"the checkpoint {path} has version {header['version']}; it must be {VERSION}")
        self._check_same(path, header["fit"])
        parts, at = [], start + length
        for size, checksum in header["parts"]:
            part = content[at : at + size]
            if len(part) != size or zlib.crc32(part) != checksum:
                raise _DamagedError("a part of it is not what was written")
            parts.append(part)
            at += size
        if at != len(content):
            raise _DamagedError("something follows it")
        memberships = [part or None for part in parts[1:]]
        return State(parts[0], memberships, header["seed"], tuple(header["sizes"]), header["first"])

    def _check_same(self, path: Path, other: dict[str, Any]) -> None:
        for name in sorted({*self.fit, *other}, key=lambda name: (name != "system", name)):
            mine, its = self.fit.get(name), other.get(name)
            if mine != its:
                raise CheckpointError(
                    f"the checkpoint {path} is of another fit: {name} is {its!r} there and {mine!r} here; remove it to "
                    "start over"
                )


class _DamagedError(Exception):
    pass


def checksum_of(arrays: Sequence[Any]) -> int:
    """A checksum of the bytes of arrays; None counts as nothing."""
    total = 0
    for array in arrays:
        if array is not None:
            total = zlib.crc32(array, total)
    return total


def trainer_from(state: State, path: Path, n_threads: int | None) -> _core.Trainer:
    """Make the trainer again."""
    try:
        return _core.Trainer.from_bytes(state.trainer, n_threads)
    except ValueError as error:
        raise CheckpointError(f"the checkpoint {path} cannot be resumed: {error}") from error
