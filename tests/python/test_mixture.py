"""``GaussianMixture``: scikit-learn's EM if it is exact, and the promises of all estimators if it is truncated."""

import io
import json
import pickle
from contextlib import redirect_stdout

import dgmm
import numpy as np
import pytest
from dgmm import cli
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.utils._testing import ignore_warnings
from sklearn.utils.estimator_checks import parametrize_with_checks
from support import DTYPES, blobs, quiet_fit

KINDS = ["diag", "spherical", "tied_diag", "isotropic"]


def uneven(rows, columns, clusters, *, seed=0, dtype=np.float64):
    """Clusters of different sizes, with different widths in each column."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(-6, 6, size=(clusters, columns))
    widths = rng.uniform(0.2, 1.5, size=(clusters, columns))
    labels = rng.choice(clusters, size=rows, p=rng.dirichlet(np.full(clusters, 3.0)))
    return (means[labels] + widths[labels] * rng.standard_normal((rows, columns))).astype(dtype)


@parametrize_with_checks([dgmm.GaussianMixture(3, random_state=0)])
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@pytest.mark.parametrize("engine", ["auto", "grouped", "pointwise"])
@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_exact_em_is_that_of_scikit_learn(kind, engine):
    X = uneven(4000, 5, 8)
    precisions = np.full((8, 5) if kind == "diag" else 8, 0.4)
    start = {"means_init": X[:8], "precisions_init": precisions, "weights_init": np.full(8, 1 / 8)}
    with ignore_warnings(category=ConvergenceWarning):
        theirs = GaussianMixture(8, covariance_type=kind, max_iter=15, tol=0, **start).fit(X)
    ours = quiet_fit(dgmm.GaussianMixture(8, kind, truncation=8, engine=engine, max_iter=15, tol=0, **start), X)
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-8)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(ours.labels_, theirs.predict(X))
    assert ours.bic(X) == pytest.approx(theirs.bic(X))
    assert ours.aic(X) == pytest.approx(theirs.aic(X))
    assert ours.lower_bound_ == pytest.approx(ours.score(X))


def test_a_default_fit_is_as_likely_as_that_of_scikit_learn():
    # From other starts EM ends in other optima: as good on average, not for each seed.
    apart = []
    for seed in range(6):
        X = uneven(3000, 4, 30, seed=seed)
        theirs = GaussianMixture(30, covariance_type="diag", random_state=0).fit(X)
        ours = dgmm.GaussianMixture(30, random_state=0).fit(X)
        assert ours.converged_
        apart.append(ours.score(X) - theirs.score(X))
    assert np.mean(apart) > -0.05


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_attributes_have_scikit_learns_names_and_shapes(kind, dtype):
    X = uneven(900, 3, 6, dtype=dtype)
    model = quiet_fit(dgmm.GaussianMixture(6, kind, random_state=0), X)
    shape = {"diag": (6, 3), "spherical": (6,), "tied_diag": (3,), "isotropic": (1,)}[kind]
    assert model.covariances_.shape == model.precisions_.shape == model.precisions_cholesky_.shape == shape
    np.testing.assert_allclose(model.precisions_cholesky_**2 * model.covariances_, 1)
    assert model.means_.dtype == dtype
    assert model.means_.shape == (6, 3)
    assert model.weights_.sum() == pytest.approx(1)
    rows, labels = model.sample(50_000, random_state=1)
    assert rows.dtype == dtype
    np.testing.assert_allclose(rows.mean(axis=0), X.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(np.bincount(labels, minlength=6) / 50_000, model.weights_, atol=0.02)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-5)


def test_without_a_fit_nothing_is_known():
    for name in ("means_", "precisions_", "precisions_cholesky_"):
        with pytest.raises(NotFittedError):
            getattr(dgmm.GaussianMixture(2), name)
    assert not hasattr(dgmm.GaussianMixture(2), "partial_fit")


@pytest.mark.parametrize("clusters", [30, 300])
def test_an_isotropic_mixture_of_equal_weights_is_dgmm_to_the_bit(clusters):
    X = blobs(4000, 6, 200, dtype=np.float32)
    mixture = quiet_fit(dgmm.GaussianMixture(clusters, "isotropic", weights="equal", random_state=4), X)
    plain = quiet_fit(dgmm.DGMM(clusters, random_state=4), X)
    np.testing.assert_array_equal(mixture.means_, plain.cluster_centers_)
    np.testing.assert_array_equal(mixture.labels_, plain.labels_)
    assert mixture.covariances_.tolist() == [plain.variance_]
    np.testing.assert_array_equal(mixture.score_samples(X), plain.score_samples(X))
    np.testing.assert_array_equal(mixture.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_shards_change_no_bit(kind, tmp_path):
    X = uneven(6000, 4, 60, dtype=np.float32)
    np.save(tmp_path / "rows.npy", X)
    settings = {"random_state": 2, "max_iter": 6, "tol": 0.0, "memory_limit": "400MB"}
    models = [
        quiet_fit(dgmm.GaussianMixture(150, kind, n_threads=threads, **settings), data)
        for threads, data in ((1, X), (2, X), (3, str(tmp_path / "rows.npy")))
    ]
    for other in models[1:]:
        for name in ("means_", "covariances_", "weights_", "labels_"):
            np.testing.assert_array_equal(getattr(other, name), getattr(models[0], name))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_rises_in_truncated_fits(kind, dtype):
    X = uneven(8000, 6, 80, dtype=dtype)
    model = quiet_fit(dgmm.GaussianMixture(200, kind, reg_covar=0.0, max_iter=15, tol=0.0, random_state=0), X)
    bounds = model.history_["lower_bound"]
    assert np.diff(bounds).min() > -1e-4 * (dtype == np.float32) - 1e-9
    assert model.lower_bound_ <= model.score(X) + 1e-4
    assert (model.labels_ == model.predict(X)).mean() > 0.9


def test_a_truncated_fit_is_nearly_as_likely_as_the_exact_one():
    X = uneven(20_000, 6, 150, seed=5, dtype=np.float32)
    exact = quiet_fit(dgmm.GaussianMixture(150, truncation=150, max_iter=15, random_state=0), X)
    quick = quiet_fit(dgmm.GaussianMixture(150, max_iter=15, random_state=0), X)
    assert quick.score(X) > exact.score(X) - 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_weights_count_rows_and_coresets_and_tables_are_taken(kind):
    few = uneven(400, 2, 5)
    heavy = np.r_[np.full(100, 2.0), np.ones(300)]
    one = quiet_fit(dgmm.GaussianMixture(5, kind, random_state=1), few, sample_weight=heavy)
    two = quiet_fit(dgmm.GaussianMixture(5, kind, random_state=1), np.r_[few, few[:100]])
    np.testing.assert_array_equal(one.means_, two.means_)
    np.testing.assert_array_equal(one.covariances_, two.covariances_)
    X = uneven(5000, 3, 10)
    core = quiet_fit(dgmm.GaussianMixture(10, kind, coreset_size=1500, random_state=1), X)
    whole = quiet_fit(dgmm.GaussianMixture(10, kind, random_state=1), X)
    assert core.score(X) > whole.score(X) - 0.5
    np.testing.assert_array_equal(core.labels_, core.predict(X))


def test_a_warm_start_goes_on_with_means_variances_and_weights():
    X = uneven(3000, 3, 6)
    model = quiet_fit(dgmm.GaussianMixture(6, max_iter=3, tol=0.0, warm_start=True, random_state=0), X)
    first = model.lower_bound_
    quiet_fit(model, X)
    assert model.history_["lower_bound"][0] == pytest.approx(first, abs=1e-9)
    whole = quiet_fit(dgmm.GaussianMixture(6, max_iter=6, tol=0.0, random_state=0), X)
    np.testing.assert_allclose(model.means_, whole.means_, rtol=1e-9)


@pytest.mark.parametrize("weights", ["learned", "equal"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_pickles_and_clones_keep_the_model(kind, weights, tmp_path):
    X = uneven(900, 3, 6, dtype=np.float32)
    model = quiet_fit(dgmm.GaussianMixture(6, kind, weights=weights, random_state=0), X)
    path = tmp_path / "mixture.safetensors"
    model.save(path)
    for again in (dgmm.load(path), pickle.loads(pickle.dumps(model))):
        assert again.get_params() == model.get_params()
        np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.covariances_, model.covariances_)
    assert clone(model).covariance_type == kind


def test_a_file_with_other_variances_is_refused(tmp_path):
    model = quiet_fit(dgmm.GaussianMixture(3, random_state=0), uneven(200, 2, 3))
    model.covariances_ = model.covariances_[:2]
    model.save(tmp_path / "bad.safetensors")
    with pytest.raises(dgmm.ModelFileError, match=r"covariances_ is of shape \(2, 2\); it must be of shape \(3, 2\)"):
        dgmm.load(tmp_path / "bad.safetensors")


def test_a_callback_stops_a_fit_that_then_has_variances():
    model = quiet_fit(dgmm.GaussianMixture(200, random_state=0, callback=lambda event: True), uneven(5000, 3, 40))
    assert model.covariances_.shape == (200, 3)
    assert model.n_iter_ <= 1


GOOD = uneven(60, 2, 3)
BAD = [
    ({"covariance_type": "full"}, ValueError, "covariance_type is 'full'; it must be one of 'diag', .*scikit-learn's"),
    ({"covariance_type": "tied"}, ValueError, "covariance_type is 'tied'; .*closest type is 'tied_diag'"),
    ({"covariance_type": "round"}, ValueError, "covariance_type is 'round'; it must be 'diag' or"),
    ({"covariance_type": 3}, TypeError, "covariance_type is 3"),
    ({"weights": "any"}, ValueError, "weights is 'any'; it must be 'learned' or 'equal'"),
    ({"reg_covar": -1e-3}, ValueError, "reg_covar is -0.001; it must be a finite number, at least 0"),
    ({"reg_covar": float("nan")}, ValueError, "reg_covar is nan"),
    ({"reg_covar": "small"}, TypeError, "reg_covar is 'small'"),
    ({"n_components": 0}, ValueError, "n_components is 0; it must be"),
    ({"n_components": 61}, ValueError, "n_components is 61; .*at most n_samples=60"),
    ({"init_params": "kmeans++"}, ValueError, "init_params is 'kmeans[+][+]'; it must be 'auto' or .*'k-means[+][+]'"),
    ({"init_params": GOOD[:3]}, TypeError, r"(?s)init_params is array.*; it must be 'auto' or"),
    ({"means_init": GOOD[:3], "init_params": "k-means"}, ValueError, "init_params is 'k-means'"),
    ({"means_init": GOOD[:2]}, ValueError, r"means_init has shape \(2, 2\); it must be \(3, 2\)"),
    ({"means_init": GOOD[0]}, ValueError, "means_init: Expected 2D array"),
    ({"means_init": GOOD[:3] * np.nan}, ValueError, "means_init contains NaN"),
    ({"means_init": [[1, 2], [3]], "weights_init": [0.2, 0.3, 0.5]}, ValueError, "means_init: .*inhomogeneous"),
    ({"means_init": "random"}, TypeError, "means_init is 'random'; it must be None or an array of shape"),
    ({"means_init": lambda X, n, random_state: X[:n]}, TypeError, "means_init is .*; it must be None or an array"),
    ({"truncation": 4}, ValueError, "truncation is 4; .*at most n_components=3"),
    ({"weights_init": [0.5, 0.25, 0.25]}, ValueError, "weights_init is given; it must be None without means_init"),
    (
        {"means_init": GOOD[:3], "weights_init": [0.5, 0.5, 0.5]},
        ValueError,
        "weights_init sums to 1.5; it must sum to 1",
    ),
    ({"means_init": GOOD[:3], "weights_init": [0.5, 0.5]}, ValueError, r"weights_init is of shape \(2,\)"),
    ({"means_init": GOOD[:3], "weights_init": [1.5, -0.5, 0]}, ValueError, "weights_init has -0.5"),
    ({"means_init": GOOD[:3], "precisions_init": np.ones(3)}, ValueError, r"precisions_init is of shape \(3,\)"),
    ({"means_init": GOOD[:3], "precisions_init": np.zeros((3, 2))}, ValueError, "precisions_init has 0.0; .*positive"),
]


@pytest.mark.parametrize(("settings", "error", "said"), BAD)
def test_bad_parameters_are_named_and_nothing_changes(settings, error, said):
    model = quiet_fit(dgmm.GaussianMixture(3, random_state=0), GOOD)
    before = pickle.dumps(model.means_)
    with pytest.raises(error, match=said):
        model.set_params(**settings).fit(GOOD)
    assert pickle.dumps(model.means_) == before


def test_other_messages_have_the_names_of_mixtures_too():
    with pytest.warns(dgmm.IgnoredSettingWarning, match="means_init is an array, so all runs"):
        model = dgmm.GaussianMixture(3, means_init=GOOD[:3], n_init=2, max_iter=200).fit(GOOD)
    with pytest.raises(ValueError, match=r"k is 4; .*at most n_components=3"):
        model.top_k(GOOD, 4)


def test_messages_of_the_core_have_the_names_of_mixtures(tmp_path):
    def model(**settings):
        return dgmm.GaussianMixture(3, random_state=0, **settings)

    few = np.r_[np.ones(2), np.zeros(len(GOOD) - 2)]
    far = GOOD[:3] * 1e200
    np.save(tmp_path / "rows.npy", GOOD)
    for X in (GOOD, tmp_path / "rows.npy"):
        with pytest.raises(ValueError, match=r"^n_components is 3 but X has only 2 rows of positive weight"):
            model().fit(X, sample_weight=few)
        with pytest.raises(ValueError, match=r"^means_init and X together span .* rescale X"):
            model(means_init=far).fit(X)
    with pytest.raises(ValueError, match=r"^coreset_size is 2; it must be at least n_components = 3"):
        model(coreset_size=2).fit(GOOD)


@pytest.mark.parametrize("kind", ["diag", "spherical", "tied_diag"])
def test_data_in_tiny_units_have_a_finite_score_without_reg_covar(kind):
    X = (1e-14 * np.random.default_rng(0).normal(size=(400, 8))).astype(np.float32)
    model = quiet_fit(dgmm.GaussianMixture(100, kind, reg_covar=0, random_state=0, max_iter=3), X)
    assert np.isfinite(model.score(X))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, atol=1e-5)


def test_the_command_line_fits_mixtures(tmp_path):
    X = uneven(500, 3, 4)
    np.save(tmp_path / "rows.npy", X)
    arguments = ["fit", str(tmp_path / "rows.npy"), "-k", "4", "-o", str(tmp_path / "m.safetensors"), "--json"]
    options = ["--estimator", "gaussianmixture", "--covariance-type", "spherical", "--component-weights", "equal"]
    out = io.StringIO()
    with redirect_stdout(out):
        assert cli.main([*arguments, *options, "--reg-covar", "1e-4", "--init-params", "k-means++"]) == 0
    assert json.loads(out.getvalue())["estimator"] == "GaussianMixture"
    model = dgmm.load(tmp_path / "m.safetensors")
    assert (model.covariance_type, model.weights, model.reg_covar) == ("spherical", "equal", 1e-4)
    np.testing.assert_array_equal(model.weights_, np.full(4, 0.25))


def test_the_command_line_labels_rows_by_a_mixture_and_describes_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 0.1, (200, 3)), rng.normal(1, 2, (200, 3))])
    np.save("rows.npy", X)
    model = dgmm.GaussianMixture(2, means_init=X[[0, 300]], random_state=0).fit(X)
    model.save("m.safetensors")
    labels = model.predict(X)
    assert (labels != model.top_k(X, 1).indices[:, 0]).any()
    assert cli.main(["predict", "rows.npy", "-m", "m.safetensors", "-o", "labels.npy"]) == 0
    np.testing.assert_array_equal(np.load("labels.npy"), labels)
    capsys.readouterr()
    for option, code, words in (
        (["--distances", "d.npy"], 2, "which need not be the label of a GaussianMixture"),
        (["--method", "approximate"], 1, "method is 'approximate'; it must be 'auto' or 'exact'"),
    ):
        assert cli.main(["predict", "rows.npy", "-m", "m.safetensors", *option]) == code
        assert words in capsys.readouterr().err
    assert cli.main(["info", "m.safetensors", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["estimator"], said["settings"]["means_init"]) == ("GaussianMixture", "array of shape (2, 3)")
    assert cli.main(["info", "m.safetensors"]) == 0
    assert "means_init=array of shape (2, 3)" in capsys.readouterr().out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_answers_of_narrow_clusters_are_right_where_products_lose_their_digits(kind, dtype):
    for spread in (1e-2, 1e-3, 1e-5):
        rng = np.random.default_rng(1)
        X = (rng.standard_normal((20, 3))[np.arange(300) % 20] + spread * rng.standard_normal((300, 3))).astype(dtype)
        model = quiet_fit(dgmm.GaussianMixture(60, kind, reg_covar=0, max_iter=12, tol=0, random_state=1), X)
        variances = np.asarray(model.covariances_, dtype=float)
        variances = np.broadcast_to(variances[:, None] if kind == "spherical" else variances, (60, 3))
        squares = (X[:, None].astype(float) - model.means_) ** 2
        logs = np.log(model.weights_) - 0.5 * (squares / variances + np.log(2 * np.pi * variances)).sum(axis=2)
        highest = logs.max(axis=1)
        np.testing.assert_allclose(logs[np.arange(300), model.predict(X)], highest, atol=1e-3)
        density = highest + np.log(np.exp(logs - highest[:, None]).sum(axis=1))
        np.testing.assert_allclose(model.score_samples(X), density, atol=1e-3)
