"""Warnings, located at the user's line."""

import sys
import warnings

from . import progress


def _is_own(frame):
    package = frame.f_globals.get("__package__") or ""
    return package.partition(".")[0] == __package__.partition(".")[0]


def tell(notice):
    """A warning at the line of the user's that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_own(frame):
        level, frame = level + 1, frame.f_back
    with progress.aside():
        warnings.warn(notice, stacklevel=level)
