"""Warnings that point at the line which called this package, however deep inside they arise."""

import sys
import warnings


def warn(message: str) -> None:
    """Warns at the nearest caller outside of this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pippin":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
