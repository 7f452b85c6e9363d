"""``GaussianMixture`` if clusters lose all rows or have no width, and with very large or very small numbers."""

import pickle

import dgmm
import numpy as np
import pytest
from support import DTYPES, blobs, quiet_fit

KINDS = ["diag", "spherical", "tied_diag", "isotropic"]


def fallen(model):
    """How far the bound falls from one iteration to the next, or to the final bound."""
    return -np.diff(np.append(model.lower_bounds_, model.lower_bound_)).min(initial=0.0)


@pytest.mark.parametrize("engine", ["auto", "grouped", "pointwise"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_does_not_fall_if_clusters_lose_all_rows(kind, dtype, engine):
    n = np.arange(600)
    X = np.stack([n * 7 % 3, n // 3 % 3, n // 9 % 3], axis=1).astype(dtype)
    weights = 10.0 ** (n * 11 % 31 - 15)
    settings = {"engine": engine, "reg_covar": 0.0, "tol": 0.0, "max_iter": 20, "random_state": 1}
    for truncation in ("auto", 9):
        for sample_weight in (None, weights):
            model = dgmm.GaussianMixture(129, kind, truncation=truncation, **settings)
            quiet_fit(model, X, sample_weight)
            assert fallen(model) <= 1e-6 * np.abs(model.lower_bounds_).max()


@pytest.mark.parametrize(("seed", "values"), [(55, [1000, 1001, 1002]), (75, [1000, 1001, 1002])])
def test_the_bound_does_not_fall_if_a_cluster_has_no_width_in_float64(seed, values):
    n = np.arange(200)
    X = np.array(values, float)[np.where(n % 3, (n * n + seed) % 3, n // 7 % 3)][:, None]
    weights = 10.0 ** (n * (seed + 7) % 31 - 15)
    model = dgmm.GaussianMixture(2, reg_covar=0.0, tol=0.0, max_iter=30, random_state=seed)
    assert fallen(quiet_fit(model, X, weights)) <= 1e-7


@pytest.mark.parametrize("value", [1e33, 1.0, 3e-18, 3e-30])
def test_isotropic_mixtures_with_weights_fit_constant_data_of_any_size(value):
    X = np.full((200, 3), value, np.float32)
    with pytest.warns(dgmm.EmptyClusterWarning):
        model = dgmm.GaussianMixture(3, "isotropic", random_state=0).fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    assert 4e-38 < model.covariances_[0] < np.finfo(np.float32).max
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-5)


def test_an_isotropic_variance_is_computed_again_if_the_initial_one_was_far_too_large():
    X = blobs(2500, 3, 97, dtype=np.float32) * np.float32(1e-5)
    weights = 10.0 ** (np.arange(2500) * 11 % 31 - 15)
    share = np.arange(97) % 5 > 0
    settings = {"reg_covar": 0.0, "max_iter": 3, "truncation": 30, "weights_init": share / share.sum()}
    model = dgmm.GaussianMixture(97, "isotropic", means_init=X[:97], precisions_init=[0.1], **settings)
    quiet_fit(model, X, weights)
    assert fallen(model) <= 1e-5
    assert model.covariances_[0] < 1e-9


@pytest.mark.parametrize("engine", ["grouped", "pointwise"])
def test_data_whose_second_moments_overflow_are_refused_by_name(engine):
    X = np.linspace(-1e18, 1e18, 3000, dtype=np.float32)[:, None]
    model = dgmm.GaussianMixture(3, engine=engine, truncation=2, random_state=0)
    with pytest.raises(ValueError, match=r"X spans .* in column 0; squared distances overflow float32"):
        model.fit(X)
    assert np.isfinite(model.fit(X.astype(np.float64)).covariances_).all()


@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fitted_mixture_gives_the_same_answers_whatever_is_set_later(kind, other, tmp_path):
    X = blobs(300, 3, 4)
    model = dgmm.GaussianMixture(4, kind, warm_start=True, random_state=0).fit(X)
    said = model.score(X), model.bic(X), model.sample(3, random_state=0)[0].tolist()
    model.set_params(covariance_type=other, weights="equal")
    model.save(tmp_path / "model.safetensors")
    for again in (model, dgmm.load(tmp_path / "model.safetensors"), pickle.loads(pickle.dumps(model))):
        assert (again.score(X), again.bic(X), again.sample(3, random_state=0)[0].tolist()) == said
    # A warm start uses only what fits the new kind.
    fresh = dgmm.GaussianMixture(4, other, weights="equal", random_state=0).fit(X)
    assert model.fit(X).covariances_.shape == fresh.covariances_.shape


@pytest.mark.parametrize(("theirs", "ours"), [("kmeans", "auto"), ("random_from_data", "random")])
def test_names_of_starts_from_scikit_learn_mean_the_same(theirs, ours):
    X = blobs(300, 3, 4)
    one = dgmm.GaussianMixture(4, init_params=theirs, random_state=0).fit(X)
    two = dgmm.GaussianMixture(4, init_params=ours, random_state=0).fit(X)
    np.testing.assert_array_equal(one.means_, two.means_)
    assert one.init_params == theirs
    assert len(one.lower_bounds_) == one.n_iter_
