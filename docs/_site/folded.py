"""Fold the code of a gallery figure, which a click opens: the pages are about the library, not about Matplotlib."""

from typing import Any

from docutils import nodes

SHORT = 8  # lines that are not worth folding


def fold(app: Any, tree: nodes.document) -> None:
    """Wrap every long code block that ends in `plt.show()` in an HTML details element."""
    for block in list(tree.findall(nodes.literal_block)):
        lines = block.astext().rstrip().splitlines()
        if len(lines) > SHORT and lines[-1] == "plt.show()":
            place = block.parent.index(block)
            block.parent.insert(place + 1, nodes.raw("", "</details>", format="html"))
            summary = '<details class="folded"><summary>Code of the figure</summary>'
            block.parent.insert(place, nodes.raw("", summary, format="html"))


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", fold)
    return {"parallel_read_safe": True}
