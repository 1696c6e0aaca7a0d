"""Labs on a page without a kernel: what a cell shows is written as HTML, and an explorer at the positions that matter.

`install` is run in a lab's kernel before its first cell. From then on widgets and figures are shown as HTML. A figure
becomes a ``div`` with its traces and layout as JSON, which docs/_static/recorded.js draws. An explorer is moved around
each of its presets and the position of each guided question, and what it shows there is recorded: docs/_ext/moves.py.
"""

import html
import json
from collections.abc import Sequence
from typing import Any

import ipywidgets
import moves
from IPython import get_ipython
from IPython.display import display
from plotly.basedatatypes import BaseFigure
from plotly.io.json import to_json_plotly

from lplab.figures.stacked import TITLES
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, emphasized
from lplab.widgets import BitPanel, Prediction, Veil
from lplab.widgets.controls import ControlGroup
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.live.live_figure import alt_of, heading_of
from lplab.widgets.live.live_run import LiveRun
from lplab.widgets.mechanisms import MechanismView
from lplab.widgets.prediction import short_number

NOTE = "<p class='lp-note'>{} <code>python3 start.py</code> opens the lab in JupyterLab.</p>"
PICTURES = ("lp-fig", "lp-recorded", "lp-mechanism-place", "lp-panel")
LIVE_SECONDS = 30  # that a live run may take; on a page one stands that has ended
SILENT = (ipywidgets.Button, ControlGroup, ipywidgets.FileUpload, ipywidgets.IntProgress)


def install() -> None:
    """Show widgets and figures as HTML in this kernel."""
    formatters = get_ipython().display_formatter  # type: ignore[no-untyped-call]
    formatters.mimebundle_formatter.for_type(
        ipywidgets.Widget, lambda widget, **_: {"text/html": shown(widget), "text/plain": type(widget).__name__}
    )
    formatters.ipython_display_formatter.for_type(
        BaseFigure,
        lambda figure: display({"text/html": shown(figure), "text/plain": alt_of(figure.layout.meta)}, raw=True),
    )


def shown(thing: Any) -> str:
    """A widget or a figure as HTML.

    >>> shown(ipywidgets.HTML("<b>8</b> bits"))
    '<div class="lp-text"><b>8</b> bits</div>'
    """
    if isinstance(thing, Veil):
        question = thing.message.value.removeprefix("Guess first: ")
        thing.lift()
        inside = shown(thing.children[0])
        key = html.escape(question_key(html.unescape(question)), quote=True)
        if inside.startswith("<div class='lp-recorded'>"):  # it opens where the answer is seen
            note = (
                "<p class='lp-note lp-waits'>Titles and sentences wait for your guess, or until you move a control.</p>"
            )
            return f"<div class='lp-covered' data-question=\"{key}\">{note}{inside}</div>"
        if any(f'class="{name}' in inside.replace("'", '"') for name in PICTURES):
            return inside  # a figure stands open: what a guess hides is an answer in words and numbers
        kinds = (("lplab-card", "A published claim that answers"), ("<table", "A table that answers"))
        kind = next((words for sign, words in kinds if sign in inside), "What came out")
        head = f"<b>{kind}:</b> {question}"
        return f"<details class='lp-veil' data-question=\"{key}\"><summary>{head}</summary>{inside}</details>"
    if isinstance(thing, Prediction):
        return guess(thing)
    if isinstance(thing, GuidedExplorer):
        thing.screen.cover(False)  # a page folds answers, never what a figure shows
        return recorded(thing.explorer, thing.questions)
    if isinstance(thing, Explorer):
        return recorded(thing, ())
    if isinstance(thing, LiveRun):
        note = f"In the lab, the button <em>{html.escape(thing.name)}</em> runs this live, with your numbers."
        return f"{shown(thing.figure) if has_run(thing) else ''}<p class='lp-note'>{note}</p>"
    found = leaf(thing)
    return "".join(map(shown, thing.children)) if found is None else slot(*found)


def question_key(question: str) -> str:
    """The words of a question, by which a page finds what waits for a guess at it."""
    return " ".join(question.split())


def guess(asked: Prediction) -> str:
    """A question with a field for a guess, which the browser keeps, and the answer folded behind it."""
    key = html.escape(question_key(asked.question), quote=True)
    truth = asked._truth()
    answer = truth if isinstance(truth, str) else f"{short_number(truth)} {asked.unit}".strip()
    said = f"It is: {html.escape(answer)}. {html.escape(asked.because)}".strip()
    return (
        f"<div class='lp-ask' data-question=\"{key}\"><p><b>{html.escape(asked.question)}</b></p>"
        f"{guess_form(asked.choices or asked.unit)}"
        f"<details class='lp-answer'><summary>The answer</summary>"
        f"<p><span class='lp-said'></span>{said}</p></details></div>"
    )


def guess_form(wanted: str | Sequence[str]) -> str:
    """The fields of a guess: one of several answers, or a number with this unit."""
    if isinstance(wanted, str):
        box = "<input type='text' inputmode='decimal' name='guess' placeholder='your guess' required>"
        field = f"<label>{box} {html.escape(wanted)}</label>"
    else:
        choice = "<label><input type='radio' name='guess' value=\"{0}\" required> {1}</label>"
        field = "".join(choice.format(html.escape(each, quote=True), html.escape(each)) for each in wanted)
    return f"<form class='lp-guess'>{field}<button>Keep my guess</button></form>"


def has_run(run: LiveRun) -> bool:
    """Run a live run; whether it has come to its end within `LIVE_SECONDS`."""
    if run.state == "ready":
        run.start()
    try:
        run.wait(LIVE_SECONDS)
    except TimeoutError:
        run.stop()
        run.wait()
    return run.state == "finished"


# ---- what a page can show --------------------------------------------------------------------------------------------


def leaf(thing: Any) -> tuple[str, Any] | None:
    """Kind and content of something that holds no other widgets; None for a box. Content is text or plain data."""
    if isinstance(thing, BaseFigure):
        return "figure", figure_data(thing)
    if isinstance(thing, BitPanel):
        table = bytes(thing.table).hex()
        return "panel", {"format_spec": thing.format_spec, "table": table, "pattern": thing.pattern, "note": thing.note}
    if isinstance(thing, MechanismView):
        return "mechanism", thing.content
    if isinstance(thing, SILENT):
        return "text", ""
    if isinstance(thing, ipywidgets.Box):
        return None
    if isinstance(thing, ipywidgets.HTML | ipywidgets.Label):
        names = "".join(f" {name}" for name in ("lp-quiet", "lp-heading", "lp-error") if name in thing._dom_classes)
        value = thing.value if isinstance(thing, ipywidgets.HTML) else html.escape(thing.value)
        return ("text", f'<div class="lp-text{names}">{value}</div>') if value else ("text", "")
    if isinstance(thing, ipywidgets.Text):
        name = html.escape(thing.description or thing.placeholder)
        return "text", f'<div class="lp-setting"><span>{name}</span> <output>needs JupyterLab</output></div>'
    if hasattr(thing, "value") and hasattr(thing, "description"):
        return "text", setting(thing)
    raise TypeError(f"a page without a kernel cannot show a {type(thing).__name__}")


def setting(control: Any) -> str:
    """A control's label and value.

    >>> setting(ipywidgets.IntSlider(64, max=99, description="chunk"))
    '<div class="lp-setting"><span>chunk</span> <output>64</output></div>'
    """
    value = control.value
    if isinstance(value, bool):
        text = "on" if value else "off"
    elif hasattr(control, "label"):
        text = str(control.label)  # of a list of options
    elif hasattr(control, "base"):  # a slider on a logarithmic scale
        text = f"{value:.4g}"
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    if not text:
        return ""
    name = html.escape(str(control.description or control.tooltip or ""))
    return f'<div class="lp-setting"><span>{name}</span> <output>{html.escape(text)}</output></div>'


def figure_data(figure: Any) -> dict[str, Any]:
    """Traces, layout, heading and alternative text of a figure, as plain data."""
    data = json.loads(to_json_plotly(figure.to_dict()))
    layout = data["layout"]
    heading = heading_of(layout)
    if heading and "title" in layout:  # where panels have titles of their own, the figure has none
        layout["title"]["text"] = ""
    for trace in data["data"]:
        trace.pop("uid", None)  # by chance
        if heading and trace.get("name") == TITLES:
            trace["visible"] = False  # they are text of the page
    return {"data": data["data"], "layout": layout, "heading": heading, "alt": alt_of(layout.pop("meta", None))}


def slot(kind: str, content: Any) -> str:
    """The place of a leaf on the page, with its content."""
    if kind == "text":
        return str(content)
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    label = html.escape(content.get("alt") or "", quote=True)
    inside = f'<script type="application/json">{data}</script>'
    if kind == "panel":
        return f'<div class="lp-panel">{inside}</div>'
    if kind == "mechanism":
        place = f'class="lp-mechanism-place" id="mechanism-{content["name"]}"'
        return f"<div {place}>{inside}<noscript>{label}</noscript></div>"
    height = content["layout"].get("height", 360)
    return f'<div class="lp-fig" role="img" aria-label="{label}" style="min-height:{height}px">{inside}</div>'


# ---- explorers -------------------------------------------------------------------------------------------------------


def leaf_widgets(widget: Any, hidden: bool = False) -> list[tuple[Any, bool]]:
    """The widgets of an explorer that hold no others, from the top, and whether each, or a box around it, is hidden."""
    layout = getattr(widget, "layout", None)  # a figure's is plotly's
    hidden = hidden or (isinstance(layout, ipywidgets.Layout) and layout.display == "none")
    if leaf(widget) is not None:
        return [(widget, hidden)]
    return [each for child in widget.children for each in leaf_widgets(child, hidden)]


def leaves(explorer: Any, controls: dict[int, tuple[int, str]]) -> list[tuple[str, Any]]:
    """What an explorer shows, from the top; what is hidden is an empty text.

    Args:
        explorer: as it stands.
        controls: by their id, the number of each control that moves, and its unit.
    """

    def shown_leaf(widget: Any) -> tuple[str, Any]:
        if id(widget) in controls:
            return moves.control_leaf(widget, *controls[id(widget)])
        return leaf(widget) or ("text", "")

    return [("text", "") if hidden else shown_leaf(widget) for widget, hidden in leaf_widgets(explorer)]


def skeleton(widget: Any, numbers: Any, says: Sequence[Any] = ()) -> str:
    """The boxes of an explorer as HTML, with a numbered place for each leaf; what says a point is marked."""
    if leaf(widget) is not None:
        return f'<div data-leaf="{next(numbers)}"{" data-says" if widget in says else ""}></div>'
    names = " ".join(name for name in widget._dom_classes if name in ("lp-columns", "lp-side", "lp-main", "lp-row"))
    return f'<div class="{names}">{"".join(skeleton(child, numbers, says) for child in widget.children)}</div>'


def recorded(explorer: Explorer, questions: Any) -> str:
    """An explorer as it opens. Its controls move over what was recorded around its presets and its questions.

    The recording stands in the page as gzipped text; docs/_ext/build_site.py makes a file of it.
    """
    units = explorer._control_group.units
    numbered = {id(each): (k, units.get(each.description, "")) for k, each in enumerate(moves.controls_of(explorer))}
    positions: dict[str, Any] = {"As it opens": explorer.position}
    positions |= {name: explorer.state_at(**_preset(explorer, name)) for name in explorer.preset_fields}
    asked = [explorer.state_at(**question.position) for question in questions]
    recording, first, numbers = moves.record(
        explorer,
        [*positions.values(), *asked],
        lambda: leaves(explorer, numbered),
    )
    data = json.dumps({"leaves": first}, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    steps = "".join(
        f"<section class='lp-question' data-question=\"{html.escape(question_key(question.text), quote=True)}\" "
        f"{needed(explorer, question, numbered)}>"
        f"<p><b>Question {k} of {len(questions)}.</b> {emphasized(question.text)}</p>"
        f"{guess_form(question.guess) if question.guess else ''}"
        f"<button type='button' data-frame='{number}'>Set the controls</button>"
        f"<details class='lp-answer'><summary>Show the answer</summary>"
        f"<p><span class='lp-said'></span>{emphasized(question.answer(position))}</p></details></section>"
        for k, (question, position, number) in enumerate(
            zip(questions, asked, numbers[len(positions) :], strict=True), 1
        )
    )
    presets = "".join(
        f"<button type='button' data-frame='{number}' aria-pressed='{str(k == 0).lower()}'>{html.escape(name)}</button>"
        for k, (name, number) in enumerate(zip(positions, numbers, strict=False))
    )
    places = iter(range(len(first)))
    says = [explorer.summary, *([explorer.table] if explorer.table_heads else [])]
    boxes = "".join(skeleton(child, places, says) for child in explorer.children)
    return (
        f"<div class='lp-recorded'>{f'<div class=lp-guided>{steps}</div>' if steps else ''}"
        f"<div class='lp-presets' role='group' aria-label='positions'>{presets}</div>"
        f"<p class='lp-told lp-quiet' role='status'></p>{boxes}"
        f"<script type='application/json'>{data}</script>"
        f"<script type='application/gzip'>{moves.packed(recording)}</script></div>"
    )


def needed(explorer: Explorer, question: GuidedQuestion, numbered: dict[int, tuple[int, str]]) -> str:
    """Which controls and which figure a question needs, as attributes: numbers of controls, the number of a leaf."""
    widgets = [each for name in question.controls for part in explorer.parts[name] for each, _ in leaf_widgets(part)]
    controls = " ".join(str(numbered[id(each)][0]) for each in widgets if id(each) in numbered)
    figure = explorer.figures.get(question.figure) or next(iter(explorer.figures.values()))
    places = [widget for widget, _ in leaf_widgets(explorer)]
    return f"data-controls='{controls}' data-figure='{next(k for k, each in enumerate(places) if each is figure)}'"


def _preset(explorer: Explorer, name: str) -> dict[str, Any]:
    """What sets a preset, by its name where presets are a list."""
    return {"preset": name} if explorer.no_preset else dict(explorer.preset_fields[name])
