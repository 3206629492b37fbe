"""HTML tables for notebooks, formats of numbers, and escapes for unprintable characters."""

import unicodedata
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

CELL = "padding:0.25em 0.8em;text-align:{side};white-space:{wrap};border-bottom:1px solid rgba(128,128,128,0.25)"
TABLE = "border-collapse:collapse;margin:0.5em 0;font-variant-numeric:tabular-nums"
CHIP = "display:inline-block;padding:0 0.55em;margin:0.1em 0.3em 0.1em 0;border-radius:0.9em;background:{tint}"
BAR = "background:linear-gradient(to right,{tint} {percent:.1f}%,transparent {percent:.1f}%)"
QUIET = "margin:0.2em 0;font-size:0.9em;opacity:0.8"
MARK = "background:rgba(0,114,178,0.14)"  # background of marked rows
BLUE, AMBER, GREY = "rgba(0,114,178,0.30)", "rgba(230,159,0,0.38)", "rgba(128,128,128,0.22)"

# Unicode categories without a glyph: control, format, lone surrogates, line and paragraph separators.
UNPRINTABLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
JOINERS = "\u200c\u200d"  # zero-width joiners, needed by some scripts and emoji


def visible(text: object) -> str:
    r"""Return the text with control and format characters as Python escape sequences, so that it fits on one line.

    >>> print(visible("\x1b[31mred\x00\n\u202egreen"))
    \x1b[31mred\x00\n\u202egreen
    >>> print(visible("Kornblume [red] 小麦"))
    Kornblume [red] 小麦
    """
    return "".join(map(_visible_character, str(text)))


def _visible_character(character: str) -> str:
    unprintable = unicodedata.category(character) in UNPRINTABLE and character not in JOINERS
    noncharacter = ord(character) & 0xFFFE == 0xFFFE  # not allowed in XML
    return character.encode("unicode_escape").decode() if unprintable or noncharacter else character


class Chips(NamedTuple):
    """Table cell with names in colored frames, followed by a note."""

    names: Sequence[str]
    tint: str = GREY
    note: str = ""


class Share(NamedTuple):
    """Table cell with a percentage in front of a horizontal bar."""

    value: float
    tint: str = BLUE


Cell = str | Chips | Share


def html_table(
    caption: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    marked: Sequence[bool] = (),
    left_out: int = 0,
    note: str = "",
) -> str:
    """Build an HTML table with a caption above it; columns of numbers are aligned right.

    `marked` holds a flag per row: rows with True get a background. `left_out` is the number of omitted rows, printed in
    the last line; `note` is printed below the table.

    >>> html_table("Two < three.", ["n"], [["2"]], left_out=1).count("<td")
    2
    """
    sides = ["right" if all(_is_number(row[i]) for row in rows) else "left" for i in range(len(heads))]
    parts = [f"<p>{_safe(caption)}</p>", f'<table style="{TABLE}">']
    pairs = zip(heads, sides, strict=True)
    cells = "".join(f'<th scope="col" style="{_style(side)}">{_safe(head)}</th>' for head, side in pairs)
    parts.append(f"<thead><tr>{cells}</tr></thead><tbody>" if any(heads) else "<tbody>")
    for number, row in enumerate(rows):
        cells = "".join(_cell(cell, side) for cell, side in zip(row, sides, strict=True))
        style = f' style="{MARK}"' if number < len(marked) and marked[number] else ""
        parts.append(f"<tr{style}>{cells}</tr>")
    if left_out > 0:
        parts.append(f'<tr><td colspan="{len(heads)}" style="{_style("left")}">and {left_out:,} more</td></tr>')
    below = f'<p style="{QUIET}">{_safe(note)}</p>' if note else ""
    return "".join([*parts, "</tbody></table>", below])


def html_columns(caption: str, columns: Mapping[str, Sequence[Any]], *, most: int = 12, note: str = "") -> str:
    """Build an HTML table from columns by name, with at most the first `most` rows.

    >>> "0.3333" in html_columns("A third.", {"share": [1 / 3]})
    True
    """
    n = len(next(iter(columns.values()), ()))
    rows = [[_cell_of(column[i]) for column in columns.values()] for i in range(min(n, most))]
    return html_table(caption, list(columns), rows, left_out=n - len(rows), note=note)


def html_facts(caption: str, facts: Mapping[str, Any], *, note: str = "") -> str:
    """Build an HTML table with one name and value per row.

    >>> html_facts("One.", {"rows": 1000}).count("1,000")
    1
    """
    return html_table(caption, ("", ""), [(name, _cell_of(value)) for name, value in facts.items()], note=note)


def format_number(value: float) -> str:
    """Format a number with four significant digits.

    >>> format_number(0.123456), format_number(float("inf")), format_number(12)
    ('0.1235', '∞', '12')
    """
    return "∞" if value == float("inf") else f"{value:.4g}"


def format_share(value: float) -> str:
    """Format a share as a percentage.

    >>> format_share(0.9011)
    '90.1%'
    """
    return f"{100 * value:.1f}%"


def _cell(cell: Cell, side: str) -> str:
    if isinstance(cell, Chips):
        inside = "".join(f'<span style="{CHIP.format(tint=cell.tint)}">{_safe(name)}</span>' for name in cell.names)
        return f'<td style="{_style("left", "normal")}">{inside}{_safe(cell.note)}</td>'
    if isinstance(cell, Share):
        bar = BAR.format(tint=cell.tint, percent=100 * min(max(cell.value, 0.0), 1.0))
        return f'<td style="{_style("right")};min-width:8em;{bar}">{format_share(cell.value)}</td>'
    return f'<td style="{_style(side)}">{_safe(cell)}</td>'


def _style(side: str, wrap: str = "nowrap") -> str:
    return CELL.format(side=side, wrap=wrap)


def _cell_of(value: Any) -> Cell:
    if value is None:
        return ""
    if isinstance(value, Share | Chips):
        return value
    return format_number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _safe(text: str) -> str:
    return escape(visible(text))


def _is_number(cell: Cell) -> bool:
    if not isinstance(cell, str):
        return isinstance(cell, Share)
    digits = cell.replace(",", "").replace("%", "").replace("−", "-").strip()
    try:
        float(digits or "0")
    except ValueError:
        return digits in ("∞", "–")
    return True
