"""How fast explorers answer in a browser, in units of an empty round trip measured beside them on the same page.

``python -m benchmarks explorers`` (``--explorers SumExplorer --steps 8`` for a part); it needs a Chromium
(``LPLAB_BROWSER``), playwright and JupyterLab, and counts among the parts only when it is asked for by name. The empty
round trip is a slider whose value Python writes into a label. A step is an arrow key on a slider, from the key to the
frame that shows the last change; steps of explorer and empty slider alternate. The drag moves the handle along the
track and back for two seconds, as often as it must to pass 20 places a second: a slider with four places goes to and
fro faster than one with a hundred. The median of three drags counts. The exit code is 1 if a bar is missed.
`explorers.md` holds a measurement.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

EXPLORERS = {
    "FormatExplorer": "'weights'",
    "TrainingExplorer": "setting='one format'",
    "RangeExplorer": "",
    "ClipExplorer": "",
    "SumExplorer": "",
    "PlaneExplorer": "",
    "FourBitExplorer": "",
    "IngredientExplorer": "",
    "ResidualExplorer": "",
    "LearnersExplorer": "",
    "ClusterExplorer": "",
    "RooflineExplorer": "",
    "BillExplorer": "",
    "EdgeExplorer": "",
    "ScaleExplorer": "",
    "FewBitsExplorer": "",
    "MeetingExplorer": "",
}
ROUND_TRIPS, REPAINTS = 4.0, 10.0  # the bars: p95 of a step, in empty round trips; repaints a second while dragging
DRAGS, DRAG_SECONDS, MOVES, PLACES = 3, 2.0, 120, 20  # drags; of each: mouse moves, places passed a second, at least
EMPTY = """import ipywidgets
empty, shown = ipywidgets.IntSlider(max=1000), ipywidgets.Label('0')
empty.observe(lambda change: setattr(shown, 'value', str(change['new'])), 'value')
ipywidgets.VBox([empty, shown])"""
WATCH = """() => {
  const speed = (window.lpSpeed = {start: null, last: 0, painted: [], slider: null, waiting: false});
  const mark = () => {
    speed.last = performance.now();
    if (speed.waiting) return;
    speed.waiting = true;
    requestAnimationFrame(() => {
      const channel = new MessageChannel(); // its task runs once the frame is made
      channel.port1.onmessage = () => { speed.waiting = false; speed.painted.push(performance.now()); };
      channel.port2.postMessage(0);
    });
  };
  new MutationObserver(changes => {
    const counts = ({target}) => {
      const element = target.nodeType === 1 ? target : target.parentElement;
      return element?.closest('.jp-OutputArea') && !speed.slider?.contains(element);
    };
    if (speed.start !== null && changes.some(counts)) mark();
  }).observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true});
  for (const event of ['keydown', 'pointerdown'])
    addEventListener(event, () => { speed.start ??= performance.now(); }, true);
}"""
ARM = "element => Object.assign(lpSpeed, {start: null, painted: [], slider: element.closest('.widget-slider')})"
COUNT = """element => {
  lpSpeed.passed = 0;
  const count = new MutationObserver(changes => (lpSpeed.passed += changes.length));
  count.observe(element, {attributeFilter: ['aria-valuenow']});
  addEventListener('pointerup', () => count.disconnect(), {capture: true, once: true});
}"""
SETTLED = """quiet => new Promise(done => {
  const began = performance.now();
  const look = () => {
    const now = performance.now(), {start, last, painted} = lpSpeed;
    const rest = painted.length ? now - last > quiet : now - began > 1500;
    rest ? done({start, painted: [...painted]}) : setTimeout(look, 20);
  };
  look();
})"""


@dataclass(frozen=True)
class Result:
    """One slider: p50 and p95 of its steps and the empty round trip beside it, in ms, and repaints a second."""

    explorer: str
    slider: str
    median: float
    p95: float
    empty: float
    repaints: float

    @property
    def missed(self) -> bool:
        """Whether a bar is missed."""
        return self.p95 > ROUND_TRIPS * self.empty or self.repaints < REPAINTS

    def __str__(self) -> str:
        ratios = f"{self.median / self.empty:5.1f} | {self.p95 / self.empty:5.1f}"
        name = f"{self.explorer.removesuffix('Explorer'):9} | {self.slider:14}"
        return (
            f"| {name} | {self.median:5.0f} | {self.p95:5.0f} | {self.empty:5.0f} | {ratios} | {self.repaints:5.1f} |"
        )


def step(page: Any, slider: Any, key: str) -> float | None:
    """Milliseconds from a key to the last frame that it changed; None where it changed nothing."""
    slider.evaluate(ARM)
    slider.focus()
    page.keyboard.press(key)
    seen = page.evaluate(SETTLED, 200)
    return seen["painted"][-1] - seen["start"] if seen["painted"] else None


def drag(page: Any, slider: Any) -> float:
    """Repaints a second while the handle moves along its track and back."""
    track = slider.evaluate("e => e.closest('.noUi-target').getBoundingClientRect().toJSON()")
    y = track["y"] + track["height"] / 2

    def sweep(sweeps: int) -> float:
        """Move along the track so many times in the time of a drag; return the page's time at the end."""
        start = time.perf_counter()
        for move in range(MOVES):
            share = abs((sweeps * move / MOVES + 0.1) % 2 - 1)
            page.mouse.move(track["x"] + track["width"] * (0.05 + 0.9 * share), y)
            time.sleep(max(0.0, start + (move + 1) * DRAG_SECONDS / MOVES - time.perf_counter()))
        return float(page.evaluate("() => performance.now()"))

    def grip() -> None:
        handle = slider.bounding_box()
        page.mouse.move(handle["x"] + handle["width"] / 2, y)
        slider.evaluate(ARM)
        page.mouse.down()

    grip()
    slider.evaluate(COUNT)
    sweep(1)
    passed = page.evaluate("() => lpSpeed.passed")
    page.mouse.up()
    page.evaluate(SETTLED, 400)
    grip()
    end = sweep(max(2, math.ceil(PLACES * DRAG_SECONDS / passed)))
    page.mouse.up()
    seen = page.evaluate(SETTLED, 400)
    during = [at for at in seen["painted"] if at <= end]
    return 1000 * len(during) / (end - seen["start"])


def measure(page: Any, explorer: str, steps: int) -> list[Result]:
    """All sliders of the explorer on the page."""
    page.evaluate(WATCH)
    empty = page.locator("[role=slider]").first
    results = []
    for slider in page.locator(".lp-side [role=slider]").all():
        if not slider.is_visible():
            continue
        slider.scroll_into_view_if_needed()
        name = slider.evaluate("e => e.closest('.widget-inline-hbox').querySelector('.widget-label').textContent")
        times: dict[str, list[float]] = {"own": [], "empty": []}
        for k in range(steps + 2):
            for each, kind in ((slider, "own"), (empty, "empty")):
                taken = step(page, each, "ArrowRight" if k % 6 < 3 else "ArrowLeft")
                if taken is not None and k >= 2:  # the first ones warm up
                    times[kind].append(taken)
        if not times["own"]:  # at this setting the slider goes back to where it was, or moves no figure
            print(f"{explorer}: {name} changes no figure at this setting", file=sys.stderr)
            continue
        slider.scroll_into_view_if_needed()
        own, beside = np.array(times["own"]), float(np.median(times["empty"]))
        median, p95 = (float(np.quantile(own, q)) for q in (0.5, 0.95))
        repaints = float(np.median([drag(page, slider) for _ in range(DRAGS)]))
        results.append(Result(explorer, name, median, p95, beside, repaints))
        print(results[-1], flush=True)
    return results


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="benchmarks explorers", description="Sliders in a browser, in empty round trips. Example: --steps 8"
    )
    parser.add_argument("--explorers", nargs="+", choices=EXPLORERS, default=list(EXPLORERS), help="default: all")
    parser.add_argument("--steps", type=int, default=16, help="keys for each slider; default: %(default)s")
    parser.add_argument("--keep", type=Path, help="a file to write the table to, such as benchmarks/sliders.md")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    from tests.browser.lab import END_KERNEL, Lab, Notebook, Window, find_browser

    path = find_browser()
    if not path:
        print(f"no browser: set LPLAB_BROWSER to the path of a Chromium (now {os.environ.get('LPLAB_BROWSER')!r})")
        return 2
    heads = (
        "| explorer  | slider         | p50, ms | p95, ms | empty, ms | p50 / empty | p95 / empty | repaints/s |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    print(heads)
    results: list[Result] = []
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        lab = Lab(Path(folder))
        try:
            for name in options.explorers:
                window = Window(lab, browser)
                cells = [EMPTY, f"from lplab import widgets\nwidgets.{name}({EXPLORERS[name]})"]
                page = Notebook(window, cells, 120, kernel="").page
                page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot .main-svg').length > 0")
                page.wait_for_timeout(2000)
                results += measure(page, name, options.steps)
                page.evaluate(END_KERNEL)
                window.discard()
        finally:
            lab.stop()
            browser.close()
    if options.keep:
        options.keep.write_text("\n".join([heads, *map(str, results)]) + "\n", "utf-8")
    return int(any(result.missed for result in results))


if __name__ == "__main__":
    sys.exit(main())
