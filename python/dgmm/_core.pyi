"""The compiled core. Private: arguments are checked by the modules that call it."""

import os
from collections.abc import Callable
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

__all__ = [
    "Fitted",
    "Index",
    "ModelFileError",
    "__version__",
    "_panic",
    "afkmc2",
    "distances",
    "fit",
    "lightweight_coreset",
    "log_density",
    "plan",
    "posteriors",
    "predict",
    "quantization_error",
    "read_file",
    "top_k",
    "write_file",
]

__version__: str

_Rows: TypeAlias = NDArray[Any]
_Weights: TypeAlias = NDArray[np.float64] | None
_Callback: TypeAlias = Callable[[str, int, int, int, float, float, float, float], object]

class ModelFileError(ValueError): ...

@final
class Fitted:
    @property
    def centers(self) -> _Rows: ...
    @property
    def variance(self) -> float: ...
    @property
    def labels(self) -> NDArray[np.int32] | None: ...
    @property
    def inertia(self) -> float: ...
    @property
    def lower_bound(self) -> float: ...
    @property
    def converged(self) -> bool: ...
    @property
    def stopped(self) -> bool: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def empty_clusters(self) -> int: ...
    @property
    def history(self) -> dict[str, NDArray[Any]]: ...
    @property
    def evaluations(self) -> dict[str, int]: ...
    @property
    def seconds(self) -> dict[str, float]: ...

@final
class Index:
    def __new__(cls, centers: _Rows, variance: float, n_threads: int | None) -> Self: ...
    @property
    def is_exact(self) -> bool: ...
    def tune(self, x: _Rows, k: int, recall: float, n_threads: int | None) -> tuple[float | None, float]: ...
    def predict(
        self, x: _Rows, reach: float | None, audited: int, n_threads: int | None
    ) -> tuple[NDArray[np.int32], int, int]: ...
    def top_k(
        self, x: _Rows, k: int, reach: float | None, n_threads: int | None
    ) -> tuple[NDArray[np.int64], _Rows]: ...

def fit(
    x: _Rows,
    sample_weight: _Weights,
    start: _Rows | None,
    settings: dict[str, Any],
    callback: _Callback | None,
    keep: bool = False,
) -> Fitted: ...
def plan(settings: dict[str, Any], n_rows: int, n_columns: int, itemsize: int) -> dict[str, Any]: ...
def predict(x: _Rows, centers: _Rows, variance: float, n_threads: int | None) -> NDArray[np.int32]: ...
def distances(x: _Rows, centers: _Rows, variance: float, n_threads: int | None) -> _Rows: ...
def log_density(x: _Rows, centers: _Rows, variance: float, n_threads: int | None) -> NDArray[np.float64]: ...
def top_k(
    x: _Rows, centers: _Rows, variance: float, k: int, n_threads: int | None
) -> tuple[NDArray[np.int64], _Rows]: ...
def posteriors(
    x: _Rows, centers: _Rows, variance: float, h: int, n_threads: int | None
) -> tuple[NDArray[np.int64], _Rows]: ...
def lightweight_coreset(
    x: _Rows, sample_weight: _Weights, size: int, seed: int, n_threads: int | None
) -> tuple[_Rows, NDArray[np.float64], NDArray[np.int64]]: ...
def afkmc2(
    x: _Rows, sample_weight: _Weights, n_clusters: int, chain_length: int, seed: int, n_threads: int | None
) -> tuple[_Rows, NDArray[np.int64]]: ...
def quantization_error(x: _Rows, sample_weight: _Weights, centers: _Rows, n_threads: int | None) -> float: ...
def write_file(path: str | os.PathLike[str], metadata: dict[str, str], tensors: dict[str, NDArray[Any]]) -> None: ...
def read_file(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, NDArray[Any]]]: ...
def _panic() -> None: ...
