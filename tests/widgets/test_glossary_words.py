"""The words that open where they stand are those of the page, and all links of the labs have one."""

import re
from pathlib import Path

import pytest

from lplab.widgets.glossary_words import GlossaryWords, as_html, glossary, words

PROJECT = Path(__file__).parents[2]


def test_each_entry_of_the_page_is_a_word():
    assert list(words()) == re.findall(r'^<a id="([^"]+)">', glossary(), re.M)
    assert all(text.endswith(".") and not re.search(r"[\[\]\\$`*{}^]", text) for text in words().values())


@pytest.mark.parametrize("path", sorted((PROJECT / "labs").glob("*.ipynb")), ids=lambda path: path.stem[:2])
def test_links_of_a_lab_have_words(path):
    links = re.findall(r"glossary\.md#([\w-]+)", path.read_text("utf-8"))
    assert links and set(links) <= set(words())


def test_a_meaning_is_plain_html():
    assert (
        as_html("Less than [one](#one) & no more: $2^m$ of\nlab [03].")
        == "Less than one &amp; no more: 2<sup>m</sup> of lab 03."
    )


def test_a_widget_hands_all_words_over_and_shows_nothing():
    widget = GlossaryWords()
    assert widget.words == words() and widget.layout.display == "none"


def test_a_question_of_a_lab_brings_the_words():
    from lplab.exercises import predict

    assert any(isinstance(child, GlossaryWords) for child in predict("00.a").children)
