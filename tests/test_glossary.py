"""The glossary: words in order, used in their labs, named as in the library; and labs lead to words that exist."""

import ast
import functools
import itertools
import json
import pkgutil
import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

import pytest

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "glossary.md"
TEXT = PAGE.read_text("utf-8")
LABS = {path.name[:2]: path for path in sorted((PROJECT / "labs").glob("[0-9][0-9]_*.ipynb"))}
ADDRESSES = dict(re.findall(r"^\[(\d\d)\]: (\S+)$", TEXT, re.M))
ENTRY = re.compile(r'<a id="([^"]*)"></a>\*\*(.+?)\*\*(?: \((.+?)\))?((?: · [^\\]+)?)\\\n(.+)', re.S)


class Entry(NamedTuple):
    """One word: its anchor, its names (the first is the word itself), its labs, the library's names, what it means."""

    anchor: str
    names: tuple[str, ...]
    labs: tuple[str, ...]
    library: tuple[str, ...]
    meaning: str


def entry_of(paragraph: str) -> Entry:
    found = ENTRY.fullmatch(paragraph)
    assert found, f"this paragraph is no entry: {paragraph[:80]}"
    anchor, word, others, marks, meaning = found.groups()
    names = (word, *(others or "").split(", ")) if others else (word,)
    return Entry(anchor, names, tuple(re.findall(r"\[(\d\d)\]", marks)), tuple(re.findall("`([^`]+)`", marks)), meaning)


BODY = TEXT[TEXT.index("## A\n") : TEXT.index("\n[00]: ")].strip()
ENTRIES = [entry_of(part) for part in BODY.split("\n\n") if not part.startswith("## ")]


def anchor_of(word: str) -> str:
    """What a link to a word must say: ⟨IL, FL⟩ is #il-fl."""
    plain = unicodedata.normalize("NFKD", word).replace("'", "").lower()
    return re.sub("[^a-z0-9]+", "-", plain).strip("-")


@functools.cache
def markdown(path: Path) -> list[str]:
    """The texts of a notebook, without the time line, which names everything, and the titles of its references."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    return [re.sub("^.*: you are here.*$|^## References\\n(?:\\n|- .*)+", "", text, flags=re.M) for text in texts]


def uses(text: str, name: str) -> bool:
    """Whether a text has this name as a word, also in the plural or as a verb; targets of links are no text."""
    shown = re.sub(r"\*|\]\([^)]*\)", "", text)
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?:e?[sd])?(?!\w)", re.sub(r"\s+", " ", shown), re.IGNORECASE))


def test_words_are_in_alphabetical_order_below_their_letters():
    for part in re.split(r"^## ", BODY, flags=re.M)[1:]:
        letter, _, rest = part.partition("\n")
        assert {entry_of(one).anchor[0].upper() for one in rest.strip().split("\n\n")} == {letter}
    keys = [entry.anchor.replace("-", " ") for entry in ENTRIES]
    assert all(one < two for one, two in itertools.pairwise(keys)), "out of order, or twice the same word"


def test_there_are_words():
    assert len(ENTRIES) > 100


def test_a_word_has_its_own_anchor_and_one_or_two_sentences():
    for entry in ENTRIES:
        assert entry.anchor == anchor_of(entry.names[0])
        assert entry.meaning.endswith(".") and len(entry.meaning.split()) in range(5, 60), entry.anchor
        assert entry.labs or entry.library, f"{entry.anchor}: met in no lab, and not in the library either"


def test_a_word_is_used_in_its_labs():
    missing = [
        f"lab {number} does not say {' or '.join(entry.names)}"
        for entry in ENTRIES
        for number in entry.labs
        if not any(uses("\n".join(markdown(LABS[number])), name) for name in entry.names)
    ]
    assert missing == []


def test_names_of_the_library_stand_in_the_first_line():
    assert [entry.anchor for entry in ENTRIES if "`" in entry.meaning] == []


def test_the_library_has_what_a_word_is_called_there():
    missing = []
    for name in itertools.chain.from_iterable(entry.library for entry in ENTRIES):
        try:
            look_up(name)
        except Exception as error:
            missing.append(f"{name}: {error}")
    assert missing == []


def look_up(name: str) -> None:
    """Find a name of the library, and make the call if it is one."""
    tree = ast.parse(name, mode="eval").body
    call = tree if isinstance(tree, ast.Call) else None
    found = pkgutil.resolve_name("lplab." + ast.unparse(call.func if call else tree))
    if call:
        plain = [ast.literal_eval(argument) for argument in call.args]
        found(*plain, **{word.arg: ast.literal_eval(word.value) for word in call.keywords})


def test_links_of_the_page_lead_somewhere():
    anchors = {entry.anchor for entry in ENTRIES}
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= anchors
    assert {number: (PAGE.parent / address).resolve() for number, address in ADDRESSES.items()} == LABS


@pytest.mark.parametrize("path", LABS.values(), ids=lambda path: path.stem)
def test_the_words_of_a_lab_are_links_to_entries_that_name_the_lab(path):
    texts = markdown(path)
    links = re.findall(r"\[([^]]+)\]\(\.\./docs/glossary\.md#([^)]*)\)", "\n".join(texts))
    assert len(links) >= 3 and len(links) == "\n".join(texts).count("glossary.md#")
    entries = {entry.anchor: entry for entry in ENTRIES}
    for shown, anchor in links:
        assert anchor in entries, f"{shown} leads to #{anchor}, which is no entry"
        assert any(uses(shown, name) for name in entries[anchor].names), f"{shown} leads to {anchor}"
        assert path.name[:2] in entries[anchor].labs, f"{anchor} does not say that it is met here"
