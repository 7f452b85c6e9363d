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
    """The number of rows of a shard, and of the sample."""
    first: int
    """The checksum of the first shard."""


class Checkpoint:
    """The checkpoint of a fit, and the previous one (``.before`` is added to its name), in case it is damaged.

    Parameters
    ----------
    path : path
        Where to write. If there is a checkpoint of the same fit, the fit resumes from it.
    fit : dict
        What distinguishes this fit from others; it must be serializable by ``json``.
    """

    def __init__(self, path: str | os.PathLike[str], fit: dict[str, Any]) -> None:
        self.path, self.before = Path(path), Path(f"{os.fspath(path)}.before")
        self.fit = json.loads(json.dumps(fit))
        self._next = 0.0
        check_writable(self.path)

    def resume(self) -> State | None:
        """Read the state from which to resume; None if there is no checkpoint."""
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
                message = f"the checkpoint {path} is damaged ({error}): resuming from the previous one, {self.before}"
                warnings.warn(message, CheckpointWarning, stacklevel=6)
        return None

    def is_due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        return perf_counter() >= self._next

    def write(self, state: State) -> None:
        """Write a new checkpoint; the last one becomes the previous one."""
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
        """Remove both files, because the fit is complete."""
        for path in (self.path, self.before):
            with suppress(FileNotFoundError):
                path.unlink()

    def _read(self, path: Path) -> State:
        content = path.read_bytes()
        start = len(MAGIC) + 12
        if content[: len(MAGIC)] != MAGIC or len(content) < start:
            raise _DamagedError("it does not begin like a checkpoint of dgmm")
        length, checksum = struct.unpack("<QI", content[len(MAGIC) : start])
        text = content[start : start + length]
        if len(text) != length or zlib.crc32(text) != checksum:
            raise _DamagedError("its header does not match its checksum")
        header = json.loads(text)
        if header["version"] != VERSION:
            raise CheckpointError(f"the checkpoint {path} has version {header['version']}; it must be {VERSION}")
        self._check_same(path, header["fit"])
        parts, at = [], start + length
        for size, checksum in header["parts"]:
            part = content[at : at + size]
            if len(part) != size or zlib.crc32(part) != checksum:
                raise _DamagedError("a part of it does not match its checksum")
            parts.append(part)
            at += size
        if at != len(content):
            raise _DamagedError("it has extra bytes at the end")
        memberships = [part or None for part in parts[1:]]
        return State(parts[0], memberships, header["seed"], tuple(header["sizes"]), header["first"])

    def _check_same(self, path: Path, other: dict[str, Any]) -> None:
        for name in sorted({*self.fit, *other}, key=lambda name: (name != "system", name)):
            mine, its = self.fit.get(name), other.get(name)
            if mine != its:
                raise CheckpointError(
                    f"the checkpoint {path} belongs to another fit: {name} is {its!r} there and {mine!r} here; remove "
                    "it to start over"
                )


class _DamagedError(Exception):
    pass


def checksum_of(arrays: Sequence[Any]) -> int:
    """The checksum of the bytes of arrays, without those that are None."""
    total = 0
    for array in arrays:
        if array is not None:
            total = zlib.crc32(array, total)
    return total


def trainer_from(state: State, path: Path, n_threads: int | None) -> _core.Trainer:
    """Restore the trainer of a checkpoint."""
    try:
        return _core.Trainer.from_bytes(state.trainer, n_threads)
    except ValueError as error:
        raise CheckpointError(f"the checkpoint {path} cannot be resumed: {error}") from error
