"""``sweep``: fits with several numbers of clusters from one coreset and one set of initial centers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dgmm import _core
from dgmm._base import Mixture
from dgmm._estimators import DGMM
from dgmm._extras import need
from dgmm._validation import check_int, check_rows, check_seed, check_weights

__all__ = ["Sweep", "sweep"]

_MANAGED = ("n_clusters", "init", "coreset_size", "chain_length", "random_state")


class Sweep(Mapping[str, NDArray[Any]]):
    """A table of fits: a mapping of equally long columns, with one entry per number of clusters.

    Columns: ``n_clusters``, ``n_rows`` (the number of fitted rows: those of the coreset, if there is one), ``inertia``,
    ``bic``, ``lower_bound``, ``n_iter``, ``converged`` and ``seconds`` (of the fit alone). ``str`` formats the table.
    """

    models: list[Any]
    """The fitted estimators, in the order of the columns. With a coreset, ``labels_`` are those of its rows."""
    seconds: dict[str, float]
    """The seconds of the steps that all fits share: "coreset" and "seeding"."""
    coreset_size: int | None
    """The number of rows of the coreset that was fitted; None if all rows were fitted."""

    def __init__(
        self,
        columns: Mapping[str, ArrayLike],
        models: Iterable[Any] = (),
        coreset_size: int | None = None,
        **seconds: float,
    ) -> None:
        self._columns = {name: np.asarray(values) for name, values in columns.items()}
        self.models, self.coreset_size, self.seconds = list(models), coreset_size, seconds

    def __getitem__(self, column: str) -> NDArray[Any]:
        """Return a column."""
        return self._columns[column]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the columns."""
        return iter(self._columns)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self._columns)

    def __str__(self) -> str:
        """Return the table as text, with one line per number of clusters."""
        text = [[name, *map(_text, values.tolist())] for name, values in self._columns.items()]
        widths = [max(map(len, column)) for column in text]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in zip(*text, strict=True)
        ]
        if self.coreset_size is not None:
            lines.append(f"inertia, bic and lower_bound are those of the coreset, {self.coreset_size} weighted rows")
        return "\n".join(lines)

    __repr__ = __str__

    def to_pandas(self) -> Any:
        """Return the table as a pandas.DataFrame, indexed by ``n_clusters``."""
        return need("pandas", None, "to_pandas").DataFrame(self._columns).set_index("n_clusters")

    def plot(self, **options: Any) -> Any:
        """Plot the table with ``dgmm.plot.sweep``, which gets the options."""
        import importlib

        return importlib.import_module("dgmm.plot").sweep(self, **options)


def sweep(
    X: ArrayLike,
    n_clusters: Iterable[int],
    *,
    estimator: type[Mixture] = DGMM,
    sample_weight: ArrayLike | None = None,
    coreset_size: int | None = None,
    chain_length: int = 5,
    random_state: Any = None,
    **settings: Any,
) -> Sweep:
    """Fit several numbers of clusters and compare them, at little more than the cost of the fits.

    The coreset is drawn once and all fits use it. AFK-MC2 chooses initial centers once, for the largest number; the
    other fits start from the first of these centers, so that errors fall smoothly from one number to the next.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The data.
    n_clusters : iterable of int
        The numbers of clusters; each is fitted once, in ascending order.
    estimator : class
        DGMM, VCGMM, ExactGMM, KMeans or GaussianMixture.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows, 1 by default.
    coreset_size : int or None
        If given, all fits use one lightweight coreset of this many rows. ``inertia``, ``bic`` and ``lower_bound`` are
        then those of the coreset, which the centers fit better than other rows, especially with few rows per cluster.
        ``dgmm.quantization_error(X, model.cluster_centers_)`` is the error on all rows.
    chain_length : int
        Steps of AFK-MC2's Markov chains.
    random_state : int, RandomState or None
        The seed.
    **settings
        Further parameters of the estimator, such as ``truncation``, ``tol`` or ``n_threads``.

    Returns
    -------
    Sweep
        The table, with the fitted estimators in ``models``. ``inertia`` is their ``inertia_``. ``bic`` is
        -2 W F + P log W with the lower bound F, the sum of weights W and P parameters (M D + 1 for M clusters of D
        columns that share a variance); lower is better.

    Examples
    --------
    >>> import numpy as np, dgmm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(3, size=(300, 2)) + 0.01 * rng.normal(size=(300, 2))
    >>> table = dgmm.sweep(X, [3, 9, 18], random_state=0)
    >>> table["n_clusters"].tolist(), int(table["n_clusters"][table["bic"].argmin()])
    ([3, 9, 18], 9)
    """
    probe = _probe(estimator, settings)
    rows = check_rows(probe, X, reset=True)
    numbers = _numbers(n_clusters, len(rows))
    weights = check_weights(sample_weight, len(rows))
    chain_length, seed = check_int("chain_length", chain_length), check_seed(random_state)
    threads = None if probe.n_threads is None else check_int("n_threads", probe.n_threads)
    began = time.perf_counter()
    if coreset_size is not None:
        size = check_int("coreset_size", coreset_size, least=numbers[-1])
        rows, weights, _ = _core.lightweight_coreset(rows, weights, size, seed, threads)
    drawn = time.perf_counter()
    starts, _ = _core.afkmc2(rows, weights, numbers[-1], chain_length, seed, threads)
    seeded = time.perf_counter()
    models, seconds = [], []
    for number in numbers:
        began_fit = time.perf_counter()
        start = {estimator._init_name: starts[:number]}
        model = estimator(number, random_state=seed, **start, **settings)
        models.append(model.fit(rows, sample_weight=weights))
        seconds.append(time.perf_counter() - began_fit)
        if hasattr(probe, "feature_names_in_"):
            model.feature_names_in_ = probe.feature_names_in_
    total = float(len(rows) if weights is None else weights.sum())
    columns: dict[str, ArrayLike] = {
        "n_clusters": numbers,
        "n_rows": [len(rows)] * len(numbers),
        "inertia": [model.inertia_ for model in models],
        "bic": [_bic(model, total) for model in models],
        "lower_bound": [model.lower_bound_ for model in models],
        "n_iter": [model.n_iter_ for model in models],
        "converged": [model.converged_ for model in models],
        "seconds": seconds,
    }
    return Sweep(columns, models, coreset_size, coreset=drawn - began, seeding=seeded - drawn)


def _probe(estimator: type[Mixture], settings: Mapping[str, Any]) -> Mixture:
    """Check the settings of a sweep, and return an estimator with them."""
    if not (isinstance(estimator, type) and issubclass(estimator, Mixture)):
        raise TypeError(f"estimator is {estimator!r}; it must be an estimator of dgmm, such as dgmm.DGMM")
    managed = {*_MANAGED, estimator._count_name, estimator._init_name}
    allowed = sorted(estimator().get_params().keys() - managed)
    for name in settings:
        if name not in allowed:
            raise TypeError(
                f"{name} is not a setting of a sweep of {estimator.__name__}; it must be one of {', '.join(allowed)}"
            )
    return estimator(**settings)


def _numbers(n_clusters: Iterable[int], rows: int) -> list[int]:
    if isinstance(n_clusters, str | bytes) or not isinstance(n_clusters, Iterable):
        raise TypeError(f"n_clusters is {n_clusters!r}; it must be a list of integers")
    most = f"n_samples={rows}"
    numbers = sorted({check_int(f"n_clusters[{i}]", m, most=rows, most_is=most) for i, m in enumerate(n_clusters)})
    if not numbers:
        raise ValueError("n_clusters is empty; it must contain at least one number")
    return numbers


def _bic(model: Mixture, total: float) -> float:
    return float(-2 * total * model.lower_bound_ + model._parameters() * np.log(total))


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
