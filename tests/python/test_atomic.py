"""A written file is either the old one or the new one."""

import errno
import os
import stat
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from dgmm._atomic import check_writable, replacing

POSIX = pytest.mark.skipif(os.name == "nt", reason="needs POSIX files")


def put(path, content=b"new"):
    with replacing(path) as file:
        file.write(content)


def others(folder, *names):
    return sorted(set(os.listdir(folder)) - set(names))


def test_a_file_is_made_or_replaced_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "a.bin"
    put(path, b"old")
    assert path.read_bytes() == b"old"
    put(str(path))
    assert path.read_bytes() == b"new"
    assert others(tmp_path) == ["a.bin"]


def test_a_name_without_a_folder_is_in_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put("a.bin")
    assert Path("a.bin").read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), ValueError()])
@pytest.mark.parametrize("there", [True, False])
def test_what_fails_on_the_way_leaves_the_old_file_and_nothing_else(error, there, tmp_path):
    path = tmp_path / "a.bin"
    if there:
        path.write_bytes(b"old")

    def write():
        with replacing(path) as file:
            file.write(b"half of the n")
            raise error

    with pytest.raises(type(error)):
        write()
    assert others(tmp_path) == (["a.bin"] if there else [])
    assert not there or path.read_bytes() == b"old"


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_step_of_the_system_that_fails_names_the_file_and_leaves_the_old_one(step, tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def fails(*arguments, **_):
        raise OSError(errno.ENOSPC, "No space left on device", arguments[0] if step == "replace" else None)

    monkeypatch.setattr(os, step, fails)
    with pytest.raises(OSError, match="No space") as caught:
        put(path)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert others(tmp_path, "a.bin") == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of file sizes")
def test_a_full_disk_raises_an_error_and_keeps_the_old_file(tmp_path):
    import resource
    import signal

    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large") as caught:
            put(path, bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert others(tmp_path, "a.bin") == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_device_is_written_and_not_replaced(tmp_path):
    path = tmp_path / "a.bin"
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        put(path)
    assert caught.value.filename == str(path)
    put("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@POSIX
def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "deep").mkdir()
    path, target = tmp_path / "link", tmp_path / "deep" / "a.bin"
    path.symlink_to(target)
    for content in (b"made", b"replaced"):
        put(path, content)
        assert path.is_symlink()
        assert target.read_bytes() == content
    assert others(tmp_path / "deep") == ["a.bin"]
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        put(path)
    assert path.is_symlink()


@POSIX
def test_permissions_are_those_of_the_old_file_or_of_any_new_one(tmp_path):
    path, plain = tmp_path / "a.bin", tmp_path / "plain"
    before = os.umask(0o027)
    try:
        put(path)
        plain.touch()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode) == 0o640
    for mode in (0o604, 0o400):
        path.chmod(mode)
        put(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.fixture
def closed_folder():
    """A folder that this process cannot write to, as another user if it is run by root."""
    folder = Path(tempfile.mkdtemp())
    (folder / "a.bin").write_bytes(b"old")
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
        (folder / "a.bin").unlink()
        folder.rmdir()


@POSIX
@pytest.mark.parametrize("write", [put, check_writable])
@pytest.mark.parametrize("name", ["a.bin", "b.bin"])
def test_errors_name_folders_that_are_not_writable(write, name, closed_folder):
    path = closed_folder / name
    with pytest.raises(PermissionError) as caught:
        write(path)
    assert caught.value.filename == str(path)
    assert others(closed_folder) == ["a.bin"]
    assert (closed_folder / "a.bin").read_bytes() == b"old"


@pytest.mark.parametrize("write", [put, check_writable])
def test_folders_are_no_files_and_missing_ones_are_not_made(write, tmp_path):
    with pytest.raises(IsADirectoryError) as caught:
        write(tmp_path)
    assert caught.value.filename == str(tmp_path)
    path = tmp_path / "gone" / "a.bin"
    with pytest.raises(FileNotFoundError) as caught:
        write(path)
    assert caught.value.filename == str(path)
    assert others(tmp_path) == []


def test_a_check_leaves_no_trace(tmp_path):
    check_writable(tmp_path / "a.bin")
    assert others(tmp_path) == []
    put(tmp_path / "a.bin")
    check_writable(tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == b"new"


@POSIX  # Windows refuses to replace a file that is being read
def test_many_writers_and_readers_never_see_a_torn_file(tmp_path):
    path, size, faults = tmp_path / "a.bin", 200_000, []
    put(path, bytes(size))
    done = threading.Event()

    def write(number):
        for _ in range(10):
            put(path, bytes([number]) * size)

    def watch():
        while not done.is_set():
            content = path.read_bytes()
            if len(content) != size or len(set(content)) != 1:
                faults.append(len(content))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(1, 6)]
    readers = [threading.Thread(target=watch) for _ in range(2)]
    for thread in writers + readers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert faults == []
    assert others(tmp_path) == ["a.bin"]
