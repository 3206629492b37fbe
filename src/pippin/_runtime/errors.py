"""Exceptions for invalid input and missing libraries, and warnings at the caller's line."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec

from pippin._runtime.showing import visible

MOST = 1000  # characters of a message without its remedy; of longer ones the middle is left out

_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


class InputError(ValueError):
    """Invalid input. The message states the expected value, the received value and a remedy in one sentence.

    Control characters in names and values are shown as Python escape sequences.

    Args:
        what: the expected and the received value, as a sentence without a period. With `row`, only the end of the
            sentence that begins with "Row 3", such as "sums to 4".
        remedy: advice to users of the Python functions.
        in_files: advice to users of files and the command line, if it differs.
        row: number of the invalid row, from 0.

    Attributes:
        what (str): the message without its remedy; it begins with the number of the row if there is a `row`.
        remedy (str | None): advice to users of the Python functions.
        in_files (str | None): advice to users of files and the command line, if it differs.
        row (int | None): number of the invalid row, from 0.

    >>> error = InputError("sums to 4, expected 1", "pass from_logits=True", "add --logits", row=3)
    >>> print(error)
    Row 3 sums to 4, expected 1: pass from_logits=True.
    >>> print(error.in_file("data.csv"))
    data.csv: Row 3 sums to 4, expected 1: add --logits.
    >>> print(error.later(1000).in_file("data.csv"))
    data.csv: Row 1003 sums to 4, expected 1: add --logits.
    """

    def __init__(self, what: str, remedy: str | None = None, in_files: str | None = None, row: int | None = None):
        if len(what) > MOST:  # of a received value that is long
            what = f"{what[: MOST // 2]} … {what[-MOST // 4 :]}"
        sentence = what if row is None else f"Row {row} {what}"
        super().__init__(visible(f"{sentence}: {remedy}." if remedy else f"{sentence}."))
        self.what, self.remedy, self.in_files, self.row, self._without_row = sentence, remedy, in_files, row, what

    def later(self, rows: int) -> "InputError":
        """Return the error with a larger row number: add the number of rows before the block in which it occurred.

        Args:
            rows: number of rows before the block, in the whole array.

        Returns:
            The new error; the error itself if it has no row.

        >>> print(InputError("sums to 4", row=3).later(1000))
        Row 1003 sums to 4.
        """
        return self if self.row is None else InputError(self._without_row, self.remedy, self.in_files, self.row + rows)

    def at(self, place: object) -> "InputError":
        """Return the error with a prefix that names one of several inputs.

        Args:
            place: the input, such as `Model 2`.

        Returns:
            The new error.

        >>> print(InputError("sums to 4", row=3).at("Model 2"))
        Model 2: Row 3 sums to 4.
        """
        return InputError(f"{place}: {self.what}", self.remedy, self.in_files)

    def in_file(self, name: object) -> "InputError":
        """Return the error prefixed with a file name, with the remedy for users of files.

        Args:
            name: name of the file.

        Returns:
            The new error.

        >>> print(InputError("sums to 4", "pass logits", "add --logits", row=3).in_file("data.csv"))
        data.csv: Row 3 sums to 4: add --logits.
        """
        return InputError(f"{name}: {self.what}", self.in_files or self.remedy)

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str | None, str | None, int | None]]:
        return InputError, (self._without_row, self.remedy, self.in_files, self.row)


class UnknownScoreError(InputError):
    """Invalid input: the name of a score family that is not registered."""


class MissingExtraError(ImportError):
    """Missing optional library. The message names the extra that installs it."""


def need(what: str, extra: str, *libraries: str) -> None:
    """Raise a MissingExtraError unless all libraries are installed.

    >>> need("Flying", "wings", "numpy", "feathers")
    Traceback (most recent call last):
    pippin._runtime.errors.MissingExtraError: Flying needs feathers: pip install "pippin-conformal[wings]".
    """
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        raise MissingExtraError(f'{what} needs {", ".join(missing)}: pip install "pippin-conformal[{extra}]".')


@contextmanager
def collected_warnings(notes: list[str]) -> Iterator[None]:
    """Append the messages of `warn` in this thread to a list, for another thread that emits them."""
    token = _collected.set(notes)
    try:
        yield
    finally:
        _collected.reset(token)


def warn(message: str) -> None:
    """Emit a UserWarning that points to the line of the nearest caller outside of this package."""
    notes = _collected.get()
    if notes is not None:
        notes.append(message)
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pippin":
        level, frame = level + 1, frame.f_back
    warnings.warn(visible(message), stacklevel=level)
