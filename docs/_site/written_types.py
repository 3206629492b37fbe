"""Render types in the reference as the source spells them, for example `Vector` instead of the full NumPy type.

Annotations are converted to text before autodoc reads them, as by `from __future__ import annotations`. Names that
`docs/reference/types.rst` describes stay names. An argument that is annotated as Any, because it accepts arrays, frames
and tensors, gets its type by its name (`OPEN`).
"""

import ast
import inspect
import re
import sys
import textwrap
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, get_origin, get_overloads

from sphinx.pycode import ModuleAnalyzer

MODULES = (
    "pippin",
    "pippin.decisions",
    "pippin.distributed",
    "pippin.metrics",
    "pippin.models",
    "pippin.online",
    "pippin.scores",
    "pippin.shift",
    "pippin.sklearn",
    "pippin.torch",
    "pippin.dask",
    "pippin.images",
    "pippin.testing",
    "pippin.export.onnx",
    "pippin.export.c_header",
)

# Types of arguments that are annotated as Any, by name; "return" is the returned value.
OPEN = {
    "X": "Table",
    "X_source": "Table",
    "X_target": "Table",
    "alpha": "Level",
    "classifier": "Estimator",
    "cv": "int | Estimator | None",
    "estimator": "Estimator",
    "fit_params": "ArrayLike",
    "fold_probs": "Probabilities",
    "group": "str | int | None",
    "groups": "ArrayLike | None",
    "image": "Image",
    "index": "ArrayOrFrame | None",
    "key": "int | str | slice | ArrayLike",
    "label": "str | int | None",
    "labels": "Labels",
    "missed": "float | bool",
    "models": "Sequence[Probabilities | Callable[[Codes], Probabilities]]",
    "new_probs": "Probabilities",
    "options": "object",
    "per": "Literal['class', 'group', 'class and group', 'cluster', 'rc3p'] | Mapping[str, str] | None",
    "predictor": "ConformalPredictor | Decider | None",
    "probs": "Probabilities",
    "random_state": "Seed",
    "reference": "Probabilities",
    "return": "ArrayOrFrame",
    "row": "Row",
    "rows": "Probabilities",
    "sample_weight": "ArrayLike | None",
    "score": "Score | str",
    "sets": "PredictionSets | ConformalPredictor",
    "text": "Score | Method | str",
    "costs": "Table",
    "values": "Table",
    "y": "Labels",
}

# Arguments that are validated, so that a function with one of them can raise InputError.
VALIDATED = {
    "X",
    "alpha",
    "candidate",
    "classes",
    "delta",
    "fold_probs",
    "groups",
    "image",
    "labels",
    "level",
    "n",
    "novel",
}
VALIDATED |= {"p", "path", "paths", "predictor", "probs", "row", "rows", "score", "scores", "text", "ticket", "utility"}
VALIDATED |= {"costs", "values", "weights", "x"}

# Replacements for internal names of types.
SPELLED = {
    "Column": "float | Vector",
    "Card": "dict[str, str]",
    "Counts": "Codes",
    "Exported": "ConformalPredictor | Decider",
    "Files": "Path | Iterable[Path] | Mapping[str, str]",
    "mondrian.GroupNames": "tuple[str | int | None, ...]",
    "GroupNames": "tuple[str | int | None, ...]",
    "Ids": "tuple[str, NDArray[Any]]",
    "Image.Image": "Image",
    "Loss": "Callable[[list[str | int], str | int], float]",
    "Measure": "Literal['surprise', 'entropy', 'energy'] | Callable[[Table], ArrayLike]",
    "NDArray[np.bool_]": "Flags",
    "NDArray[np.float32]": "Singles",
    "NDArray[np.float64]": "Vector",
    "NDArray[np.int64]": "Codes",
    "NDArray[np.intp]": "Codes",
    "PathLike[str]": "Path",
    "Place": "Path",
    "Value": "float | int | bool | tuple[float, ...]",
    "str | Path": "Path",
}

# Classes of returned objects that users do not construct.
RETURNED = (
    "pippin._compare.decisions.DecisionCurve",
    "pippin._compare.evidence.Difference",
    "pippin._compare.evidence.Influence",
    "pippin._validation.batched.Batch",
    "pippin._validation.example.Example",
    "pippin._conformal.coverage_by.Tally",
    "pippin._conformal.diagnosis.Finding",
    "pippin._conformal.explanation.ExplainedClass",
    "pippin._conformal.explanation.ExplainedModel",
    "pippin._conformal.judgment.KindShare",
    "pippin._distributed.calibration.Part",
    "pippin._runtime.provenance.Provenance",
    "pippin._sharpening.sharpener.OutOfFoldMetrics",
)

NEVER = {"as it is written": "NotToBeEvaluated"}  # an undefined name, so that Sphinx evaluates no annotation


class Expanded(ast.NodeTransformer):
    """Replace aliases of Literal types by their choices."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        meant = self.names.get(node.id)
        return ast.parse(repr(meant).replace("typing.", "")).body[0].value if get_origin(meant) is Literal else node


def written(annotation: ast.expr, name: str, names: dict[str, Any]) -> str:
    """Return the text of an annotation; the type of an argument that is Any depends on its name."""
    text = annotation.value if isinstance(annotation, ast.Constant) and annotation.value else ast.unparse(annotation)
    if names.get(text) is Any:
        text = OPEN.get(name, text)
    text = ast.unparse(Expanded(names).visit(ast.parse(text, mode="eval").body))
    for long, short in SPELLED.items():
        text = re.sub(rf"\b{re.escape(long)}(?!\w)", short, text)
    return text


def of_function(function: FunctionType) -> None:
    """Replace the annotations of a function by their text."""
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef)
    arguments = {
        arg.arg: arg.annotation for arg in ast.walk(node.args) if isinstance(arg, ast.arg) and arg.arg != "self"
    }
    names = {"return": node.returns} | arguments
    inner = inspect.unwrap(function)  # of a function with a decorator
    texts = {k: written(v, k, inner.__globals__) for k, v in names.items() if v} | NEVER
    function.__annotations__ = inner.__annotations__ = texts


@cache
def parsed(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text(encoding="utf-8"))


def home(cls: type) -> tuple[ast.ClassDef, dict[str, Any]]:
    """Return the definition of a class and the namespace of the module that contains it."""
    for module in [module for name, module in sys.modules.items() if name.startswith("pippin")]:
        if vars(module).get(cls.__name__) is cls:
            for node in parsed(str(module.__file__)).body:
                if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                    return node, vars(module)
    raise LookupError(f"No module of pippin has the class {cls.__name__}.")


def of_class(cls: type) -> None:
    """Replace the annotations of fields, methods and properties by their text."""
    for value in vars(cls).values():
        function = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", value)
        if isinstance(function, FunctionType) and "pippin" in Path(function.__code__.co_filename).parts:
            of_function(function)
    node, names = home(cls)
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    cls.__annotations__ = {each.target.id: written(each.annotation, each.target.id, names) for each in fields} | NEVER


def public(modules: tuple[str, ...] = MODULES) -> list[tuple[str, str, Any]]:
    """Return the module, the name and the object of every public name."""
    return [
        (name, key, getattr(module, key))
        for name in modules
        for module in [import_module(name)]
        for key in module.__all__
    ]


def write_types(app: Any) -> None:
    """Process all public objects; a function with overloads gets one signature."""
    returned = [getattr(import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in RETURNED]
    for found in [*(found for _, _, found in public()), *returned]:
        if inspect.isclass(found):
            for cls in found.__mro__:
                if cls.__module__.startswith("pippin"):
                    of_class(cls)
        elif inspect.isfunction(found):
            of_function(found)
            if get_overloads(found):
                analyzer = ModuleAnalyzer.for_module(found.__module__)
                analyzer.analyze()
                analyzer.overloads.clear()


def returned(app: Any, what: str, name: str, found: Any, options: Any, signature: str, given: str | None) -> Any:
    """Add the return type to a signature."""
    returns = getattr(getattr(found, "__func__", found), "__annotations__", {}).get("return")
    return (signature, returns) if what in ("function", "method") and returns not in (None, "None") else None


def types_first(app: Any, what: str, name: str, found: object, options: Any, lines: list[str]) -> None:
    """Move the type of an attribute before its description."""
    for number, line in enumerate(lines):
        if line.startswith(".. attribute::"):
            end = next((i for i in range(number + 1, len(lines)) if lines[i][:1].strip()), len(lines))
            types = [i for i in range(number, end) if lines[i].startswith("   :type:")]
            if types:
                lines.insert(number + 1, lines.pop(types[0]))


def refusals(app: Any, what: str, name: str, found: object, options: Any, lines: list[str]) -> None:
    """Document InputError for functions that validate an argument."""
    params = [i for i, line in enumerate(lines) if line.startswith(":param ")]
    if not VALIDATED & {lines[i].split()[1].rstrip(":").replace("\\", "") for i in params} or ":raises" in "\n".join(
        lines
    ):
        return
    end = next((i for i in range(params[-1] + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
    lines.insert(
        end,
        ":raises ~pippin.InputError: An argument is invalid; the message names the expected and the received value.",
    )


def skip_fields(app: Any, what: str, name: str, found: object, skip: bool, options: Any) -> bool | None:
    """Skip fields, which the docstring of the class describes under Attributes."""
    return True if type(found).__name__ in ("_tuplegetter", "member_descriptor") else None


COLON = "\ua789"  # a look-alike that napoleon does not interpret


def hide_colons(app: Any, what: str, name: str, found: object, options: Any, lines: list[str]) -> None:
    """Hide colons in docstrings of properties; napoleon would take the text before one as the type."""
    if what in ("property", "attribute"):
        lines[:] = [line.replace(":", COLON) for line in lines]


def show_colons(app: Any, what: str, name: str, found: object, options: Any, lines: list[str]) -> None:
    lines[:] = [line.replace(COLON, ":") for line in lines]


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write_types, priority=900)  # when the gallery has run
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("autodoc-process-docstring", hide_colons, priority=100)  # before Google's style is read
    app.connect("autodoc-process-docstring", show_colons, priority=900)
    app.connect("autodoc-process-docstring", types_first, priority=900)
    app.connect("autodoc-process-docstring", refusals, priority=900)
    app.connect("autodoc-process-signature", returned)
    return {"parallel_read_safe": True}
