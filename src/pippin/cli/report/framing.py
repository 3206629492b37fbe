"""What every page has in common: its head, its style, and the data and the script at its end."""

import json
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple


class Page(NamedTuple):
    """The parts of a page, as HTML: `first` is the id of its first section, which `skip` calls by name.

    `images` says where pictures may come from, as a Content-Security-Policy spells it.
    """

    title: str
    lead: str
    main: str
    first: str
    skip: str
    footer: str
    css: str
    js: str
    data: str
    images: str = "data:"


def framed(page: Page) -> str:
    """The whole page: one file with its style, its data and its script inside."""
    return Template(asset("frame.html")).substitute(page._asdict())


def filled(name: str, **parts: object) -> str:
    """A part of a page from its template."""
    return Template(asset(name)).substitute(parts)


def asset(name: str) -> str:
    """The text of a file of this room."""
    return (files("pippin.cli.report") / name).read_text(encoding="utf-8")


def in_script(content: Any) -> str:
    """Compact JSON, safe inside a script element.

    >>> in_script({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
