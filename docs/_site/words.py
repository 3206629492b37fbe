"""Render single backticks in docstrings as code, with a link if they name an object of the reference."""

from typing import Any

from docutils import nodes
from sphinx.domains.python import PyXRefRole

# Names of arguments that are also names of functions: not linked.
ARGUMENTS = {
    "alpha",
    "classes",
    "coverage",
    "groups",
    "labels",
    "learn",
    "plan",
    "probs",
    "row",
    "rows",
    "score",
    "scores",
}


class Word(PyXRefRole):
    """Link to a Python object, or plain code."""

    def __call__(self, name: str, *rest: Any, **more: Any) -> Any:
        return super().__call__("py:obj", *rest, **more)

    def result_nodes(self, document: nodes.document, env: Any, node: nodes.Element, is_ref: bool) -> Any:
        if node.astext() in ARGUMENTS:
            return list(node.children), []
        node["soft"] = True
        return [node], []


def leave_as_code(app: Any, env: Any, node: nodes.Element, contents: nodes.Element) -> nodes.Element | None:
    """Keep a word that names no object of the reference as code, without a warning."""
    return contents if node.get("soft") else None


def setup(app: Any) -> dict[str, bool]:
    app.add_role("word", Word())
    app.connect("missing-reference", leave_as_code)
    return {"parallel_read_safe": True}
