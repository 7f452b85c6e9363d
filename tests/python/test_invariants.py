"""What must not change a fit does not change it, and the bound never falls."""

import dgmm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ALL, DTYPES, SYSTEMS, blobs, exhaustive, quiet_fit, squared_distances

FIXED = {"max_iter": 6, "tol": 0}
SLACK = {np.float32: 1e-6, np.float64: 1e-12}


def assert_same_fit(one, other, *, rtol=1e-9):
    np.testing.assert_allclose(one.cluster_centers_, other.cluster_centers_, rtol=rtol, atol=rtol)
    assert one.variance_ == pytest.approx(other.variance_, rel=rtol)
    assert one.lower_bound_ == pytest.approx(other.lower_bound_, rel=rtol)


def start_of(X, clusters):
    return X[:: len(X) // clusters][:clusters].copy()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_bound_never_falls(name, dtype, weighted):
    X = blobs(5000, 5, 40, spread=0.9, dtype=dtype)
    weights = np.random.default_rng(0).exponential(size=len(X)) if weighted else None
    for seed in range(3):
        model = quiet_fit(SYSTEMS[name](60, random_state=seed, max_iter=40, tol=0), X, weights)
        bounds = np.append(model.history_["lower_bound"], model.lower_bound_)
        assert np.diff(bounds).min() >= -SLACK[dtype] * np.abs(bounds).max()


@pytest.mark.parametrize("similarity", ["cooccurrence", "posterior", "kernel", "uniform"])
def test_the_bound_never_falls_whatever_the_similarity(similarity):
    X = blobs(4000, 8, 50, spread=0.9)
    model = quiet_fit(dgmm.DGMM(80, similarity=similarity, engine="pointwise", random_state=0, max_iter=30, tol=0), X)
    assert np.diff(model.history_["lower_bound"]).min() >= -1e-12 * np.abs(model.history_["lower_bound"]).max()


@given(
    rows=st.integers(2, 200),
    dim=st.integers(1, 9),
    name=st.sampled_from(sorted(SYSTEMS)),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_any_small_data_fit_and_the_bound_never_falls(rows, dim, name, seed, data):
    X = np.random.default_rng(seed).standard_normal((rows, dim)).round(data.draw(st.integers(0, 6)))
    clusters = data.draw(st.integers(1, min(rows, 12)))
    model = quiet_fit(SYSTEMS[name](clusters, random_state=seed, max_iter=15, tol=0), X)
    bounds = model.history_["lower_bound"]
    assert np.isfinite(model.cluster_centers_).all()
    assert model.variance_ > 0
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds).max()).all()
    assert model.labels_.min() >= 0
    assert model.labels_.max() < clusters


@pytest.mark.parametrize("name", SYSTEMS)
def test_in_small_data_neither_repetition_nor_order_changes_a_bit(name):
    X = blobs(300, 4, 10, spread=0.8)
    times = np.random.default_rng(3).integers(0, 4, size=len(X))
    order = np.random.default_rng(4).permutation(len(X))
    repeated = quiet_fit(SYSTEMS[name](30, random_state=0), X.repeat(times, axis=0))
    weighted = quiet_fit(SYSTEMS[name](30, random_state=0), X[order], times[order])
    np.testing.assert_array_equal(weighted.cluster_centers_, repeated.cluster_centers_)
    np.testing.assert_array_equal(weighted.history_["lower_bound"], repeated.history_["lower_bound"])


@pytest.mark.parametrize("cls", ALL)
def test_weight_two_is_the_row_twice(cls):
    X = blobs(4000, 4, 10, spread=0.8)
    weights = np.random.default_rng(3).integers(1, 5, size=len(X))
    model = exhaustive(cls, 10, init=start_of(X, 10), **FIXED)
    weighted = quiet_fit(model, X, weights)
    repeated = quiet_fit(exhaustive(cls, 10, init=start_of(X, 10), **FIXED), X.repeat(weights, axis=0))
    assert_same_fit(weighted, repeated)
    assert weighted.inertia_ == pytest.approx(repeated.inertia_)


@pytest.mark.parametrize("cls", ALL)
def test_weight_zero_is_the_same_as_no_row(cls):
    X = blobs(4000, 4, 10, spread=0.8)
    far = np.vstack([X, X[:500] + 50])
    order = np.random.default_rng(0).permutation(len(far))
    weights = (np.arange(len(far)) < len(X)).astype(float)
    without = quiet_fit(exhaustive(cls, 10, init=start_of(X, 10), **FIXED), X)
    with_them = quiet_fit(exhaustive(cls, 10, init=start_of(X, 10), **FIXED), far[order], weights[order])
    assert_same_fit(with_them, without)
    assert len(with_them.labels_) == len(far)


@pytest.mark.parametrize("name", SYSTEMS)
def test_scaling_all_weights_changes_nothing(name):
    X, weights = blobs(3000, 4, 10, spread=0.8), np.random.default_rng(4).uniform(0, 3, size=3000)
    one = quiet_fit(SYSTEMS[name](30, random_state=0, **FIXED), X, weights)
    scaled = quiet_fit(SYSTEMS[name](30, random_state=0, **FIXED), X, 1024 * weights)
    np.testing.assert_array_equal(one.labels_, scaled.labels_)
    assert_same_fit(one, scaled)


@pytest.mark.parametrize("name", SYSTEMS)
def test_scaling_the_data_scales_the_result(name):
    X = blobs(3000, 4, 10, spread=0.8)
    one = quiet_fit(SYSTEMS[name](30, random_state=0, **FIXED), X)
    scaled = quiet_fit(SYSTEMS[name](30, random_state=0, **FIXED), 1024 * X)
    np.testing.assert_array_equal(one.labels_, scaled.labels_)
    np.testing.assert_allclose(scaled.cluster_centers_, 1024 * one.cluster_centers_, rtol=1e-9)
    assert scaled.variance_ == pytest.approx(1024**2 * one.variance_)


@pytest.mark.parametrize("cls", ALL)
def test_shifting_the_data_shifts_the_result(cls):
    X = (blobs(3000, 4, 10, spread=0.8) * 1024).round() / 1024
    start = start_of(X, 10)
    one = quiet_fit(exhaustive(cls, 10, init=start, **FIXED), X)
    shifted = quiet_fit(exhaustive(cls, 10, init=start + 4096, **FIXED), X + 4096)
    np.testing.assert_array_equal(one.labels_, shifted.labels_)
    np.testing.assert_allclose(shifted.cluster_centers_ - 4096, one.cluster_centers_, atol=1e-8)
    assert shifted.variance_ == pytest.approx(one.variance_, rel=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cls", ALL)
def test_data_far_from_the_origin_lose_nothing(cls, dtype):
    far = (1e6 + blobs(4000, 3, 10, spread=0.5)).astype(dtype)
    near = far - dtype(1e6)  # exact: far is a multiple of the spacing of numbers at 1e6
    start = start_of(near, 10)
    one = quiet_fit(exhaustive(cls, 10, init=start, **FIXED), near)
    other = quiet_fit(exhaustive(cls, 10, init=start + dtype(1e6), **FIXED), far)
    # Centers can be written down no finer than numbers of this type at 1e6 are.
    spacing = np.spacing(dtype(1e6))
    np.testing.assert_allclose(other.cluster_centers_ - dtype(1e6), one.cluster_centers_, atol=2 * spacing)
    assert other.variance_ == pytest.approx(one.variance_, rel=1e-2 if dtype is np.float32 else 1e-8)
    expected = np.sqrt(squared_distances(far, other.cluster_centers_))
    np.testing.assert_allclose(other.transform(far), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        dgmm.quantization_error(far, other.cluster_centers_), (expected**2).min(axis=1).sum(), rtol=1e-4
    )


@pytest.mark.parametrize("cls", ALL)
def test_input_is_never_changed(cls):
    X, weights, start = blobs(500, 3, 5), np.random.default_rng(0).uniform(size=500), blobs(5, 3, 5, seed=1)
    copies = X.copy(), weights.copy(), start.copy()
    model = quiet_fit(cls(5, init=start, random_state=0), X, weights)
    model.predict(X), model.transform(X), model.predict_proba(X), model.score(X, sample_weight=weights)
    dgmm.afkmc2(X, 5, sample_weight=weights), dgmm.lightweight_coreset(X, 9, sample_weight=weights)
    for now, before in zip((X, weights, start), copies, strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.parametrize("cls", [*ALL, dgmm.GaussianMixture])
def test_tiny_or_very_unequal_weights_give_the_requested_number_of_clusters(cls):
    rng = np.random.default_rng(0)
    n = np.arange(60)
    for X in (rng.integers(0, 3, (60, 3)).astype(float), rng.standard_normal((60, 3))):
        for weights in (np.full(60, 5e-324), np.where(n % 2, 5e-324, 1e300), 10.0 ** np.linspace(-320, 300, 60)):
            for init in ("random", "afk-mc2", "k-means++", "hierarchical"):
                start = {"init_params" if cls is dgmm.GaussianMixture else "init": init}
                model = quiet_fit(cls(60, max_iter=3, random_state=0, **start), X, weights)
                assert model.cluster_centers_.shape == (60, 3)
                assert np.isfinite(model.cluster_centers_).all()
                assert np.isfinite(model.lower_bound_)
