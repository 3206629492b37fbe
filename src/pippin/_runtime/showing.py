"""Tables as a notebook shows them: HTML without a style sheet, in the colours of the page around it."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pippin._runtime.visible import visible

CELL = "padding:0.2em 0.8em;text-align:{side};white-space:nowrap;border-bottom:1px solid rgba(128,128,128,0.25)"
MARK = "background:rgba(0,114,178,0.14)"  # of rows that are meant


def html_table(
    caption: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    marked: Sequence[bool] = (),
    left_out: int = 0,
) -> str:
    """A table below a sentence; columns of numbers stand to the right, marked rows have a background.

    >>> html_table("Two < three.", ["n"], [["2"]], left_out=1).count("<td")
    2
    """
    sides = ["right" if all(_is_number(row[i]) for row in rows) else "left" for i in range(len(heads))]
    parts = [html_sentence(caption), '<table style="border-collapse:collapse;margin:0.5em 0">']
    cells = "".join(
        f'<th scope="col" style="{CELL.format(side=side)}">{_safe(head)}</th>'
        for head, side in zip(heads, sides, strict=True)
    )
    parts.append(f"<thead><tr>{cells}</tr></thead><tbody>")
    for number, row in enumerate(rows):
        cells = "".join(
            f'<td style="{CELL.format(side=side)}">{_safe(cell)}</td>' for cell, side in zip(row, sides, strict=True)
        )
        style = f' style="{MARK}"' if number < len(marked) and marked[number] else ""
        parts.append(f"<tr{style}>{cells}</tr>")
    if left_out > 0:
        style = CELL.format(side="left")
        parts.append(f'<tr><td colspan="{len(heads)}" style="{style}">and {left_out:,} more</td></tr>')
    return "".join([*parts, "</tbody></table>"])


def html_columns(caption: str, columns: Mapping[str, Sequence[Any]], *, most: int = 12) -> str:
    """The first rows of columns as a table.

    >>> "0.3333" in html_columns("A third.", {"share": [1 / 3]})
    True
    """
    n = len(next(iter(columns.values()), ()))
    rows = [[_shown(column[i]) for column in columns.values()] for i in range(min(n, most))]
    return html_table(caption, list(columns), rows, left_out=n - len(rows))


def html_sentence(sentence: str) -> str:
    """A sentence as a paragraph.

    >>> html_sentence("1 < 2")
    '<p>1 &lt; 2</p>'
    """
    return f"<p>{_safe(sentence)}</p>"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return shown_number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def shown_number(value: float) -> str:
    """A number with four digits.

    >>> shown_number(0.123456), shown_number(float("inf")), shown_number(12)
    ('0.1235', '∞', '12')
    """
    return "∞" if value == float("inf") else f"{value:.4g}"


def _safe(text: str) -> str:
    return escape(visible(text))


def _is_number(text: str) -> bool:
    shorn = text.replace(",", "").replace("%", "").replace("−", "-").strip()
    try:
        float(shorn or "0")
    except ValueError:
        return shorn == "∞"
    return True
