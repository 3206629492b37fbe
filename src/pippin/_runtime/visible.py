"""Names as people can see them: what a terminal would obey, or a reader would miss, is spelled out."""

import unicodedata

UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, format, lone surrogates, separators of lines and paragraphs
JOINERS = "\u200c\u200d"  # scripts and emoji are written with these


def visible(text: object) -> str:
    r"""The text on one line, each character that has no shape of its own written as Python spells it.

    >>> print(visible("\x1b[31mred\x00\n\u202egreen"))
    \x1b[31mred\x00\n\u202egreen
    >>> print(visible("Kornblume [red] 小麦"))
    Kornblume [red] 小麦
    """
    return "".join(map(_shown, str(text)))


def _shown(character: str) -> str:
    unseen = unicodedata.category(character) in UNSEEN and character not in JOINERS
    nothing = ord(character) & 0xFFFE == 0xFFFE  # what Unicode and XML call no character
    return character.encode("unicode_escape").decode() if unseen or nothing else character
