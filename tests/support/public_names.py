"""Public names of the package, with the functions, methods and attributes behind them."""

import dataclasses
import inspect
import re
from importlib import import_module

MODULES = (
    *("pippin.decisions", "pippin.distributed", "pippin.metrics", "pippin.models", "pippin.online", "pippin.scores"),
    *("pippin.shift", "pippin", "pippin.sklearn", "pippin.torch", "pippin.dask", "pippin.images", "pippin.testing"),
    *("pippin.export.onnx", "pippin.export.c_header"),
)
# What scikit-learn and torch give every estimator and module, documented there.
THEIRS = {"pippin.sklearn": {"score", "set_fit_request", "set_score_request"}, "pippin.torch": {"extra_repr"}}


def public_names():
    """Yield the full name and the object of everything public."""
    for module in map(import_module, MODULES):
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)


PUBLIC = dict(public_names())
CLASSES = {name: found for name, found in PUBLIC.items() if inspect.isclass(found)}


def members(name, cls):
    """Return all public fields, properties and methods of a class of this package."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("pippin")]
    fields = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    found = {*fields, *getattr(cls, "_fields", ()), *(key for base in ours for key in vars(base))}
    theirs = THEIRS.get(name.rpartition(".")[0], set())
    return {key for key in found if not key.startswith("_")} - theirs


def functions():
    """Yield every public function and method, and every class with arguments."""
    for name, found in PUBLIC.items():
        if inspect.isclass(found):
            for key in members(name, found):
                method = inspect.getattr_static(found, key, None)
                method = getattr(method, "__func__", method)
                if inspect.isfunction(method):
                    yield f"{name}.{key}", method, inspect.getdoc(method)
            if "__init__" in vars(found) and found.__init__.__code__.co_filename.endswith(".py"):
                yield name, found.__init__, inspect.getdoc(found)
        elif inspect.isfunction(found):
            yield name, found, inspect.getdoc(found)


FUNCTIONS = {name: (function, doc) for name, function, doc in functions()}


def section(doc, title):
    """Return the names in a section of a docstring."""
    text = re.search(rf"^{title}:\n(.*?)(?=^\S|\Z)", doc or "", re.DOTALL | re.MULTILINE)
    return re.findall(r"^    (\w+)(?: \([^)]*\))?:", text.group(1), re.MULTILINE) if text else []
