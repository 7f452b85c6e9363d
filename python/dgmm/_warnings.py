"""The warnings of the package, which can be filtered one by one or all at once."""

from __future__ import annotations

import sys

import sklearn.exceptions

__all__ = [
    "CheckpointWarning",
    "ConvergenceWarning",
    "DgmmWarning",
    "EmptyClusterWarning",
    "FeatureNamesWarning",
    "IgnoredSettingWarning",
    "InterruptWarning",
    "LostSettingWarning",
    "OversizedClusterWarning",
]


def caller_level() -> int:
    """The ``stacklevel`` with which a warning of the calling function points to the line outside this package."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]:
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level


class DgmmWarning(UserWarning):
    """The base class of all warnings of this package."""


class ConvergenceWarning(DgmmWarning, sklearn.exceptions.ConvergenceWarning):
    """The fit ended before it converged. It is also a ``sklearn.exceptions.ConvergenceWarning``."""


class EmptyClusterWarning(ConvergenceWarning):
    """Fewer distinct clusters were found than requested."""


class IgnoredSettingWarning(DgmmWarning, RuntimeWarning):
    """A setting has no effect because of another one."""


class InterruptWarning(DgmmWarning):
    """Ctrl-C ended the fit, which kept its best model so far, because of ``keep_on_interrupt``."""


class FeatureNamesWarning(DgmmWarning):
    """X has column names but the data of the fit had none, or the other way around."""


class CheckpointWarning(DgmmWarning):
    """A checkpoint is damaged, and the fit resumes from the previous one."""


class LostSettingWarning(DgmmWarning):
    """A setting cannot be saved, because files contain data but no code."""


class OversizedClusterWarning(DgmmWarning):
    """Clusters are larger than ``max_size`` allows, because rows cannot be split."""
