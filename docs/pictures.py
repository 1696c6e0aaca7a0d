"""Make the pictures of the documentation, from numbers that lplab computes.

python docs/pictures.py          records the mechanism that the README shows, and draws in pictures/ one PNG for each
                                 lab, all where what they show has changed (needs a browser)

What a picture shows is kept in pictures/shown.json, as a digest: a test says which of them are old.
"""

import hashlib
import importlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
LABS = FOLDER / "pictures"
SHOWN = LABS / "shown.json"
NUMBERS = [f"{number:02d}" for number in range(17)]
MOVING = "register"  # the mechanism that the README shows
WIDTH, SCALE = 640, 1.5  # pixels of the page, and of the picture for each of them


def frames(page: Any) -> list[tuple[bytes, int]]:
    """Pictures of the mechanism on a page while it is used, as PNG, each with the milliseconds that it stays."""
    one = page.locator(".lp-mechanism")
    step, empty, end = (one.get_by_role("button", name=name, exact=True) for name in ("Step", "Empty", "To the end"))
    found = []

    def take(milliseconds: int) -> None:
        page.wait_for_timeout(400)  # what glides has arrived
        found.append((one.screenshot(), milliseconds))

    empty.click()
    take(1200)
    for added in range(1, 21):  # the register stops at 16
        step.click()
        if added % 2 == 0:
            take(500)
    end.click()
    take(3500)
    one.get_by_role("slider").focus()
    for _ in range(7):  # chunks of 8
        page.keyboard.press("ArrowRight")
    empty.click()
    take(1200)
    for added in range(1, 73):  # 64 ones, and 8 times a chunk that goes to the total
        step.click()
        if added % 9 in (4, 8, 0):
            take(400)
    take(4500)
    return found


def record() -> None:
    """Record the mechanism of the README: a WebP that moves, and a PNG of its end for those who want no movement."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    from lplab.widgets.mechanisms import mechanism

    sys.path.insert(0, str(FOLDER.parent))
    from tests.browser.lab import find_browser

    view = mechanism(MOVING)
    draw = """async ([script, content]) => {
      const module = await import(URL.createObjectURL(new Blob([script], {type: "text/javascript"})));
      module.default.render({model: {get: () => content}, el: document.getElementById("one")});
    }"""
    still = "body { margin: 8px; background: #fff; } .lp-arrows { animation: none !important; }"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 600}, device_scale_factor=SCALE)
        page.set_content(f"<!doctype html><meta charset=utf-8><style>{view._css}{still}</style><div id=one></div>")
        page.evaluate(draw, [view.mechanism.script, view.content])
        taken = frames(page)
        browser.close()
    pictures = [Image.open(io.BytesIO(each)).convert("RGB") for each, _ in taken]
    stay = [milliseconds for _, milliseconds in taken]
    path = FOLDER / f"{MOVING}.webp"
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=stay, loop=0, lossless=True, method=6)
    pictures[-1].save(path.with_suffix(".png"), optimize=True)
    print(path)


def content_digest() -> str:
    """What the mechanism of the README is drawn from, in 16 digits."""
    from lplab.widgets.mechanisms import MECHANISMS

    return hashlib.sha256(json.dumps(MECHANISMS[MOVING].content(), sort_keys=True).encode()).hexdigest()[:16]


def lab_figure(number: str) -> Any:
    """The figure that the first question of a lab's explorer asks about, there; of lab 00, its format on a line.

    It is one panel, as all of an explorer would be too small to read.
    """
    import plotly.graph_objects as go

    from lplab import figures

    guided = importlib.import_module(f"lplab.labs.lab{number}").GUIDED
    if not guided:
        line = figures.number_line("e4m3fn")
        line.layout.annotations = ()  # they would lie over the bars
        return line
    make, questions = guided[0]
    explorer = make()
    explorer.take_apart()
    explorer.set(**questions[0].position)
    return go.Figure(explorer.figures[questions[0].figure].to_dict())


def digest(figure: Any) -> str:
    """What a figure shows, in 16 digits: its traces and axes, numbers to three digits, so that machines agree."""
    parts = figure.to_dict()
    parts["layout"] = {name: value for name, value in parts["layout"].items() if name != "template"}
    return hashlib.sha256(json.dumps(_rounded(parts), sort_keys=True).encode()).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict) and "bdata" in value:  # plotly's form of an array
        import base64

        return _rounded(np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"]).tolist())
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items() if name != "uid"}
    if isinstance(value, list | tuple | np.ndarray):
        return [_rounded(each) for each in value]
    return f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)


def draw_all() -> None:
    """Draw the pictures of those mechanisms and explorers that show something else than when they were drawn."""
    from lplab.figures import export

    LABS.mkdir(exist_ok=True)
    shown = json.loads(SHOWN.read_text("utf-8")) if SHOWN.exists() else {}
    for number in NUMBERS:
        figure, path = lab_figure(number), LABS / f"lab{number}.png"
        if shown.get(path.name) != (now := digest(figure)) or not path.exists():
            figure.update_layout(title_text="", showlegend=False, margin_t=12)
            print(export(figure, path, width=520, scale=1))
            shown[path.name] = now
    if shown.get(MOVING) != (now := content_digest()):
        record()
        shown[MOVING] = now
    SHOWN.write_text(json.dumps(shown, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    draw_all()
