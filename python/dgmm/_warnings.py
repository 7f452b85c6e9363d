"""The categories of all warnings of the package, so that each can be filtered by itself or all of them at once."""

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
    """The ``stacklevel`` of a warning of the calling function that names the line outside this package."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]:
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level


class DgmmWarning(UserWarning):
    """What all warnings of this package are."""


class ConvergenceWarning(DgmmWarning, sklearn.exceptions.ConvergenceWarning):
    """The fit ended before it had converged; also a ``sklearn.exceptions.ConvergenceWarning``."""


class EmptyClusterWarning(ConvergenceWarning):
    """Fewer distinct clusters were found than were asked for."""


class IgnoredSettingWarning(DgmmWarning, RuntimeWarning):
    """A setting has no effect beside another one."""


class InterruptWarning(DgmmWarning):
    """Ctrl-C ended the fit, which kept the model it had, as ``keep_on_interrupt`` asks for."""


class FeatureNamesWarning(DgmmWarning):
    """Rows have names of columns where those of the fit had none, or the other way round."""


class CheckpointWarning(DgmmWarning):
    """A checkpoint is damaged, and the one before it is gone on with."""


class LostSettingWarning(DgmmWarning):
    """A setting cannot be kept in a file, which holds data and no code."""


class OversizedClusterWarning(DgmmWarning):
    """Clusters are larger than ``max_size`` allows, because the rows could not be divided otherwise."""
