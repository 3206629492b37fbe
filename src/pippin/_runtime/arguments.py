"""Arguments of unexpected types: a call that fails because of one raises an InputError that names it."""

import inspect
import math
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from itertools import islice
from numbers import Integral, Real
from reprlib import repr as short_repr
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np

from pippin._runtime.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=type)

LOOK = 100  # number of items of a sequence that are examined
FASTEST = "predict_one"  # method of some microseconds, which `checked_methods` leaves as it is
NAMES = {bool: "True or False", int: "a whole number", float: "a number", str: "text", os.PathLike: "a path"}
NUMBERS = {int: Integral, float: Real}  # types that numbers of Python, NumPy and others share


def is_whole(value: object, least: int, most: float = math.inf) -> bool:
    """Return True for a whole number of Python or NumPy within limits; False for truth values.

    >>> is_whole(np.int8(3), 1), is_whole(0, 1), is_whole(True, 1), is_whole(3.0, 1)
    (True, False, False, False)
    """
    return not _is_truth(value) and isinstance(value, int | np.integer) and bool(least <= value <= most)


def is_number(value: object) -> bool:
    """Return True for a real number of any library other than NaN; False for truth values.

    >>> is_number(np.float32(0.5)), is_number(math.inf), is_number(math.nan), is_number(True)
    (True, True, False, False)
    """
    return isinstance(value, Real) and not _is_truth(value) and bool(value == value)


def _is_truth(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


def checked(function: F) -> F:
    """Return the function with errors that name an argument of another type than its annotation.

    Arguments are compared with their annotations only after a call has failed with another exception than InputError,
    so that valid calls cost nothing. Without such an argument, the exception is raised unchanged.

    >>> @checked
    ... def half(number: float) -> float:
    ...     return number / 2
    >>> half(3), half("3")
    Traceback (most recent call last):
    pippin._runtime.errors.InputError: Expected number to be a number, got '3'.
    """

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except (InputError, ImportError, Warning):
            raise
        except Exception as error:
            if found := _misfit(function, args, keywords):
                raise InputError(found) from error
            raise

    return call  # type: ignore[return-value]


def checked_methods(cls: T) -> T:
    """Apply `checked` to the constructor and to the public methods that a class defines, other than `FASTEST`."""
    for name, value in list(vars(cls).items()):
        function = value.__func__ if isinstance(value, classmethod) else value
        if not inspect.isfunction(function) or name == FASTEST or (name[0] == "_" and name != "__init__"):
            continue
        if function.__code__.co_filename.endswith(".py"):  # a dataclass generates its constructor
            setattr(cls, name, checked(function) if function is value else classmethod(checked(function)))
    return cls


def _misfit(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> str | None:
    """Name the first argument whose type differs from its annotation; None if all fit, or an argument is missing."""
    parameters = inspect.signature(function).parameters
    try:
        given = inspect.signature(function).bind(*args, **keywords).arguments
    except TypeError:
        return None
    for name, value in given.items():
        hint = _resolved(parameters[name].annotation, function)
        if hint is not inspect.Parameter.empty and not _fits(value, hint):
            return f"Expected {name} to be {_words(hint)}, got {_shown(value)}"
    return None


def _resolved(hint: Any, function: Callable[..., Any]) -> Any:
    """Evaluate an annotation that is text; names that are unknown at run time stand for any type."""
    if not isinstance(hint, str):
        return hint
    names = {"PathLike": os.PathLike, "Mapping": Mapping, "Sequence": Sequence, "Any": Any}
    public = vars(sys.modules["pippin"]) | vars(sys.modules["pippin.decisions"])
    try:
        return eval(hint, {**public, **names, **function.__globals__})
    except (NameError, TypeError):
        return Any


def _fits(value: Any, hint: Any) -> bool:
    """Return True if a value may have the annotated type; also if that cannot be decided."""
    origin: Any
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if isinstance(value, int) and value.bit_length() > 10_000:  # too many digits for text
        return False
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return isinstance(value, str | bool | None) and value in inner
    if origin is None or origin is type(None):
        return value is None
    if not isinstance(origin, type) or origin in (Any, object) or getattr(origin, "_is_protocol", False):
        return True
    if isinstance(value, str) and origin in (str, os.PathLike):
        return origin is str and "\0" not in value and value.encode(errors="ignore").decode() == value
    if origin is bool:
        return _is_truth(value)
    if origin in NUMBERS:
        return isinstance(value, NUMBERS[origin]) and not _is_truth(value)
    if not isinstance(value, origin):
        return False
    if origin in (Sequence, Iterable) and (isinstance(value, str | bytes) or hasattr(value, "ndim")):
        return False
    if inner and isinstance(value, Collection):
        return all(_fits(item, inner[0]) for item in islice(value, LOOK))
    return True


def _words(hint: Any) -> str:
    """Describe an annotated type.

    >>> _words(float | None), _words(Literal["class", "group"])
    ('a number or None', "'class' or 'group'")
    """
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_words(one) for one in inner if not getattr(one, "_is_protocol", False)))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is None or origin is type(None):
        return "None"
    name = getattr(origin, "__name__", str(origin))
    return NAMES.get(origin, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}")


def _shown(value: object) -> str:
    """Return a short form of a value for a message."""
    return short_repr(value) if isinstance(value, str | float | list | tuple | dict) else f"{type(value).__name__}"
