"""Bad input is refused before any work, by an error that names the argument, the value and what is allowed."""

import warnings

import dgmm
import numpy as np
import pytest
import scipy.sparse
from support import ALL, blobs, quiet_fit

GOOD = blobs(40, 3, 4)
NAN = np.where(np.arange(120).reshape(40, 3) == 61, np.nan, GOOD)
INF = np.where(np.arange(120).reshape(40, 3) == 61, -np.inf, GOOD)

ROWS = {
    "no rows": (GOOD[:0], ValueError, r"0 sample\(s\)"),
    "no columns": (GOOD[:, :0], ValueError, r"0 feature\(s\)"),
    "one dimension": (GOOD[:, 0], ValueError, "Expected 2D array, got 1D"),
    "a scalar": (3.0, ValueError, "Expected 2D array, got scalar"),
    "three dimensions": (GOOD[None], ValueError, "X"),
    "NaN": (NAN, ValueError, "X.*NaN"),
    "NaN in float32": (NAN.astype(np.float32), ValueError, "X.*NaN"),
    "infinity": (INF, ValueError, "X.*inf"),
    "complex": (GOOD + 1j, ValueError, "Complex"),
    "objects": (np.array([[object(), 1, 2]] * 5), TypeError, "X: .*number"),
    "words": ([["a", "b", "c"]] * 5, ValueError, "X.*'a'"),
    "ragged": ([[1, 2, 3], [4]], ValueError, "X.*inhomogeneous"),
    "dates": (np.full((40, 3), "2020-01-01", "M8[D]"), TypeError, "X is of type datetime64.*numeric"),
    "numbers as text": (GOOD.astype(str), TypeError, "X is of type <U.*numeric"),
    "sparse": (scipy.sparse.csr_array(GOOD), TypeError, "[Ss]parse"),
    "None": (None, ValueError, "X|None"),
    "too large for squares": (np.array([[0.0], [1e300]] * 9), ValueError, "X spans .*overflow"),
}

WEIGHTS = {
    "too few weights": (np.ones(39), ValueError, r"sample_weight has shape \(39,\).*\(40,\)"),
    "two columns": (np.ones((40, 2)), ValueError, r"sample_weight has shape \(40, 2\).*\(40,\)"),
    "a negative weight": (np.r_[np.ones(39), -1], ValueError, r"sample_weight\[39\] is -1; .*at least 0"),
    "infinity": (np.r_[np.inf, np.ones(39)], ValueError, r"sample_weight\[0\] is inf; .*finite"),
    "NaN": (np.r_[np.nan, np.ones(39)], ValueError, r"sample_weight\[0\] is NaN; .*finite"),
    "all zeros": (np.zeros(40), ValueError, "sample_weight is zero for every row"),
    "complex": (np.ones(40) * 1j, ValueError, "Complex"),
    "dates": (np.arange(1, 41).astype("M8[s]"), TypeError, r"sample_weight is of type datetime64\[s\]; .*numeric"),
    "durations": (np.arange(1, 41).astype("m8[s]"), TypeError, r"sample_weight is of type timedelta64\[s\]"),
    "words": (["a"] * 40, ValueError, "sample_weight"),
    "a negative number for all rows": (-1.0, ValueError, r"sample_weight\[0\] is -1; .*at least 0"),
    "NaN for all rows": (float("nan"), ValueError, r"sample_weight\[0\] is NaN; .*finite"),
    "a word for all rows": ("a", (TypeError, ValueError), "sample_weight"),
    "too large for a float": (10**400, ValueError, "sample_weight"),
    "a sum that overflows": (
        np.r_[1.0, np.full(39, 1e308)],
        ValueError,
        r"the sum of sample_weight overflows: sample_weight\[1\] is 1e308, .*must be at most 1.79\d+e308",
    ),
    "too few positive weights": (
        np.r_[np.ones(3), np.zeros(37)],
        ValueError,
        "n_clusters is 4 .* 3 rows of positive weight",
    ),
}

PARAMETERS = [
    ("n_clusters", 0, ValueError, "at least 1"),
    ("n_clusters", -3, ValueError, "at least 1"),
    ("n_clusters", 2.5, TypeError, "an integer"),
    ("n_clusters", "8", TypeError, "an integer"),
    ("n_clusters", True, TypeError, "an integer"),
    ("n_clusters", None, TypeError, "an integer"),
    ("n_clusters", 41, ValueError, "at most n_samples=40"),
    ("truncation", 5, ValueError, "at most n_clusters=4"),
    ("truncation", 0, ValueError, "at least 1"),
    ("truncation", 2.0, TypeError, "an integer"),
    ("truncation", "all", ValueError, "'auto'"),
    ("proposals", 0, ValueError, "at least 1"),
    ("proposals", "some", ValueError, "'auto'"),
    ("proposals", None, TypeError, "an integer"),
    ("engine", "turbo", ValueError, "'pointwise' or 'grouped'"),
    ("engine", 3, TypeError, "'pointwise' or 'grouped'"),
    ("similarity", "cosine", ValueError, "'cooccurrence' or 'posterior' or 'kernel' or 'uniform'"),
    ("metric", "manhattan", ValueError, "'euclidean' or 'cosine'"),
    ("metric", None, TypeError, "'euclidean' or 'cosine'"),
    ("neighbors", 0, ValueError, "at least 1"),
    ("random_neighbor", "yes", TypeError, "True or False"),
    ("init", "kmeans++", ValueError, "'k-means\\+\\+'"),
    ("chain_length", 0, ValueError, "at least 1"),
    ("chain_length", 1.5, TypeError, "an integer"),
    ("chain_length", 2**40, ValueError, "at most 16777216"),
    ("coreset_size", 0, ValueError, "at least 1"),
    ("coreset_size", 3, ValueError, "at least n_clusters"),
    ("coreset_size", 9.0, TypeError, "an integer"),
    ("coreset_size", 2**40, ValueError, "at most 1048576"),
    ("max_size", 0.99, ValueError, "None or a finite number, at least 1"),
    ("max_size", float("nan"), ValueError, "at least 1"),
    ("max_size", float("inf"), ValueError, "at least 1"),
    ("max_size", True, TypeError, "at least 1"),
    ("max_size", "2", TypeError, "at least 1"),
    ("proposals", 2**64, ValueError, r"below 2\*\*63"),
    ("n_threads", 5000, ValueError, "from 1 to 1024"),
    ("max_iter", 0, ValueError, "at least 1"),
    ("max_iter", "100", TypeError, "an integer"),
    ("step_length", 0, ValueError, "above 0"),
    ("step_length", 2, ValueError, "below 2"),
    ("step_length", float("nan"), ValueError, "below 2"),
    ("step_length", "long", TypeError, "number"),
    ("refine", -1, ValueError, "at least 0"),
    ("refine", 1.5, TypeError, "an integer"),
    ("refine", "often", ValueError, "'auto'"),
    ("refine", True, TypeError, "an integer"),
    ("refine", 2**64, ValueError, r"below 2\*\*63"),
    ("tol", -1e-3, ValueError, "at least 0"),
    ("tol", float("nan"), ValueError, "finite"),
    ("tol", float("inf"), ValueError, "finite"),
    ("tol", "small", TypeError, "number"),
    ("stop", "never", ValueError, "'per_dim' or 'relative'"),
    ("n_init", 0, ValueError, "at least 1"),
    ("n_init", "auto", TypeError, "an integer"),
    ("random_state", -1, ValueError, "at least 0"),
    ("random_state", 2**64, ValueError, "2\\*\\*64 - 1"),
    ("random_state", "seed", TypeError, "RandomState"),
    ("n_threads", 0, ValueError, "at least 1"),
    ("n_threads", -1, ValueError, "at least 1"),
    ("n_threads", 1.5, TypeError, "an integer"),
    ("verbose", -1, ValueError, "at least 0"),
    ("verbose", "loud", TypeError, "an integer"),
    ("callback", "print", TypeError, "callable"),
    ("keep_on_interrupt", 1, TypeError, "True or False"),
]

STARTS = {
    "too few rows": (np.zeros((3, 3)), ValueError, r"init has shape \(3, 3\); it must be \(4, 3\)"),
    "too few columns": (np.zeros((4, 2)), ValueError, r"init has shape \(4, 2\); it must be \(4, 3\)"),
    "one dimension": (np.zeros(4), ValueError, "Expected 2D array"),
    "NaN": (np.full((4, 3), np.nan), ValueError, "init.*NaN"),
    "None": (None, TypeError, "init is None"),
    "a number": (7, TypeError, "init is 7"),
    "a callable of the wrong shape": (
        lambda X, m, random_state: X[:2],
        ValueError,
        r"init\(.*shape \(2, 3\).*\(4, 3\)",
    ),
}


def refused(cls, error, message, X, sample_weight=None, **parameters):
    """The fit is refused with the given error, and a model that was fitted before is what it was."""
    settings = {"n_clusters": 4, "random_state": 0} | parameters
    with pytest.raises(error, match=message) as caught:
        cls(**settings).fit(X, sample_weight=sample_weight)
    model = quiet_fit(cls(4, random_state=0), GOOD)
    model.set_params(**settings)
    before = dict(vars(model))
    with pytest.raises(error, match=message):
        model.fit(X, sample_weight=sample_weight)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    return str(caught.value)


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("cls", ALL)
def test_bad_rows_are_refused_by_fit(cls, kind):
    X, error, message = ROWS[kind]
    refused(cls, error, f"(?s){message}", X)


@pytest.mark.parametrize("kind", [kind for kind in ROWS if kind != "too large for squares"])
@pytest.mark.parametrize("method", ["predict", "transform", "predict_proba", "score", "score_samples", "top_k"])
@pytest.mark.parametrize("cls", ALL)
def test_bad_rows_are_refused_by_a_fitted_model(cls, method, kind):
    X, error, message = ROWS[kind]
    model = quiet_fit(cls(4, random_state=0), GOOD)
    more = [2] if method == "top_k" else []
    with pytest.raises(error, match=f"(?s){message}"):
        getattr(model, method)(X, *more)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("cls", ALL)
def test_bad_weights_are_refused(cls, kind):
    weights, error, message = WEIGHTS[kind]
    refused(cls, error, message, GOOD, weights)


@pytest.mark.parametrize(("name", "value", "error", "allowed"), PARAMETERS)
def test_bad_parameters_are_refused(name, value, error, allowed):
    for cls in ALL:
        if name in cls().get_params():
            text = refused(cls, error, allowed, GOOD, **{name: value})
            assert name in text
            assert repr(value).strip("'\"") in text


@pytest.mark.parametrize("cls", [cls for cls in ALL if cls is not dgmm.KMeans])
@pytest.mark.parametrize("kind", ["a negative weight", "infinity", "all zeros"])
def test_bad_weights_are_refused_by_score(cls, kind):
    weights, error, message = WEIGHTS[kind]
    model = quiet_fit(cls(4, random_state=0), GOOD)
    with pytest.raises(error, match=message):
        model.score(GOOD, sample_weight=weights)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("method", ["predict", "transform", "score", "score_samples"])
def test_rows_too_far_from_the_centers_for_their_type_are_refused(cls, method):
    model = quiet_fit(cls(4, random_state=0), GOOD.astype(np.float32))
    if hasattr(model, method):
        with pytest.raises(ValueError, match=r"X and the centers together span 3.*overflow float32"):
            getattr(model, method)(np.full((2, 3), 3e38, np.float32))


def test_an_engine_that_cannot_use_the_similarity_is_refused():
    message = "engine is 'grouped'; it must be 'auto' or 'pointwise' if similarity is 'kernel'"
    refused(dgmm.DGMM, ValueError, message, GOOD, engine="grouped", similarity="kernel")


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("cls", ALL)
def test_bad_starts_are_refused(cls, kind):
    start, error, message = STARTS[kind]
    refused(cls, error, message, GOOD, init=start)


@pytest.mark.parametrize("cls", ALL)
def test_other_columns_than_those_of_the_fit_are_refused(cls):
    model = quiet_fit(cls(4, random_state=0), GOOD)
    for method in ("predict", "transform", "predict_proba", "score", "score_samples"):
        with pytest.raises(ValueError, match=r"2 features.*3 features"):
            getattr(model, method)(GOOD[:, :2])


@pytest.mark.parametrize("cls", ALL)
def test_bad_arguments_of_methods_are_refused(cls):
    model = quiet_fit(cls(4, random_state=0), GOOD)
    with pytest.raises(ValueError, match="method is 'tree'; it must be 'auto' or 'exact' or 'approximate'"):
        model.predict(GOOD, method="tree")
    for k, error in ((0, ValueError), (5, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match=f"k is {k}; .*at most n_clusters=4"):
            model.top_k(GOOD, k)
    with pytest.raises(ValueError, match="sample_weight"):
        model.score(GOOD, sample_weight=np.ones(3))


def test_functions_refuse_what_estimators_refuse():
    calls = [
        lambda X, w=None: dgmm.lightweight_coreset(X, 5, sample_weight=w),
        lambda X, w=None: dgmm.afkmc2(X, 4, sample_weight=w),
        lambda X, w=None: dgmm.quantization_error(X, GOOD[:4], sample_weight=w),
    ]
    for call in calls:
        for kind in ROWS.keys() - {"too large for squares"}:
            X, error, message = ROWS[kind]
            with pytest.raises(error, match=f"(?s){message}"):
                call(X)
        for kind in WEIGHTS.keys() - {"too few positive weights"}:
            weights, error, message = WEIGHTS[kind]
            with pytest.raises(error, match=message):
                call(GOOD, weights)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: dgmm.lightweight_coreset(GOOD, 0), ValueError, "size is 0; .*at least 1"),
        (lambda: dgmm.lightweight_coreset(GOOD, 2.5), TypeError, "size is 2.5; .*an integer"),
        (lambda: dgmm.afkmc2(GOOD, 41), ValueError, "n_clusters is 41; .*at most n_samples=40"),
        (lambda: dgmm.afkmc2(GOOD, 0), ValueError, "n_clusters is 0; .*at least 1"),
        (lambda: dgmm.afkmc2(GOOD, 4, chain_length=0), ValueError, "chain_length is 0; .*at least 1"),
        (lambda: dgmm.afkmc2(GOOD, 4, random_state="x"), TypeError, "random_state is 'x'"),
        (lambda: dgmm.quantization_error(GOOD, GOOD[:, :2]), ValueError, r"centers has shape \(40, 2\).*\(40, 3\)"),
        (lambda: dgmm.quantization_error(GOOD, np.full((2, 3), np.nan)), ValueError, "centers contains NaN"),
        (lambda: dgmm.quantization_error(GOOD, GOOD[:0]), ValueError, r"0 sample\(s\)"),
    ],
)
def test_functions_name_their_own_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("cls", ALL)
def test_a_fit_that_a_warning_ends_leaves_the_estimator_unchanged(cls):
    model = quiet_fit(cls(4, random_state=0), GOOD)
    model.set_params(max_iter=1, tol=1e-12)
    before = dict(vars(model))
    new = cls(4, random_state=0, max_iter=1, tol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(dgmm.ConvergenceWarning, match="max_iter=1"):
            model.fit(-GOOD)
        with pytest.raises(dgmm.ConvergenceWarning, match="max_iter=1"):
            new.fit(GOOD)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    assert vars(new).keys() == vars(cls(4)).keys()
