"""Lab 07, four bits for gradients: its tables and figures, and the questions above its explorer."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import claims, figures, widgets
from lplab.exercises.lab07 import SCALE
from lplab.figures.grid_errors import GOOD
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, guided
from lplab.labs.needing import needing
from lplab.number_text import number, percent, raised, signed_percent
from lplab.quantizers import GRADIENT_GRIDS, GridEffect, grid_effect
from lplab.quantizers.gradscale import first_scale, scales_of
from lplab.recordings import gradient_maxima, gradients_at
from lplab.widgets.explorers import four_bit_explorer as four_bits
from lplab.widgets.explorers.four_bit_explorer import PER_LAYER, FourBitState
from lplab.widgets.live.live_trainers import LiveTrainers

TWO, FOUR, ODD, BOTH, LUQ = "radix2", "radix4_even", "radix4_odd", "radix4_mean", "luq"
SCALES = (10, 12, 14, 16, 17, 18, 20, PER_LAYER)
NOISY_LAYER = "blocks.0.attention.qkv"


@cache
def layers() -> dict[str, np.ndarray]:
    """The output gradients of seven layers of a Transformer after 50 steps, by layer."""
    return gradients_at("transformer", 50)


@cache
def effects(grid: str, scale: int | str) -> tuple[GridEffect, ...]:
    """What a grid does to each of the layers.

    Args:
        grid: a name of ``lplab.quantizers.GRADIENT_GRIDS``.
        scale: the exponent of one power of two for all layers, or "one per layer".
    """
    scales = [first_scale(abs(x).max()) if scale == PER_LAYER else 2.0 ** int(scale) for x in layers().values()]
    return tuple(grid_effect(x, grid, s) for x, s in zip(layers().values(), scales, strict=True))


# ---- tables ----------------------------------------------------------------------------------------------------------


def seven_sizes() -> figures.DataTable:
    """What powers of two and powers of four make of six numbers.

    >>> seven_sizes().columns["powers of four"][3]
    4.0
    """
    values = (0.01, 0.3, 2.4, 2.6, 30.0, 100.0)
    return figures.DataTable(
        {"number": list(values), "powers of two": _rounded(values, TWO), "powers of four": _rounded(values, FOUR)},
        caption="Six numbers in four bits",
        formats=dict.fromkeys(("number", "powers of two", "powers of four"), "g"),
    )


def two_phases() -> figures.DataTable:
    """What the even and the odd phase of radix-4 FP4 make of four numbers, and the mean of both.

    >>> two_phases().rows()[2]
    ['2.6', '4', '2', '3']
    """
    values = (0.7, 2.4, 2.6, 12.0)
    even, odd = _rounded(values, FOUR), _rounded(values, ODD)
    columns = {"number": list(values), "even phase": even, "odd phase": odd, "mean": _rounded(values, BOTH)}
    return figures.DataTable(columns, caption="Four numbers, rounded twice", formats=dict.fromkeys(columns, "g"))


def _rounded(values: tuple[float, ...], grid: str) -> list[float]:
    return [float(value) for value in GRADIENT_GRIDS[grid].quantize(np.array(values), 1.0)]


def scales_and_grids() -> figures.DataTable:
    """What radix 2 and radix 4 do to the gradients at several scales: share that becomes zero, error of a layer."""
    shown = [raised(f"2^{scale}") if scale != PER_LAYER else "one per layer" for scale in SCALES]
    columns: dict[str, list[Any]] = {"scale": shown}
    for grid, name in ((TWO, "radix 2"), (FOUR, "radix 4")):
        columns[f"{name}: become zero"] = [GridEffect.mean(effects(grid, scale)).zeroed for scale in SCALES]
        columns[f"{name}: worst layer off by"] = [max(e.error for e in effects(grid, scale)) for scale in SCALES]
    formats = dict.fromkeys(list(columns)[1:], ".0%")
    return figures.DataTable(columns, caption="Seven layers of a Transformer after 50 steps", formats=formats)


def errors_and_biases() -> figures.DataTable:
    """Five ways to round, each layer with its own scale: error, bias and share that becomes zero, as means."""
    means = {grid: GridEffect.mean(effects(grid, PER_LAYER)) for grid in (FOUR, ODD, BOTH, TWO, LUQ)}
    columns: dict[str, list[Any]] = {
        "rounding": [GRADIENT_GRIDS[grid].label for grid in means],
        "error": [effect.error for effect in means.values()],
        "bias": [effect.bias for effect in means.values()],
        "become zero": [effect.zeroed for effect in means.values()],
    }
    formats: dict[str, Any] = {
        "error": ".0%",
        "bias": lambda bias: signed_percent(round(bias, 2) + 0.0),
        "become zero": ".0%",
    }
    return figures.DataTable(
        columns, caption="Each layer with a scale of its own, mean of seven layers", formats=formats
    )


def throws() -> figures.DataTable:
    """The error of the mean of several stochastic roundings (LUQ) of one layer's gradient."""
    x = layers()[NOISY_LAYER]
    scale = first_scale(abs(x).max())
    counts = (1, 4, 16)
    each = [GRADIENT_GRIDS[LUQ].quantize(x, scale, seed) for seed in range(max(counts))]
    errors = [float(np.linalg.norm(np.mean(each[:n], axis=0) - x) / np.linalg.norm(x)) for n in counts]
    columns: dict[str, list[Any]] = {"throws of the coin": list(counts), "error of their mean": errors}
    return figures.DataTable(columns, caption=f"LUQ in {NOISY_LAYER}", formats={"error of their mean": ".0%"})


def scales_in_time() -> figures.DataTable:
    """The scales of all layers of a recorded training, as GradScale lets them follow the gradients.

    >>> scales_in_time().columns["smallest scale"][0]
    '1'
    """
    steps = (0, 10, 20, 30, 100, 399)
    logs = np.array([np.log2(scales) for scales in recorded_scales().values()])
    ends = [[_power(end(logs[:, step])) for step in steps] for end in (np.min, np.max)]
    columns: dict[str, list[Any]] = {"step": list(steps), "smallest scale": ends[0], "largest scale": ends[1]}
    return figures.DataTable(columns, caption=f"The scales of {len(logs)} layers")


def share_rounded_down(gradient: np.ndarray, grid: str) -> float:
    """The share of a layer's gradients that a grid makes smaller, at the layer's own scale."""
    rounded = GRADIENT_GRIDS[grid].quantize(gradient, first_scale(abs(gradient).max()))
    return float(np.mean(abs(rounded) < abs(gradient)))


def _power(exponent: float) -> str:
    return raised(f"2^{int(exponent)}") if exponent else "1"


@cache
def recorded_scales() -> dict[str, np.ndarray]:
    """The scale of each step, by layer, of a training whose largest gradients were written down."""
    recorded = gradient_maxima()
    return {layer: scales_of(recorded.of(layer)) for layer in recorded.layers}


def share_beyond() -> float:
    """The share of all layers and steps in which the largest gradient passes 64 under GradScale's scales."""
    recorded = gradient_maxima()
    return float(np.mean([scales * recorded.of(layer) > 64 for layer, scales in recorded_scales().items()]))


# ---- figures ---------------------------------------------------------------------------------------------------------


GAINS: dict[
    str, dict[str, Any] | None
] = {  # names of roundings, and the switches of the recipe of 2020; LUQ is another
    "radix 4, two phases": {},
    "radix 2": {"radix": 2, "phases": "single"},
    "LUQ": None,
    "radix 4, one phase": {"phases": "single"},
}


@cache
def gain_of(rounding: str) -> dict[str, float]:
    """How much of each weight gradient arrives when only output gradients are rounded, by layer.

    Args:
        rounding: a key of ``GAINS``.
    """
    from lplab.training import gradient_projection, gradients_only, recipes, tasks  # loads torch: not with the lab

    switches = GAINS[rounding]
    recipe = recipes.get("luq_2022") if switches is None else recipes.get("int4_fp4_2020", **switches)
    task = tasks.get("transformer")
    return gradient_projection(task.model(0), gradients_only(recipe), *task.data(16, 0)(0))


@needing("torch")
def gains_figure() -> widgets.LiveFigure:
    """What arrives of each layer's gradient, through the whole network, under three roundings."""
    return widgets.LiveFigure(figures.gradient_gains({rounding: gain_of(rounding) for rounding in list(GAINS)[:3]}))


def scales_figure() -> go.Figure:
    """The scales of all layers in time, as the library computes them."""
    return figures.layer_scales(recorded_scales())


@needing("torch")
def train_five_ways(steps: int = 150) -> LiveTrainers:
    """A live training of a character Transformer, under the whole recipe and with parts taken out.

    Args:
        steps: how many each training takes.
    """
    from lplab.training import recipes, tasks  # loads torch: not with the lab

    parts: dict[str, dict[str, Any]] = {
        "all of it": {},
        "single phase": {"phases": "single"},
        "one scale": {"scale": SCALE},
        "radix 2, one scale": {"radix": 2, "phases": "single", "scale": SCALE},
    }
    task = tasks.get("transformer")

    def trainer_of(switches: dict[str, Any]) -> Any:
        return lambda: task.trainer(recipes.get("int4_fp4_2020", **switches))

    trainers = {name: trainer_of(switches) for name, switches in parts.items()}
    return widgets.live_trainers(
        trainers | {"fp32": lambda: task.trainer("fp32")},
        steps=steps,
        bits=True,
        unit="bits a character",
        loss_range=(3, 6.5),
        name="Train five ways",
    )


# ---- the explorer and its questions ----------------------------------------------------------------------------------


def explorer() -> widgets.FourBitExplorer:
    """The explorer of the lab where the prediction asks: one scale of 2^14 for all layers."""
    return widgets.FourBitExplorer(scale=14)


def guided_explorer() -> GuidedExplorer:
    """The explorer below its questions."""
    return guided(explorer(), QUESTIONS)


def worst(state: FourBitState, scale: int | str | None = None) -> float:
    """The error of the worst layer in the grid of a state, at its scale or at another one."""
    state = state.changed(measure="worst")
    return four_bits.measured(state, state.grid, state.scale if scale is None else scale)


def good(state: FourBitState, grid: str) -> int:
    """At how many common scales no layer is off by more than 50 %."""
    state = state.changed(measure="worst")
    return sum(four_bits.measured(state, grid, scale) <= GOOD for scale in four_bits.SCALES)


def zeroed(state: FourBitState, grid: str) -> float:
    """The share of the gradients that a grid makes zero, mean of the layers shown."""
    return four_bits.table(state)[grid].zeroed


def whole(share: float) -> str:
    """A share in percent, with two digits, as the upper figure of the explorer shows it."""
    return f"{number(100 * share, digits=2, plain=True)} %"


QUESTIONS = (
    GuidedQuestion(
        "This is the scale of your guess, 2¹⁴: the row *FP4 radix 2* has the powers of two. Which share becomes zero with powers "
        "of four, in the row *FP4 radix 4, even*?",
        {},
        lambda s: (
            f"{percent(zeroed(s, TWO))} with powers of two, and {percent(zeroed(s, FOUR))} with powers of four. Powers "
            "of four reach down to 1/64, and powers of two only to 1."
        ),
        lambda s: zeroed(s, FOUR) < zeroed(s, TWO) / 5,
        controls=("scale",),
        figure="grids",
        guess="%",
    ),
    GuidedQuestion(
        "Each curve is the error of the worst layer in a grid. Move *scale*: at how many scales is it at most"
        " 50 % in radix 4?",
        {"scale": 17},
        lambda s: (
            f"Radix 4 has {good(s, FOUR)} good scales and radix 2 has {good(s, TWO)}, at 2¹⁷. With radix 4 you need "
            "not hit the scale exactly, because its sizes cover twice as many octaves."
        ),
        lambda s: good(s, FOUR) > 5 and good(s, TWO) == 1 and worst(s) <= 0.5,
        controls=("scale",),
        figure="errors",
        guess="scales",
    ),
    GuidedQuestion(
        "Go back to 2¹⁴, and look at one *layer* only, first at *token_embedding*, then at *blocks.1.mlp.up*."
        " Which of them does the common scale suit?",
        {"scale": 14, "layer": "blocks.1.mlp.up"},
        lambda s: (
            f"In token_embedding, {percent(zeroed(s.changed(layer='token_embedding'), TWO))} become zero in radix 2, "
            f"in blocks.1.mlp.up {percent(zeroed(s, TWO))}. The gradients of the second one are so much smaller that "
            "it needs a scale of 2¹⁹."
        ),
        lambda s: (
            zeroed(s.changed(layer="token_embedding"), TWO) < 0.2 < 0.99 < zeroed(s, TWO)
            and first_scale(float(np.abs(four_bits.gradients(s.moment)[s.layer]).max())) == 2.0**19
        ),
        controls=("scale", "layer"),
        figure="grids",
        guess=("token_embedding", "blocks.1.mlp.up"),
    ),
    GuidedQuestion(
        "Choose *all layers* again, and give each layer a scale of its own, with the last position of "
        "*scale*, *own*. Which grid has the smaller mean error now?",
        {"scale": PER_LAYER},
        lambda s: (
            f"Radix 2 has, with {whole(four_bits.table(s)[TWO].error)} against {whole(four_bits.table(s)[FOUR].error)}."
            " Range is no longer the problem, so the finer grid wins."
        ),
        lambda s: four_bits.table(s)[TWO].error < 0.6 * four_bits.table(s)[FOUR].error,
        controls=("scale", "layer"),
        figure="grids",
        guess=("radix 2", "radix 4"),
    ),
)
GUIDED = ((explorer, QUESTIONS),)


def checked_numbers() -> Folded:
    """Every number of the lab that no visible table has, for the tests: tables, numbers of the text, answers."""
    shown = explorer()
    answers = [question.answer(shown.state_at(**question.position)) for question in QUESTIONS]
    return Folded(scales_and_grids(), throws(), numbers_of_the_text(), "\n".join(answers))


def differences_of_the_cards() -> dict[str, float]:
    """What the text tells of two cards: one phase against two in the Transformer, and how far scales lie apart."""
    ablation, follows = claims.get("sun_2020_ablation"), claims.get("sun_2020_gradscale")
    losses, octaves = (claims.stored(claim).results(claim) for claim in (ablation, follows))
    one, two = (losses.values("loss", network="transformer", recipe=name) for name in ("one phase", "two phases"))
    facts = {
        "Transformer, one phase above two (thousandths of a bit), mean": 1000 * float((one - two).mean()),
        "Transformer, seeds on which one phase is worse": float((one > two).sum()),
        "Transformer, seeds": float(len(one)),
    }
    for network in ("Transformer", "eleven linear layers"):
        apart = octaves.values("octaves", network=network, gradients="scale per layer")
        facts |= {f"{network}, octaves between scales, least": float(apart.min())}
        facts |= {f"{network}, octaves between scales, most": float(apart.max())}
    return facts


@needing("torch")
def numbers_of_the_text() -> figures.DataTable:
    """The numbers that the text of the lab gives and no other table has."""
    int4 = np.array(GRADIENT_GRIDS["int4"].values)
    last = [np.log2(scales[-1]) for scales in recorded_scales().values()]
    small, mid = (GridEffect.mean(effects(grid, 16)) for grid in (TWO, FOUR))
    two, one = (gain_of(f"radix 4, {phases}") for phases in ("two phases", "one phase"))
    others = ("attention.project", "mlp.up", "mlp.down")
    # together: at 0.395 the second one's digits depend on the processor
    first = [two[f"{name}.weight"] for name in ("token_embedding", "blocks.0.attention.qkv")]
    arriving = {
        "radix 4, two phases: share that arrives in token_embedding and qkv, mean": np.mean(first),
        "radix 4, two phases: how far these two are apart": np.ptp(first),
        **{f"radix 4, two phases: share that arrives in blocks.0.{n}": two[f"blocks.0.{n}.weight"] for n in others},
        "radix 4, two phases: share that arrives in head": two["head.weight"],
        "radix 4, one phase: share that arrives in token_embedding": one["token_embedding.weight"],
        "radix 4, one phase: share that arrives in head": one["head.weight"],
    }
    gains = {rounding: np.array(list(gain_of(rounding).values())) for rounding in ("radix 2", "radix 4, two phases")}
    parts = np.arange(64) / 64
    down = {
        f"{GRADIENT_GRIDS[grid].label}: share rounded down": np.mean(
            [share_rounded_down(x, grid) for x in layers().values()]
        )
        for grid in (FOUR, ODD)
    }
    facts = {
        "smallest number that radix 2 does not make zero": parts[GRADIENT_GRIDS[TWO].quantize(parts, 1.0) > 0].min(),
        **down,
        "sizes of INT4 above 32": float(np.sum(int4 > 32)),
        "octaves between the scales at the end": max(last) - min(last),
        **differences_of_the_cards(),
        "share of largest gradients beyond 64": share_beyond(),
        "cosine of radix 2 at 2¹⁶": small.cosine,
        "cosine of radix 4 at 2¹⁶": mid.cosine,
        "times as many zeros in radix 2": small.zeroed / mid.zeroed,
        **arriving,
        "radix 2: share that arrives in token_embedding": gains["radix 2"][0],
        "least that radix 2 has more than radix 4 in a layer": float(np.subtract(*gains.values()).min()),
        "farthest from 1 with LUQ": max(abs(gain - 1) for gain in gain_of("LUQ").values()),
    }
    values = [float(value) for value in facts.values()]
    return figures.DataTable({"what the text says": list(facts), "number": values}, formats={"number": ".2f"})
