"""Right-aligned columns of numbers in tables."""

import re
from typing import Any

from docutils import nodes

VALUE = r"[-−+±≈<≤>≥~]?\s*[\d.,]+(\s*(%|×|x|s|ms|µs|MB|GB|points?))?"
ONE = rf"({VALUE}(\s*±\s*{VALUE})?|[-–—]|)"
NUMBER = re.compile(rf"{VALUE}((\s+|\s*[±+/]\s*)\(?{VALUE}\)?)*|[-–—]|")  # a value, or values such as 1.2 + 3.4 (5)


def align(app: Any, tree: nodes.document) -> None:
    """Give the cells of columns of numbers the class `number`, and `several` if one of them has several numbers."""
    for table in tree.findall(nodes.tgroup):
        heads = [row.children for part in table.findall(nodes.thead) for row in part.children]
        rows = [row.children for part in table.findall(nodes.tbody) for row in part.children]
        for column in range(len(rows[0]) if rows else 0):
            texts = [row[column].astext().strip() for row in rows if column < len(row)]
            if any(re.search(r"\d", text) for text in texts) and all(NUMBER.fullmatch(text) for text in texts):
                several = [] if all(re.fullmatch(ONE, text) for text in texts) else ["several"]
                for row in [*heads, *rows]:
                    if column < len(row):
                        row[column]["classes"] += ["number", *several]


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", align)
    return {"parallel_read_safe": True}
