"""Any input gives a fit that keeps the README's promises, or an error that names the problem.

``HYPOTHESIS_PROFILE=slow`` searches longer and in wider data.
"""

import os
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import SYSTEMS

SLOW = os.environ.get("HYPOTHESIS_PROFILE") == "slow"
WIDEST = 20_000 if SLOW else 6_000
TYPES = ["float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "uint64", "bool"]
# What a fit may refuse of data that are finite: their scale.
REFUSALS = ("overflow", "lost")


def fit(name, clusters, X, weights=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SYSTEMS[name](clusters, max_iter=5, tol=0, **settings).fit(X, sample_weight=weights)


@st.composite
def tables(draw, dtype="float64"):
    """Rows of few kinds or many, narrow or wide, in any unit."""
    wide = draw(st.integers(0, 9)) == 0
    shape = (draw(st.integers(2, 30 if wide else 150)), draw(st.integers(1, WIDEST if wide else 8)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.standard_normal(shape).round(draw(st.sampled_from([0, 1, 6])))
    if np.dtype(dtype).kind == "f":
        limit = 30 if dtype != "float16" else 2
        return (X * 10.0 ** draw(st.integers(-limit, limit))).astype(dtype)
    return (X * draw(st.sampled_from([1, 20]))).clip(0, 120).astype(dtype)


def sizes(data, rows):
    """M up to the number of rows, also beyond the number of distinct ones and where searches change their ways."""
    return data.draw(st.one_of(st.integers(1, min(rows, 12)), st.integers(min(rows, 101), rows)))


@given(name=st.sampled_from(sorted(SYSTEMS)), dtype=st.sampled_from(TYPES), seed=st.integers(0, 99), data=st.data())
def test_any_data_are_fitted_or_refused_by_name(name, dtype, seed, data):
    X = data.draw(tables(dtype))
    orders = data.draw(st.sampled_from([0, 3, 15]))
    weights = 10.0 ** np.random.default_rng(seed).integers(-orders, orders + 1, size=len(X))
    copies = X.copy(), weights.copy()
    clusters = sizes(data, len(X))
    try:
        model = fit(name, clusters, X, weights, random_state=seed)
    except ValueError as error:
        if any(word in str(error) for word in REFUSALS):
            return
        raise
    wide = dtype in ("float64", "int32", "int64", "uint64")
    assert model.cluster_centers_.dtype == (np.float64 if wide else np.float32)
    assert np.isfinite(model.cluster_centers_).all()
    assert np.isfinite(model.lower_bound_)
    assert model.variance_ > 0
    for labels in (model.labels_, model.predict(X)):
        assert 0 <= labels.min() <= labels.max() < clusters
    np.testing.assert_array_equal(X, copies[0])
    np.testing.assert_array_equal(weights, copies[1])


@given(name=st.sampled_from(sorted(SYSTEMS)), seed=st.integers(0, 99), X=tables(), data=st.data())
def test_weight_two_is_the_row_twice_for_any_small_data(name, seed, X, data):
    assume(X.shape[1] < 100)
    times = np.random.default_rng(seed).integers(1, 4, size=len(X))
    clusters = sizes(data, len(X))
    weighted = fit(name, clusters, X, times, random_state=seed)
    repeated = fit(name, clusters, X.repeat(times, axis=0), random_state=seed)
    np.testing.assert_array_equal(weighted.cluster_centers_, repeated.cluster_centers_)


@given(name=st.sampled_from(sorted(SYSTEMS)), seed=st.integers(0, 99), X=tables(), data=st.data())
def test_threads_do_not_change_a_bit_of_any_small_data(name, seed, X, data):
    clusters = sizes(data, len(X))
    one = fit(name, clusters, X, random_state=seed, n_threads=1)
    three = fit(name, clusters, X, random_state=seed, n_threads=3)
    np.testing.assert_array_equal(one.cluster_centers_, three.cluster_centers_)
    np.testing.assert_array_equal(one.labels_, three.labels_)


@given(name=st.sampled_from(sorted(SYSTEMS)), seed=st.integers(0, 99), power=st.integers(-60, 60), data=st.data())
def test_a_power_of_two_scales_the_result(name, seed, power, data):
    X = data.draw(tables())
    clusters = sizes(data, len(X))
    one = fit(name, clusters, X, random_state=seed)
    scaled = fit(name, clusters, np.ldexp(X, power), random_state=seed)
    # Not to the bit: F contains log s2, so its last digits differ. Where it no longer rises they decide when to stop.
    expected = np.ldexp(one.cluster_centers_, power)
    np.testing.assert_allclose(scaled.cluster_centers_, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    assert scaled.inertia_ == pytest.approx(
        np.ldexp(one.inertia_, 2 * power), rel=1e-9, abs=1e-20 * (expected**2).sum()
    )
