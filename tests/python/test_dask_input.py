"""The estimators for Dask refuse invalid input by name."""

import subprocess
import sys

import numpy as np
import pytest
from partitioned import ROWS, array, rows, with_nan

dask = pytest.importorskip("dask", reason="needs the extra `dask`")
da = pytest.importorskip("dask.array", reason="needs the extra `dask`")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra `dask`")
import dgmm.dask  # noqa: E402


def of_two_widths():
    parts = [dask.delayed(np.zeros)((10, width)) for width in (4, 3)]
    return da.concatenate([da.from_delayed(part, (10, 4), dtype=float) for part in parts])


BAD = {
    "rows in memory": (lambda: rows(), {}, TypeError, r"X is a ndarray; it must be a Dask array or dataframe"),
    "one dimension": (lambda: array()[:, 0], {}, ValueError, r"X has 1 dimensions; it must have 2"),
    "no rows": (lambda: array()[:0], {}, ValueError, r"X has 0 rows in 1 partitions"),
    "texts": (lambda: array().astype(str), {}, TypeError, r"X is of type .*; it must be numeric"),
    "NaN": (with_nan, {}, ValueError, r"X\[1777, 2\] is NaN; every value must be finite"),
    "two widths": (of_two_widths, {}, ValueError, r"X: partition 1 has shape \(10, 3\); it must have 4 columns"),
    "weights": (array, {"sample_weight": np.ones(3)}, ValueError, r"sample_weight has shape \(3,\)"),
    "lazy weights": (array, {"sample_weight": da.ones(3)}, ValueError, r"sample_weight has shape \(3,\)"),
    "bad weight": (array, {"sample_weight": -np.eye(1, ROWS, 1501)[0]}, ValueError, r"sample_weight\[1501\] is -1"),
    "no weight": (array, {"sample_weight": 0.0}, ValueError, r"sample_weight is zero for every row"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_name(case):
    make, more, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        dgmm.dask.KMeans(2, random_state=0).fit(make(), **more)


def test_bad_settings_are_refused_by_name():
    for settings, message in (
        ({"n_clusters": ROWS + 1}, r"n_clusters is 3001; .* at most n_samples=3000"),
        ({"n_init": 2}, "n_init is 2; .* must be 1"),
        ({"checkpoint": "here"}, "checkpoint is 'here'; it must be None"),
        ({"memory_limit": 10**9}, "memory_limit is 1000000000; it must be None"),
        ({"init": rows()[:3]}, r"init has shape \(3, 4\); it must be \(2, 4\)"),
    ):
        model = dgmm.dask.KMeans(**{"n_clusters": 2, "random_state": 0} | settings)
        with pytest.raises(ValueError, match=message):
            model.fit(array())
        assert not hasattr(model, "cluster_centers_")


def test_a_column_of_texts_or_with_gaps_is_named():
    pandas = pytest.importorskip("pandas", reason="Dask's dataframes need pandas")
    table = pandas.DataFrame({"a": np.arange(10.0), "b": list("abcdefghij")})
    with pytest.raises(ValueError, match=r"X: column 'b' has type .*; every column must hold numbers"):
        dgmm.dask.KMeans(2).fit(dd.from_pandas(table, npartitions=2))
    table["b"] = np.where(np.arange(10) == 7, np.nan, 1.0)
    with pytest.raises(ValueError, match=r"X: column 'b' has 1 values .* \(partition 1, whose rows begin at 5\)"):
        dgmm.dask.KMeans(2).fit(dd.from_pandas(table, npartitions=2))


def test_a_missing_dask_is_named():
    code = "import sys; sys.modules['dask'] = None\nimport dgmm.dask\ntry:\n  dgmm.dask.partitions(1)\n"
    code += "except ImportError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "dgmm.dask needs dask: pip install dask (included in dgmm's extra 'dask')"
