"""The report of a fit: how it went, and an audit of its labels by exact search."""

from __future__ import annotations

import copy
import platform
import sys
import warnings
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
from numpy.typing import NDArray

from dgmm import _core
from dgmm._directions import unit
from dgmm._warnings import FeatureNamesWarning

if TYPE_CHECKING:
    from dgmm._base import Mixture

SAME = 1e-6
"""Two clusters are equally near if the relative difference of their squared distances is below this."""
ROWS_AT_ONCE = 1024
LOOKED_AT = 64
"""How many rows the fingerprint of the data uses."""


class Report:
    """A report of how a fit went. Print it, or use ``to_dict()`` or ``to_html()``; notebooks display it.

    Returned by the method ``report`` of a fitted estimator.
    """

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    def to_dict(self) -> dict[str, Any]:
        """Return the content as numbers, strings, lists and dicts that JSON can represent.

        Returns
        -------
        dict
            "estimator", "settings", "versions", "data", "fit" (with "seconds" by stage and "peak_bytes", the peak
            memory of the process when the fit ended), "evaluations" (distances by stage, next to those of exact k-means
            with as many iterations), "clusters" (sizes), "history" (one entry per iteration) and "audit" (None without
            X).
        """
        return copy.deepcopy(self._content)

    def to_html(self) -> str:
        """Return a self-contained HTML page with plots."""
        from dgmm._report_html import page

        return page(self._content)

    def _repr_html_(self) -> str:
        from dgmm._report_html import fragment

        return fragment(self._content)

    def __str__(self) -> str:
        from dgmm._report_text import text

        return text(self._content)

    def __repr__(self) -> str:
        return f"<Report of {self._content['estimator']}: print it, or use to_dict() or to_html()>"


def facts_of_fit(rows: NDArray[Any]) -> dict[str, Any]:
    """Record which rows were fitted, and the peak memory of the process so far."""
    return {"fingerprint": fingerprint(rows), "peak_bytes": peak_bytes()}


def fingerprint(rows: NDArray[Any]) -> int:
    """Return a checksum that identifies the rows."""
    some = rows[np.linspace(0, len(rows) - 1, min(LOOKED_AT, len(rows))).astype(np.intp)]
    return zlib.crc32(np.ascontiguousarray(some).tobytes(), len(rows))


def peak_bytes() -> int | None:
    """Return the peak memory of this process; None on systems that do not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def make_report(model: Mixture, rows: NDArray[Any] | None, sample_size: int, seed: int) -> Report:
    """Collect the facts about a fitted model; audit it on a sample of ``rows``, if given."""
    facts = getattr(model, "_facts", {})  # a model from a file may have no facts and no labels
    n_rows = len(model.labels_) if hasattr(model, "labels_") else None
    return Report(
        {
            "estimator": type(model).__name__,
            "settings": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
            "versions": _versions(),
            "data": {"n_rows": n_rows, "n_columns": model.n_features_in_, "dtype": str(model.cluster_centers_.dtype)},
            "fit": _fit(model, facts.get("peak_bytes")),
            "evaluations": _evaluations(model, n_rows),
            "clusters": _clusters(model),
            "history": {name: np.asarray(values).tolist() for name, values in model.history_.items()},
            "audit": None if rows is None else _audit(model, rows, sample_size, seed),
        }
    )


def _plain(value: Any) -> Any:
    """A setting in a form that JSON can represent."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}, {value.dtype}"
    name = getattr(value, "__qualname__", None)
    return f"function {name}" if name else type(value).__name__


def _versions() -> dict[str, str]:
    return {
        "dgmm": _core.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _fit(model: Mixture, peak_bytes: int | None) -> dict[str, Any]:
    return {
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "lower_bound": float(model.lower_bound_),
        "variance": float(model.variance_),
        "inertia": float(model.inertia_),
        "seconds": {**model.seconds_, "total": float(sum(model.seconds_.values()))},
        "peak_bytes": peak_bytes,
    }


def _evaluations(model: Mixture, n_rows: int | None) -> dict[str, Any]:
    """Distances by stage; exact k-means computes N M for k-means++ and N M in each iteration."""
    stages = {name: int(count) for name, count in model.n_distance_evals_.items()}
    total = sum(stages.values())
    if n_rows is None:
        return {"stages": stages, "total": total, "exact_kmeans": None, "share_of_exact": None}
    pairs = n_rows * len(model.cluster_centers_)
    exact = {"coreset": 0, "seeding": pairs, "em": pairs * int(model.n_iter_)}
    whole = sum(exact.values())
    return {
        "stages": stages,
        "total": total,
        "exact_kmeans": {**exact, "total": whole},
        "share_of_exact": total / whole,
    }


def _clusters(model: Mixture) -> dict[str, Any]:
    count = len(model.cluster_centers_)
    labels = getattr(model, "labels_", None)
    if labels is None:
        return {"n_clusters": count, "sizes": None}
    sizes = np.bincount(labels, minlength=count)
    largest = int(sizes.argmax())
    return {
        "n_clusters": count,
        "empty": int((sizes == 0).sum()),
        "single_point": int((sizes == 1).sum()),
        "median": float(np.median(sizes)),
        "largest": int(sizes[largest]),
        "largest_is": largest,
        "sizes": _histogram(sizes),
    }


def _histogram(sizes: NDArray[np.intp]) -> dict[str, list[int]]:
    """The number of clusters by size, in classes that double: 0, 1, 2-3, 4-7, ..."""
    classes = np.frexp(sizes.astype(np.float64))[1]
    counts = np.bincount(classes)
    first = [0] + [2**k for k in range(len(counts) - 1)]
    return {"from": first, "to": [0] + [2 * low - 1 for low in first[1:]], "clusters": counts.tolist()}


def _audit(model: Mixture, rows: NDArray[Any], sample_size: int, seed: int) -> dict[str, Any]:
    """Compare labels with exact search, on a sample of the rows."""
    of_the_fit = getattr(model, "_facts", {}).get("fingerprint") == fingerprint(rows) and hasattr(model, "labels_")
    if len(rows) <= sample_size:
        chosen = np.arange(len(rows))
    else:
        chosen = np.sort(np.random.default_rng(seed).choice(len(rows), sample_size, replace=False))
    some = np.ascontiguousarray(rows[chosen])
    labels = model.labels_[chosen] if of_the_fit else _predicted(model, some)
    centers, variance, threads = model._model()
    nearest = _core.top_k(some, centers, variance, 1, threads)[0][:, 0]
    if model._fitted_metric() == "cosine":
        some = unit(some)
    found, exact = _squares(some, centers, labels), _squares(some, centers, nearest)
    share = float((found <= exact * (1 + SAME)).mean())
    found_sum, exact_sum = float(found.sum()), float(exact.sum())
    return {
        "rows": len(some),
        "of_rows": len(rows),
        "what": "labels_ of the fit" if of_the_fit else "predict",
        "true_nearest": share,
        "standard_error": float(np.sqrt(share * (1 - share) / len(some))),
        "sum_of_squares": found_sum,
        "exact_sum_of_squares": exact_sum,
        "error_above_exact": found_sum / exact_sum - 1 if exact_sum > 0 else None,
    }


def _predicted(model: Mixture, rows: NDArray[Any]) -> NDArray[np.int32]:
    with warnings.catch_warnings():
        # The names of the columns were checked when the rows were read.
        warnings.simplefilter("ignore", FeatureNamesWarning)
        return model.predict(rows)


def _squares(rows: NDArray[Any], centers: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Squared distances of the rows to the centers of their labels, computed from differences."""
    out = np.empty(len(rows))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        difference = np.subtract(rows[part], centers[labels[part]], dtype=np.float64)
        np.einsum("nd,nd->n", difference, difference, out=out[part])
    return out
