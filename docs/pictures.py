"""Make the pictures of the documentation, from numbers that lplab computes.

python docs/pictures.py          writes the SVG file beside this one, the same bytes on every machine, and in pictures/
                                 one PNG for each lab, where what its explorer shows has changed (needs a browser)

What a PNG shows is kept beside it in pictures/shown.json, as a digest: a test says which of them are old.
"""

import hashlib
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from lplab import formats as F

FOLDER = Path(__file__).parent
LABS = FOLDER / "pictures"
SHOWN = LABS / "shown.json"
NUMBERS = [f"{number:02d}" for number in range(15)]
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 300, 56, 40, 46
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #24292f } .small { font-size: 12px; fill: #57606a }
line, path { fill: none; stroke: #57606a } .true { stroke-dasharray: 4 4 }
.sum { stroke: #d55e00; stroke-width: 3; stroke-dasharray: 1; animation: draw 6s linear infinite }
@keyframes draw { 0% { stroke-dashoffset: 1 } 70%, 100% { stroke-dashoffset: 0 } }
.stop { fill: #d55e00; font-weight: 600 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9da7b3 } line, path { stroke: #9da7b3 } .sum { stroke: #ff9c5a }
  .stop { fill: #ff9c5a } }
@media (prefers-reduced-motion: reduce) { .sum { animation: none } }
"""


def running_sum(fmt: F.Format, count: int) -> np.ndarray:
    """Add 1 to a sum ``count`` times, and round the sum to a format each time: float64 [count + 1]."""
    sums = [0.0]
    for _ in range(count):
        sums.append(float(fmt.quantize(sums[-1] + 1)))
    return np.array(sums)


def sum_that_stops(name: str = "bf16", count: int = 512) -> str:
    """An animated picture of a sum of ones that stops growing, as SVG; without motion it shows the end."""
    sums = running_sum(F.get(name), count)
    last = sums[-1]
    right, base = WIDTH - 24, HEIGHT - BOTTOM
    x = LEFT + (right - LEFT) * np.arange(count + 1) / count
    y = base - (base - TOP) * sums / count
    steps = range(0, count + 1, 8)
    path = "M" + " L".join(f"{x[k]:.1f},{y[k]:.1f}" for k in steps)
    ticks = "".join(
        f'<text class="small" x="{x[k]:.0f}" y="{base + 18}" text-anchor="middle">{k}</text>'
        f'<text class="small" x="{LEFT - 8}" y="{base - (base - TOP) * k / count + 4:.0f}" text-anchor="end">{k}</text>'
        for k in range(0, count + 1, count // 4)
    )
    above, rounded = float(F.get(name).quantize(last + 1, "up")), float(F.get(name).quantize(last + 1))
    why = f"{last:.0f} + 1 lies between {last:.0f} and {above:.0f}, and rounds to {rounded:.0f}"
    what = f"Adding 1 again and again, and rounding the sum to {name} each time: it stops at {last:.0f}."
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{what}">
<title>{what}</title><style>{STYLE}</style>
<text x="{LEFT}" y="22">1 + 1 + 1 + … in {name}: {what[what.index("it stops") :]}</text>
<line x1="{LEFT}" y1="{base}" x2="{right}" y2="{base}"/>{ticks}
<path class="true" d="M{LEFT},{base} L{right},{TOP}"/>
<text class="small" x="{right - 8}" y="{TOP + 22}" text-anchor="end">exact</text>
<path class="sum" pathLength="1" d="{path}"/>
<text class="stop" x="{right - 8}" y="{base - 14}" text-anchor="end">{why}</text>
</svg>
"""


PICTURES = {"sum_that_stops.svg": sum_that_stops}


def lab_figure(number: str) -> Any:
    """The first figure of a lab's explorer, where its first question asks to look; of lab 00, its format on a line."""
    import plotly.graph_objects as go

    from lplab import figures

    guided = importlib.import_module(f"lplab.labs.lab{number}").GUIDED
    if not guided:
        return figures.number_line("e4m3fn")
    make, questions = guided[0]
    explorer = make()
    explorer.set(**questions[0].position)
    first = next(iter(explorer.figures.values()))
    return go.Figure(first.to_dict())


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


def draw_labs() -> None:
    """Draw the pictures of those labs whose explorers show something else than when they were drawn."""
    from lplab.figures import export

    LABS.mkdir(exist_ok=True)
    shown = json.loads(SHOWN.read_text("utf-8")) if SHOWN.exists() else {}
    for number in NUMBERS:
        figure, path = lab_figure(number), LABS / f"lab{number}.png"
        if shown.get(path.name) != (now := digest(figure)) or not path.exists():
            figure.update_layout(title_text="", showlegend=False, margin_t=12)
            print(export(figure, path, width=520, scale=1))
            shown[path.name] = now
    SHOWN.write_text(json.dumps(shown, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    for name, make in PICTURES.items():
        (FOLDER / name).write_text(make(), "utf-8")
        print(FOLDER / name)
    draw_labs()
