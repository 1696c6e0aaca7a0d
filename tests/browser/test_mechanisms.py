"""Mechanisms in a real browser: on a page without a kernel and in a notebook, what they show is what lplab computes.

Each mechanism is driven by keys, by the mouse and by its buttons. At each place the page tells what it has looked up
(`data-shown`), and a function here, one for each mechanism, computes the same with the library.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lplab import arithmetic
from lplab import formats as F
from lplab.compression import AdaComp, exchange
from lplab.exercises.lab08.ring import contributions, ring_messages
from lplab.hardware import footprint, systolic
from lplab.quantizers import GRADIENT_GRIDS
from lplab.widgets.mechanisms import (
    MECHANISMS,
    ball,
    beads,
    bin,
    cache_axis,
    clip,
    coins,
    columns,
    energy_bill,
    hole,
    ladder,
    leash,
    loss_scale,
    octaves,
    rectangle,
    register,
    see_saw,
    shared_scale,
    skewed_array,
    stripes,
    turned_outlier,
)
from tests.browser import mechanism_pages
from tests.durations import slowness
from tests.kinds import slow
from tests.widgets.mechanisms.test_cache_axis import errors_by_hand as cache_errors
from tests.widgets.mechanisms.test_columns import by_least_squares as columns_by_least_squares
from tests.widgets.mechanisms.test_hole import nearest_of_e2m1
from tests.widgets.mechanisms.test_leash import by_hand as leash_by_hand
from tests.widgets.mechanisms.test_see_saw import by_hand as see_saw_error
from tests.widgets.mechanisms.test_skewed_array import simulated as simulated_array
from tests.widgets.mechanisms.test_stripes import block_of
from tests.widgets.mechanisms.test_union import by_hand as union_by_hand

pytestmark = pytest.mark.browser
# Drags with two keys each, steps of a walk, and how many places it must reach. A page of another width, or a notebook,
# has the same script: there a short walk tells that it runs, and other handles and places than those of the long one.
LONG, SHORT = (4, 300, 50), (1, 60, 12)
PAINT = 100  # milliseconds
TARGET = 44  # pixels that a finger needs
KEYS = ("ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End")
# Many places in one call: a press of a key on one of the handles, or a click on one of the buttons.
WALK = """async (one, actions) => {
  const all = selector => [...one.querySelectorAll(selector)];
  for (const [click, which, key] of actions) {
    const things = click ? all('button:enabled:not(.lp-play)') : all('[role=slider]');
    const thing = things[Math.floor(which * things.length)];
    if (click) thing?.click();
    else thing.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    await null; // the recorder's turn
  }
}"""
RECORD = """one => {
  one.lpSeen = [one.dataset.shown];
  new MutationObserver(() => one.lpSeen.push(one.dataset.shown)).observe(one, {attributeFilter: ['data-shown']});
}"""


# ---- what the library says: of a place, what was looked up and the state ---------------------------------------------


def check_ladder(now: dict[str, Any], state: dict[str, Any]) -> None:
    size = 2.0 ** (state["place"] / ladder.PARTS)
    expected = [
        float(GRADIENT_GRIDS[f"radix4_{name}"].quantize(np.array(size), 1.0)) for name in ("even", "odd", "mean")
    ]
    assert now["size"] == pytest.approx(size) and [now["even"], now["odd"], now["mean"]] == expected
    assert now["errors"] == pytest.approx([value / size - 1 for value in expected])


def check_octaves(now: dict[str, Any], state: dict[str, Any]) -> None:
    value = float((octaves.E4M3 if state["subnormals"] else octaves.WITHOUT).quantize(state["x"]))
    assert now["value"] == value
    assert int(now["bits"], 2) == int(octaves.E4M3.encode(value))
    assert now["octave"]["low"] <= value < now["octave"]["high"]


def check_rectangle(now: dict[str, Any], state: dict[str, Any]) -> None:
    windows = [state, *([state["own"]] if state["own"] else [])]
    formats = [rectangle.number_format(each["exponent"], each["top"]) for each in windows]
    for shown, fmt in zip(now["windows"], formats, strict=True):
        assert 2.0 ** shown["high"] == pytest.approx(fmt.max) and 2.0 ** (shown["low"] + 1) == fmt.smallest_subnormal
        assert shown["error"] == 2.0 ** -(fmt.mantissa_bits + 1)
    of_rows = [formats[0], formats[0], formats[-1]]
    for shown, fmt, x in zip(now["rows"], of_rows, rectangle.tensors().values(), strict=True):
        assert shown["zero"] == pytest.approx(np.mean(fmt.quantize(x) == 0), abs=1e-6)
        assert shown["saturated"] == pytest.approx(np.mean(np.abs(x) > fmt.max), abs=1e-6)


def check_register(now: dict[str, Any], state: dict[str, Any]) -> None:
    chunk, added = now["chunk"], now["added"]
    whole = added if now["end"] else added - added % chunk if chunk > 1 else added
    if chunk > 1 and not now["end"] and now["part"] and added % chunk == 0:
        whole -= chunk  # the register of the chunk is full, and not in the total yet
    assert now["total"] == arithmetic.sum(np.ones(whole), register.REGISTER, chunk=chunk)
    assert now["part"] == arithmetic.sum(np.ones(0 if now["end"] else added - whole), register.REGISTER)
    if not now["end"]:
        assert now["to"] == register.REGISTER.quantize(float(now["from"] + now["addend"]))
        assert now["above"] == register.REGISTER.quantize(now["from"] * (1 + 1e-9), "up")


def check_beads(now: dict[str, Any], state: dict[str, Any]) -> None:
    fmt, update = beads.FORMATS[state["format"]], np.float32(state["units"] * beads.UNIT)
    master = np.float32(1)
    for _ in range(now["step"]):
        master += update
    assert now["update"] == pytest.approx(float(update)) and now["master"] == float(master)
    assert now["copy"] == fmt.quantize(float(master))
    if now["above"] is not None:
        assert now["above"] == fmt.quantize(now["alone"] * (1 + 1e-9), "up")
    if not now["end"]:
        assert now["next"] == fmt.quantize(float(np.float32(now["alone"]) + update))


def check_ring(now: dict[str, Any], state: dict[str, Any]) -> None:
    devices, step = state["devices"], state["step"]
    messages = [row for row in ring_messages(devices) if row[0] < step]
    counts = contributions(messages, devices)[-1]
    assert now["table"] == counts.tolist() and now["whole"] == np.sum(counts == devices)
    assert now["grown"] == counts[step % devices, 0]
    assert now["sent"] == pytest.approx(len(messages) / devices / devices)  # each message is a part of the gradient


def check_clip(now: dict[str, Any], state: dict[str, Any]) -> None:
    x, levels = clip.activations(), clip.levels_of(state["bits"])
    alpha = x.largest * state["place"] / clip.PLACES
    errors = x.errors([alpha], levels)
    assert now["clip"] == pytest.approx(alpha) and now["beyond"] == x.share_beyond(alpha)
    assert now["levels"] == pytest.approx((np.arange(2 ** state["bits"]) / (2 ** state["bits"] - 1) * alpha).tolist())
    expected = [float(part[0]) / x.power for part in (errors.rounding, errors.clipping, errors.total)]
    assert [now["rounding"], now["clipping"], now["total"]] == pytest.approx(expected)
    totals = x.errors(x.largest * np.arange(clip.LOWEST, clip.PLACES + 1) / clip.PLACES, levels).total
    assert now["isBest"] == (state["place"] == clip.LOWEST + np.argmin(totals))


def check_coins(now: dict[str, Any], state: dict[str, Any]) -> None:
    update, rng = coins.UPDATES[state["size"]], np.random.default_rng(2015)
    nearest, weights = np.zeros(1), np.zeros(coins.WEIGHTS)
    for _ in range(now["step"]):
        nearest = coins.FORMAT.quantize(nearest + update * coins.EPS, "nearest_down")
        weights = coins.FORMAT.quantize(weights + update * coins.EPS, "stochastic", seed=rng)
    assert now["update"] == update and [now["nearest"]] == (nearest / coins.EPS).tolist()
    assert now["coins"] == (weights / coins.EPS).tolist() and now["moved"] == np.count_nonzero(weights)
    assert now["mean"] == pytest.approx(weights.mean() / coins.EPS)


def check_shared_scale(now: dict[str, Any], state: dict[str, Any]) -> None:
    cut, rule = state["cut"], shared_scale.RULES[state["rule"]]
    x = np.array(now["sizes"])
    assert x[shared_scale.OUTLIER] == shared_scale.STEP * (state["place"] + 1)
    fmt = F.BlockFormat(F.get("e2m1"), block_size=8, scale_rule=rule)
    assert now["rounded"] == [value for part in np.split(x, [cut]) if part.size for value in fmt.quantize(part)]
    assert now["zeros"] == now["rounded"].count(0) and now["bits"] == 4 + 8 * (1 + (cut > 0)) / 8
    one = {"floor": lambda m: np.floor(np.log2(m)) - 2, "rceil": lambda m: np.ceil(np.log2(m / 6))}[rule]
    assert now["scales"] == [2 ** one(part.max()) for part in np.split(x, [cut]) if part.size]
    scale_of = np.repeat(now["scales"], [part.size for part in np.split(x, [cut]) if part.size])
    assert now["clipped"] == (x > 6 * scale_of).tolist()


def check_bin(now: dict[str, Any], state: dict[str, Any]) -> None:
    adacomp = AdaComp(8)
    memory = adacomp.init((8,))
    after = np.zeros(8)
    for step in range(now["step"] + 1):
        gradient = np.array(bin.GRADIENTS[step], np.float32)
        gradient[bin.HELD] = state["drags"][step] * bin.UNIT
        owed, sent = after, exchange(adacomp, [gradient], [memory])
        memory.commit()
        after = owed + gradient - sent
    assert now["owed"] == owed.tolist() and now["gradient"] == gradient.tolist() and now["sent"] == sent.tolist()
    assert now["total"] == (owed + gradient).tolist() and now["boosted"] == (owed + 2 * gradient).tolist()
    assert now["after"] == after.tolist()


def check_union(now: dict[str, Any], state: dict[str, Any]) -> None:
    wanted, sent = union_by_hand(now["choice"], state["learners"], state["beat"] // 2)
    assert now["wanted"] == wanted.tolist() and now["sent"] == sent.tolist()
    assert now["after"] == (wanted - sent).tolist()
    assert now["union"] == np.flatnonzero(sent.sum(axis=0)).tolist()
    for choice, count in now["counts"].items():
        assert count == np.count_nonzero(union_by_hand(choice, state["learners"], state["beat"] // 2)[1].sum(axis=0))


def check_skewed_array(now: dict[str, Any], state: dict[str, Any]) -> None:
    k, n, cycle = state["k"], state["n"], state["cycle"]
    sizes = (skewed_array.INPUTS, n, k, skewed_array.ROWS, skewed_array.COLUMNS)
    assert now["cycles"] == systolic.cycles(*sizes, "ws")
    busy = systolic.utilization(*sizes, "ws")
    assert sum(now["counts"]) == k * n * skewed_array.INPUTS and now["busy"] == pytest.approx(busy)
    if now["end"]:
        assert now["share"] == pytest.approx(busy)
    *_, rows, columns = now["folds"][now["fold"]]
    working = simulated_array(rows, columns)
    assert now["within"] == cycle % 14 and now["loaded"] == min(now["within"] + 1, skewed_array.ROWS)
    expected = working[now["within"]] if now["within"] < len(working) else np.zeros((4, 4), bool)
    assert now["cells"] == expected.tolist()


def check_turned_outlier(now: dict[str, Any], state: dict[str, Any]) -> None:
    matrix, numbers = turned_outlier.turn(now["degrees"]), np.array(turned_outlier.NUMBERS)
    assert now["degrees"] == turned_outlier.STEP * state["place"] and now["turned"] == pytest.approx(
        matrix @ numbers, abs=1e-3
    )
    end = 6 * now["scale"]
    assert now["clipped"] == (np.abs(matrix @ numbers) > end).tolist()
    if not state["coin"]:
        assert now["rounded"] == pytest.approx(turned_outlier.FORMAT.quantize(matrix @ numbers), abs=1e-3)
    back = matrix.T @ now["rounded"]
    assert now["back"] == pytest.approx(back, abs=2e-3)
    assert now["error"] == pytest.approx(np.linalg.norm(back - numbers) / np.linalg.norm(numbers), abs=1e-3)
    assert now["left"] == pytest.approx(back @ numbers / (numbers @ numbers), abs=1e-3)


def check_energy_bill(now: dict[str, Any], state: dict[str, Any]) -> None:
    chip, pue = energy_bill.JOB.step("fp16_mixed"), energy_bill.PUES[state["building"]]
    power = chip.watts / energy_bill.JOB.devices
    region = energy_bill.PLACES[state["place"]]
    whole = footprint.bill(watts=power, hours=state["hours"], devices=state["chips"], pue=pue, region=region)
    assert [now["kwh"], now["kilograms"], now["pue"]] == pytest.approx([whole.kwh, whole.kilograms, pue])
    assert sum(now["watts"].values()) == pytest.approx(power * pue * state["chips"])
    around = chip.network / chip.seconds / energy_bill.JOB.devices + energy_bill.HOST_WATTS
    assert now["share"] == pytest.approx((power - around) / (power * pue))


def check_hole(now: dict[str, Any], state: dict[str, Any]) -> None:
    x = state["place"] / hole.PARTS
    assert [now["x"], now["right"], now["yours"]] == [x, nearest_of_e2m1(x), nearest_of_e2m1(x, forgotten=3)]
    assert now["distance"] == now["yours"] - now["right"]
    tried = [(each["at"], each["side"]) for each in hole.data()["boundary"][: state["tried"]]]
    wrong = [k for k, each in enumerate(tried) if each in [(2.5, 1), (3, -1), (3, 0), (3, 1), (3.5, -1)]]
    assert now["wrong"] == len(wrong) and now["smallest"] == (wrong[0] if wrong else None)


def check_ball(now: dict[str, Any], state: dict[str, Any]) -> None:
    w, levels = ball.STARTS[state["place"]], []
    for _ in range(state["step"] + 1):
        y = np.round(3 * w) / 3
        levels.append(y)
        before, w = w, w - state["slope"] * ball.RATE * (y - ball.TARGET)
    assert [now["w"], now["y"]] == pytest.approx([before, y], abs=1e-5)
    assert now["gradient"] == pytest.approx(state["slope"] * (y - ball.TARGET))
    late = levels[-ball.LATE :]
    assert now["mean"] == (pytest.approx(np.mean(late)) if len(late) == ball.LATE else None)


def check_loss_scale(now: dict[str, Any], state: dict[str, Any]) -> None:
    fmt = loss_scale.FORMATS[state["format"]]
    scaled = loss_scale.gradients() * 2.0 ** state["scale"]
    codes = fmt.encode(scaled)
    values = fmt.decode(codes)
    zero, infinite = np.sum(values == 0), np.sum(~np.isfinite(values))
    normal = np.sum(np.isfinite(values) & (values >= fmt.smallest_normal))
    assert [now["zero"], now["normal"], now["infinite"]] == [zero, normal, infinite]
    assert now["subnormal"] == len(values) - zero - normal - infinite
    assert [now["share"], now["over"]] == pytest.approx([zero / len(values), infinite / len(values)])
    edges = np.array([fmt.smallest_subnormal / 2, fmt.smallest_normal, fmt.max]) / 2.0 ** state["scale"]
    assert [now["edges"][name] for name in ("zero", "normal", "high")] == pytest.approx(np.log2(edges), abs=0.1)


def check_stripes(now: dict[str, Any], state: dict[str, Any]) -> None:
    axes = {"y": ("to,ti,oi", "xw"), "dx": ("ti,to,oi", "gw"), "dW": ("oi,to,ti", "gx")}[state["product"]]
    (result, *of_factors), factors = axes[0].split(","), axes[1]
    sizes = {name[0]: size for name, size in stripes.SIZES.items()}
    row, column = divmod(now["place"], sizes[result[1]])
    place = {result[0]: row, result[1]: column}
    [summed] = set(of_factors[0]) & set(of_factors[1])
    assert now["factors"] == list(factors) and now["summed"][0] == summed
    assert now["at"] == {axis: place[axis[0]] for axis in now["axes"]}
    pairs = set()
    for k in range(sizes[summed]):
        cells = [tuple((place | {summed: k})[axis] for axis in each) for each in of_factors]
        assert now["terms"][k] == [list(cell) for cell in cells]
        pairs.add(tuple(block_of(cell, state["ways"][name]) for cell, name in zip(cells, factors, strict=True)))
    assert now["pairs"] == len(pairs) and now["legal"] == (len(pairs) == sizes[summed] // 4)


def check_columns(now: dict[str, Any], state: dict[str, Any]) -> None:
    inputs, weights = columns.layer(state["way"] == "shuffled")
    grid, border = columns.GRIDS[state["bits"]], now["border"]
    after = columns_by_least_squares(state["bits"], state["way"], border)
    steps, zeros = grid.fit(np, weights)
    assert border == state["border"]
    assert now["codes"] == np.round(after / steps + zeros)[:, :border].astype(int).tolist()
    moved = ((after - weights) / steps)[:, border:]
    assert np.array(now["moved"]).ravel() == pytest.approx(moved.ravel(), abs=1e-3)
    assert now["most"] == pytest.approx(np.abs(moved).max(initial=0), abs=1e-3)
    nearest = np.hstack([grid.quantize(weights)[:, :border], weights[:, border:]])
    assert now["differ"] == np.sum(np.abs(nearest - after)[:, :border] > 1e-9)
    size = np.linalg.norm(inputs @ weights.T)
    for how, matrix in (("nearest", nearest), ("gptq", after)):
        assert now[how] == pytest.approx(np.linalg.norm(inputs @ (matrix - weights).T) / size)


def check_see_saw(now: dict[str, Any], state: dict[str, Any]) -> None:
    inputs, weights = see_saw.layer()
    alpha = state["place"] / see_saw.PARTS
    tops = np.abs(inputs).max(axis=0), np.abs(weights).max(axis=0)
    channel = np.argmax(tops[0] * tops[1])
    sides = (tops[0] * tops[1]) ** (1 - alpha), (tops[0] * tops[1]) ** alpha
    assert now["alpha"] == alpha and now["factor"] == pytest.approx(tops[0][channel] / sides[0][channel])
    assert [now["inputs"][0], now["weights"][0]] == pytest.approx([side[channel] for side in sides], abs=1e-4)
    assert now["ratios"] == pytest.approx([side[channel] / np.median(side) for side in sides], rel=1e-4)
    assert now["error"] == pytest.approx(see_saw_error(state["place"]), rel=1e-6)
    assert now["isBest"] == (state["place"] == 20)


def check_cache_axis(now: dict[str, Any], state: dict[str, Any]) -> None:
    for name, x in cache_axis.cache().items():
        axis, strip = state[name], state["strips"][name]
        numbers, rounded = (cache_axis.drawn(each) for each in (x, cache_axis.RULE.rounded(x, axis)))
        exact, found = (each[strip] if axis == "token" else each[:, strip] for each in (numbers, rounded))
        assert [now[name]["axis"], now[name]["strip"]] == [axis, strip]
        assert now[name]["numbers"] == pytest.approx(exact, abs=1e-3)
        assert now[name]["levels"] == pytest.approx(np.linspace(exact.min(), exact.max(), 4), abs=1e-3)
        assert now[name]["apart"] == pytest.approx((exact.max() - exact.min()) / 3, abs=2e-3)
        assert now[name]["off"] == pytest.approx(np.mean(np.abs(found - exact)), abs=1e-3)
        assert now[name]["error"] == pytest.approx(cache_errors(name, axis))
        assert now[name]["best"] == (axis == {"keys": "channel", "values": "token"}[name])


def check_leash(now: dict[str, Any], state: dict[str, Any]) -> None:
    every, momentum = leash.EVERY[state["every"]], leash.MOMENTA[state["momentum"]]
    walks, shared = (leash.on_map(weights) for weights in leash_by_hand(every, momentum))
    round_, within = divmod(state["beat"], every + 1)  # a step is a beat, and so is a meeting
    met = round_ > 0 and within == 0
    begun = round_ - met
    taken = every if met else within
    assert [now["every"], now["momentum"], now["met"], now["round"]] == [every, momentum, met, round_]
    assert now["steps"] == begun * every + taken and now["end"] == (state["beat"] == 32 + 32 // every)
    assert now["from"] == pytest.approx(shared[begun], abs=1e-3) and now["to"] == pytest.approx(
        shared[round_], abs=1e-3
    )
    for path, walk in zip(now["paths"], walks, strict=True):
        expected = [shared[begun], *walk[begun * every : begun * every + taken]]
        assert np.array(path).ravel() == pytest.approx(np.ravel(expected), abs=1e-3)
    ends = walks[:, begun * every + taken - 1] if taken else np.tile(shared[begun], (4, 1))
    mean = ends.mean(axis=0)
    assert now["mean"] == pytest.approx(mean, abs=1e-3)
    assert now["apart"] == pytest.approx(np.linalg.norm(ends - mean, axis=1).max(), abs=2e-3)
    if met:
        way = np.linalg.norm(mean - shared[begun])
        assert now["ratio"] * way == pytest.approx(np.linalg.norm(shared[round_] - shared[begun]), abs=4e-3, rel=0.02)
    inputs, targets, _ = leash.pixels()
    weights = leash_by_hand(every, momentum)[1][round_]
    assert now["loss"] == pytest.approx(np.mean((inputs @ weights - targets[:, 0]) ** 2), abs=2e-3)
    assert now["sent"] == 8 * round_ and now["rate"] == 8 / every


CHECKS: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "beads": check_beads,
    "bin": check_bin,
    "cache_axis": check_cache_axis,
    "skewed_array": check_skewed_array,
    "clip": check_clip,
    "coins": check_coins,
    "columns": check_columns,
    "hole": check_hole,
    "energy_bill": check_energy_bill,
    "ladder": check_ladder,
    "leash": check_leash,
    "loss_scale": check_loss_scale,
    "octaves": check_octaves,
    "rectangle": check_rectangle,
    "register": check_register,
    "ring": check_ring,
    "turned_outlier": check_turned_outlier,
    "ball": check_ball,
    "stripes": check_stripes,
    "see_saw": check_see_saw,
    "shared_scale": check_shared_scale,
    "union": check_union,
}


# ---- driving ---------------------------------------------------------------------------------------------------------


def drive(page: Any, one: Any, name: str, where: str, walk: tuple[int, int, int]) -> None:
    """Move a mechanism at random, and compare what it shows with the library at each place."""
    drags, steps, places = walk
    one.evaluate(RECORD)
    handles, rng = one.get_by_role("slider"), random.Random(f"{name} {where}")
    for _ in range(drags):
        which = rng.randrange(handles.count())
        drag(page, handles.nth(which), rng)
        handles.nth(which).evaluate("handle => handle.focus()")
        for key in rng.choices(KEYS, k=2):
            page.keyboard.press(key)
    one.evaluate(WALK, [[rng.random() < 0.4, rng.random(), rng.choice(KEYS)] for _ in range(steps)])
    seen = {text: json.loads(text) for text in one.evaluate("one => one.lpSeen")}
    assert len(seen) >= places, f"{name} was at {len(seen)} places"
    for now, state in seen.values():
        CHECKS[name](now, state)


def drag(page: Any, handle: Any, rng: random.Random) -> None:
    """Seize a handle at its middle, and let it go somewhere else in the picture."""
    box, picture = (
        handle.bounding_box(),
        handle.evaluate("handle => handle.ownerSVGElement.getBoundingClientRect().toJSON()"),
    )
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    for _ in range(3):
        x, y = rng.uniform(picture["left"], picture["right"]), rng.uniform(picture["top"], picture["bottom"])
        page.mouse.move(x, y)
    page.mouse.up()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("mechanisms")
    mechanism_pages.write_pages(folder)
    server = mechanism_pages.serve(folder)
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def tabs(chromium: Any, address: str) -> Iterator[tuple[Callable[..., Any], list[str]]]:
    """A function that gives a tab with some options, and what went wrong in the tabs so far.

    A new tab is a new process, which takes longer than a test in it: so there is one for each set of options.
    """
    made: dict[str, Any] = {}
    wrong: list[str] = []

    def tab(**options: Any) -> Any:
        if str(options) not in made:
            made[str(options)] = page = chromium.new_context(**options).new_page()
            page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: wrong.append(str(error)))
            own = (address, "data:")
            page.on("request", lambda request: None if request.url.startswith(own) else wrong.append(request.url))
        return made[str(options)]

    yield tab, wrong
    for page in made.values():
        page.context.close()


@pytest.fixture
def open_page(tabs: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Open the page of a mechanism; afterwards nothing may have failed, and nothing was asked of another address."""
    tab, wrong = tabs

    def open_(name: str, width: int, **options: Any) -> tuple[Any, Any]:
        page = tab(**options)
        page.set_viewport_size({"width": width, "height": 760})
        page.goto(f"{address}{name}.html")
        page.mouse.move(0, 0)
        one = page.locator(".lp-mechanism[data-shown]")
        one.wait_for()
        return page, one

    wrong.clear()
    yield open_
    assert wrong == []


def painting(page: Any, name: str) -> float:
    """Milliseconds from a mechanism's first line of code to its picture."""
    return page.evaluate("name => performance.getEntriesByName(`lp-mechanism ${name}`)[0].duration", name)


def places() -> list[Any]:
    """Each mechanism at each width; by default each at one of them, in turn, and there on a long walk."""
    widths = [(k, name, width) for k, name in enumerate(MECHANISMS) for width in mechanism_pages.WIDTHS]
    turn = {True: lambda case: (*case, LONG), False: lambda case: slow((*case, SHORT))}
    return [turn[mechanism_pages.WIDTHS[k % 3] == width]((name, width)) for k, name, width in widths]


@pytest.mark.parametrize(("name", "width", "walk"), places())
def test_a_mechanism_shows_what_the_library_computes_without_a_kernel(open_page, name, width, walk):
    page, one = open_page(name, width)
    if painting(page, name) >= PAINT:  # again, as another process may have had the processor
        again = [painting(open_page(name, width)[0], name) for _ in range(3)]
        assert min(again) < PAINT * slowness()
    assert one.bounding_box()["width"] <= min(760, width) and one.locator("svg").bounding_box()["height"] <= 320
    drive(page, one, name, str(width), walk)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    told = one.get_by_role("status")
    assert told.get_attribute("aria-live") == "polite" and told.inner_text().strip().endswith((".", "?"))
    assert told.evaluate("line => line.scrollHeight <= line.clientHeight"), "the sentence is cut"


def test_mechanisms_show_what_the_library_computes_in_a_notebook(open_notebook):
    shown = [f"mechanism({name!r})" for name in MECHANISMS]
    notebook = open_notebook("from lplab.widgets.mechanisms import mechanism", *shown)
    for name in MECHANISMS:
        one = notebook.page.locator(f".lp-mechanism[data-name={name}][data-shown]")
        one.wait_for()
        one.scroll_into_view_if_needed()
        drive(notebook.page, one, name, "notebook", SHORT)
    assert notebook.page.locator(".jp-Cell").count() == 1 + len(shown), "Jupyter took a key"


def test_a_finger_drags_and_finds_its_targets(open_page):
    page, one = open_page("octaves", 390, has_touch=True, is_mobile=True)
    for button in one.get_by_role("button").all():
        assert button.bounding_box()["height"] >= TARGET
    handle = one.get_by_role("slider")
    assert min(handle.locator(".lp-reach").bounding_box()[side] for side in ("width", "height")) >= TARGET
    before, box = one.get_attribute("data-shown"), handle.bounding_box()
    finger = page.context.new_cdp_session(page)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for kind, points in (("touchStart", [(x, y)]), ("touchMove", [(x - 60, y)]), ("touchEnd", [])):
        touched = [{"x": px, "y": py} for px, py in points]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touched})
    now, state = json.loads(one.get_attribute("data-shown"))
    assert now["x"] < json.loads(before)[0]["x"] - 5
    check_octaves(now, state)


def test_who_wants_no_movement_sees_the_end_of_it_at_once(open_page):
    page, one = open_page("octaves", 760, reduced_motion="reduce")
    one.get_by_role("button", name="Closer to 0").click()
    dot = one.locator(".lp-dot").get_attribute("cx")
    page.wait_for_timeout(500)
    assert one.locator(".lp-dot").get_attribute("cx") == dot
    assert one.locator(".lp-arrows").evaluate("arrows => getComputedStyle(arrows).animationName") == "none"


def test_a_new_width_draws_anew_and_keeps_place_and_focus(open_page):
    page, one = open_page("octaves", 760)
    one.get_by_role("slider").focus()
    page.keyboard.press("PageUp")
    before = one.get_attribute("data-shown")
    page.set_viewport_size({"width": 500, "height": 760})
    page.wait_for_function("() => document.querySelector('.lp-mechanism svg').clientWidth < 500")
    assert one.get_attribute("data-shown") == before
    assert page.evaluate("() => document.activeElement.getAttribute('role')") == "slider"
