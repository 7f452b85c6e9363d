"""Fits recover clusters that are well separated."""

import dgmm
import numpy as np
import pytest
from support import quiet_fit, s1, squared_distances

ALL = [dgmm.DGMM, dgmm.VCGMM, dgmm.ExactGMM, dgmm.KMeans]


def all_found(model, truth):
    """Each true center is the nearest of exactly one fitted center (the centroid index is 0)."""
    nearest = squared_distances(model.cluster_centers_, truth).argmin(axis=1)
    return len(np.unique(nearest)) == len(truth)


@pytest.mark.parametrize("cls", ALL)
def test_all_fifteen_clusters_of_s1_are_found_in_nine_of_ten_seeds(cls):
    X, truth = s1()
    found = [all_found(quiet_fit(cls(15, n_init=5, random_state=seed), X), truth) for seed in range(10)]
    assert sum(found) >= 9


@pytest.mark.parametrize("cls", ALL)
def test_a_coreset_is_enough_to_find_them(cls):
    X, truth = s1()
    model = quiet_fit(cls(15, n_init=20, coreset_size=1000, random_state=0), X)
    assert all_found(model, truth)
    assert model.labels_.shape == (len(X),)
    np.testing.assert_array_equal(model.labels_, model.predict(X))
