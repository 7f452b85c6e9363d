"""Where default fits end, and the tolerances that have names."""

import dgmm
import numpy as np
import pytest
from dgmm import cli
from sklearn.cluster import KMeans, kmeans_plusplus


def _sets():
    rng = np.random.default_rng(3)
    centers = rng.uniform(-10, 10, size=(20, 4))
    return {
        "groups": (centers[rng.integers(20, size=4000)] + rng.normal(size=(4000, 4)), 20),
        "shapeless": (rng.uniform(size=(4000, 4)), 60),
        "one group": (rng.normal(size=(4000, 16)), 30),
        "more clusters than groups": (centers[rng.integers(6, size=4000)] + 0.3 * rng.normal(size=(4000, 4)), 8),
    }


@pytest.mark.parametrize("name", _sets())
def test_few_clusters_end_at_the_error_of_k_means_from_the_same_start(name):
    X, clusters = _sets()[name]
    ratios = []
    for seed in range(10):
        start, _ = kmeans_plusplus(X, clusters, random_state=seed)
        peer = KMeans(clusters, init=start, n_init=1).fit(X)
        ours = dgmm.DGMM(clusters, init=start, random_state=0).fit(X)
        assert ours.converged_
        ratios.append(dgmm.quantization_error(X, ours.cluster_centers_) / peer.inertia_)
    # One or the other local optimum.
    assert np.mean(ratios) < 1.002


def test_a_default_fit_of_many_clusters_ends_below_ten_iterations_of_k_means():
    X = np.random.default_rng(0).normal(size=(20_000, 16)).astype("f4")
    start = X[np.random.default_rng(1).choice(len(X), 400, replace=False)]
    peer = KMeans(400, init=start, n_init=1, max_iter=10, tol=0).fit(X)
    ours = dgmm.DGMM(400, random_state=0).fit(X)
    assert dgmm.quantization_error(X, ours.cluster_centers_) < peer.inertia_


def test_a_quick_look_takes_fewer_iterations_and_is_a_tolerance_like_any_other():
    X = np.random.default_rng(0).normal(size=(10_000, 8)).astype("f4")
    quick = dgmm.DGMM(200, tol="quick", random_state=0).fit(X)
    same = dgmm.DGMM(200, tol=7e-3, random_state=0).fit(X)
    default = dgmm.DGMM(200, random_state=0).fit(X)
    assert np.array_equal(quick.cluster_centers_, same.cluster_centers_)
    assert quick.n_iter_ < default.n_iter_
    assert quick.inertia_ > default.inertia_


def test_only_dgmm_has_a_quick_look():
    X = np.zeros((10, 2))
    for estimator in (dgmm.VCGMM, dgmm.ExactGMM, dgmm.KMeans):
        with pytest.raises(TypeError, match="tol is 'quick'; it must be a finite number, at least 0, or 'auto'"):
            estimator(2, tol="quick").fit(X)
    with pytest.raises(TypeError, match="at least 0, or 'auto' or 'quick'"):
        dgmm.DGMM(2, tol="slow").fit(X)


def test_the_command_takes_tolerances_by_name_and_number(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(3000, 4)))
    errors = {}
    for tol in ("quick", "7e-3", "1e-4"):
        out = tmp_path / f"{tol}.safetensors"
        assert cli.main(["fit", str(tmp_path / "x.npy"), "-k", "150", "-o", str(out), "--tol", tol]) == 0
        errors[tol] = dgmm.load(out).inertia_
    assert errors["quick"] == errors["7e-3"] > errors["1e-4"]
    with pytest.raises(SystemExit):
        cli.main(["fit", str(tmp_path / "x.npy"), "-k", "150", "-o", "m.safetensors", "--tol", "soon"])
    assert "'soon' is not a number, 'auto' or 'quick'" in capsys.readouterr().err
