"""Plots show what was measured, and need matplotlib only when they are drawn."""

import json
import sys
import warnings

import dgmm
import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from dgmm._demo import Outcome, _picture, patches
from sklearn.exceptions import NotFittedError
from support import ALL, blobs, quiet_fit

mpl.use("Agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def drawn(ax):
    """Draw the axes as a picture, which must not be empty."""
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba()).view(np.uint32)
    assert len(np.unique(pixels)) > 10
    return ax


@pytest.mark.parametrize("cls", ALL)
def test_convergence_shows_the_history(cls):
    model = quiet_fit(cls(10, random_state=0), blobs(500, 3, 10))
    ax = drawn(dgmm.plot.convergence(model))
    x, y = ax.lines[0].get_data()
    np.testing.assert_array_equal(x, np.arange(1, model.n_iter_ + 1))
    np.testing.assert_array_equal(y, model.history_["lower_bound"])
    assert cls.__name__ in ax.get_title()


def test_sizes_are_shown_from_the_largest_on():
    model = quiet_fit(dgmm.KMeans(10, random_state=0), blobs(500, 3, 10))
    ax = drawn(dgmm.plot.cluster_sizes(model))
    _, sizes = ax.lines[0].get_data()
    np.testing.assert_array_equal(sizes, np.sort(np.bincount(model.labels_, minlength=10))[::-1])
    assert "10 clusters: 0 empty" in ax.get_title()


def test_two_columns_are_shown_as_they_are():
    X = pd.DataFrame(blobs(500, 2, 5), columns=["height", "width"])
    model = quiet_fit(dgmm.KMeans(5, random_state=0), X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax = drawn(dgmm.plot.clusters(model, X))
    rows, centers = (np.asarray(collection.get_offsets()) for collection in ax.collections)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(centers, model.cluster_centers_)
    np.testing.assert_array_equal(ax.collections[0].get_array(), model.predict(X))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("height", "width")


def test_more_columns_are_shown_by_their_main_components():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6)) * [0.1, 9.0, 0.1, 4.0, 0.1, 0.1]
    model = quiet_fit(dgmm.KMeans(3, random_state=0), X)
    ax = drawn(dgmm.plot.clusters(model, X))
    rows = np.asarray(ax.collections[0].get_offsets())
    assert abs(np.corrcoef(rows[:, 0], X[:, 1])[0, 1]) > 0.99
    assert abs(np.corrcoef(rows[:, 1], X[:, 3])[0, 1]) > 0.99
    assert "component 1 (8" in ax.get_xlabel()


def test_one_column_is_shown_too():
    model = quiet_fit(dgmm.KMeans(3, random_state=0), blobs(300, 1, 3))
    assert drawn(dgmm.plot.clusters(model, blobs(300, 1, 3))).get_xlabel() == "column 0"


def test_of_many_rows_and_centers_some_are_shown(monkeypatch):
    X = blobs(3000, 3, 50)
    model = quiet_fit(dgmm.DGMM(50, random_state=0), X)
    monkeypatch.setattr("dgmm.plot.SHOWN_CENTERS", 20)
    ax = drawn(dgmm.plot.clusters(model, X, sample_size=200))
    assert [len(collection.get_offsets()) for collection in ax.collections] == [200, 20]
    assert ax.get_title() == "50 clusters, 200 of 3,000 rows, 20 centers"
    same, other = (dgmm.plot.clusters(model, X, sample_size=200, random_state=seed) for seed in (0, 1))
    np.testing.assert_array_equal(same.collections[0].get_offsets(), ax.collections[0].get_offsets())
    assert not np.array_equal(other.collections[0].get_offsets(), ax.collections[0].get_offsets())


SWEEP = {"n_clusters": [40, 10, 20], "inertia": [5.0, 9.0, 7.0], "seconds": [0.4, 0.1, 0.2], "bic": [70.0, 90.0, 60.0]}


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame])
def test_a_sweep_is_shown_by_number_of_clusters(kind):
    axes = dgmm.plot.sweep(kind(SWEEP))
    drawn(axes[0])
    assert [ax.get_title() for ax in axes] == ["sum of squared distances", "BIC", "seconds"]
    for ax, name in zip(axes, ("inertia", "bic", "seconds"), strict=True):
        x, y = ax.lines[0].get_data()
        np.testing.assert_array_equal(x, [10, 20, 40])
        np.testing.assert_array_equal(y, np.asarray(SWEEP[name])[[1, 2, 0]])
    assert [text.get_text() for text in axes[1].get_legend().get_texts()] == ["least at 20"]


def test_a_sweep_of_a_coreset_says_so():
    axes = dgmm.plot.sweep(dgmm.sweep(blobs(500, 3, 10), [5, 10], coreset_size=100, random_state=0))
    titles = ["sum of squared distances, coreset", "BIC, coreset", "seconds"]
    assert [ax.get_title() for ax in axes] == [ax.get_ylabel() for ax in axes] == titles


@pytest.mark.parametrize("longest", [0.01, 1234.5])
def test_the_text_of_the_demo_stays_in_its_frame(longest):
    model = dgmm.DGMM(10, random_state=0, n_threads=2).fit(patches(300, 0))
    names = ("dgmm.DGMM", "dgmm.KMeans", "sklearn.cluster.KMeans")
    outcomes = [Outcome(name, longest * share, 123456.7, 9) for name, share in zip(names, (0.1, 0.9, 1), strict=True)]
    figure = _picture(plt, 300, model, outcomes)
    figure.canvas.draw()
    frame = figure.axes[1].get_window_extent()
    assert len(figure.axes[1].texts) == 3
    for text in figure.axes[1].texts:
        assert text.get_window_extent().x1 < frame.x1
    for name in figure.axes[1].get_yticklabels():
        assert name.get_window_extent().x0 >= figure.axes[0].get_window_extent().x1


def measurement(contender, seconds, error, **more):
    run = {"dataset": "made", "clusters": 30, "contender": contender, "status": "ok"}
    return run | {"seconds": seconds, "error": error} | more


RESULTS = {
    "measurements": [
        *(measurement("dgmm", seconds, 102.0) for seconds in (1.0, 3.0, 2.0)),
        measurement("fast", 0.5, 110.0),
        measurement("slow", 20.0, 100.0),
        measurement("beaten", 5.0, 105.0),
        measurement("other", 1.0, 9.0, clusters=60),
        measurement("absent", None, None, status="not installed"),
    ]
}


def test_the_pareto_line_goes_through_those_that_none_beats(tmp_path):
    (tmp_path / "pareto.json").write_text(json.dumps(RESULTS))
    for results in (RESULTS, tmp_path / "pareto.json", str(tmp_path / "pareto.json")):
        axes = dgmm.plot.pareto(results)
        assert [ax.get_title() for ax in axes] == ["made, 30 clusters", "made, 60 clusters"]
        line, *points = axes[0].lines
        np.testing.assert_allclose(line.get_xydata(), [[0.5, 10], [2, 2], [20, 0]])
        assert [point.get_label() for point in points] == ["dgmm", "fast", "slow", "beaten"]
    drawn(axes[0])
    (only,) = dgmm.plot.pareto(RESULTS, n_clusters=60, dataset="made")
    assert only.get_title() == "made, 60 clusters"


def test_axes_that_are_given_are_drawn_into():
    X = blobs(100, 2, 3)
    model = quiet_fit(dgmm.KMeans(3, random_state=0), X)
    figure, axes = plt.subplots(2, 3)
    for ax, draw in zip(axes[0], (dgmm.plot.convergence, dgmm.plot.cluster_sizes), strict=False):
        assert draw(model, ax) is ax
    assert dgmm.plot.clusters(model, X, ax=axes[0, 2]) is axes[0, 2]
    assert list(dgmm.plot.sweep(SWEEP, axes[1])) == list(axes[1])
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize(
    ("draw", "error", "words"),
    [
        (lambda: dgmm.plot.convergence(dgmm.KMeans()), NotFittedError, "not fitted"),
        (lambda: dgmm.plot.clusters(dgmm.KMeans(), [[1.0]]), NotFittedError, "not fitted"),
        (lambda: dgmm.plot.cluster_sizes(dgmm.KMeans()), NotFittedError, "not fitted"),
        (lambda: dgmm.plot.sweep({"n_clusters": [1]}), ValueError, r"columns \['n_clusters'\]; .*'inertia', 'bic'"),
        (lambda: dgmm.plot.sweep({"inertia": [1]}), ValueError, "must have 'n_clusters'"),
        (lambda: dgmm.plot.sweep(SWEEP, plt.subplots(1, 2)[1]), ValueError, "axes has 2 entries; it must have 3"),
        (
            lambda: dgmm.plot.pareto(RESULTS, dataset="none"),
            ValueError,
            "no successful measurement with dataset='none'",
        ),
        (lambda: dgmm.plot.pareto("nowhere.json"), FileNotFoundError, "nowhere"),
    ],
)
def test_errors_name_invalid_input_of_plots(draw, error, words):
    with pytest.raises(error, match=words):
        draw()


def test_a_missing_matplotlib_error_names_the_extra(monkeypatch):
    model = quiet_fit(dgmm.KMeans(3, random_state=0), blobs(50, 2, 3))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in (lambda: dgmm.plot.convergence(model), lambda: dgmm.plot.sweep(SWEEP)):
        with pytest.raises(ImportError, match=r"dgmm.plot needs matplotlib: pip install matplotlib \(included in"):
            draw()
