"""Refinement: the least useful clusters move to where the error is large, and the lower bound does not fall."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import dgmm
import numpy as np
import pytest
from dgmm import shards
from dgmm.cli import main
from sklearn.base import clone
from support import SYSTEMS
from test_checkpoints import killed_at
from test_out_of_core import assert_same
from test_out_of_core import rows as many_rows


@pytest.fixture(scope="module", name="X")
def unbalanced() -> Any:
    """Three large groups near one another, and many small ones far apart."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(60, 5)) * np.where(np.arange(60) < 3, 2.0, 40.0)[:, None]
    groups = np.where(np.arange(5000) % 4 > 0, np.arange(5000) % 3, np.arange(5000) // 4 % 60)
    return (centers[groups] + rng.normal(size=(5000, 5))).astype(np.float32)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_lower_bound_rises_and_the_error_falls(name: str, metric: str, X: Any) -> None:
    estimator = SYSTEMS[name](80, init="random", random_state=0, metric=metric)
    plain, refined = (clone(estimator).set_params(refine=rounds).fit(X) for rounds in (0, 4))
    assert refined.lower_bound_ > plain.lower_bound_
    assert refined.inertia_ < (0.8 if metric == "euclidean" else 1.0) * plain.inertia_
    assert refined.converged_
    rounds = refined.history_["refine"]
    begin = int(np.argmax(rounds > 0))
    assert refined.n_iter_ == len(rounds) <= estimator.max_iter
    assert 1 <= rounds.max() <= 4
    later = rounds[begin:]
    assert list(later[later > 0]) == sorted(later[later > 0])
    bounds = refined.history_["lower_bound"]
    np.testing.assert_array_equal(bounds[:begin], plain.history_["lower_bound"][:begin])
    assert (np.diff(bounds) >= -1e-5 * np.abs(bounds[1:])).all()


def test_weights_coresets_and_bounds_on_sizes_go_with_it(X: Any) -> None:
    weights = np.random.default_rng(1).uniform(0.5, 2, size=len(X))
    settings = {"init": "random", "random_state": 0}
    plain = dgmm.KMeans(70, **settings).fit(X, sample_weight=weights)
    refined = dgmm.KMeans(70, refine=3, **settings).fit(X, sample_weight=weights)
    assert refined.inertia_ < 0.8 * plain.inertia_
    small = dgmm.DGMM(70, coreset_size=2000, refine=3, **settings).fit(X)
    assert small.lower_bound_ > dgmm.DGMM(70, coreset_size=2000, **settings).fit(X).lower_bound_
    bounded = dgmm.KMeans(70, max_size=1.5, refine=2, **settings).fit(X)
    assert np.bincount(bounded.labels_).max() <= 1.5 * len(X) / 70


def test_its_iterations_count(X: Any) -> None:
    for most in (3, 12):
        with pytest.warns(dgmm.ConvergenceWarning, match=f"max_iter={most}"):
            model = dgmm.DGMM(80, init="random", random_state=0, max_iter=most, tol=1e-9, refine=1).fit(X)
        assert not model.converged_
        assert model.n_iter_ == most
        assert model.history_["refine"].any() == (most == 12)


def test_with_many_clusters_it_is_the_default_unless_the_start_is_given(X: Any) -> None:
    model = dgmm.DGMM(120, random_state=0).fit(X)
    assert model.refine == "auto"
    assert 1 <= model.history_["refine"].max() <= 2
    # EM continues until it converges after the last round.
    assert model.converged_
    again = dgmm.DGMM(120, init=model.cluster_centers_, random_state=0).fit(X)
    warm = dgmm.DGMM(120, warm_start=True, random_state=0).fit(X).fit(X)
    quick = dgmm.DGMM(120, tol="quick", random_state=0).fit(X)
    for plain in (again, warm, quick, dgmm.DGMM(120, refine=0).fit(X), dgmm.DGMM(100).fit(X), dgmm.KMeans(120).fit(X)):
        assert not plain.history_["refine"].any()


def test_callbacks_see_its_iterations_and_can_end_it(X: Any) -> None:
    events: list[dgmm.Event] = []
    settings = {"init": "random", "random_state": 0}
    whole = dgmm.DGMM(80, refine=5, **settings).fit(X)
    begin = int(np.argmax(whole.history_["refine"] > 0))

    def stop(event: dgmm.Event) -> bool:
        events.append(event)
        return event.iteration == begin + 2

    model = dgmm.DGMM(80, refine=5, callback=stop, **settings).fit(X)
    assert model.n_iter_ == begin + 2
    assert model.lower_bound_ >= whole.history_["lower_bound"][begin - 1] - 1e-6
    assert {event.max_iter for event in events if event.stage == "em"} == {100}


def test_ctrl_c_during_refinement_keeps_the_better_model(X: Any) -> None:
    settings = {"init": "random", "random_state": 0}
    whole = dgmm.DGMM(80, refine=2, **settings).fit(X)
    begin = int(np.argmax(whole.history_["refine"] > 0))

    def interrupt(event: dgmm.Event) -> None:
        if event.iteration == begin + 1:
            raise KeyboardInterrupt

    for more in ({}, {"memory_limit": "200MB"}):
        with pytest.raises(KeyboardInterrupt):
            dgmm.DGMM(80, refine=2, callback=interrupt, **settings, **more).fit(X)
    pieces = [shards.Shard(part, None, first) for part, first in ((X[:2000], 0), (X[2000:], 2000))]
    whole = shards.fit(dgmm.DGMM(80, refine=2, **settings), pieces)
    begin = int(np.argmax(whole.history_["refine"] > 0))

    def later(event: dgmm.Event) -> None:
        if event.iteration == begin + 1:
            raise KeyboardInterrupt

    with pytest.warns(dgmm.InterruptWarning):
        kept = shards.fit(dgmm.DGMM(80, refine=2, callback=later, keep_on_interrupt=True, **settings), pieces)
    assert kept.lower_bound_ >= whole.history_["lower_bound"][begin - 1] - 1e-6


@pytest.mark.parametrize("name", SYSTEMS)
def test_shards_give_the_same_bits_as_an_array(name: str, X: Any, tmp_path: Path) -> None:
    settings = {"init": "random", "random_state": 0, "refine": 2}
    whole = SYSTEMS[name](80, **settings).fit(X)
    one = shards.fit(SYSTEMS[name](80, **settings), [shards.Shard(X, None, 0)])
    # The sample of a fit over shards has all rows here, in another order.
    assert whole.history_["refine"].any()
    assert one.history_["refine"].any()
    again = shards.fit(SYSTEMS[name](80, n_threads=1, **settings), [shards.Shard(X, None, 0)])
    np.testing.assert_array_equal(one.cluster_centers_, again.cluster_centers_)
    np.testing.assert_array_equal(one.labels_, again.labels_)


def test_a_fit_that_was_cut_off_in_refinement_ends_with_the_same_bits(tmp_path: Path) -> None:
    X = many_rows(60_000)
    path = tmp_path / "fit.checkpoint"
    settings = {"random_state": 5, "tol": 1.0, "max_iter": 12, "refine": 2, "init": "random"}
    for estimator in (dgmm.DGMM, dgmm.VCGMM, dgmm.KMeans):
        plain = estimator(110, **settings).fit(X)
        begin = int(np.argmax(plain.history_["refine"] > 0))
        assert begin > 0
        for iteration in (begin, begin + 2):
            killed_at(iteration, path, X, estimator, **settings)
            assert_same(estimator(110, checkpoint=path, **settings).fit(X), plain)
            assert not list(tmp_path.iterdir())


def test_out_of_core_gives_the_bits_of_shards_in_memory(tmp_path: Path) -> None:
    X = many_rows(60_000)
    np.save(tmp_path / "x.npy", X)
    settings = {"random_state": 5, "refine": 3, "init": "random", "memory_limit": "120MB"}
    plain = dgmm.DGMM(110, **settings).fit(X)
    assert plain.history_["refine"].any()
    assert_same(dgmm.DGMM(110, **settings).fit(tmp_path / "x.npy"), plain)


def test_it_is_saved_with_the_model_and_has_an_option(X: Any, tmp_path: Path, capsys: Any) -> None:
    model = dgmm.DGMM(80, init="random", refine=2, random_state=0).fit(X)
    model.save(tmp_path / "m.safetensors")
    loaded = dgmm.load(tmp_path / "m.safetensors")
    assert loaded.refine == 2
    np.testing.assert_array_equal(loaded.history_["refine"], model.history_["refine"])
    np.save(tmp_path / "x.npy", X)
    out = tmp_path / "cli.safetensors"
    arguments = ["fit", str(tmp_path / "x.npy"), "-k", "80", "--init", "random", "--refine", "2", "-o", str(out)]
    assert main([*arguments, "--quiet"]) in (None, 0)
    np.testing.assert_array_equal(dgmm.load(out).cluster_centers_, model.cluster_centers_)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([*arguments, "--refine", "-1"])
    assert "'-1' is not a whole number, at least 0" in capsys.readouterr().err


def test_where_it_cannot_be_had_the_error_names_it(X: Any) -> None:
    with pytest.raises(ValueError, match="refine is 2; it must be 0 if truncation is 1"):
        dgmm.DGMM(80, truncation=1, engine="grouped", refine=2).fit(X)
    with pytest.raises(ValueError, match="refine is 2; it must be 0 for partial_fit"):
        dgmm.DGMM(80, refine=2).partial_fit(X)
    with pytest.raises(TypeError, match="refine"):
        dgmm.GaussianMixture(5, refine=2)  # type: ignore[call-arg]


def test_without_refine_there_are_no_rounds_and_no_warnings(X: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = dgmm.DGMM(40, random_state=0).fit(X)
    assert not model.history_["refine"].any()
