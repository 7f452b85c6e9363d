"""Files of models under threads, kills, links, signals and what the system refuses."""

import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import dgmm
import numpy as np
import pytest
from support import blobs

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX links, permissions and signals")
PART = re.compile(r"model\.safetensors\.[0-9A-Za-z]{16}\.part")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def sized(megabytes, value=1.0):
    """A fitted model with centers of this size."""
    model = dgmm.KMeans(2, random_state=0).fit(blobs(50, 2, 2))
    model.cluster_centers_ = np.full((megabytes * 2**20 // 256, 64), value, dtype=np.float32)
    model.n_features_in_ = 64
    return model


def test_threads_may_save_to_one_path_while_others_read_it(path):
    models = [sized(2, value) for value in (1.0, 2.0, 3.0)]
    models[0].save(path)
    seen = set()

    def save(model):
        for _ in range(15):
            model.save(path)

    def load():
        for _ in range(30):
            centers = dgmm.load(path).cluster_centers_
            assert (centers == centers[0, 0]).all()
            seen.add(float(centers[0, 0]))

    with ThreadPoolExecutor(5) as pool:
        for future in [pool.submit(save, model) for model in models] + [pool.submit(load) for _ in range(2)]:
            future.result()
    assert seen <= {1.0, 2.0, 3.0}
    assert os.listdir(path.parent) == [path.name]


def parts(path):
    return {name for name in os.listdir(path.parent) if name != path.name}


SAVES = """
import sys, dgmm, numpy as np
model = dgmm.load(sys.argv[1])
for value in range(10**6):
    model.cluster_centers_ = np.full((2**16, 64), value, dtype=np.float32)
    model.save(sys.argv[1])
"""


@posix
def test_a_killed_process_leaves_a_whole_file_and_at_most_a_part_that_does_no_harm(path):
    model = sized(4)
    model.save(path)
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", SAVES, str(path)])
        known = parts(path)
        while parts(path) == known and process.poll() is None:
            pass
        process.kill()
        process.wait()
        centers = dgmm.load(path).cluster_centers_
        assert (centers == centers[0, 0]).all()
    left = parts(path)
    assert all(PART.fullmatch(name) for name in left)
    model.save(path)
    assert parts(path) == left


def test_saving_removes_parts_of_the_same_file_that_are_older_than_a_day(path):
    names = [
        name + ".part" for name in ("model.safetensors.0123456789abcDEF", "other.safetensors.0123456789abcDEF", "x")
    ]
    for name in names:
        old = path.with_name(name)
        old.write_bytes(b"")
        os.utime(old, (time.time() - 90_000,) * 2)
    young = path.with_name("model.safetensors.0123456789abcDE0.part")
    young.write_bytes(b"")
    sized(1).save(path)
    assert set(os.listdir(path.parent)) == {path.name, young.name, *names[1:]}


@posix
def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    model = sized(1)
    (tmp_path / "real").mkdir()
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "latest.safetensors"
    link.symlink_to("../real/model.safetensors")
    for _ in range(2):  # its target does not exist the first time
        model.save(link)
        assert os.readlink(link) == "../real/model.safetensors"
        assert os.listdir(tmp_path / "real") == ["model.safetensors"]
        np.testing.assert_array_equal(dgmm.load(link).cluster_centers_, model.cluster_centers_)
    assert os.listdir(tmp_path / "links") == [link.name]
    endless = tmp_path / "endless.safetensors"
    endless.symlink_to(endless.name)
    with pytest.raises(OSError, match="endless") as said:
        model.save(endless)
    assert said.value.errno == errno.ELOOP


@posix
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o444])
def test_permissions_of_a_file_that_is_replaced_are_kept(mode, path):
    model = sized(1)
    model.save(path)
    path.chmod(mode)
    model.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@posix
def test_a_pipe_is_neither_replaced_nor_read(tmp_path):
    path = tmp_path / "pipe.safetensors"
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        sized(1).save(path)
    assert stat.S_ISFIFO(path.stat().st_mode)
    with pytest.raises(dgmm.ModelFileError, match="not a regular file"):
        dgmm.load(path)


def test_errors_of_the_system_keep_number_and_name(tmp_path):
    model = sized(1)
    absent = tmp_path / "no" / "model.safetensors"
    folder = tmp_path / "folder.safetensors"
    folder.mkdir()
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "model.safetensors"
    kinds = [(absent, FileNotFoundError), (folder, (IsADirectoryError, PermissionError))]
    kinds += [] if os.name == "nt" else [(below, NotADirectoryError)]
    for path, kind in kinds:
        for call in (lambda path: model.save(path), dgmm.load):
            with pytest.raises(kind) as said:
                call(path)
            assert said.value.filename == str(path)
            assert said.value.errno
            assert said.value.strerror == os.strerror(said.value.errno) or os.name == "nt"
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.safetensors"]


@posix
def test_missing_permissions_are_a_permission_error(path):
    model = sized(1)
    model.save(path)
    path.chmod(0)
    path.parent.chmod(0o500)
    user = os.geteuid()
    if user == 0:  # who may do everything
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionError, match=path.name):
            dgmm.load(path)
        with pytest.raises(PermissionError, match=path.name):
            model.save(path)
    finally:
        os.seteuid(user)
        path.parent.chmod(0o700)


@posix
def test_a_full_disk_raises_an_error_and_leaves_nothing(path):
    import resource

    sized(1).save(path)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The closest to a full disk that a process can simulate.
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, limits[1]))
    try:
        with pytest.raises(OSError, match=path.name) as said:
            sized(3).save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert said.value.errno == errno.EFBIG
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("name", ["model.pkl", "model", "model.safetensors.gz", ".safetensors"])
def test_another_ending_is_refused_by_name(name, tmp_path):
    with pytest.raises(ValueError, match=rf"path is .*{re.escape(name)}.*must end in .safetensors"):
        sized(1).save(tmp_path / name)
    assert not os.listdir(tmp_path)


def interrupted(call):
    """Call, with Ctrl-C soon after; return how long it took to be noticed."""
    sent, begun = [], threading.Event()

    def send():
        begun.wait()  # a busy machine may take long to start a thread
        time.sleep(0.005)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    begun.set()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
        return time.perf_counter() - sent[0]
    finally:
        thread.join()


@posix
def test_ctrl_c_stops_saving_and_loading_within_a_second(path):
    model = sized(512)
    assert interrupted(lambda: model.save(path)) < 1
    assert os.listdir(path.parent) == []
    model.save(path)
    assert interrupted(lambda: dgmm.load(path)) < 1


MEMORY = r"""
import re, sys, dgmm, numpy as np
peak = lambda: int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1]) * 1024
model = dgmm.KMeans(2, random_state=0).fit(np.eye(4))
model.cluster_centers_, model.n_features_in_ = np.ones((2**19, 64), dtype=np.float32), 64
before = peak()
model.save(sys.argv[1])
saved = peak()
del model
dgmm.load(sys.argv[1])
print(saved - before, peak() - saved)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="only Linux tells the peak of one program")
def test_saving_needs_no_copy_of_the_model_and_loading_only_the_model(path):
    out = subprocess.run([sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, check=True).stdout
    save, load = map(int, out.split())
    size = 2**19 * 64 * 4
    assert save < size / 4
    assert load < size / 2  # above the peak of saving, which held one model too


@posix
def test_a_file_that_no_memory_can_hold_is_a_memory_error_and_a_false_size_damage(path):
    array = {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}
    header = json.dumps({"__metadata__": {"format": "dgmm", "format_version": "1"}, "w": array}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(dgmm.ModelFileError, match="damaged"):
        dgmm.load(path)
    try:
        os.truncate(path, 8 + len(header) + 2**42)
    except OSError:
        pytest.skip("the file system has no files of that size")
    with pytest.raises(MemoryError, match=str(2**42)):
        dgmm.load(path)
