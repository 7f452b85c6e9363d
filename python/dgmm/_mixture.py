"""``GaussianMixture``: weights and diagonal covariances, with scikit-learn's names, for thousands of components."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dgmm import _core
from dgmm._approximate import Scale
from dgmm._base import Init, InitName, LabelSearch
from dgmm._dgmm import Engine, Truncated
from dgmm._progress import Callback
from dgmm._reading import by_parts
from dgmm._validation import check_auto, check_int, check_matrix, check_non_negative, check_option, check_seed

CovarianceType = Literal["diag", "spherical", "tied_diag", "isotropic"]
WeightKind = Literal["learned", "equal"]
MixtureInit = InitName | Literal["kmeans", "random_from_data"]
SAME_INIT = {"kmeans": "auto", "random_from_data": "random"}
"""scikit-learn's names of starts that have another name here."""
INSTEAD = {
    "full": "the closest type is 'diag' after a rotation of the columns, such as PCA(whiten=True); with few "
    "components, use scikit-learn's GaussianMixture",
    "tied": "the closest type is 'tied_diag', with one variance per column for all components",
}


class GaussianMixture(Truncated):
    """A mixture of Gaussians with weights and diagonal covariances, for up to thousands of components.

    It has the names and conventions of scikit-learn's ``GaussianMixture`` and is fitted by D-GMM's truncated EM: each
    row is shared by its ``truncation`` most likely components, which are found as in ``DGMM``. With
    ``truncation=n_components``, the default up to 128 components, this is exact EM; beyond that the cost of an
    iteration does not grow with the number of components. Fits start with up to 30 iterations of k-means; with
    ``means_init``, ``precisions_init`` and ``weights_init`` there is only EM.

    Parameters that are not listed here are those of ``DGMM``.

    Parameters
    ----------
    n_components : int
        M, the number of components.
    covariance_type : {"diag", "spherical", "tied_diag", "isotropic"}
        Which variances are learned: one per component and column, one per component, one per column (the same in all
        components), or a single one.
    weights : {"learned", "equal"}
        The weights of the components: learned from their shares of the rows, or equal. With "isotropic" and "equal" the
        model is that of ``DGMM``, to the bit.
    truncation : int or "auto"
        H, how many components share each row; "auto" is ``n_components`` up to 128, and 5 beyond that.
    tol : float or "auto"
        The fit stops when the lower bound changes by no more than this; "auto" is 1e-3.
    reg_covar : float
        Added to each variance, so that those of components with few rows stay above 0. Its unit is the square of the
        data's unit.
    init_params : {"auto", "afk-mc2", "hierarchical", "k-means++", "random", "kmeans", "random_from_data"}
        Where k-means starts; see ``init`` of ``DGMM``. scikit-learn's "kmeans" is the same as "auto", and its
        "random_from_data" is the same as "random": random rows.
    weights_init, means_init, precisions_init : array-like or None
        Where to start: arrays of shape (n_components,), (n_components, n_features) and that of ``precisions_``. If only
        means are given, the weights and variances are those of the rows nearest to each. The other two need means; if
        only one of them is given, the weights start equal, or the variances start at the variance of the data.
    warm_start : bool
        Whether to start from the means, variances and weights of the previous fit, if there was one.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        The probabilities of the components; they sum to 1.
    means_ : ndarray of shape (n_components, n_features)
        The means, in the type of X; also ``cluster_centers_``.
    covariances_ : ndarray
        The variances, of shape (n_components, n_features), (n_components,), (n_features,) or (1,), depending on
        ``covariance_type``.
    precisions_, precisions_cholesky_ : ndarray
        One over the variances, and one over the standard deviations, in the same shape.
    labels_ : ndarray of shape (n_samples,)
        The most likely component of each row, as found by the fit's own search; ``predict`` is exact.
    inertia_ : float
        The weighted sum of the rows' squared distances to the means of their components, in units of the variances
        (with "isotropic" in the unit of the data).
    lower_bound_ : float
        The lower bound of the mean log-likelihood per row; with ``truncation=n_components`` it is the mean itself.
    lower_bounds_ : ndarray of shape (n_iter_,)
        The lower bound in each iteration.

    Notes
    -----
    ``reg_covar`` is added as in scikit-learn, which can lower the bound a little if variances are about that small. A
    change of at most ``tol`` in either direction ends the fit; if the bound falls by more, the fit ends with the
    previous model, and ``converged_`` is False.

    Examples
    --------
    >>> import numpy as np, dgmm
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, size=(3000, 2)), rng.normal(8, [0.5, 2.0], size=(1000, 2))])
    >>> model = dgmm.GaussianMixture(2, random_state=0).fit(X)
    >>> order = np.argsort(model.weights_)
    >>> model.weights_[order].round(2).tolist(), np.sqrt(model.covariances_[order[0]]).round(1).tolist()
    ([0.25, 0.75], [0.5, 2.0])
    """

    _system: ClassVar[str] = "GaussianMixture"
    _count_name: ClassVar[str] = "n_components"
    _init_name: ClassVar[str] = "means_init"
    _has_stop: ClassVar[bool] = False
    _goes_by_distance: ClassVar[bool] = False

    weights_: NDArray[np.float64]
    covariances_: NDArray[np.float64]
    _kind: tuple[CovarianceType, WeightKind]

    def __init__(
        self,
        n_components: int = 1,
        covariance_type: CovarianceType = "diag",
        *,
        weights: WeightKind = "learned",
        truncation: int | Literal["auto"] = "auto",
        proposals: int | Literal["auto"] = "auto",
        engine: Engine = "auto",
        tol: float | Literal["auto"] = "auto",
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: MixtureInit = "auto",
        weights_init: ArrayLike | None = None,
        means_init: ArrayLike | None = None,
        precisions_init: ArrayLike | None = None,
        chain_length: int = 5,
        coreset_size: int | None = None,
        warm_start: bool = False,
        labels: LabelSearch | None = "auto",
        memory_limit: int | str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callback: Callback | None = None,
        keep_on_interrupt: bool = False,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.weights = weights
        self.truncation = truncation
        self.proposals = proposals
        self.engine = engine
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.chain_length = chain_length
        self.coreset_size = coreset_size
        self.warm_start = warm_start
        self.labels = labels
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callback = callback
        self.keep_on_interrupt = keep_on_interrupt

    @property
    def _count(self) -> int:
        return self.n_components

    @property
    def init(self) -> Init:  # type: ignore[override]
        """Where k-means starts, under the name of this parameter in the other estimators."""
        if self.means_init is not None:
            return self.means_init
        name: Any = self.init_params
        return SAME_INIT.get(name, name) if isinstance(name, str) else name

    @property
    def means_(self) -> NDArray[Any]:
        """The means of the components."""
        check_is_fitted(self)
        return self.cluster_centers_

    @property
    def lower_bounds_(self) -> NDArray[np.float64]:
        """The lower bound in each iteration, as in ``history_``."""
        check_is_fitted(self)
        bounds: NDArray[np.float64] = self.history_["lower_bound"]
        return bounds

    @property
    def precisions_(self) -> NDArray[np.float64]:
        """One over the variances."""
        check_is_fitted(self)
        return 1.0 / self.covariances_

    @property
    def precisions_cholesky_(self) -> NDArray[np.float64]:
        """One over the standard deviations."""
        check_is_fitted(self)
        return 1.0 / np.sqrt(self.covariances_)

    @property
    def partial_fit(self) -> Any:
        """Not available: variances cannot be learned from a stream."""
        raise AttributeError("GaussianMixture has no partial_fit: DGMM and KMeans learn from streams")

    @by_parts
    def predict(  # type: ignore[override]
        self, X: ArrayLike, method: Literal["auto", "exact"] = "auto"
    ) -> NDArray[np.int32]:
        """Return the most likely component of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are converted to the type of the means.
        method : {"auto", "exact"}
            Both compare each row with all components; there is no approximate search by likelihood.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        check_option("method", method, ("auto", "exact"))
        return _core.predict(self._test_rows(X), *self._model())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Draw rows from the mixture, and return them with the components that they come from.

        Parameters
        ----------
        n_samples : int
            The number of rows.
        random_state : int, RandomState or None
            The seed; an int gives the same rows each time.
        """
        check_is_fitted(self)
        n_samples = check_int("n_samples", n_samples)
        rng = np.random.default_rng(check_seed(random_state))
        means, dtype = self.cluster_centers_, self.cluster_centers_.dtype.type
        labels = rng.choice(len(means), size=n_samples, p=self.weights_ / self.weights_.sum()).astype(np.int32)
        spread, kind = np.sqrt(self.covariances_), self._fitted_kind()[0]
        if kind in ("diag", "spherical"):
            spread = spread[labels]
        if kind == "spherical":
            spread = spread[:, None]
        rows = rng.standard_normal((n_samples, means.shape[1]), dtype=dtype) * spread.astype(dtype)
        rows += means[labels]
        return rows, labels

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that this is a density, as its own mixture does."""
        tags = super().__sklearn_tags__()
        tags.estimator_type = "density_estimator"
        return tags

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        kind = self.covariance_type
        if isinstance(kind, str) and kind in INSTEAD:
            raise ValueError(
                f"covariance_type is {kind!r}; it must be one of {', '.join(map(repr, get_args(CovarianceType)))}: "
                f"{INSTEAD[kind]}"
            )
        settings |= {
            "covariance_type": check_option("covariance_type", kind, get_args(CovarianceType)),
            "weights": check_option("weights", self.weights, get_args(WeightKind)),
            "reg_covar": check_non_negative("reg_covar", self.reg_covar),
            "proposals": check_auto("proposals", self.proposals),
            "engine": check_option("engine", self.engine, get_args(Engine)),
        }
        return settings | self._start_shape(settings["n_clusters"])

    def _named_start(self) -> str | None:
        name = check_option("init_params", self.init_params, (*get_args(InitName), *SAME_INIT))
        if self.means_init is None:
            return SAME_INIT.get(name, name)
        if isinstance(self.means_init, str) or callable(self.means_init) or np.isscalar(self.means_init):
            allowed = "None or an array of shape (n_components, n_features)"
            raise TypeError(f"means_init is {self.means_init!r}; it must be {allowed}")
        check_matrix("means_init", self.means_init)
        return None

    def _start_shape(self, count: int) -> dict[str, Any]:
        """The weights and variances that components start with, as settings for the core."""
        given: dict[str, Any] = {}
        for name in ("weights_init", "precisions_init"):
            value = getattr(self, name)
            if value is not None and self.means_init is None:
                raise ValueError(f"{name} is given; it must be None without means_init")
        if self.weights_init is not None:
            weights = _numbers("weights_init", self.weights_init, (count,), least=0.0)
            if abs(weights.sum() - 1.0) > 1e-6:
                raise ValueError(f"weights_init sums to {weights.sum():.6g}; it must sum to 1")
            given["start_weights"] = (weights / weights.sum()).tolist()
        if self.precisions_init is not None:
            shape = _shape(self.covariance_type, count, np.asarray(self.means_init).shape[-1])
            precisions = _numbers("precisions_init", self.precisions_init, shape, least=np.finfo(float).tiny)
            given["start_variances"] = (1.0 / precisions).ravel().tolist()
        return given

    def _fitted_kind(self) -> tuple[CovarianceType, WeightKind]:
        """The covariance type and the kind of weights at the last fit, even if the parameters have changed since."""
        return getattr(self, "_kind", (self.covariance_type, self.weights))

    def _starts(self, rows: NDArray[Any], settings: dict[str, Any]) -> Sequence[NDArray[Any] | None]:
        # If the kind of variances or weights has changed, only the means are a start.
        same = getattr(self, "_kind", None) == (self.covariance_type, self.weights)
        if self._earlier_centers(rows.shape[1]) is not None and same:
            settings["start_weights"] = self.weights_.tolist()
            settings["start_variances"] = self.covariances_.ravel().tolist()
        return super()._starts(rows, settings)

    def _start_by(self, init: InitName) -> None:
        self.init_params = init
        self.means_init = self.weights_init = self.precisions_init = None

    def _keep(self, fitted: _core.Fitted) -> None:
        super()._keep(fitted)
        count, columns = self.cluster_centers_.shape
        variances = np.array([fitted.variance]) if fitted.variances is None else fitted.variances
        self._kind = (self.covariance_type, self.weights)
        self.covariances_ = variances.reshape(_shape(self.covariance_type, count, columns))
        self.weights_ = np.full(count, 1.0 / count) if fitted.weights is None else fitted.weights

    def _model(self) -> tuple[NDArray[Any], Scale, int | None]:
        centers, variance, threads = super()._model()
        covariance_type, kind = self._fitted_kind()
        if (covariance_type, kind) == ("isotropic", "equal"):
            return centers, variance, threads
        weights = np.ascontiguousarray(self.weights_) if kind == "learned" else None
        return centers, (covariance_type, np.ascontiguousarray(self.covariances_).ravel(), weights), threads

    def _file_facts(self) -> dict[str, str]:
        covariance_type, weights = self._fitted_kind()
        if (covariance_type, weights) == ("isotropic", "equal"):
            return {}
        return {"covariance_type": covariance_type, "weights": weights}

    def _check_restored(self, metadata: Mapping[str, str]) -> None:
        count, columns = self.cluster_centers_.shape
        kind = metadata.get("covariance_type", "isotropic"), metadata.get("weights", "equal")
        check_option("covariance_type", kind[0], get_args(CovarianceType))
        check_option("weights", kind[1], get_args(WeightKind))
        self._kind = cast(tuple[CovarianceType, WeightKind], kind)
        tiny, shape = np.finfo(float).tiny, _shape(kind[0], count, columns)
        self.covariances_ = _numbers("covariances_", self.covariances_, shape, least=tiny)
        self.weights_ = _numbers("weights_", self.weights_, (count,), least=0.0)

    def _like(self, clusters: int) -> GaussianMixture:
        covariance_type, weights = self._fitted_kind()
        return GaussianMixture(clusters, covariance_type, weights=weights, random_state=0)

    def _parameters(self) -> int:
        weights = len(self.weights_) - 1 if self._fitted_kind()[1] == "learned" else 0
        return int(self.cluster_centers_.size) + int(self.covariances_.size) + weights


def _shape(kind: str, count: int, columns: int) -> tuple[int, ...]:
    """The shape of ``covariances_``."""
    return {"diag": (count, columns), "spherical": (count,), "tied_diag": (columns,), "isotropic": (1,)}[kind]


def _numbers(name: str, value: ArrayLike, shape: tuple[int, ...], least: float) -> NDArray[np.float64]:
    """Return an array of this shape, finite and not below ``least``."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; it must be numbers of shape {shape}") from None
    if array.shape != shape:
        raise ValueError(f"{name} is of shape {array.shape}; it must be of shape {shape}")
    if not (np.isfinite(array).all() and (array >= least).all()):
        bad = array[~(np.isfinite(array) & (array >= least))].flat[0]
        raise ValueError(f"{name} has {bad}; its entries must be finite and {'positive' if least else 'at least 0'}")
    return array
