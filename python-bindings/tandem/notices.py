"""What is told beside the work: warnings at the user's line."""

import sys
import warnings

from . import progress


def _is_own(frame):
    package = frame.f_globals.get("__package__") or ""
    return package == __package__ or package.startswith(f"{__package__}.")


def tell(notice):
    """A warning at the line of the user's that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_own(frame):
        level, frame = level + 1, frame.f_back
    with progress.aside():
        warnings.warn(notice, stacklevel=level)
