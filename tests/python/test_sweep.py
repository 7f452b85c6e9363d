"""Sweeps over the number of clusters, and estimates of the cost of a fit."""

import subprocess
import sys
import types
import warnings
from pathlib import Path

import dgmm
import numpy as np
import pandas as pd
import pytest
from support import ALL, blobs

ROOT = Path(__file__).parents[2]
X = blobs(3000, 4, 40, spread=0.2, dtype=np.float32)


@pytest.mark.parametrize("cls", ALL)
def test_a_sweep_fits_each_number_from_a_prefix_of_one_path(cls):
    table = dgmm.sweep(X, [40, 5, 20, 5], estimator=cls, random_state=3, tol=1e-4)
    assert table["n_clusters"].tolist() == [5, 20, 40]
    assert {len(column) for column in table.values()} == {3}
    starts, _ = dgmm.afkmc2(X, 40, random_state=3)
    for number, model, inertia in zip((5, 20, 40), table.models, table["inertia"], strict=True):
        assert type(model) is cls
        np.testing.assert_array_equal(model.init, starts[:number])
        alone = cls(number, init=starts[:number], random_state=3, tol=1e-4).fit(X)
        np.testing.assert_array_equal(model.cluster_centers_, alone.cluster_centers_)
        assert inertia == alone.inertia_
    assert (np.diff(table["inertia"]) < 0).all()


def test_a_sweep_of_mixtures_has_their_parameters_in_its_criterion():
    table = dgmm.sweep(X, [5, 20], estimator=dgmm.GaussianMixture, random_state=3, max_iter=200)
    starts, _ = dgmm.afkmc2(X, 20, random_state=3)
    for number, model, bic in zip((5, 20), table.models, table["bic"], strict=True):
        alone = dgmm.GaussianMixture(number, means_init=starts[:number], random_state=3, max_iter=200).fit(X)
        np.testing.assert_array_equal(model.means_, alone.means_)
        assert bic == pytest.approx(model.bic(X), rel=1e-3)
    with pytest.raises(TypeError, match="means_init is not a setting of a sweep of GaussianMixture"):
        dgmm.sweep(X, [5], estimator=dgmm.GaussianMixture, means_init=starts)


def test_all_fits_share_one_coreset_and_weights_count():
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(X))
    table = dgmm.sweep(X, [5, 10], coreset_size=500, sample_weight=weights, random_state=1)
    coreset = dgmm.lightweight_coreset(X, 500, sample_weight=weights, random_state=1)
    starts, _ = dgmm.afkmc2(coreset.points, 10, sample_weight=coreset.weights, random_state=1)
    for number, model in zip((5, 10), table.models, strict=True):
        alone = dgmm.DGMM(number, init=starts[:number], random_state=1)
        alone.fit(coreset.points, sample_weight=coreset.weights)
        np.testing.assert_array_equal(model.cluster_centers_, alone.cluster_centers_)
    assert (table["n_rows"] == 500).all()


def test_a_table_of_a_coreset_says_so():
    whole, sample = dgmm.sweep(X, [5, 10], random_state=1), dgmm.sweep(X, [5, 10], coreset_size=500, random_state=1)
    assert (whole.coreset_size, sample.coreset_size) == (None, 500)
    assert (whole["n_rows"] == len(X)).all()
    assert "coreset" not in str(whole)
    assert str(sample).splitlines()[-1] == "inertia, bic and lower_bound are those of the coreset, 500 weighted rows"


def test_bic_is_the_formula():
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(3)), axis=-1).reshape(-1, 2)
    data = np.repeat(grid, 100, axis=0) + 0.05 * np.random.default_rng(0).normal(size=(1200, 2))
    table = dgmm.sweep(data, [4, 8, 12, 24], estimator=dgmm.ExactGMM, random_state=0)
    for model, bic in zip(table.models, table["bic"], strict=True):
        logs = model.score_samples(data)
        assert bic == pytest.approx(-2 * logs.sum() + (2 * model.n_clusters + 1) * np.log(1200), rel=1e-9)


def test_the_table_is_text_a_mapping_a_frame_and_a_picture(monkeypatch):
    frame = pd.DataFrame(X, columns=list("abcd"))
    table = dgmm.sweep(frame, (5, 10), random_state=0, max_iter=200)
    lines = str(table).splitlines()
    assert lines[0].split() == list(table) == [
        "n_clusters", "n_rows", "inertia", "bic", "lower_bound", "n_iter", "converged", "seconds",
    ]  # fmt: skip
    assert len(lines) == 3
    assert lines[1].split()[0] == "5"
    assert table.to_pandas().loc[10, "inertia"] == table["inertia"][1]
    assert table.seconds.keys() == {"coreset", "seeding"}
    assert table.models[0].feature_names_in_.tolist() == list("abcd")
    assert table.models[0].predict(frame).shape == (3000,)
    drawn = types.SimpleNamespace(sweep=lambda *arguments, **options: (arguments, options))
    monkeypatch.setitem(sys.modules, "dgmm.plot", drawn)
    assert table.plot(axes=None) == ((table,), {"axes": None})


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"n_clusters": []}, ValueError, "n_clusters is empty"),
        ({"n_clusters": 5}, TypeError, "n_clusters is 5; it must be a list"),
        ({"n_clusters": "12"}, TypeError, "n_clusters is '12'"),
        ({"n_clusters": [5, 0]}, ValueError, r"n_clusters\[1\] is 0"),
        ({"n_clusters": [3001]}, ValueError, r"n_clusters\[0\] is 3001; .*n_samples=3000"),
        ({"n_clusters": [5], "init": "random"}, TypeError, "init is not a setting of a sweep"),
        ({"n_clusters": [5], "speed": 1}, TypeError, "speed is not a setting of a sweep of DGMM"),
        ({"n_clusters": [5], "estimator": dict}, TypeError, "estimator is"),
        ({"n_clusters": [5], "coreset_size": 4}, ValueError, "coreset_size is 4"),
        ({"n_clusters": [5], "n_threads": 0}, ValueError, "n_threads is 0"),
        ({"n_clusters": [5], "X": [[np.nan]] * 9}, ValueError, "finite|NaN"),
    ],
)
def test_wrong_arguments_are_named(arguments, kind, words):
    with pytest.raises(kind, match=words):
        dgmm.sweep(**{"X": X} | arguments)


PEAK = """
import re, sys, warnings
import numpy as np, dgmm
warnings.simplefilter("ignore")
rows, columns, clusters, dtype, name, settings = eval(sys.argv[1])
X = np.random.default_rng(0).standard_normal((rows, columns), dtype=dtype)
getattr(dgmm, name)(8, max_iter=2).fit(X[:5000])
def status(key):
    return 1024 * int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
open("/proc/self/clear_refs", "w").write("5")  # the peak counts from here
before = status("VmRSS")
getattr(dgmm, name)(clusters, random_state=0, max_iter=3, **settings).fit(X)
print(status("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory in other ways")
@pytest.mark.parametrize(
    ("rows", "columns", "clusters", "dtype", "name", "settings"),
    [
        (800_000, 4, 300, "float32", "DGMM", {}),
        (100_000, 32, 2000, "float32", "DGMM", {}),
        (200_000, 8, 300, "float64", "DGMM", {"engine": "pointwise", "truncation": 10}),
        (200_000, 8, 300, "float32", "DGMM", {"similarity": "kernel"}),
        (200_000, 8, 300, "float32", "VCGMM", {}),
        (1_500_000, 4, 20, "float32", "KMeans", {}),
        (800_000, 4, 60, "float32", "ExactGMM", {}),
        (2_000_000, 4, 100, "float32", "DGMM", {"coreset_size": 100_000}),
        (300_000, 16, 1000, "float32", "KMeans", {}),
        (50_000, 128, 5000, "float32", "DGMM", {}),
        (300_000, 16, 500, "float32", "DGMM", {"metric": "cosine"}),
        (200_000, 16, 500, "float32", "GaussianMixture", {}),
        (100_000, 16, 100, "float64", "GaussianMixture", {"covariance_type": "spherical"}),
    ],
)
def test_bytes_are_those_of_a_fit_within_a_factor(rows, columns, clusters, dtype, name, settings):
    cost = dgmm.estimate(
        rows, columns, clusters, estimator=getattr(dgmm, name), dtype=dtype, max_iter=2, tol=1e9, **settings
    )
    arguments = repr((rows, columns, clusters, dtype, name, settings))
    run = subprocess.run([sys.executable, "-c", PEAK, arguments], capture_output=True, text=True, check=True)
    real = int(run.stdout)
    print(f"{cost.bytes:.3g} bytes for {real:.3g}")
    assert 1 / 2 < cost.bytes / real < 2


@pytest.mark.parametrize("cls", [*ALL, dgmm.GaussianMixture])
def test_an_estimate_has_all_stages_and_grows_with_the_sizes(cls):
    small = dgmm.estimate(20_000, 8, 300, estimator=cls, max_iter=3)
    large = dgmm.estimate(200_000_000, 8, 300, estimator=cls, max_iter=3, coreset_size=20_000)
    assert small.data_bytes * 10_000 == large.data_bytes == 200_000_000 * 32
    assert small.bytes < large.bytes
    assert small.seconds == pytest.approx(sum(small.stages.values()))
    assert small.stages["coreset"] == small.stages["labels"] == 0
    assert min(large.stages["coreset"], large.stages["labels"]) > 0
    assert 1 <= small.n_iter <= 3
    assert "above the data's 640 kB" in str(small)


def test_an_estimate_says_what_is_wrong_and_draws_nothing_from_the_global_generator():
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dgmm.estimate(500, 3, 10, init=np.zeros((10, 3)), random_state=None, verbose=1)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    for arguments, words in [
        ({"n_rows": 0}, "n_rows is 0"),
        ({"n_clusters": 101}, "n_clusters is 101; .*n_rows=100"),
        ({"dtype": "int32"}, "dtype is int32"),
        ({"truncation": 11}, "truncation is 11"),
    ]:
        with pytest.raises(ValueError, match=words):
            dgmm.estimate(**{"n_rows": 100, "n_columns": 3, "n_clusters": 10} | arguments)
    with pytest.raises(TypeError, match="estimator is"):
        dgmm.estimate(100, 3, 10, estimator="DGMM")
