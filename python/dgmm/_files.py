"""Models in files: ``est.save(path)`` and ``dgmm.load(path)``.

The format is safetensors: text and plain arrays, so reading a file never runs code. The crate writes, reads and
documents it (``dgmm::files`` in Rust). Python adds this metadata:

===================  ==================================================================================================
``estimator``        ``DGMM``, ``VCGMM``, ``ExactGMM``, ``GaussianMixture`` or ``KMeans``
``settings``         JSON object: the parameters of the estimator
``attributes``       JSON object: what the fit has learned, except for the two arrays below
``covariance_type``  for a ``GaussianMixture`` whose clusters differ; also ``weights``, "learned" or "equal"
``metric``           ``cosine`` if the model compares directions; otherwise absent
===================  ==================================================================================================

The arrays are ``cluster_centers_`` (M x D, F32 or F64), ``variance_`` (1, F64) and those that the JSON objects refer to
by ``{"tensor": name}``.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dgmm import _core
from dgmm._approximate import Goal
from dgmm._base import Mixture
from dgmm._core import ModelFileError as ModelFileError
from dgmm._estimators import DGMM, VCGMM, ExactGMM, GaussianMixture, KMeans
from dgmm._queries import Metric
from dgmm._validation import check_callable, check_flag, check_int, check_option, check_share
from dgmm._warnings import LostSettingWarning

ESTIMATORS: dict[str, type[Mixture]] = {cls.__name__: cls for cls in (DGMM, VCGMM, ExactGMM, GaussianMixture, KMeans)}
TYPES = ("float32", "float64", "int32", "int64", "uint32", "uint64")
CENTERS, VARIANCE, REACHES = "cluster_centers_", "variance_", "approximate_reach_"
ENDING = ".safetensors"


def check_path(path: str | os.PathLike[str]) -> None:
    """Check the extension of a model file."""
    if Path(path).suffix.lower() != ENDING:
        raise ValueError(f"path is {os.fspath(path)!r}; it must end in {ENDING}")


def save(estimator: Mixture, path: str | os.PathLike[str], *, labels: bool = True) -> None:
    """Write a fitted estimator to a file; see ``Mixture.save``."""
    check_path(path)
    if type(estimator) not in ESTIMATORS.values():
        kind = type(estimator).__name__
        raise TypeError(f"the estimator is a {kind}; only {', '.join(ESTIMATORS)} can be saved: pickle it instead")
    check_flag("labels", labels)
    settings = {}
    for name, value in estimator.get_params(deep=False).items():  # not a comprehension, because of a stacklevel
        settings[name] = _kept(name, value)
    _check_settings(type(estimator), settings)
    learned = {name: value for name, value in vars(estimator).items() if _is_learned(name)}
    centers, variance = learned.pop(CENTERS), learned.pop(VARIANCE)
    if not labels:
        learned.pop("labels_", None)
    tensors = {CENTERS: _plain(centers), VARIANCE: np.array([variance], dtype=np.float64)}
    metadata = {
        "estimator": type(estimator).__name__,
        "settings": json.dumps({name: _packed(value, name, tensors) for name, value in settings.items()}),
        "attributes": json.dumps({name: _packed(value, name, tensors) for name, value in learned.items()}),
        **estimator._file_facts(),
    }
    if estimator._fitted_metric() != "euclidean":
        metadata["metric"] = estimator._fitted_metric()
    _core.write_file(path, metadata, tensors)


def load(path: str | os.PathLike[str]) -> Mixture:
    """Load an estimator that was written by its method ``save``.

    Loading never runs code, whatever the file contains.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    estimator
        A fitted DGMM, VCGMM, ExactGMM, GaussianMixture or KMeans, which gives the same answers, to the bit, as the one
        that was saved.

    Raises
    ------
    ModelFileError
        If the file is damaged, truncated, written by a newer version or not a model at all. It is a ValueError.
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> import dgmm, tempfile, os
    >>> model = dgmm.DGMM(2, random_state=0).fit([[0.0], [0.2], [5.0], [5.2]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     model.save(path)
    ...     again = dgmm.load(path)
    >>> again.predict([[0.1], [4.0]]).tolist() == model.predict([[0.1], [4.0]]).tolist()
    True
    """
    metadata, tensors = read(path)
    try:
        return _restored(metadata, tensors)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        said = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(f"{os.fspath(path)} holds no usable model: {said}") from error


def read(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Return the metadata and the arrays of a file, if it is complete and its version is known."""
    return _core.read_file(path)


def _restored(metadata: Mapping[str, str], tensors: Mapping[str, NDArray[Any]]) -> Mixture:
    if metadata["estimator"] not in ESTIMATORS:
        raise ValueError(f"estimator is {metadata['estimator']!r}; it must be one of {', '.join(ESTIMATORS)}")
    cls = ESTIMATORS[metadata["estimator"]]
    settings = {name: _unpacked(value, tensors) for name, value in json.loads(metadata["settings"]).items()}
    unknown = settings.keys() - cls().get_params()
    if unknown:
        raise ValueError(f"{cls.__name__} has no setting {', '.join(map(repr, sorted(unknown)))}")
    _check_settings(cls, settings)
    estimator = cls(**settings)
    for name, value in json.loads(metadata["attributes"]).items():
        if not _is_learned(name) or hasattr(cls, name):
            raise ValueError(f"a fit has no attribute {name!r}")
        setattr(estimator, name, _unpacked(value, tensors))
    estimator.cluster_centers_ = _checked_centers(tensors[CENTERS])
    metric = metadata.get("metric", "euclidean")
    check_option("metric", metric, get_args(Metric))
    variance = _checked_variance(tensors[VARIANCE])
    estimator._keep_scale(variance, 1 / variance if metric == "cosine" else None)
    columns = estimator.cluster_centers_.shape[1]
    if getattr(estimator, "n_features_in_", columns) != columns:
        raise ValueError(f"n_features_in_ is {estimator.n_features_in_} but the centers have {columns} columns")
    estimator.n_features_in_ = columns
    if not isinstance(vars(estimator).get(REACHES, {}), dict):
        raise ValueError(f"{REACHES} must be a dict")
    estimator._check_restored(metadata)
    if "labels_" in vars(estimator):
        _check_labels(estimator.labels_, len(estimator.cluster_centers_))
    if len(vars(estimator).get("feature_names_in_", range(columns))) != columns:
        raise ValueError(f"feature_names_in_ must have {columns} entries")
    return estimator


def _is_learned(name: str) -> bool:
    """Whether a fit sets an attribute of this name: those that end in "_", and the facts for ``report``."""
    return name == "_facts" or (name.isidentifier() and name.endswith("_") and not name.startswith("_"))


def _check_settings(cls: type[Mixture], settings: Mapping[str, Any]) -> None:
    """Refuse settings that a fit would refuse."""
    # None is replaced by a seed, because checking None would draw from NumPy's global generator.
    seed = settings.get("random_state")
    probe = cls(**{**settings, "random_state": 0 if seed is None else seed})
    probe._settings()
    check_callable("callback", probe.callback)


def _checked_centers(centers: NDArray[Any]) -> NDArray[Any]:
    if centers.ndim != 2 or centers.dtype.kind != "f" or not centers.size:
        wanted = "a matrix of float32 or float64"
        raise ValueError(f"{CENTERS} is of shape {centers.shape} and type {centers.dtype}; it must be {wanted}")
    if not np.isfinite(centers).all():
        raise ValueError(f"{CENTERS} must be finite")
    return centers


def _check_labels(labels: Any, clusters: int) -> None:
    right = isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype == np.int32
    if not right or (labels.size and not 0 <= labels.min() <= labels.max() < clusters):
        raise ValueError(f"labels_ must be a vector of int32 from 0 to {clusters - 1}")


def _checked_variance(variance: NDArray[Any]) -> float:
    if variance.shape != (1,) or variance.dtype != np.float64 or not 0 < variance[0] < np.inf:
        raise ValueError(f"{VARIANCE} is {variance}; it must be one positive float64")
    return float(variance[0])


def _checked_reach(reach: Any) -> float | None:
    if reach is not None and not (isinstance(reach, float) and reach >= 0):
        raise ValueError(f"{REACHES} is {reach!r} for a recall; it must be a number, at least 0, or None")
    return reach


def _kept(name: str, value: Any) -> Any:
    """The value that is saved: None or "auto" instead of a value that contains code."""
    if isinstance(value, np.random.RandomState) or callable(value):
        instead = "auto" if name == "init" else None
        message = f"{name} is {value!r}, which cannot be saved: the file has {name}={instead!r}"
        warnings.warn(message, LostSettingWarning, stacklevel=4)
        return instead
    # Any kind of table that a fit accepts becomes an array.
    return np.asarray(value) if hasattr(value, "__array__") and not isinstance(value, np.generic) else value


def _packed(value: Any, name: str, tensors: dict[str, NDArray[Any]]) -> Any:
    """``value`` as JSON; arrays of numbers go to ``tensors``, with a reference in their place."""
    if name == REACHES:
        return {"reaches": [[*goal, reach] for goal, reach in value.items()]}
    if isinstance(value, dict):
        return {"dict": {key: _packed(entry, f"{name}.{key}", tensors) for key, entry in value.items()}}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple | np.ndarray):
        array = np.asarray(value)
        if array.dtype.name in TYPES:
            tensors[name] = _plain(array)
            return {"tensor": name}
        if array.ndim == 1 and all(isinstance(entry, str) for entry in array):
            return {"strings": [str(entry) for entry in array]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} is {value!r}; only numbers, strings and arrays of them can be saved")


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """The array in C order and in the machine's byte order."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def _unpacked(value: Any, tensors: Mapping[str, NDArray[Any]]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "strings":
        return np.array(content, dtype=object)
    if kind == "reaches":
        return {Goal(check_share("recall", recall), check_int("k", k)): _checked_reach(r) for recall, k, r in content}
    if kind == "dict":
        return {key: _unpacked(entry, tensors) for key, entry in content.items()}
    raise ValueError(f"{kind!r} is not a kind of value")
