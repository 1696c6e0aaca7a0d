"""Every lab is written for newcomers, as far as that can be counted; and the counting counts."""

import json
import re

import pytest

from tests.labs import prose
from tests.labs.notebooks import exercise_part

LABS = sorted((prose.PROJECT / "labs").glob("*.ipynb"))


def test_the_table_of_all_labs_is_printed(capsys):
    """Seen with ``pytest -s``, and where a lab fails."""
    measured = {path.stem: prose.measure(path) for path in LABS}
    print(prose.as_table(measured))
    assert len(capsys.readouterr().out.splitlines()) == len(LABS) + 1


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_a_lab_is_within_the_ranges(path):
    measured = prose.measure(path)
    assert list(prose.outside(path, measured)) == [], prose.as_table({path.stem: measured})


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_the_promised_minutes_add_up(path):
    assert list(prose.wrong_minutes(path)) == []


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_the_core_has_two_or_three_exercises_in_their_order(path):
    cells = prose.cells_of(path)
    names = [found[1] for cell in cells if (found := exercise_part(cell)) and found[0] == "exercise"]
    core = [found[1] for cell in prose.parts(cells)[0] if (found := exercise_part(cell)) and found[0] == "exercise"]
    assert names == sorted(names) and 2 <= len(core) <= 3


# ---- the counting ----------------------------------------------------------------------------------------------------


@pytest.fixture
def lab(tmp_path):
    """Writes a notebook of lab 05: texts are Markdown, dicts are code."""

    def write(*cells):
        path = tmp_path / "05_small.ipynb"
        path.write_text(json.dumps({"cells": [_cell(cell) for cell in cells]}))
        return path

    return write


def _cell(cell):
    if isinstance(cell, str):
        return {"cell_type": "markdown", "source": cell, "metadata": {}}
    return {"cell_type": "code", "metadata": {}, "outputs": [], **cell}


def test_words_of_the_core_are_counted_and_those_below_going_deeper_are_not(lab):
    path = lab("# Title", "One two three.\n\n## Going deeper\n\nfour five", "six", "## References\n\nseven eight")
    measured = prose.measure(path)
    assert (measured.core, measured.deeper) == (5, 6)  # headings count with their signs


def test_folded_text_is_not_read(lab):
    path = lab("# Title", "One two. <details><summary>Why</summary>three four five</details>")
    assert prose.measure(path).core == 4


def test_long_sentences_and_marks_are_counted(lab):
    words = " ".join(["word"] * 26)
    measured = prose.measure(lab("# Title", f"{words}. Short: one; two is it."))
    assert (measured.core, measured.long, measured.mean) == (33, 1, 15.5)
    assert measured.marks == 6.1  # two in 33 words


def test_tall_cells_and_printed_words_are_counted_where_they_are_seen(lab):
    tall = {"source": "x = 1\n" * 9, "outputs": [{"output_type": "stream", "text": "a b c"}]}
    folded = {**tall, "outputs": [], "metadata": {"jupyter": {"source_hidden": True}}}
    measured = prose.measure(lab("# Title", tall, folded, "## Going deeper", tall))
    assert (measured.tall, measured.printed) == (1, 3)


def test_terms_used_before_their_link_are_named(lab):
    before = lab(
        "# Title", "The accumulator is full.", "An [accumulator](../docs/glossary.md#accumulator) is a register."
    )
    assert prose.early_terms(prose.cells_of(before), "05") == ["accumulator"]
    after = lab("# Title", "An [accumulator](../docs/glossary.md#accumulator) is a register.", "It is an accumulator.")
    assert prose.early_terms(prose.cells_of(after), "05") == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "does not say what the minutes are made of"),
        ("*About 50 minutes: text 8, explorer 8.*", "add up to 16 minutes, not to 50"),
        ("*About 20 minutes: text 10, exercises 10.*", "the exercises of the core take 0 minutes, not 10"),
        ("*About 20 minutes: text 15, explorer 5.*", "the questions above the explorer take 8 minutes, not 5"),
    ],
)
def test_wrong_minutes_are_named(lab, line, message):
    assert any(message in text for text in prose.wrong_minutes(lab(f"# Title\n\n{line}")))


def test_a_text_that_takes_longer_than_promised_is_named(lab):
    path = lab("# Title\n\n*About 16 minutes: text 2, explorer 14.*", "word " * 900)
    assert list(prose.wrong_minutes(path)) == ["the text takes 6 minutes, not 2"]


def test_the_map_of_the_course_has_the_minutes_of_every_lab():
    text = (prose.PROJECT / "labs" / "README.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| \d\d \| \[.*?\]\((\S+)\) \| .*?\? \| (.*?) \|$", text, re.M))
    promised = {path.name: prose.minutes_of(prose.source(prose.cells_of(path)[0])) for path in LABS}
    made = {
        name: ", ".join(f"{part} {count}" for part, count in parts.items()) for name, (_, parts) in promised.items()
    }
    assert rows == {name: f"{minutes} | {made[name]}" for name, (minutes, _) in promised.items()}
    hours = round(sum(minutes for minutes, _ in promised.values()) / 60)
    assert f"All labs together take about {hours} hours" in text
