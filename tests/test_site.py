"""What the site is made from: recorded explorers, and pictures that show what the labs show."""

import html
import importlib
import importlib.util
import json
import re
import runpy
from pathlib import Path
from types import ModuleType

import pytest

from tests.kinds import one_in_three

PROJECT = Path(__file__).parents[1]
NUMBERS = [f"{number:02d}" for number in range(15)]


@pytest.fixture(scope="module")
def recorded() -> ModuleType:
    pytest.importorskip("ipywidgets")
    spec = importlib.util.spec_from_file_location("recorded", PROJECT / "docs/_ext/recorded.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("formula", [r"\frac12", r"\tfrac18(x)", r"\frac 34"])
def test_a_short_fraction_has_one_digit_above_and_one_below(formula):
    nodes = pytest.importorskip("docutils.nodes")
    mathml = runpy.run_path(str(PROJECT / "docs/_ext/mathml.py"))["_mathml"]
    above, below = re.findall(r"\d", formula)
    assert re.search(rf"<mfrac[^>]*>\s*<mn>{above}</mn>\s*<mn>{below}</mn>\s*</mfrac>", mathml(nodes.math("", formula)))


def test_a_control_is_shown_as_its_label_and_its_value(recorded):
    import ipywidgets

    list_ = ipywidgets.Dropdown(options=[("two bits", 2), ("four <bits>", 4)], value=4, description="width")
    box = ipywidgets.VBox([list_, ipywidgets.Checkbox(True, description="clip"), ipywidgets.Button(description="Go")])
    assert re.sub("<[^>]*>", "|", recorded.shown(box)) == "||width| |four &lt;bits&gt;||||clip| |on||"


def test_what_cannot_be_shown_is_refused(recorded):
    import ipywidgets

    with pytest.raises(TypeError, match="cannot show a Video"):
        recorded.shown(ipywidgets.Video())


def test_a_veil_hides_what_it_hides_and_keeps_its_question(recorded):
    from lplab.widgets import Veil
    from lplab.widgets.controls import line

    shown = recorded.shown(Veil(lambda: line("55 codes"), "How many codes?"))
    assert shown.startswith("<details") and " open" not in shown.partition(">")[0]
    assert shown.index("How many codes?") < shown.index("</summary>") < shown.index("55 codes")


@pytest.mark.parametrize("number", one_in_three(NUMBERS[1:]))
def test_an_explorer_is_recorded_at_its_presets_and_questions(recorded, number):
    for make, questions in importlib.import_module(f"lplab.labs.lab{number}").GUIDED:
        explorer = make()
        start = explorer.position
        page = recorded.recorded(explorer, questions)
        data = json.loads(page.rpartition("<script type='application/json'>")[2].removesuffix("</script></div>"))
        assert len(data["frames"]) == 1 + len(explorer.preset_fields) + len(questions)
        assert {key for frame in data["frames"] for key in frame} == set(range(len(data["pool"])))
        assert page.count("data-leaf=") == len(data["frames"][0])
        asked = data["frames"][-len(questions) :]
        assert len({tuple(frame) for frame in asked}) > 1 or len(questions) == 1, "the questions' positions differ"
        for question in questions:
            answer = question.answer(explorer.state_at(**question.position))
            assert html.escape(answer[:20], quote=False).split("*")[0] in page
        assert explorer.position == start


@pytest.mark.parametrize("number", one_in_three(NUMBERS))
def test_the_picture_of_a_lab_shows_what_the_lab_shows(number):
    pictures = runpy.run_path(str(PROJECT / "docs/pictures.py"))
    stored = json.loads(pictures["SHOWN"].read_text("utf-8"))
    assert (pictures["LABS"] / f"lab{number}.png").read_bytes().startswith(b"\x89PNG")
    assert stored[f"lab{number}.png"] == pictures["digest"](pictures["lab_figure"](number)), "python docs/pictures.py"


def test_a_digest_changes_with_what_is_shown_and_not_with_its_last_digits():
    go = pytest.importorskip("plotly.graph_objects")
    digest = runpy.run_path(str(PROJECT / "docs/pictures.py"))["digest"]
    one, same, other = (digest(go.Figure(go.Scatter(y=[1.0, y]))) for y in (2.0, 2.0 + 1e-9, 2.1))
    assert one == same != other


# ---- drawings of arrows ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawings() -> ModuleType:
    spec = importlib.util.spec_from_file_location("drawings", PROJECT / "docs/_ext/drawings.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn_texts() -> list[str]:
    text = (PROJECT / "docs/architecture.md").read_text("utf-8")
    return re.findall(r"^```mermaid\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_a_drawing_has_every_name_once_and_every_arrow(drawings):
    assert len(drawn_texts()) >= 2
    for text in drawn_texts():
        shown = drawings.as_svg(text)
        names = {name for line in text.splitlines()[1:] for name in line.split(" --> ") for name in [name.strip()]}
        assert sorted(re.findall(r"<text[^>]*>(\w+)</text>", shown)) == sorted(names)
        assert shown.count("<path") == text.count(" --> ") + 1, "one for each arrow, and the head of all"
        assert shown.count(" imports ") == text.count(" --> ") and "\n" not in shown


def test_no_box_of_a_drawing_covers_another_and_every_arrow_goes_down(drawings):
    for text in drawn_texts():
        shown = drawings.as_svg(text)
        numbers = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', shown)
        boxes = [tuple(map(float, found)) for found in numbers]
        for k, (x, y, width, height) in enumerate(boxes):
            for left, top, wide, high in boxes[:k]:
                assert x + width <= left or left + wide <= x or y + height <= top or top + high <= y
        for path in re.findall(r'<path d="(M[^"]+)"/><?', shown.partition("</defs>")[2]):
            points = [float(y) for _, y in re.findall(r"([\d.-]+) ([\d.-]+)", path)]
            assert points == sorted(points) and points[-1] > points[0]


def test_an_arrow_past_a_row_goes_between_its_boxes(drawings):
    rows, parts = drawings.layered([("a", "b"), ("b", "c"), ("a", "c")])
    assert rows == [["a"], ["b", "a>c:1"], ["c"]] and parts == [["a", "b"], ["b", "c"], ["a", "a>c:1", "c"]]
    x = drawings.places(rows, parts)
    assert abs(x["b"] - x["a>c:1"]) >= (drawings.width_of("b") + 2) / 2 + drawings.GAP - 1e-9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph LR\n a --> b", "begins with 'flowchart TD'"),
        ("flowchart TD", "begins with 'flowchart TD' and has an arrow"),
        ("flowchart TD\n a -- text --> b", "only lines such as 'a --> b' can be drawn, not 'a -- text --> b'"),
        ("flowchart TD\n a --> b\n b --> c\n c --> a", "the arrows go in a circle: a, b, c"),
        ("flowchart TD\n a --> a", "the arrows go in a circle: a"),
    ],
)
def test_what_cannot_be_drawn_is_said(drawings, text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        drawings.as_svg(text)
