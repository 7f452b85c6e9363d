"""The commands of ``dgmm``, given their parsed options, and the settings that they share."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

import numpy as np

import dgmm
from dgmm import _files
from dgmm._base import Mixture
from dgmm._outputs import (
    MODEL,
    TABLE,
    VECTOR,
    UsageError,
    check_outputs,
    pictures,
    write_picture,
    write_table,
    write_vector,
)
from dgmm._reading import free_memory
from dgmm._sources import Files, files_of
from dgmm._tables import float_for
from dgmm.io import Rows, read, read_vector


def _tolerance(text: str) -> float | str:
    """A tolerance: a number, "auto" or "quick"."""
    try:
        return text if text in ("auto", "quick") else float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number, 'auto' or 'quick'") from None


PIECEWISE = 2**26
"""Files of at least this many bytes are not copied into memory as a whole, if they can be read piece by piece."""
ESTIMATORS = {name.lower(): cls for name, cls in _files.ESTIMATORS.items()}
# option, parameter of the estimators, type, choices or metavar, help text
SETTINGS: list[tuple[str, str, Any, Any, str]] = [
    ("--truncation", "truncation", "count", "H", "clusters that each row keeps"),
    ("--proposals", "proposals", "count", "R", "clusters that each row or group of rows tries per iteration"),
    ("--neighbors", "neighbors", "count", "G", "neighbors of a cluster (vcgmm)"),
    (
        "--engine",
        "engine",
        str,
        ("auto", "pointwise", "grouped"),
        "whether single rows or groups of rows get proposals",
    ),
    (
        "--similarity",
        "similarity",
        str,
        ("cooccurrence", "posterior", "kernel", "uniform"),
        "where proposals come from",
    ),
    ("--metric", "metric", str, ("euclidean", "cosine"), "how rows are compared"),
    ("--init", "init", str, ("auto", "afk-mc2", "hierarchical", "k-means++", "random"), "where to start"),
    ("--chain-length", "chain_length", "count", "N", "steps of AFK-MC2's Markov chains"),
    ("--coreset-size", "coreset_size", "count", "N", "fit this many weighted rows instead of all"),
    ("--max-size", "max_size", float, "X", "largest mass of a cluster, in multiples of the mean mass (dgmm, kmeans)"),
    ("--max-iter", "max_iter", "count", "N", "maximum number of iterations"),
    ("--tol", "tol", _tolerance, "X", "stop when the lower bound changes by at most X; 'quick' saves time (dgmm)"),
    ("--step-length", "step_length", float, "X", "how far centers move, relative to the means of their rows (dgmm)"),
    ("--refine", "refine", "rounds", "N", "maximum number of rounds that move clusters to where the error is large"),
    ("--stop", "stop", str, ("per_dim", "relative"), "what is compared with --tol"),
    (
        "--covariance-type",
        "covariance_type",
        str,
        ("diag", "spherical", "tied_diag", "isotropic"),
        "which variances are learned (gaussianmixture)",
    ),
    ("--component-weights", "weights", str, ("learned", "equal"), "weights of the clusters (gaussianmixture)"),
    ("--reg-covar", "reg_covar", float, "X", "added to each variance (gaussianmixture)"),
    (
        "--init-params",
        "init_params",
        str,
        ("auto", "afk-mc2", "hierarchical", "k-means++", "random"),
        "where k-means starts (gaussianmixture)",
    ),
    ("--n-init", "n_init", "count", "N", "number of runs, of which the best is kept"),
    ("--label-search", "labels", str, ("auto", "exact", "approximate", "none"), "how rows get their labels"),
    (
        "--memory-limit",
        "memory_limit",
        str,
        "SIZE",
        "memory to use, such as 2GB: rows are read shard by shard",
    ),
    (
        "--checkpoint",
        "checkpoint",
        str,
        "FILE",
        "file for the state of the fit, which resumes from there if it was killed",
    ),
    ("--threads", "n_threads", "count", "N", "number of threads (default: as many as the process may use)"),
]


def fit(options: Namespace) -> None:
    """Fit rows of files and save the model, the labels or both."""
    if options.output is None and options.labels is None:
        raise UsageError("no output: give -o FILE for the model, --labels FILE for the labels, or both")
    if options.labels is not None and options.label_search == "none":
        raise UsageError("--label-search is none, so there are no labels: leave out --labels")
    check_outputs(("-o", options.output, MODEL), ("--labels", options.labels, VECTOR), inputs=_inputs(options))
    model = _estimator(options)(options.clusters, **_settings(options), random_state=options.seed)
    pieces, why = _pieces(options, model)
    if pieces is not None:
        _say(options, f"reading {pieces.name} piece by piece: {why}")
        rows, weights = pieces, _weights(options)
    else:
        (rows, names), weights = _data(options)
    began = time.perf_counter()
    model.fit(rows, sample_weight=weights)
    seconds = time.perf_counter() - began
    if pieces is None and names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    if options.output is not None:
        model.save(options.output, labels=False)
    if options.labels is not None:
        write_vector(options.labels, model.labels_, "label")
    result = {
        "estimator": _kind(model),
        "n_rows": len(rows) if pieces is None else pieces.n_rows,
        "n_columns": int(model.n_features_in_),
        "n_clusters": model._count,
        "dtype": str(model.cluster_centers_.dtype),
        "seconds": seconds,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "inertia": model.inertia_,
        "lower_bound": model.lower_bound_,
        "variance": model.variance_,
        "output": _name(options.output),
        "labels": _name(options.labels),
    }
    state = "converged" if model.converged_ else "not converged"
    sizes = "{n_rows} rows of {n_columns} columns ({dtype}) in {n_clusters} clusters".format(**result)
    text = (
        f"{sizes}: {model.n_iter_} iterations, {state}, {seconds:.3g} s; sum of squared distances {model.inertia_:.6g}"
    )
    _show(
        options, result, "\n".join([text, *(f"saved {p}" for p in (options.output, options.labels) if p is not None)])
    )


def predict(options: Namespace) -> None:
    """Label the rows of files with a saved model."""
    if options.method != "exact" and options.distances is not None:
        raise UsageError(f"--distances needs --method exact, but --method is {options.method}")
    if options.method == "exact" and options.recall is not None:
        raise UsageError(f"--recall {options.recall:g} needs --method approximate, but --method is exact")
    outputs = ("-o", options.output, VECTOR), ("--distances", options.distances, VECTOR)
    check_outputs(*outputs, inputs=_inputs(options))
    model = dgmm.load(options.model)
    if options.distances is not None and not model._goes_by_distance:
        raise UsageError(
            f"--distances are distances to the nearest center, which need not be the label of a {_kind(model)}: leave "
            "them out"
        )
    pieces, why = _pieces(options, model)
    if pieces is not None:
        _say(options, f"reading {pieces.name} piece by piece: {why}")
        rows, found = pieces, pieces.names
    else:
        rows, found = _data(options)[0]
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        if found is not None and list(names) != found:
            raise ValueError(f"the columns of {options.data[0]} differ from those that {options.model} was fitted to")
        del model.feature_names_in_  # compared above; the rows are a plain array without names
    if pieces is not None:
        pieces.names = None
    if options.threads is not None:
        model.set_params(n_threads=options.threads)
    if options.distances is None:
        asked = {"method": options.method, "recall": options.recall}
        labels = model.predict(rows, **{name: value for name, value in asked.items() if value is not None})
    else:
        nearest = model.top_k(rows, 1)
        labels = nearest.indices[:, 0].astype(np.int32)
        write_vector(options.distances, nearest.distances[:, 0], "distance")
    result: dict[str, Any] = {"n_rows": len(labels), "output": _name(options.output)}
    if options.output is not None:
        write_vector(options.output, labels, "label")
    elif options.json:
        result["labels"] = labels.tolist()
    text = f"{len(labels)} rows labeled\nsaved {options.output}" if options.output else "\n".join(map(str, labels))
    result |= {"distances": _name(options.distances), "recall": getattr(model, "approximate_recall_", None)}
    _show(options, result, text)


def info(options: Namespace) -> None:
    """Show the contents of a model file."""
    model = dgmm.load(options.model)
    metadata, arrays = _files.read(options.model)
    learned = ("n_iter_", "converged_", "inertia_", "lower_bound_", "seconds_", "n_distance_evals_")
    settings = {
        name: f"array of shape {value.shape}" if isinstance(value, np.ndarray) else value
        for name, value in model.get_params(deep=False).items()
    }
    names = getattr(model, "feature_names_in_", None)
    result = {
        "estimator": _kind(model),
        "n_clusters": len(model.cluster_centers_),
        "n_columns": int(model.n_features_in_),
        "dtype": str(model.cluster_centers_.dtype),
        "variance": model.variance_,
        **{name.rstrip("_"): getattr(model, name) for name in learned if hasattr(model, name)},
        "column_names": None if names is None else list(names),
        "settings": settings,
        "format_version": int(metadata["format_version"]),
        "dgmm_version": metadata.get("dgmm_version"),
        "arrays": {name: list(array.shape) for name, array in sorted(arrays.items())},
        "bytes": os.path.getsize(options.model),
    }
    _show(options, result, "\n".join(f"{key:16} {_short(value)}" for key, value in result.items()))


def sweep(options: Namespace) -> None:
    """Fit several numbers of clusters and compare them."""
    outputs = ("-o", options.output, TABLE), ("--plot", options.plot, pictures() if options.plot else ())
    check_outputs(*outputs, inputs=_inputs(options))
    settings = _settings(options)
    rows, weights = _data(options)
    table = dgmm.sweep(
        rows.values,
        options.clusters,
        estimator=_estimator(options),
        sample_weight=weights,
        random_state=options.seed,
        **settings,
    )
    columns = {name: values.tolist() for name, values in table.items()}
    if options.output is not None:
        write_table(options.output, columns)
    if options.plot is not None:
        write_picture(options.plot, np.ravel(table.plot())[0].figure)
    result = {**columns, "coreset_size": table.coreset_size, "shared_seconds": table.seconds}
    _show(options, result, "\n".join([str(table), *(f"saved {p}" for p in (options.output, options.plot) if p)]))


def estimate(options: Namespace) -> None:
    """Predict the cost of a fit."""
    sizes, dtype = (options.rows, options.columns), np.float64 if options.float64 else np.float32
    if bool(options.data) == any(size is not None for size in sizes) or (not options.data and None in sizes):
        raise UsageError("give either DATA or both --rows and --columns")
    if options.data:
        rows = read(*options.data).values
        sizes, dtype = rows.shape, float_for(rows.dtype)
    settings = _settings(options)
    settings.pop("verbose")
    cost = dgmm.estimate(*sizes, options.clusters, estimator=_estimator(options), dtype=dtype, **settings)
    _show(options, cost._asdict(), str(cost))


def demo(options: Namespace) -> None:
    """Run the demo."""
    from dgmm._demo import demo as run

    check_outputs(("--output", options.output, pictures()))
    keys = ("rows", "clusters", "threads", "seed", "output", "compare")
    say = (lambda *_, **__: None) if options.json else print
    outcomes = run(**{key: getattr(options, key) for key in keys}, say=say)
    if options.json:
        print(json.dumps({"outcomes": [vars(outcome) for outcome in outcomes], "output": _name(options.output)}))


def _estimator(options: Namespace) -> type[Mixture]:
    return ESTIMATORS[options.estimator]


def _settings(options: Namespace) -> dict[str, Any]:
    """The parameters that were given; the others keep the estimator's defaults."""
    known = _estimator(options)().get_params()
    settings: dict[str, Any] = {"verbose": int(sys.stderr.isatty() and not options.quiet)}
    for option, name, *_ in SETTINGS:
        value = getattr(options, option.removeprefix("--").replace("-", "_"), None)
        if value is not None:
            if name not in known:
                raise UsageError(f"{option} is not an option of the estimator {options.estimator}")
            settings[name] = None if value == "none" else value
    return settings


def _data(options: Namespace) -> tuple[Rows, Any]:
    dtype = np.float32 if options.float32 else None
    rows = read(*options.data, columns=options.columns, key=options.key, dtype=dtype)
    return rows, _weights(options)


def _inputs(options: Namespace) -> list[Any]:
    """The input files."""
    named = (getattr(options, name, None) for name in ("weights", "model"))
    return [*options.data, *(path for path in named if path is not None)]


def _weights(options: Namespace) -> Any:
    weights = getattr(options, "weights", None)
    return None if weights is None else read_vector(weights)


def _pieces(options: Namespace, model: Mixture) -> tuple[Any, str]:
    """The files as a source that is read piece by piece, and the reason; None if they are better read as a whole."""
    paths = options.data
    in_memory = model.coreset_size is not None or model.n_init != 1 or getattr(model, "max_size", None) is not None
    files = [file for path in paths for file in files_of(path)]
    mapped = [file.suffix.lower() in (".npy", ".fvecs", ".bvecs") for file in files]
    # Text and compressed arrays would have to be parsed again in each pass.
    in_memory = in_memory or any(file.suffix.lower() in (".csv", ".npz") for file in files)
    size = sum(file.stat().st_size for file in files if file.exists())
    free = free_memory()
    if model.memory_limit is not None:
        why = "memory_limit is set"
    elif free is not None and size > free // 2:
        why = "it is larger than half of the free memory"
    elif in_memory or (all(mapped) and len(files) == 1) or size < PIECEWISE:
        return None, ""
    else:
        why = "it would have to be copied into memory"
    dtype = np.float32 if options.float32 else None
    return Files(paths, columns=options.columns, key=options.key, dtype=dtype), why


def _say(options: Namespace, text: str) -> None:
    if not getattr(options, "quiet", False):
        print(text, file=sys.stderr)


def _kind(model: Mixture) -> str:
    return type(model).__name__


def _name(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={_short(entry)}" for key, entry in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _show(options: Namespace, result: dict[str, Any], text: str) -> None:
    print(json.dumps(result) if options.json else text)
