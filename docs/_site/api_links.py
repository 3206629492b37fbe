"""Links from Markdown pages to the reference: `pippin.NAME` in backticks becomes a link on the site."""

import re
from pathlib import Path
from typing import Any

NAME = re.compile(r"(?<![\[`\w}])`(pippin(?:\.\w+)+)`(?![`\]])")
BLOCK = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def to_roles(app: Any, name: str, source: list[str]) -> None:
    """Turn names outside code blocks into roles, which stay plain code if the reference has no such name."""
    if Path(app.env.doc2path(name)).suffix == ".md":
        parts = BLOCK.split(source[0])
        source[0] = "".join(part if part.startswith("```") else NAME.sub(r"{word}`\1`", part) for part in parts)


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", to_roles)
    return {"parallel_read_safe": True}
