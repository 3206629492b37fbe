"""Links to the gallery: `gallery/GROUP/NAME.py`, which a code host shows, becomes the executed page on the site."""

import re
from typing import Any


def to_pages(app: Any, name: str, source: list[str]) -> None:
    source[0] = re.sub(r"\]\(gallery/GALLERY_HEADER\.rst", "](answers/index.rst", source[0])
    source[0] = re.sub(r"\]\(gallery/(\w+/\w+)\.py", r"](answers/\1.rst", source[0])


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", to_pages)
    return {"parallel_read_safe": True}
