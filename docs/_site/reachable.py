"""Accessibility fixes for the theme: code that scrolls can be focused, and captions have a heading level."""

from typing import Any


def reach(app: Any, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    for part, old, new in (
        ("body", "<pre>", '<pre tabindex="0">'),
        ("furo_navigation_tree", 'role="heading"', 'role="heading" aria-level="2"'),
    ):
        if part in context:
            context[part] = context[part].replace(old, new)


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", reach, priority=900)  # after the theme
    return {"parallel_read_safe": True}
