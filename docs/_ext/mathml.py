"""Formulas as MathML, which browsers draw by themselves: no script, no font from elsewhere, and read aloud."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

SHORT = re.compile(r"\\([dt]?frac) ?(\d)(\d)")  # TeX takes \frac12 digit by digit, the converter takes it as 12


def _mathml(node: nodes.math | nodes.math_block, as_block: bool = False) -> str:
    formula = SHORT.sub(r"\\\1{\2}{\3}", node.astext().replace(r"\dots", r"\ldots"))
    return str(tex2mathml(formula, as_block=as_block))


def visit_math(writer: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    writer.body.append(_mathml(node))
    raise nodes.SkipNode


def visit_math_block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    writer.body.append(_mathml(node, as_block=True))
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx about the renderer."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
