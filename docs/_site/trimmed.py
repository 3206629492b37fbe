"""Remove the trailing empty line of code blocks."""

from typing import Any

from docutils import nodes


def trim(app: Any, tree: nodes.document) -> None:
    for block in tree.findall(nodes.literal_block):
        if block.astext() == block.rawsource:
            block.rawsource = block.rawsource.rstrip()
            block.children = []
            block += nodes.Text(block.rawsource)


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", trim)
    return {"parallel_read_safe": True}
