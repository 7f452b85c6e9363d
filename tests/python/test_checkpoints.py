"""Checkpoints: a fit that was killed resumes and ends with the same bits."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import dgmm
import numpy as np
import pytest
from test_out_of_core import assert_same, rows


class KilledError(Exception):
    """Ends a fit like a kill, as far as the estimator is concerned."""


def killed_at(
    iteration: int, path: Path, X: object, estimator: type[dgmm.DGMM] = dgmm.DGMM, **settings: object
) -> None:
    def kill(event: dgmm.Event) -> None:
        if event.iteration == iteration:
            raise KilledError

    with pytest.raises(KilledError):
        estimator(110, checkpoint=path, callback=kill, **settings).fit(X)
    assert path.exists()


@pytest.fixture(scope="module", name="X")
def some_rows() -> np.ndarray:
    return rows(60_000)


@pytest.mark.parametrize("estimator", [dgmm.DGMM, dgmm.VCGMM, dgmm.KMeans])
def test_a_fit_that_was_cut_off_ends_with_the_same_bits(
    estimator: type[dgmm.DGMM], X: np.ndarray, tmp_path: Path
) -> None:
    path, settings = tmp_path / "fit.checkpoint", {"random_state": 5, "tol": 0, "max_iter": 7}
    plain = estimator(110, **settings).fit(X)
    assert_same(estimator(110, checkpoint=path, **settings).fit(X), plain)
    assert not list(tmp_path.iterdir())
    for iteration in (2, 5):
        killed_at(iteration, path, X, estimator, **settings)
        assert_same(estimator(110, checkpoint=path, **settings).fit(X), plain)
        assert not list(tmp_path.iterdir())


def test_a_killed_fit_resumes_out_of_core(X: np.ndarray, tmp_path: Path) -> None:
    data, path = tmp_path / "x.npy", tmp_path / "fit.checkpoint"
    np.save(data, X)
    settings = {"random_state": 1, "tol": 0, "max_iter": 9, "memory_limit": "120MB"}
    plain = dgmm.DGMM(110, **settings).fit(data)
    script = f"""
import os, signal, dgmm
def kill(event):
    if event.iteration == 6:
        os.kill(os.getpid(), signal.SIGKILL)
dgmm.DGMM(110, checkpoint={str(path)!r}, callback=kill, **{settings!r}).fit({str(data)!r})
"""
    ended = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert path.exists()
    assert_same(dgmm.DGMM(110, checkpoint=path, **settings).fit(data), plain)
    assert not path.exists()


def test_a_damaged_checkpoint_is_replaced_by_the_previous_one(X: np.ndarray, tmp_path: Path) -> None:
    path, settings = tmp_path / "fit.checkpoint", {"random_state": 5, "tol": 0, "max_iter": 30}
    before = Path(f"{path}.before")
    plain = dgmm.DGMM(110, **settings).fit(X)
    killed_at(20, path, X, **settings)
    assert before.exists()
    whole = path.read_bytes()
    for damaged in (whole[:1000], whole[:-1], whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:], b"", b"other"):
        path.write_bytes(damaged)
        with pytest.warns(dgmm.CheckpointWarning, match=r"fit.checkpoint is damaged .*resuming from the previous one"):
            assert_same(dgmm.DGMM(110, checkpoint=path, **settings).fit(X), plain)
        assert not path.exists()
        assert not before.exists()
        killed_at(20, path, X, **settings)
        assert before.exists()
    before.unlink()
    path.write_bytes(whole[:-1])
    with pytest.raises(dgmm.CheckpointError, match=r"fit.checkpoint is damaged: .*; remove it to start over"):
        dgmm.DGMM(110, checkpoint=path, **settings).fit(X)


def test_the_checkpoint_of_another_fit_is_refused_by_name(X: np.ndarray, tmp_path: Path) -> None:
    path, settings = tmp_path / "fit.checkpoint", {"random_state": 5, "tol": 0, "max_iter": 7}
    killed_at(5, path, X, **settings)

    def refused(words: str, estimator: dgmm.DGMM, X: np.ndarray) -> None:
        with pytest.raises(dgmm.CheckpointError, match=words):
            estimator.set_params(checkpoint=path).fit(X)

    refused("n_clusters is 110 there and 111 here", dgmm.DGMM(111, **settings), X)
    refused("seed is 5 there and 6 here", dgmm.DGMM(110, **settings | {"random_state": 6}), X)
    refused("n_rows is 60000 there and 59999 here", dgmm.DGMM(110, **settings), X[:-1])
    refused("dtype is 'float32' there and 'float64' here", dgmm.DGMM(110, **settings), X.astype("float64"))
    refused("system is 'DGMM' there and 'KMeans' here", dgmm.KMeans(110, **settings), X)
    refused("the first rows of X differ", dgmm.DGMM(110, **settings), X[::-1].copy())
    # The number of threads may change, and a random seed is that of the checkpoint.
    plain = dgmm.DGMM(110, **settings).fit(X)
    assert_same(dgmm.DGMM(110, checkpoint=path, n_threads=1, **settings).fit(X), plain)
    drawn = settings | {"random_state": None}
    killed_at(5, path, X, **drawn)
    assert dgmm.DGMM(110, checkpoint=path, **drawn).fit(X).n_iter_ == 7
    assert not path.exists()


def test_a_place_that_cannot_be_written_is_refused_before_any_work(X: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="No such file"):
        dgmm.DGMM(110, checkpoint=tmp_path / "none" / "fit", random_state=0).fit(X)
    with pytest.raises(IsADirectoryError):
        dgmm.DGMM(110, checkpoint=tmp_path, random_state=0).fit(X)
    with pytest.raises(TypeError, match="checkpoint is 3; it must be a path or None"):
        dgmm.DGMM(110, checkpoint=3, random_state=0).fit(X)


def test_small_fits_write_none(tmp_path: Path) -> None:
    X = rows(2000)
    plain = dgmm.KMeans(20, random_state=0).fit(X)
    assert_same(dgmm.KMeans(20, random_state=0, checkpoint=tmp_path / "fit").fit(X), plain)
    assert not list(tmp_path.iterdir())
