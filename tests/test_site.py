"""What the site is made from: recorded explorers, and pictures that show what the labs show."""

import base64
import gzip
import importlib
import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.kinds import one_in_three

PROJECT = Path(__file__).parents[1]
NUMBERS = [f"{number:02d}" for number in range(17)]


@pytest.fixture(scope="module")
def recorded() -> Iterator[ModuleType]:
    """The module docs/_ext/recorded.py, beside which moves.py lies."""
    pytest.importorskip("ipywidgets")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROJECT / "docs/_ext"))
        yield importlib.import_module("recorded")


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


@pytest.mark.parametrize(
    ("inside", "kind"),
    [("<table></table>", "A table"), ('<div class="lplab-cards"></div>', "A published claim"), ("55", "What came out")],
)
def test_a_veil_says_what_it_hides(recorded, inside, kind):
    import ipywidgets

    from lplab.widgets import Veil

    summary = recorded.shown(Veil(lambda: ipywidgets.HTML(inside), "How many codes?")).partition("</summary>")[0]
    assert f"<b>{kind}" in summary and "How many codes?" in summary


def test_a_veil_never_hides_a_figure(recorded):
    import plotly.graph_objects as go

    from lplab.widgets import Veil

    shown = recorded.shown(Veil(go.Figure(go.Scatter(y=[1, 2])), "Does it rise?"))
    assert 'class="lp-fig"' in shown and "<details" not in shown


@pytest.mark.parametrize(("choices", "answer"), [(("half", "most"), "most"), (None, 12.5)])
def test_a_guess_is_a_field_and_only_the_answer_is_folded(recorded, choices, answer):
    from lplab.widgets import Prediction

    asked = Prediction("How many?", choices, answer=answer, unit="" if choices else "%", because="It is so.")
    before, _, folded = recorded.shown(asked).partition("<details")
    assert before.count("<input") == (2 if choices else 1) and str(answer) not in re.sub("<form.*</form>", "", before)
    assert f"It is: {answer}" in folded and "It is so." in folded and " open" not in folded.partition(">")[0]


# ---- what is recorded of an explorer ---------------------------------------------------------------------------------


def leaf_of(recording: dict, frame: int, number: int) -> list:
    """Kind and content of a leaf, from the parts of a recording."""
    row = dict(enumerate(recording["base"]))
    changes = recording["frames"][frame]
    row |= dict(zip(changes[::2], changes[1::2], strict=True))
    whole: dict = {}
    for k, (leaf, *path) in enumerate(recording["paths"]):
        if leaf == number and row[k] >= 0:
            inside = whole
            for name in path[:-1]:
                inside = inside.setdefault(name, {})
            inside[path[-1]] = recording["pool"][row[k]]
    return [whole["kind"], whole["content"]]


def as_parts(recorded: ModuleType, leaf: tuple) -> dict:
    """A leaf as its parts, its arrays as short as in a recording."""
    kind, content = leaf
    parts = {str(path): recorded.moves.shorter(value) for path, value in recorded.moves.parts_of(content)}
    return json.loads(json.dumps({"kind": kind} | parts))


@pytest.fixture(scope="module")
def recording(recorded) -> tuple:
    """The page of lab 10's explorer, a new explorer, its questions, and the recording."""
    make, questions = importlib.import_module("lplab.labs.lab10").GUIDED[0]
    explorer = make()
    start = explorer.position
    page = recorded.recorded(explorer, questions)
    assert explorer.position == start
    packed = re.search(r"<script type='application/gzip'>(.*?)</script>", page)
    assert packed
    return page, explorer, questions, json.loads(gzip.decompress(base64.b64decode(packed[1])))


def shown_at(recorded: ModuleType, explorer) -> list:
    """The leaves of an explorer as it stands that are no controls, as their parts."""
    controls = {id(each): (k, "") for k, each in enumerate(recorded.moves.controls_of(explorer))}
    leaves = recorded.leaves(explorer, controls)
    return [as_parts(recorded, leaf) if leaf[0] != "control" else None for leaf in leaves]


def stored_at(recorded: ModuleType, recording: dict, frame: int) -> list:
    """The same of a frame of a recording."""
    leaves = [leaf_of(recording, frame, k) for k in range(1 + max(path[0] for path in recording["paths"]))]
    return [as_parts(recorded, leaf) if leaf[0] != "control" else None for leaf in leaves]


def test_buttons_and_questions_lead_to_frames_that_show_what_python_shows(recorded, recording):
    page, explorer, questions, data = recording
    buttons = list(map(int, re.findall(r"data-frame='(\d+)'", page)))
    assert len(buttons) == len(questions) + 1 + len(explorer.preset_fields)
    asked = [explorer.state_at(**question.position) for question in questions]
    presets = [explorer.state_at(**fields) for fields in explorer.preset_fields.values()]
    for frame, position in zip(buttons, [*asked, explorer.position, *presets], strict=True):
        new = type(explorer)()
        new.position = position
        assert stored_at(recorded, data, frame) == shown_at(recorded, new)


def test_a_guided_question_has_a_field_and_its_answer_is_folded(recording):
    page, _, questions, _ = recording
    sections = re.findall(r"<section class='lp-question'.*?</section>", page, re.DOTALL)
    assert len(sections) == len(questions)
    for section, question in zip(sections, questions, strict=True):
        before, _, answer = section.partition("<details class='lp-answer'>")
        choices = len(question.guess) if isinstance(question.guess, tuple) else bool(question.guess)
        assert before.count("name='guess'") == choices and "Show the answer" in answer


def test_a_recorded_move_shows_what_the_same_move_shows_in_python(recorded, recording):
    page, explorer, _, data = recording
    first = int(re.findall(r"lp-presets.*?data-frame='(\d+)'", page)[0])
    names = [each.description for each in recorded.moves.controls_of(explorer)]
    assert {"learners", "one sent of", "beta", "learning rate"} <= set(names)
    moved = 0
    for number, frames in data["moves"][str(first)].items():
        for place, frame in enumerate(frames):
            new = type(explorer)()
            new.position = explorer.position
            control = list(recorded.moves.controls_of(new))[int(number)]
            control.index = place
            assert stored_at(recorded, data, frame) == shown_at(recorded, new), (control.description, place)
            moved += 1
    assert moved == sum(len(each.options) for each in recorded.moves.controls_of(explorer))


def test_a_slider_that_shows_no_number_has_places_that_differ(recorded):
    import ipywidgets

    slider = ipywidgets.FloatSlider(min=-1, max=1, step=1, readout=False, description="bias 15")
    frames = []
    for value in (0, 1, -1):
        slider.value = value
        frames.append([recorded.moves.control_leaf(slider, 0)])
    recorded.moves.finish_sliders(frames)
    contents = [content for [(_, content)] in frames]
    assert [content["options"][content["at"]] for content in contents] == ["0.00", "1.00", "\N{MINUS SIGN}1.00"]
    assert all(content["silent"] for content in contents)


def test_numbers_that_look_alike_are_refused(recorded):
    import ipywidgets

    slider = ipywidgets.FloatSlider(min=0, max=1, step=0.001, readout_format=".1f", description="rate")
    frames = []
    for value in (0.001, 0.002):
        slider.value = value
        frames.append([recorded.moves.control_leaf(slider, 0)])
    with pytest.raises(ValueError, match=r"rate: \.1f writes two of its numbers alike"):
        recorded.moves.finish_sliders(frames)


def test_a_frame_that_refuses_its_controls_is_known_as_such(recorded):
    from lplab.widgets import FormatExplorer

    explorer = FormatExplorer(preset="dlfloat16")
    recorder = recorded.moves.Recorder(explorer, list)
    first = recorder.at(explorer.position)
    names = [control.description for control in recorder.controls]
    subnormals = names.index("subnormals")
    recorder.around(first, explorer.position, [subnormals])
    assert recorder.refused == [recorder.moves[first][subnormals][True]]


def test_a_formula_on_lines_of_its_own_is_a_paragraph_of_its_own():
    for path in sorted((PROJECT / "labs").glob("*.ipynb")):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown":  # inside of a paragraph, a page would show the dollars
                assert not re.search(r"[^\n]\n\$\$|\$\$\n[^\n]", re.sub(r"(?s)\$\$\n(.*?)\n\$\$", r"$$\1$$", text)), (
                    path.name,
                    text,
                )


def test_every_two_controls_are_recorded_together_around_the_first_position(recording):
    _, _, _, data = recording
    moves = data["moves"]
    for one in moves["0"]:
        for other in set(moves["0"]) - {one}:
            from_one, from_other = (
                all(b in moves.get(str(frame), ()) for frame in moves["0"][a]) for a, b in ((one, other), (other, one))
            )
            assert from_one or from_other


def test_a_sample_of_feedback_on_the_teaching_page_is_what_a_check_says():
    from lplab.exercises.checks.judge import judge
    from lplab.exercises.isolation.answers import Answer
    from lplab.exercises.model import exercise_catalogue

    exercise = exercise_catalogue.get("05.1")
    mistake = next(each for each in exercise.mistakes if each.name == "the total is kept in full precision")
    verdict = judge(exercise, Answer(mistake.apply(exercise.solution), exercise.name))
    text = " ".join((PROJECT / "docs/teaching.md").read_text("utf-8").replace("\n> ", " ").split())
    assert " ".join(verdict.text.split()) in text
    assert f"| bob | {verdict.points:g} |" in text


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


@pytest.fixture
def build_site(recorded, monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "docs/_ext"))
    return importlib.import_module("build_site")


def test_a_lab_opens_elsewhere_where_the_repository_is_named(build_site, monkeypatch, tmp_path):
    name = build_site.LABS[1].name
    monkeypatch.delenv("LPLAB_REPOSITORY", raising=False)
    build_site.files_for_colab(tmp_path / "none")
    assert build_site.open_elsewhere(name) == "" and not (tmp_path / "none").exists()
    monkeypatch.setenv("LPLAB_REPOSITORY", "Ada/lplab")
    monkeypatch.delenv("LPLAB_SITE", raising=False)
    said = build_site.open_elsewhere(name)
    assert f"https://colab.research.google.com/github/Ada/lplab/blob/colab/{name}" in said
    assert f"mybinder.org/v2/gh/Ada/lplab/HEAD?urlpath=lab/tree/labs/{name}" in said and f'"../colab/{name}"' in said
    build_site.files_for_colab(tmp_path / "colab")
    assert sorted(path.name for path in (tmp_path / "colab").iterdir()) == [lab.name for lab in build_site.LABS]
    book = json.loads((tmp_path / "colab" / name).read_text("utf-8"))
    sources = ["".join(cell["source"]) for cell in book["cells"]]
    assert '"lplab[colab] @ git+https://github.com/Ada/lplab"' in sources[1]
    assert any("https://ada.github.io/lplab/docs/glossary.html#" in source for source in sources)


def test_a_claim_with_a_larger_experiment_is_folded_whole(build_site):
    text = (
        "# Claims\n\nWords.\n\nOf 2 claims: 2 shown. 1 of these claims has a larger run, too: 1 not shown.\n\n| a |\n\n"
        '## The claims one by one\n\n<a id="one"></a>\n\n### One\n\n**Small: shown.**\n\n'
        "**At a larger size: not shown.**"
        '\n\n*Ours:* 1.\n\n<a id="one_large"></a>\n\n<details>\nmore\n</details>\n\n<a id="two"></a>\n\n### Two\n\n'
        "**Shown.**\n\n*Ours:* 2."
    )
    folded = build_site.folded_claims(text)
    first, second = folded.split('<a id="two"></a>')
    assert "<summary>Small: shown. At a larger size: not shown.</summary>" in first
    assert first.rstrip().endswith("</details>\n\n</details>"), "the larger experiment is in the fold of its claim"
    assert "<summary>Shown.</summary>\n\n*Ours:* 2.\n\n</details>" in second
