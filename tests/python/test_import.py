"""Importing the package is fast: optional packages are imported only when used."""

import subprocess
import sys

LIST = "import sys, {}; print(*sorted(name.partition('.')[0] for name in sys.modules))"


def imported(module):
    run = subprocess.run([sys.executable, "-c", LIST.format(module)], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_dgmm_imports_nothing_heavy_beside_scikit_learn():
    heavy = {"dask", "faiss", "matplotlib", "pandas", "pdoc", "polars", "pyarrow", "safetensors", "torch", "tqdm"}
    assert not heavy & (imported("dgmm") - imported("sklearn.base"))


def test_no_package_is_needed_that_is_not_asked_for():
    # None stands for what cannot be imported; the tests' own packages bring all of these along.
    absent = ("typing_extensions", "pyarrow", "dask", "distributed", "pyspark", "matplotlib", "tqdm")
    code = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); import dgmm; dgmm.KMeans(2).fit([[0.0], [1.0]])"
    subprocess.run([sys.executable, "-c", code], check=True)
