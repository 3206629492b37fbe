"""Libraries that not everybody needs: asked for where they are used, with the words that install them."""

from importlib.util import find_spec


class MissingExtraError(ImportError):
    """A library is missing; the message says how to install it."""


def need(what: str, extra: str, *libraries: str) -> None:
    """Raises a MissingExtraError where one of the libraries is not installed.

    >>> need("Flying", "wings", "numpy", "feathers")
    Traceback (most recent call last):
    pippin._runtime.extras.MissingExtraError: Flying needs feathers: pip install "pippin-conformal[wings]".
    """
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        raise MissingExtraError(f'{what} needs {", ".join(missing)}: pip install "pippin-conformal[{extra}]".')
