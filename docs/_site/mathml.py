"""Formulas as MathML, which browsers set by themselves: pages need no script and no network."""

import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert

OPERATOR = re.compile(r"\\operatorname\*?\{([^}]*)\}")


def mathml(latex: str, display: str) -> str:
    """Convert a formula; raise ValueError for a command that the converter does not know.

    Args:
        latex: the formula.
        display: "inline" or "block".
    """
    text = OPERATOR.sub(r"\\text{\1}", latex)
    element = convert(text, display=display)
    unknown = re.findall(r"\\[A-Za-z]+|<mi>&</mi>", element)
    if unknown:
        raise ValueError(f"The formula {latex!r} has {unknown[0]}, which MathML lacks: spell it with other commands.")
    ElementTree.fromstring(element)
    return element


def visit_inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math" tabindex="0">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
