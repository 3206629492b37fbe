"""Text for a page."""

from html import escape

from pippin._runtime.visible import visible


def escaped(text: object) -> str:
    r"""Text as a page shows it: no markup, and nothing that cannot be seen.

    >>> escaped("<b>\x00")
    '&lt;b&gt;\\x00'
    """
    return escape(visible(text))


def in_words(name: object) -> str:
    """A class as people say it.

    >>> in_words("black_grass")
    'black grass'
    """
    return str(name).replace("_", " ")
