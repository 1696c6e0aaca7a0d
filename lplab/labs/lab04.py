"""Lab 04, down to two bits: its tables, its figures and its guided questions."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lplab import claims, datasets, figures, quantizers
from lplab.claims.papers import pact_2018
from lplab.figures import DataTable
from lplab.figures.clip_bits import share
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedQuestion
from lplab.quantizers import distributions, pact_forward, sawb, sawb_fit
from lplab.quantizers.clipping import Magnitudes, upper_levels
from lplab.widgets import ClipExplorer

ACTIVATIONS = "activations, layer 3, trained"
ATTENTION = "weights, attention, trained"
GRID = 7  # 2 bits from 0 to α are the upper half of seven levels over [−α, α]
NARROW = 2.5  # the smaller clip of the worked example


@cache
def activations() -> Magnitudes:
    """The 8,192 activations of the prediction, sorted.

    >>> len(activations().sorted), round(activations().largest, 1)
    (8192, 6.6)
    """
    return Magnitudes(datasets.captured()["resnet/step200/layer3.conv2/activation"])


# ---- worked examples -------------------------------------------------------------------------------------------------


def some_activations() -> DataTable:
    """Five of the activations, and the nearest of four levels up to the largest of them."""
    x = _near((0.4, 1.0, 1.2, 3.02, 4.05))
    level = activations().largest * upper_levels(GRID)
    nearest = level[np.abs(x[:, None] - level).argmin(axis=1)]
    return DataTable(
        {"activation": x, "nearest level": nearest, "off by": np.abs(x - nearest)},
        caption="Five of the 8,192 activations",
        formats={"activation": ".2f", "nearest level": ".2f", "off by": ".2f"},
    )


def two_clips() -> DataTable:
    """Three activations on four levels up to the largest activation, and on four levels up to 2.5."""
    x = _near((1.0, 2.0, 4.05))
    columns = {"activation": x}
    for name, clip in (("up to 6.6", activations().largest), ("up to 2.5", NARROW)):
        level = clip * upper_levels(GRID)
        nearest = level[np.abs(x[:, None] - level).argmin(axis=1)]
        columns |= {f"levels {name}": nearest, f"off by, {name}": np.abs(x - nearest)}
    return DataTable(
        columns, caption="Three activations under a wide and a narrow clip", formats=dict.fromkeys(columns, ".2f")
    )


def four_levels() -> Any:
    """The histogram of the activations under four levels up to the largest of them: where they all go."""
    x = activations()
    shares = figures.level_shares(x, x.largest, GRID)
    title = (
        f"Levels up to {x.largest:.1f}: {share(float(shares[0]))} become 0, {_last(float(shares[-1]))} the top level"
    )
    return figures.clip_histogram(x, x.largest, GRID, what="activation x", title=title, height=280)


def clip_table() -> DataTable:
    """For some numbers of bits: the best clip, and the error there, at the largest activation and at 99.9 %."""
    analysis = explorer().analysis(explorer().position.changed(tensor=ACTIVATIONS))
    bits = (2, 3, 4, 6, 8)
    columns: dict[str, Any] = {"bits": bits}
    columns["best clip"] = [analysis.clips["least error"][b - 2] for b in bits]
    columns["of the largest"] = np.array(columns["best clip"]) / analysis.magnitudes.largest
    for name, rule in (("error there", "least error"), ("error at the largest", "max |x|")):
        columns[name] = [analysis.errors[rule][b - 2] for b in bits]
    return DataTable(
        columns,
        caption="The best clip for the activations. Errors are in percent of the power.",
        formats={"best clip": ".2f", "of the largest": ".0%", "error there": ".3%", "error at the largest": ".3%"},
    )


# ---- a clip that trains ------------------------------------------------------------------------------------------------


def decay_table() -> DataTable:
    """The decay λ that brings PACT's clip to the best one, and what the rounding error alone asks for."""
    x, bits = activations(), (2, 3, 4)
    best = [x.best_clip(2 ** (b + 1) - 1) for b in bits]
    needed = [float(np.maximum(x.sorted - a, 0).mean() / a) for a in best]
    formula = [
        float(((x.sorted > 0) & (x.sorted < a)).mean() / (12 * (2**b - 1) ** 2))
        for a, b in zip(best, bits, strict=True)
    ]
    return DataTable(
        {
            "bits": bits,
            "best clip": best,
            "λ that leads there": needed,
            "λ by the formula": formula,
            "off by": np.array(formula) / np.array(needed) - 1,
        },
        caption="The decay that brings α to the best clip",
        formats={"best clip": ".2f", "λ that leads there": ".5f", "λ by the formula": ".5f", "off by": "+.0%"},
    )


# ---- two averages of the weights -------------------------------------------------------------------------------------


def two_averages() -> DataTable:
    """Six distributions: root mean square and best clip for four levels, both over the mean magnitude."""
    samples = {name: distributions.magnitudes(name, 4000) for name in distributions.QUANTILES}
    rows = sorted(
        (np.sqrt((w**2).mean()) / w.mean(), Magnitudes(w).best_clip(4) / w.mean(), name) for name, w in samples.items()
    )
    ratio, clip, names = zip(*rows, strict=True)
    found = sawb_fit.fit(4)
    line = [found.c1 * r - found.c2 for r in ratio]
    return DataTable(
        {"weights like": names, "rms / mean": ratio, "best clip / mean": clip, "on the line": line},
        caption=f"Six distributions. The line is {found.c1:.2f} · rms / mean − {found.c2:.2f}.",
        formats={"rms / mean": ".2f", "best clip / mean": ".2f", "on the line": ".2f"},
    )


def sawb_coefficients() -> DataTable:
    """Our coefficients of SAWB beside the published ones, and how far the line misses the worst distribution."""
    fits = [sawb_fit.fit(levels) for levels in (4, 15, 32)]
    return DataTable(
        {
            "levels": [fit.levels for fit in fits],
            "c1": [fit.c1 for fit in fits],
            "c2": [fit.c2 for fit in fits],
            "published": ["3.12, 2.064", "12.035, 12.03", "17.74, 18.64"],
            "line misses by up to": [fit.worst_error for fit in fits],
        },
        caption="The coefficients, fitted again",
        formats={"c1": ".2f", "c2": ".2f", "line misses by up to": ".0%"},
    )


def four_bit_rows() -> DataTable:
    """SAWB at 4 bits with three sets of levels: the squared error of real weights."""
    w = datasets.captured()["transformer/step1000/blocks.0.attention.qkv/weight"]
    rows = {"403": "−7 … 7", "403_16": "−8 … 7", "4bit": "16 levels without a zero"}
    rests = [quantizers.SAWB(row=name).quantize(w) - w for name in rows]
    return DataTable(
        {
            "levels": list(rows.values()),
            "in the published code": list(rows),
            "error": [float((rest**2).sum() / (w**2).sum()) for rest in rests],
        },
        caption="The attention's weights in 4 bits, in percent of their power",
        formats={"error": ".2%"},
    )


# ---- the explorer and its questions ----------------------------------------------------------------------------------


HERE: dict[str, Any] = {"tensor": ACTIVATIONS, "bits": 2}


def explorer() -> ClipExplorer:
    """The explorer where the prediction asks: the activations of layer 3, two bits, and the largest value as clip."""
    return ClipExplorer(**HERE)


def _parts(state: Any) -> tuple[float, float, float]:
    """Rounding error, clipping error and both in a state, as shares of the power."""
    analysis = explorer().analysis(state)
    errors = analysis.magnitudes.errors(analysis.clip(state), analysis.levels(state.bits))
    power = analysis.magnitudes.power
    return float(errors.rounding[0]) / power, float(errors.clipping[0]) / power, float(errors.total[0]) / power


def _best(state: Any) -> float:
    """The clip with the least error at a state's tensor and bits."""
    return explorer().analysis(state).clip(state.changed(rule="least error"))


def _crossing(state: Any) -> float:
    """The clip at which rounding and clipping are equal."""
    analysis = explorer().analysis(state)
    clips = np.linspace(0.2, 1, 4001) * analysis.magnitudes.largest
    errors = analysis.magnitudes.errors(clips, analysis.levels(state.bits))
    return float(clips[np.argmax(errors.rounding >= errors.clipping)])


def _left(state: Any) -> str:
    rounding, clipping, both = _parts(state)
    wide = _parts(state.changed(percent=100))
    return (
        f"The two thin curves show it. The rounding error falls from {share(wide[0])} to {share(rounding)}, because the levels move closer "
        f"together. The clipping error rises from 0 to {share(clipping)}. Both together are {share(both)} of the power "
        f"here, and {share(wide[2])} with the clip at 100 %."
    )


def _left_is_true(state: Any) -> bool:
    here, wide = _parts(state), _parts(state.changed(percent=100))
    return here[0] < wide[0] and here[1] > wide[1] == 0 and here[2] < wide[2]


def _cross(state: Any) -> str:
    return (
        f"Nearly. The curves cross at {_crossing(state):.2f}, and the best clip is {_best(state):.2f}. The sum is "
        "least where one error falls exactly as fast as the other one rises. That need not be where both are equal."
    )


def _outward(state: Any) -> str:
    few = state.changed(bits=2)
    return (
        f"Outward: with 2 bits the best clip is {_best(few):.3g}, with 8 bits {_best(state):.3g}. This is about the largest "
        f"number, {explorer().analysis(state).magnitudes.largest:.3g}, and nothing is clipped. With more levels the steps "
        "are small anyway, so a smaller clip gains little, while clipping costs as much as before. At 6 bits the rule "
        f"max |x| has an error of {share(_at_max(state, 6))}, and the best clip of {share(_at_best(state, 6))}. From "
        "there on, the largest value has less than 15 % more error than the best clip."
    )


def _outward_is_true(state: Any) -> bool:
    clips = [_best(state.changed(bits=bits)) for bits in range(2, 9)]
    near = all(_at_max(state, bits) < 1.15 * _at_best(state, bits) for bits in (6, 7, 8))
    largest = explorer().analysis(state).magnitudes.largest
    near = near and largest <= clips[-1] < 1.01 * largest
    return clips == sorted(clips) and near and _at_max(state, 5) > 1.15 * _at_best(state, 5)


def _at_max(state: Any, bits: int) -> float:
    return _parts(state.changed(bits=bits, rule="max |x|"))[2]


def _at_best(state: Any, bits: int) -> float:
    return _parts(state.changed(bits=bits, rule="least error"))[2]


def _worse(state: Any) -> str:
    analysis = explorer().analysis(state)
    inner = float(figures.level_shares(analysis.magnitudes, analysis.clip(state), analysis.levels(state.bits))[0])
    below = 1 - analysis.magnitudes.share_beyond(analysis.clip(state) / (analysis.levels(state.bits) - 1))
    sawb = state.changed(rule="SAWB")
    return (
        f"The error is {share(_parts(state)[2])} of the power. If all weights became 0, it would be 100 %. But none of "
        f"the four levels is 0. So {share(inner)} of the weights become one of the two "
        f"inner levels, and {share(below)} are pushed outward by that. SAWB's clip of {analysis.clip(sawb):.3g} brings "
        f"the error down to {share(_parts(sawb)[2])}."
    )


QUESTIONS = (
    GuidedQuestion(
        "These are the activations of your guess, and the clip is the largest of them. Pull *clip* from 100 to 38. Which "
        "of the two thin curves falls on the way?",
        position={**HERE, "rule": "by hand", "percent": 38},
        answer=_left,
        true=_left_is_true,
        controls=("percent",),
        figure="error",
        guess=("rounding", "clipping"),
    ),
    GuidedQuestion(
        "Pull *clip* to the lowest point of the thick curve. At which α does it lie? Then choose the rule *least error*. "
        "Is it where the two thin curves cross?",
        position={**HERE, "rule": "least error"},
        answer=_cross,
        true=lambda state: _crossing(state) < _best(state) < 1.2 * _crossing(state),
        controls=("percent", "rule"),
        figure="error",
        guess="= α",
    ),
    GuidedQuestion(
        "Keep the rule *least error* and go up to 8 bits; the axis of the errors follows. Which way does the best clip "
        "move?",
        position={"tensor": ACTIVATIONS, "bits": 8, "rule": "least error"},
        answer=_outward,
        true=_outward_is_true,
        controls=("bits", "rule"),
        figure="error",
        guess=("inward", "nowhere", "outward"),
    ),
    GuidedQuestion(
        "Choose the tensor *weights, attention, trained*, the rule *max |x|* and 2 bits. Weights have both signs, so "
        "their four levels are −α, −α/3, α/3 and α; the figure shows magnitudes |w|. The error is above 100 %. Which share "
        "of the weights lands on the two inner levels?",
        position={"tensor": ATTENTION, "bits": 2, "rule": "max |x|"},
        answer=_worse,
        true=lambda state: _parts(state)[2] > 1 > 0.2 > _parts(state.changed(rule="SAWB"))[2],
        controls=("tensor", "rule", "bits"),
        figure="histogram",
        guess="%",
    ),
)
GUIDED = ((explorer, QUESTIONS),)


# ---- the facts of the text -------------------------------------------------------------------------------------------


def facts() -> dict[str, Any]:
    """The numbers that the lab's text states and that no table of it shows."""
    x, wide = activations(), activations().largest
    halfway = wide * upper_levels(GRID)[1] / 2
    almost = np.where(np.arange(100) % 2, 1.0, -1.0)
    rounded = pact_forward(x.sorted, alpha=wide, bits=2)
    uniform = explorer().analysis(explorer().position.changed(tensor="uniform", rule="SAWB"))
    return {
        "activations": len(x.sorted),
        "exactly 0": round(float((x.sorted == 0).mean()), 3),
        "become 0, up to 6.6": round(float((rounded == 0).mean()), 3),
        "become the top level": int((rounded == rounded.max()).sum()),
        "halfway to the first level": round(float(halfway), 2),
        "above 2.5": round(x.share_beyond(NARROW), 3),
        "become 2.5": round(float(figures.level_shares(x, NARROW, GRID)[-1]), 3),
        "error up to 6.6": round(float(x.errors(wide, GRID).total[0]) / x.power, 3),
        "error up to 2.5": round(float(x.errors(NARROW, GRID).total[0]) / x.power, 3),
        "where α comes to rest with λ = 0.005": round(x.equilibrium_clip(0.005), 2),
        "step²/12 times the share within 2.5": round(
            (NARROW / 3) ** 2 / 12 * float(((x.sorted > 0) & (x.sorted < NARROW)).mean()), 3
        ),
        "rounding error up to 2.5": round(float(x.errors(NARROW, GRID).rounding[0]), 3),
        "uniform weights, 8 bits: SAWB's error in percent": round(100 * float(uniform.errors["SAWB"][-1]), 2),
        "the least error in percent": round(100 * float(uniform.errors["least error"][-1]), 4),
        "SAWB's clip of |w| = 1, 2 bits": round(float(quantizers.sawb_clip(almost, 2)), 3),
        "SAWB's clip of |w| = 1, 4 bits": round(float(quantizers.sawb_clip(almost, 4)), 3),
    }


def check_text() -> None:
    """Compare what the text says in words, and what it takes from the claims, with what is computed."""
    clips = clip_table().columns
    assert (
        clips["error there"][0] < 0.25 * clips["error at the largest"][0]
        and round(clips["of the largest"][0], 2) == 0.38
    )
    assert clips["error at the largest"][-1] < 1.02 * clips["error there"][-1]  # with 8 bits the largest value is right
    assert all(abs(off) < 0.34 for off in decay_table().columns["off by"])
    pact = claims.get("pact_2018")
    assert "bits: PACT 10.3, 8.9, 8.7" in pact.published and "float32 8.4 %" in pact.published
    wrong = claims.stored(pact).results(pact)
    trained, fixed = (np.median(wrong.values("error", clip=clip, bits=2)) for clip in ("trained", 3.0))
    assert (round(trained, 1), round(wrong.median("error", clip="none"), 1)) == (56.8, 38.5)
    assert round(fixed, 1) == 50.8 and fixed < trained
    assert round(trained - wrong.median("error", clip="none")) == 18 and 4 not in pact_2018.BITS
    assert (pact_2018.STEPS, pact_2018.DECAY) == (300, 100 * 0.0002)
    row = sawb.sawb_row(8)
    assert (row.c1, row.c2) == (31.76, 35.04)


def checked_numbers() -> Folded:
    """The numbers that answer the prediction or stand in the text, for the tests."""
    check_text()
    return Folded(clip_table(), "\n".join(f"{name}: {value}" for name, value in facts().items()))


def _near(values: tuple[float, ...]) -> np.ndarray:
    """For each value the nearest activation."""
    x = activations().sorted
    return np.array([x[np.abs(x - value).argmin()] for value in values])


def _last(top: float) -> str:
    """How many activations the top level has: in words where there is only one.

    >>> _last(1 / 8192), _last(0.0314)
    ('a single one', '3.1 %')
    """
    return "a single one" if round(top * len(activations().sorted)) == 1 else share(top)
