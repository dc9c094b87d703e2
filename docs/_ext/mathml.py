"""Equations as MathML, which browsers set by themselves: nothing is loaded, and no LaTeX is needed."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml


def _mathml(translator: Any, node: nodes.Element, *, block: bool) -> None:
    number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    markup = latex2mathml.tex2mathml(node.astext(), as_block=block)
    translator.body.append(f'<div class="math">{number}{markup}</div>\n' if block else markup)
    raise nodes.SkipNode


def _inline(translator: Any, node: nodes.math) -> None:
    _mathml(translator, node, block=False)


def _block(translator: Any, node: nodes.math_block) -> None:
    _mathml(translator, node, block=True)


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer that ``html_math_renderer`` names."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
