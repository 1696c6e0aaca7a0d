"""Labs on a page without a kernel: what a cell shows is written as HTML, and an explorer at the positions that matter.

`install` is run in a lab's kernel before its first cell. From then on widgets and figures are shown as HTML. A figure
becomes a ``div`` with its traces and layout as JSON, which docs/_static/recorded.js draws. An explorer is moved to each
of its presets and to the position of each guided question, and what it shows there is kept: its frames.
"""

import html
import json
from typing import Any

import ipywidgets
from IPython import get_ipython
from IPython.display import display
from plotly.basedatatypes import BaseFigure
from plotly.io.json import to_json_plotly

from lplab.labs.guided import GuidedExplorer, emphasized
from lplab.widgets import BitPanel, Prediction, Veil
from lplab.widgets.controls import ControlGroup
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.live.live_figure import alt_of, heading_of
from lplab.widgets.live.live_run import LiveRun
from lplab.widgets.mechanisms import MechanismView

NOTE = "<p class='lp-note'>{} <code>python3 start.py</code> opens the lab in JupyterLab.</p>"
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
        head = f"{thing.message.value} <b>Show it without a guess</b>"
        thing.lift()
        return f"<details class='lp-veil'><summary>{head}</summary>{shown(thing.children[0])}</details>"
    if isinstance(thing, Prediction):
        choices = "".join(f"<li>{html.escape(choice)}</li>" for choice in thing.choices or ())
        unit = f" The answer is a number of {thing.unit}." if thing.unit and not choices else ""
        note = NOTE.format("Make your guess before you read on.")
        return f"<div class='lp-ask'><p><b>{html.escape(thing.question)}</b>{unit}</p><ul>{choices}</ul>{note}</div>"
    if isinstance(thing, GuidedExplorer):
        return recorded(thing.explorer, thing.questions)
    if isinstance(thing, Explorer):
        return recorded(thing, ())
    if isinstance(thing, LiveRun):
        return shown(thing.figure) + NOTE.format(f"A button, <em>{html.escape(thing.name)}</em>, runs this live.")
    found = leaf(thing)
    return "".join(map(shown, thing.children)) if found is None else slot(*found)


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
        quiet = " lp-quiet" if "lp-quiet" in thing._dom_classes else ""
        heading = " lp-heading" if "lp-heading" in thing._dom_classes else ""
        value = thing.value if isinstance(thing, ipywidgets.HTML) else html.escape(thing.value)
        return ("text", f'<div class="lp-text{quiet}{heading}">{value}</div>') if value else ("text", "")
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
        return f'<div class="lp-mechanism-place">{inside}<noscript>{label}</noscript></div>'
    height = content["layout"].get("height", 360)
    return f'<div class="lp-fig" role="img" aria-label="{label}" style="min-height:{height}px">{inside}</div>'


# ---- explorers -------------------------------------------------------------------------------------------------------


def leaves(widget: Any, hidden: bool = False) -> list[tuple[str, Any]]:
    """The leaves of an explorer, from the top; one that is hidden is an empty text."""
    layout = getattr(widget, "layout", None)  # a figure's is plotly's
    hidden = hidden or (isinstance(layout, ipywidgets.Layout) and layout.display == "none")
    found = leaf(widget)
    if found is not None:
        return [("text", "") if hidden else found]
    return [each for child in widget.children for each in leaves(child, hidden)]


def skeleton(widget: Any, numbers: Any) -> str:
    """The boxes of an explorer as HTML, with a numbered place for each leaf."""
    if leaf(widget) is not None:
        return f'<div data-leaf="{next(numbers)}"></div>'
    names = " ".join(name for name in widget._dom_classes if name in ("lp-columns", "lp-side", "lp-main"))
    return f'<div class="{names}">{"".join(skeleton(child, numbers) for child in widget.children)}</div>'


def recorded(explorer: Explorer, questions: Any) -> str:
    """An explorer at its first position, its presets and the positions of its questions; buttons move between them."""
    start = explorer.position
    positions: dict[str, Any] = {"As it opens": start}
    positions |= {name: explorer.state_at(**_preset(explorer, name)) for name in explorer.preset_fields}
    frames = [frame(explorer, position) for position in positions.values()]
    asked = [explorer.state_at(**question.position) for question in questions]
    frames += [frame(explorer, position) for position in asked]
    explorer.position = start
    if len({len(each) for each in frames}) != 1:
        raise ValueError(f"{type(explorer).__name__} changes what it is made of, so it cannot be recorded")
    # most leaves are the same in many frames: each content is kept once
    pool: dict[str, int] = {}
    places = [[pool.setdefault(json.dumps(each, ensure_ascii=False), len(pool)) for each in one] for one in frames]
    data = f'{{"pool":[{",".join(pool)}],"frames":{json.dumps(places)}}}'.replace("</", "<\\/")
    steps = "".join(
        f"<section class='lp-question'><p><b>Question {k} of {len(questions)}.</b> {emphasized(question.text)}</p>"
        f"<button type='button' data-frame='{len(positions) + k - 1}'>Set the controls</button>"
        f"<details><summary>Show the answer</summary><p>{emphasized(question.answer(position))}</p></details></section>"
        for k, (question, position) in enumerate(zip(questions, asked, strict=True), 1)
    )
    presets = "".join(
        f"<button type='button' data-frame='{k}' aria-pressed='{str(k == 0).lower()}'>{html.escape(name)}</button>"
        for k, name in enumerate(positions)
    )
    note = NOTE.format("This page shows positions that were recorded when it was made. In the lab every control moves.")
    numbers = iter(range(len(frames[0])))
    boxes = "".join(skeleton(child, numbers) for child in explorer.children)
    return (
        f"<div class='lp-recorded'>{f'<div class=lp-guided>{steps}</div>' if steps else ''}{note}"
        f"<div class='lp-presets' role='group' aria-label='positions'>{presets}</div>{boxes}"
        f"<script type='application/json'>{data}</script></div>"
    )


def _preset(explorer: Explorer, name: str) -> dict[str, Any]:
    """What sets a preset, by its name where presets are a list."""
    return {"preset": name} if explorer.no_preset else dict(explorer.preset_fields[name])


def frame(explorer: Explorer, position: Any) -> list[tuple[str, Any]]:
    """What an explorer shows at a position."""
    explorer.position = position
    return [each for child in explorer.children for each in leaves(child)]
