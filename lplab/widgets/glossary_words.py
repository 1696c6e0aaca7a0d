"""Words of the glossary that open where they stand: in a notebook, a link to one shows its entry."""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path

import anywidget
import traitlets

_STATIC = Path(__file__).parent / "static"


@cache
def glossary() -> str:
    """The page of the glossary: beside this module in an installed package, in ``docs`` in a checkout.

    >>> glossary().splitlines()[0]
    '# The words of the course'
    """
    here = Path(__file__).resolve()
    found = next(
        path for path in (here.with_name("glossary.md"), here.parents[2] / "docs/glossary.md") if path.is_file()
    )
    return found.read_text("utf-8")


@cache
def words() -> dict[str, str]:
    """The entries of the glossary by their anchors, as HTML without links.

    >>> words()["amax"]
    '<b>amax</b>: The largest magnitude in a tensor, from which most scales are computed.'
    """
    entries = re.findall(r'^<a id="([^"]+)"></a>\*\*(.+?)\*\*.*\\\n((?:.+\n?)+)', glossary(), re.M)
    return {anchor: f"<b>{html.escape(word)}</b>: {as_html(meaning)}" for anchor, word, meaning in entries}


def as_html(meaning: str) -> str:
    """What a word means, as HTML: links are their texts, and powers in formulas stand above the line.

    >>> as_html("A [bin](#bin) has $1-2^{-m}$ of it.")
    'A bin has 1−2<sup>−m</sup> of it.'
    """
    plain = re.sub(r"\[([^]]+)\](?:\([^)]*\))?|<a id=[^>]*></a>", r"\1", " ".join(meaning.split()))
    text = html.escape(plain, quote=False)

    def formula(found: re.Match[str]) -> str:
        signs = found[1].replace("-", "\N{MINUS SIGN}")
        return re.sub(r"\^(?:\{([^}]*)\}|(\w))", lambda power: f"<sup>{power[1] or power[2]}</sup>", signs)

    return re.sub(r"\$([^$]+)\$", formula, text)


class GlossaryWords(anywidget.AnyWidget):
    """Lets all links of a notebook to the glossary show their entries; itself it shows nothing.

    One is enough for a notebook, and more do no harm. Without a kernel, a link leads to the page of the glossary.
    """

    _esm = _STATIC / "glossary_words.js"
    _css = _STATIC / "glossary_words.css"
    words = traitlets.Dict(help="The entries of the glossary by their anchors, as HTML.").tag(sync=True)

    def __init__(self) -> None:
        super().__init__(words=words())
        self.layout.display = "none"
