"""Clustering into many clusters at a cost that does not grow with their number.

Five estimators with scikit-learn's interface (``DGMM``, ``VCGMM``, ``ExactGMM``, ``KMeans``, ``GaussianMixture``) share
one EM loop in Rust. ``lightweight_coreset``, ``CoresetBuilder``, ``afkmc2`` and ``quantization_error`` are parts of the
method that are useful on their own, and ``sweep`` and ``estimate`` help to choose the number of clusters.

>>> import numpy as np, dgmm
>>> X = np.random.default_rng(0).normal(size=(2000, 4)).astype("float32")
>>> model = dgmm.DGMM(n_clusters=50, random_state=0).fit(X)
>>> model.cluster_centers_.shape, str(model.cluster_centers_.dtype)
((50, 4), 'float32')
"""

from dgmm import io, plot, shards
from dgmm._checkpoint import CheckpointError
from dgmm._core import __version__
from dgmm._coreset import Coreset, CoresetBuilder, lightweight_coreset
from dgmm._estimate import Estimate, estimate
from dgmm._estimators import DGMM, VCGMM, ExactGMM, GaussianMixture, KMeans
from dgmm._files import ModelFileError, load
from dgmm._functions import afkmc2, quantization_error
from dgmm._progress import Event
from dgmm._queries import TopK
from dgmm._report import Report
from dgmm._sweep import Sweep, sweep
from dgmm._warnings import (
    CheckpointWarning,
    ConvergenceWarning,
    DgmmWarning,
    EmptyClusterWarning,
    FeatureNamesWarning,
    IgnoredSettingWarning,
    InterruptWarning,
    LostSettingWarning,
    OversizedClusterWarning,
)

__all__ = [
    "DGMM",
    "VCGMM",
    "CheckpointError",
    "CheckpointWarning",
    "ConvergenceWarning",
    "Coreset",
    "CoresetBuilder",
    "DgmmWarning",
    "EmptyClusterWarning",
    "Estimate",
    "Event",
    "ExactGMM",
    "FeatureNamesWarning",
    "GaussianMixture",
    "IgnoredSettingWarning",
    "InterruptWarning",
    "KMeans",
    "LostSettingWarning",
    "ModelFileError",
    "OversizedClusterWarning",
    "Report",
    "Sweep",
    "TopK",
    "__version__",
    "afkmc2",
    "estimate",
    "io",
    "lightweight_coreset",
    "load",
    "plot",
    "quantization_error",
    "shards",
    "sweep",
]
