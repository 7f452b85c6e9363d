"""Models in files: ``est.save(path)`` and ``dgmm.load(path)``.

The format is safetensors: a header in JSON and plain arrays, so reading a file never runs code, and other languages can
read it. Version 1 of what is inside:

===================  ==================================================================================================
metadata (text)
===================  ==================================================================================================
``format``           ``dgmm``
``format_version``   ``1``
``dgmm_version``     the version that wrote it, for people
``estimator``        ``DGMM``, ``VCGMM``, ``ExactGMM`` or ``KMeans``
``settings``         JSON object: the parameters of the estimator
``attributes``       JSON object: what the fit has learned, but for the two arrays below
``crc32``            checksum of all the rest, 8 hexadecimal digits
===================  ==================================================================================================

Arrays: ``cluster_centers_`` (M x D, F32 or F64), ``variance_`` (1, F64) and those that the JSON objects refer to by
``{"tensor": name}``. The crate reads and writes the same files (its feature ``files``), of which it uses the centers,
the variance and, where it wrote them, an ``origin``.
"""

from __future__ import annotations

import json
import os
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgmm import _core
from dgmm._base import Mixture
from dgmm._estimators import DGMM, VCGMM, ExactGMM, KMeans
from dgmm._extras import need
from dgmm._validation import check_callable, check_flag
from dgmm._warnings import LostSettingWarning

FORMAT, VERSION = "dgmm", 1
ESTIMATORS: dict[str, type[Mixture]] = {cls.__name__: cls for cls in (DGMM, VCGMM, ExactGMM, KMeans)}
TYPES = {"float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64", "uint32": "U32", "uint64": "U64"}
CENTERS, VARIANCE = "cluster_centers_", "variance_"


class ModelFileError(ValueError):
    """A file does not hold a model that this version can read."""


def save(estimator: Mixture, path: str | os.PathLike[str], *, labels: bool = True) -> None:
    """Write a fitted estimator to a file; see ``Mixture.save``."""
    safetensors = need("safetensors.numpy", "io", "saving a model")
    if type(estimator) not in ESTIMATORS.values():
        raise TypeError(f"a file holds {', '.join(ESTIMATORS)}; a {type(estimator).__name__} can be pickled instead")
    check_flag("labels", labels)
    tensors: dict[str, NDArray[Any]] = {}
    settings = {}
    for name, value in estimator.get_params(deep=False).items():
        settings[name] = _kept(name, value)
    _check_settings(type(estimator), settings)
    learned = {name: value for name, value in vars(estimator).items() if _is_learned(name)}
    centers, variance = learned.pop(CENTERS), learned.pop(VARIANCE)
    if not labels:
        learned.pop("labels_", None)
    metadata = {
        "format": FORMAT,
        "format_version": str(VERSION),
        "dgmm_version": _core.__version__,
        "estimator": type(estimator).__name__,
        "settings": json.dumps({name: _packed(value, name, tensors) for name, value in settings.items()}),
        "attributes": json.dumps({name: _packed(value, name, tensors) for name, value in learned.items()}),
    }
    tensors |= {CENTERS: np.ascontiguousarray(centers), VARIANCE: np.array([variance], dtype=np.float64)}
    metadata["crc32"] = _checksum(metadata, tensors)
    target = Path(path)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(safetensors.save(tensors, metadata))
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str]) -> Mixture:
    """Read an estimator that ``save`` has written, here or in Rust.

    Reading never runs code, whatever the file holds.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    estimator
        A fitted DGMM, VCGMM, ExactGMM or KMeans, which gives the same answers as the one that was saved, to the bit.

    Raises
    ------
    ModelFileError
        If the file is damaged, cut off, written by a newer version or no model at all. It is a ValueError.
    OSError
        If it cannot be opened.

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
    """Return what a file holds, if it is whole and of a version that is known."""
    safetensors = need("safetensors", "io", "loading a model")
    name = os.fspath(path)
    with open(path, "rb"):
        pass  # so that what the system says of a file that cannot be opened is said as usual
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            _check_version(name, metadata)
            for key in file.keys():  # noqa: SIM118 - it is no dict
                if file.get_slice(key).get_dtype() not in TYPES.values():
                    raise ModelFileError(f"{name}: the array {key!r} is of a type that no model has")
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise ModelFileError(f"{name} is damaged or no safetensors file: {error}") from error
    if metadata.get("crc32") != _checksum(metadata, tensors):
        raise ModelFileError(f"{name} is damaged: its checksum is not that of its contents")
    return metadata, tensors


def _check_version(name: str, metadata: Mapping[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"{name} is a safetensors file, but not one of dgmm's: its metadata have no format=dgmm")
    version = metadata.get("format_version", "")
    if not version.isdecimal() or int(version) < 1:
        raise ModelFileError(f"{name} has format_version={version!r}; it must be a positive number")
    if int(version) > VERSION:
        wrote = metadata.get("dgmm_version", "an unknown version")
        raise ModelFileError(
            f"{name} has format version {version}, written by dgmm {wrote}; this is dgmm {_core.__version__}, which "
            f"reads versions up to {VERSION}: install a newer one"
        )


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
    estimator.variance_ = _checked_variance(tensors[VARIANCE])
    columns = estimator.cluster_centers_.shape[1]
    if getattr(estimator, "n_features_in_", columns) != columns:
        raise ValueError(f"n_features_in_ is {estimator.n_features_in_} but the centers have {columns} columns")
    estimator.n_features_in_ = columns
    if "labels_" in vars(estimator):
        _check_labels(estimator.labels_, len(estimator.cluster_centers_))
    if len(vars(estimator).get("feature_names_in_", range(columns))) != columns:
        raise ValueError(f"feature_names_in_ must have {columns} entries")
    return estimator


def _is_learned(name: str) -> bool:
    """Whether a fit sets an attribute of this name: scikit-learn's custom, and what ``report`` goes by."""
    return name == "_facts" or (name.isidentifier() and name.endswith("_") and not name.startswith("_"))


def _check_settings(cls: type[Mixture], settings: Mapping[str, Any]) -> None:
    """Refuse settings that no fit would take."""
    # A seed is put in for None, because checking None would draw from NumPy's global generator.
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


def _kept(name: str, value: Any) -> Any:
    """The value, or None or "auto" in place of what only code could bring back."""
    if isinstance(value, np.random.RandomState) or callable(value):
        instead = "auto" if name == "init" else None
        message = f"{name} is {value!r}, which a file cannot hold: the file says {name}={instead!r}"
        warnings.warn(message, LostSettingWarning, stacklevel=4)
        return instead
    # Any table that a fit takes.
    return np.asarray(value) if hasattr(value, "__array__") and not isinstance(value, np.generic) else value


def _packed(value: Any, name: str, tensors: dict[str, NDArray[Any]]) -> Any:
    """``value`` as JSON; arrays of numbers go to ``tensors``, with a reference in their place."""
    if isinstance(value, dict):
        return {"dict": {key: _packed(entry, f"{name}.{key}", tensors) for key, entry in value.items()}}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple | np.ndarray):
        array = np.asarray(value)
        if array.dtype.name in TYPES:
            tensors[name] = np.ascontiguousarray(array)
            return {"tensor": name}
        if array.ndim == 1 and all(isinstance(entry, str) for entry in array):
            return {"strings": [str(entry) for entry in array]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} is {value!r}; a file can hold numbers, texts and arrays of them")


def _unpacked(value: Any, tensors: Mapping[str, NDArray[Any]]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "strings":
        return np.array(content, dtype=object)
    if kind == "dict":
        return {key: _unpacked(entry, tensors) for key, entry in content.items()}
    raise ValueError(f"{kind!r} is no kind of value")


def _checksum(metadata: Mapping[str, str], tensors: Mapping[str, NDArray[Any]]) -> str:
    """CRC-32 of the metadata but for itself, and of the names, types, shapes and bytes of the arrays, by name."""
    crc = 0
    for key in sorted(metadata.keys() - {"crc32"}):
        crc = zlib.crc32(f"{key}\0{metadata[key]}\0".encode(), crc)
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        crc = zlib.crc32(f"{name}\0{TYPES[array.dtype.name]}{list(array.shape)}\0".encode(), crc)
        crc = zlib.crc32(array.data, crc) if array.size else crc
    return f"{crc:08x}"
