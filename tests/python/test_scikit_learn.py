"""The estimators behave as scikit-learn's do."""

import pickle
from types import SimpleNamespace

import dgmm
import numpy as np
import pandas as pd
import pytest
import sklearn
from dgmm._progress import tell_end
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from support import ALL, DTYPES, blobs, quiet_fit


@parametrize_with_checks([cls() for cls in ALL])
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", ALL)
def test_init_only_stores_and_clone_copies(cls):
    model = cls(5, init=np.zeros((5, 2)), random_state=3)
    assert not [name for name in vars(model) if name not in model.get_params()]
    assert clone(model).get_params()["random_state"] == 3
    with pytest.raises(TypeError):
        cls(8, "auto")  # everything but n_clusters is keyword-only


@pytest.mark.parametrize("method", ["predict", "transform", "predict_proba", "score", "score_samples"])
@pytest.mark.parametrize("cls", ALL)
def test_unfitted_estimators_raise_not_fitted_error(cls, method):
    with pytest.raises(NotFittedError):
        getattr(cls(), method)([[0.0]])
    with pytest.raises(NotFittedError):
        cls().top_k([[0.0]], 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cls", ALL)
def test_attributes_are_those_of_the_contract(cls, dtype):
    X = blobs(500, 3, 7, dtype=dtype)
    model = quiet_fit(cls(7, random_state=0), X)
    assert model.cluster_centers_.shape == (7, 3)
    assert model.cluster_centers_.dtype == dtype
    assert model.labels_.shape == (500,)
    assert model.labels_.dtype == np.int32
    assert isinstance(model.variance_, float)
    assert isinstance(model.inertia_, float)
    assert isinstance(model.lower_bound_, float)
    assert isinstance(model.converged_, bool)
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")
    assert set(model.history_) == {"lower_bound", "variance", "seconds", "distance_evals", "rows", "refine"}
    assert {len(values) for values in model.history_.values()} == {model.n_iter_}
    assert set(model.n_distance_evals_) == {"coreset", "seeding", "em"}
    assert model.transform(X).dtype == model.predict_proba(X).dtype == dtype


@pytest.mark.parametrize("cls", ALL)
def test_a_pickled_model_answers_the_same(cls):
    X = blobs(300, 3, 5)
    model = quiet_fit(cls(5, random_state=0), X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


@pytest.mark.parametrize("cls", ALL)
def test_names_of_columns_are_kept_and_compared(cls):
    X = pd.DataFrame(blobs(100, 2, 3), columns=["height", "width"])
    model = quiet_fit(cls(3, random_state=0), X)
    assert model.feature_names_in_.tolist() == ["height", "width"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["width", "height"]])
    names = [f"{cls.__name__.lower()}{i}" for i in range(3)]
    assert model.get_feature_names_out().tolist() == names
    model.set_output(transform="pandas")
    assert model.transform(X).columns.tolist() == names
    assert model.fit_transform(X).columns.tolist() == names


@pytest.mark.parametrize("cls", ALL)
def test_weights_are_routed_through_a_pipeline(cls):
    X, weights = blobs(200, 2, 3), np.random.default_rng(0).uniform(size=200)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = cls(3, random_state=0).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(scaler, inner).fit(X, sample_weight=weights)
        assert "method" not in inner.get_metadata_routing().predict.requests
        score = pipeline.score(X, sample_weight=weights)
    scaled = StandardScaler().fit(X, sample_weight=weights).transform(X)
    alone = cls(3, random_state=0).fit(scaled, sample_weight=weights)
    np.testing.assert_array_equal(pipeline[-1].cluster_centers_, alone.cluster_centers_)
    assert score == alone.score(scaled, sample_weight=weights)


@pytest.mark.parametrize("cls", ALL)
def test_fit_predict_and_fit_transform_are_fit_and_then_the_other(cls):
    X = blobs(400, 3, 6)
    model = cls(6, random_state=0)
    labels = model.fit_predict(X)
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(cls(6, random_state=0).fit_transform(X), model.transform(X))


@pytest.mark.parametrize("cls", ALL)
def test_too_few_iterations_give_a_warning_and_a_model(cls):
    X = blobs(2000, 4, 30, spread=1.5)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        model = cls(30, max_iter=2, tol=1e-12, random_state=0).fit(X)
    assert (model.converged_, model.n_iter_) == (False, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_warning_about_a_falling_bound_does_not_mention_max_iter(dtype):
    X = blobs(500, 3, 5, dtype=dtype)
    model = dgmm.DGMM(5, random_state=0).fit(X)
    fell = {"lower_bound": np.array([1.0, 2.0, 1.5]), "refine": np.zeros(3, int)}
    fitted = SimpleNamespace(
        seconds={}, history=fell, converged=False, stopped=False, oversized_clusters=0, centers=model.cluster_centers_
    )
    with pytest.warns(ConvergenceWarning, match="the lower bound fell in iteration 3; the best model is kept") as said:
        tell_end(model, fitted, len(X), interrupted=False, empty=0)
    assert ("float64" in str(said[0].message)) == (dtype == np.float32)


@pytest.mark.parametrize("cls", ALL)
def test_fewer_distinct_rows_than_clusters_give_a_warning_and_a_model(cls):
    X = np.repeat([[0.0, 1.0], [2.0, 3.0], [5.0, 5.0]], 20, axis=0)
    with pytest.warns(ConvergenceWarning, match="found 3 distinct clusters, but n_clusters=5"):
        model = cls(5, random_state=0).fit(X)
    assert np.isfinite(model.cluster_centers_).all()
    assert model.variance_ > 0
    assert model.inertia_ == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("cls", ALL)
def test_constant_data_fit(cls):
    with pytest.warns(ConvergenceWarning, match="distinct"):
        model = cls(3, random_state=0).fit(np.full((50, 4), 7.0))
    np.testing.assert_allclose(model.cluster_centers_, 7.0)
    assert model.variance_ > 0
    assert np.isfinite(model.score_samples(np.full((2, 4), 7.0))).all()
