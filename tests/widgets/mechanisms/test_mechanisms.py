"""What every mechanism has: a sentence, an alternative text, a file that draws it, data that fit into a page."""

import json
import re
from pathlib import Path

import pytest

from lplab.figures import style
from lplab.widgets import mechanisms
from lplab.widgets.mechanisms.mechanism import Mechanism, MechanismView

FOLDER = Path(mechanisms.__file__).parent
LINES = 220  # of one mechanism's script, and 3,000 of all together
BYTES = 120_000
EACH = pytest.mark.parametrize("name", mechanisms.MECHANISMS)


@EACH
def test_a_mechanism_is_a_module_and_a_script_of_its_name(name):
    assert (FOLDER / f"{name}.py").exists()
    own = (FOLDER / f"{name}.js").read_text("utf-8")
    assert own.count("export default mechanism({") == 1 and len(own.splitlines()) <= LINES
    assert not re.search(r"https?:|\bimport\b|fetch\(", own), "a mechanism asks for nothing"


def test_all_mechanisms_together_are_small():
    scripts = list(FOLDER.glob("*.js"))
    assert {path.stem for path in scripts} == {"frame", *mechanisms.MECHANISMS}
    assert sum(len(path.read_text("utf-8").splitlines()) for path in scripts) <= 3000


@EACH
def test_what_a_page_gets_is_plain_and_small(name):
    content = mechanisms.MECHANISMS[name].content()
    text = json.dumps(content, allow_nan=False)
    assert json.loads(text) == content and len(text) < BYTES
    assert content["colours"]["vermilion"] == style.VERMILION


@EACH
def test_the_sentence_says_what_to_hold_and_the_colours_are_those_of_the_house(name):
    mechanism = mechanisms.MECHANISMS[name]
    assert re.search(r'<b class="(orange|blue|green)">', mechanism.todo_html) and "*" not in mechanism.todo_html
    assert mechanism.todo.endswith(".") and mechanism.alt.endswith(".")
    own = (FOLDER / f"{name}.js").read_text("utf-8")
    assert set(re.findall(r"#[0-9a-fA-F]{3,6}\b", own)) <= {"#111", "#fff"}, "colours come from figures.style, as data"


def test_a_view_has_the_script_of_its_mechanism():
    view = mechanisms.mechanism("octaves")
    assert isinstance(view, MechanismView) and view._esm == view.mechanism.script
    assert view._esm.index("class Stage") < view._esm.rindex("export default mechanism({")


def test_an_unknown_name_is_answered_with_the_closest():
    with pytest.raises(ValueError, match="there is no mechanism 'octave'; did you mean octaves"):
        mechanisms.mechanism("octave")


def test_an_alternative_text_is_a_sentence():
    with pytest.raises(ValueError, match="full sentences, got 'a line'"):
        Mechanism("line", "A line", "Drag it.", "a line", dict)


@EACH
def test_each_mechanism_stands_in_one_lab(name):
    labs = sorted((FOLDER.parents[2] / "labs").glob("*.ipynb"))
    calls = [path.stem for path in labs for _ in re.findall(rf'mechanism\(\\"{name}\\"\)', path.read_text("utf-8"))]
    assert len(calls) == 1, calls
