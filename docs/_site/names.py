"""Directive `pippin-names`: a table of the public names on a page of the reference, with links and first sentences."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from sphinx.util.rst import escape


class Names(SphinxDirective):
    """Table with a row for each public name of the page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.doc2path(f"reference/{self.arguments[0]}"))
        self.env.note_dependency(str(path))
        names = [
            name
            for name in re.findall(r"^\.\. (?:auto\w+|py:data):: (\S+)", path.read_text("utf-8"), re.MULTILINE)
            if "._" not in name
        ]
        lines = [":class: names", ""]
        for name in names:
            lines += [f"* - :py:obj:`~{name}`", f"  - {first_line(name)}"]
        return self.parse_text_to_nodes("\n".join([".. list-table::", *(f"   {line}" for line in lines)]))


def first_line(name: str) -> str:
    """Return the first line of a docstring, or the items of a tuple."""
    module, _, key = name.rpartition(".")
    found = getattr(import_module(module), key)
    if not (inspect.isfunction(found) or inspect.isclass(found)):
        return escape(", ".join(map(str, found)))
    parts = (inspect.getdoc(found) or "").splitlines()[0].split("`")
    return "`".join(part if number % 2 else escape(part) for number, part in enumerate(parts))


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("pippin-names", Names)
    return {"parallel_read_safe": True}
