"""Lab 01, Few bits, many decisions: its tables, and the questions above its explorer."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lplab import datasets, figures, widgets
from lplab import formats as F
from lplab.exercises.lab01 import codes_between
from lplab.figures.codebook_table import codebook_table_data
from lplab.figures.window import window
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, guided
from lplab.number_text import number, percent, raised
from lplab.widgets.explorers.format_state import FormatState, format_of
from lplab.widgets.tensor_library import TensorLibrary

E4M3 = F.get("e4m3fn")
SIXTEEN = ("fp16", "dlfloat16", "bf16")
SPLITS = {"fp16": "1-5-10", "dlfloat16": "1-6-9", "bf16": "1-8-7"}
LATE = {"residual network": ("resnet", 200), "Transformer": ("transformer", 1000)}  # and the step of its gradients
EMBEDDING = "transformer/step1000/token_embedding/gradient"
LAYER = "transformer/step1000/blocks.1.mlp.up"


# ---- tables ----------------------------------------------------------------------------------------------------------


def codes_by_range() -> figures.DataTable:
    """What the 256 codes of E4M3 stand for, counted.

    >>> sum(codes_by_range().columns["codes"])
    256
    """
    values = E4M3.codebook()
    counts = {
        "the two zeros": np.sum(values == 0),
        "between 0 and 1": codes_between(0, 1),
        "from 1 up to 2": np.sum((values >= 1) & (values < 2)),
        "from 2 to 448": np.sum(values >= 2),
        "negative numbers": np.sum(values < 0),
        "NaN": np.sum(np.isnan(values)),
    }
    columns: dict[str, list[Any]] = {
        "what the code stands for": list(counts),
        "codes": [int(count) for count in counts.values()],
    }
    return figures.DataTable(columns, caption="The 256 codes of E4M3")


def ties() -> figures.DataTable:
    """Five numbers halfway between two neighbours of E4M3, and what three roundings make of them.

    >>> ties().rows()[0]
    ['34', '32', '36', '32']
    """
    values = (34.0, 38.0, -38.0, 2.0**-10, 464.0)
    roundings = ("nearest_even", "nearest_away", "toward_zero")
    columns = {name.replace("_", " "): [float(E4M3.quantize(x, name)) for x in values] for name in roundings}
    shown = {name: _exact for name in ("value", *columns)}
    return figures.DataTable(
        {"value": list(values), **columns}, caption="Five ties, three ways to round", formats=shown
    )


def sixteen_bits() -> figures.DataTable:
    """What three formats of sixteen bits do to all gradients that were captured late in two trainings."""
    rows = [(network, name, _effect_of(late_gradients(network), name)) for network in LATE for name in SIXTEEN]
    columns = {
        "gradients of": [network for network, _, _ in rows],
        "format": [name for _, name, _ in rows],
        "flushed to 0": [effect.flushed for *_, effect in rows],
        "rounding error": [10 ** (-effect.sqnr_db / 20) for *_, effect in rows],
        "bits": [SPLITS[name] for _, name, _ in rows],
        "octaves": [round(F.get(name).dynamic_range_octaves) for _, name, _ in rows],
    }
    caption = "Rounding error: norm of the error (root of the sum of squares), as a share of the norm of the tensor"
    return figures.DataTable(columns, caption=caption, formats={"flushed to 0": percent, "rounding error": ".2%"})


@cache
def late_gradients(network: str) -> np.ndarray:
    """All gradients that were captured at the last step of a training, float32 [n].

    Args:
        network: "residual network" or "Transformer".
    """
    model, step = LATE[network]
    tensors = datasets.captured()
    return np.concatenate([tensors[name].ravel() for name in tensors.select(model=model, step=step, role="gradient")])


def one_format_for_all() -> figures.DataTable:
    """What eight bits do to four tensors of a Transformer, for three choices of range, precision and bias.

    >>> one_format_for_all().columns["format"]
    ['E4M3', '1-5-2', 'E4M3, bias 15']
    """
    choices = {
        "E4M3": E4M3,
        "1-5-2": F.FloatFormat(5, 2, specials="fn"),
        "E4M3, bias 15": F.FloatFormat(4, 3, bias=15, specials="fn"),
    }
    tensors = datasets.captured()
    columns: dict[str, list[str | float]] = {"format": list(choices)}
    for label, name in (("embedding gradient", EMBEDDING), ("MLP gradient", f"{LAYER}/gradient")):
        columns[f"{label}, flushed"] = [_effect_of(tensors[name], fmt).flushed for fmt in choices.values()]
    activation = tensors[f"{LAYER}/activation"]
    columns["MLP activation, saturated"] = [_effect_of(activation, fmt).saturated for fmt in choices.values()]
    formats = dict.fromkeys(list(columns)[1:], percent)
    return figures.DataTable(columns, caption="One format for every tensor?", formats=formats)


def three_called_e4m3() -> figures.DataTable:
    """Three formats that are called E4M3: what differs.

    >>> three_called_e4m3().columns["largest"]
    [240.0, 448.0, 240.0]
    """
    found = [F.get(name) for name in ("e4m3", "e4m3fn", "e4m3fnuz")]
    columns = {
        "format": [f.name for f in found],
        "largest": [float(f.max) for f in found],
        "smallest": [float(f.smallest_subnormal) for f in found],
        "bias": [f.bias for f in found],
        "codes without a number of their own": [f.wasted_codes for f in found],
        "500 becomes": [float(f.quantize(500.0)) for f in found],
        "−0 becomes": ["−0" if np.signbit(f.quantize(-0.0)) else "0" for f in found],
    }
    shown = dict.fromkeys(("largest", "smallest", "500 becomes"), _exact)
    return figures.DataTable(columns, caption="Three formats called E4M3", formats=shown)


def landmarks() -> figures.DataTable:
    """The codes of E4M3 that are worth knowing: both ends of each kind, and the special ones."""
    code, bits, value, kind, step = codebook_table_data(E4M3, limit=0).tolist()
    steps = [_exact(float(text)) if text != "–" else text for text in step]  # 2⁻⁹, as the lab calls it
    columns = {"code": code, "bits": bits, "value": value, "kind": kind, "step to the next": steps}
    return figures.DataTable(columns, caption="Landmarks among the codes of E4M3")


def stochastic_rounding() -> figures.DataTable:
    """The mean of 30,000 stochastic roundings of 1.09, for the three ways of P3109 to use N random bits.

    >>> stochastic_rounding().columns["random bits"]
    [1, 2, 3, 8]
    """
    x = np.full(30_000, 1.09, np.float32)  # 0.72 of the way from 1 to 1.125
    columns: dict[str, list[float]] = {"random bits": [1, 2, 3, 8]}
    for variant in "ABC":
        columns[f"mean with {variant}"] = [
            float(E4M3.quantize(x, "stochastic", seed=1, random_bits=n, variant=variant).mean(dtype=float))
            for n in columns["random bits"]
        ]
    formats = dict.fromkeys(list(columns)[1:], ".4f")
    return figures.DataTable(columns, caption="Stochastic rounding of 1.09, mean of 30,000", formats=formats)


def numbers_of_the_text() -> figures.DataTable:
    """The numbers that the text of the lab gives and no other table has."""
    values = E4M3.codebook()
    numbers = np.unique(values[np.isfinite(values)])
    middles = (numbers[:-1] + numbers[1:]) / 2
    even, away = (E4M3.quantize(middles, name) for name in ("nearest_even", "nearest_away"))
    tensors = datasets.captured()
    gradient, activation = tensors[f"{LAYER}/gradient"], tensors[f"{LAYER}/activation"]
    lost = []
    for bias in range(-9, 24):
        fmt = F.FloatFormat(4, 3, bias=bias, specials="fn")
        lost.append(max(_effect_of(gradient, fmt).flushed, _effect_of(activation, fmt).saturated))
    facts = {
        "36.6 becomes": E4M3.quantize(36.6),
        "0.3 becomes": E4M3.quantize(0.3),
        "numbers from 32 up to 64": np.sum((numbers >= 32) & (numbers < 64)),
        "numbers from 1/64 up to 1/32": np.sum((numbers >= 1 / 64) & (numbers < 1 / 32)),
        "share of ties in which nearest even and nearest away differ": np.mean(even != away),
        "share of the embedding gradient that fp16 flushes": _effect_of(tensors[EMBEDDING], "fp16").flushed,
        "share that the best bias loses of the MLP gradient or of its activation": min(lost),
    }
    values_of = [float(value) for value in facts.values()]
    return figures.DataTable({"what the text says": list(facts), "number": values_of}, formats={"number": ".5g"})


def _exact(value: float) -> str:
    return raised(number(value, digits=6, plain=True))


def _effect_of(tensor: np.ndarray, fmt: F.Format | str) -> figures.TensorStatistics:
    return figures.tensor_statistics(tensor, fmt)


# ---- the explorer and its questions ----------------------------------------------------------------------------------


def explorer() -> widgets.FormatExplorer:
    """The explorer of the lab, where it opens: a gradient in sixteen bits, all of which survives."""
    return widgets.FormatExplorer(EMBEDDING, preset="fp16")


def guided_explorer() -> GuidedExplorer:
    """The explorer below its questions."""
    return guided(explorer(), QUESTIONS)


def effect(state: FormatState) -> figures.TensorStatistics:
    """What the format of a state does to the tensor of the state."""
    return _effect_of(TensorLibrary().sample(state.tensor), format_of(state))


def worst_error(state: FormatState) -> str:
    """The largest relative error of a normal number, in percent."""
    half = 2.0 ** -(state.mantissa_bits + 1)  # half a step, of a number just below 1 + half
    return f"{number(100 * half / (1 + half), digits=3, plain=True)} %"


def octaves(state: FormatState) -> str:
    """The octaves that a format covers, with one decimal."""
    return f"{format_of(state).dynamic_range_octaves:.1f}"


def largest(state: FormatState) -> str:
    """The largest number of a format."""
    return _exact(float(format_of(state).max))


def _price_of_range(state: FormatState) -> str:
    before = state.changed(exponent_bits=4, mantissa_bits=3)
    return (
        f"Rounding is off by up to {worst_error(state)}, where it was {worst_error(before)} before: this is the price. You "
        f"gain range, so only {percent(effect(state).flushed)} become zero now. The signal to noise of this tensor even "
        f"rises, from {effect(before).sqnr_db:.0f} to {effect(state).sqnr_db:.0f} dB: what survived in E4M3 were its "
        "subnormals, which have fewer bits still."
    )


def _price_is_true(state: FormatState) -> bool:
    before = state.changed(exponent_bits=4, mantissa_bits=3)
    tensor = np.abs(TensorLibrary().sample(state.tensor))
    few = E4M3.smallest_subnormal / 2 < tensor[tensor != 0].max() < E4M3.smallest_normal
    fits = effect(state).flushed < 0.02 and effect(state).saturated == 0
    return bool(few and fits and effect(before).sqnr_db < effect(state).sqnr_db)


def _no_shift_for_both(state: FormatState) -> str:
    activation, gradient = (effect(state.changed(tensor=f"{LAYER}/{role}")) for role in ("activation", "gradient"))
    return (
        f"Both. {percent(activation.saturated)} of the activations are beyond the largest number, {largest(state)}, and "
        f"saturate: for them we have shifted too far. And {percent(gradient.flushed)} of the gradient still becomes zero. "
        "So each tensor needs a shift of its own."
    )


QUESTIONS = (
    GuidedQuestion(
        "Choose the preset *e4m3fn*, which has eight bits instead of sixteen. Which share of these gradients becomes zero?",
        {"preset": "e4m3fn"},
        lambda s: (
            f"{percent(effect(s).flushed)} are flushed to zero. They are smaller than "
            f"{_exact(window(format_of(s)).flush)}, which is half of the smallest number of E4M3, so zero is nearer."
        ),
        lambda s: effect(s).flushed > 0.5 and window(format_of(s)).flush == E4M3.smallest_subnormal / 2,
        ("preset",),
        "histogram",
        "%",
    ),
    GuidedQuestion(
        "Move one bit from the mantissa to the exponent, to 5 exponent bits and 2 mantissa bits. (The bias becomes 15 by "
        "itself, so that the window stays around 1.) How far off is rounding now, at most, in the flat part of the curve?",
        {"preset": "e4m3fn", "exponent_bits": 5, "mantissa_bits": 2},
        _price_of_range,
        _price_is_true,
        ("exponent_bits", "mantissa_bits"),
        "error",
        "%",
    ),
    GuidedQuestion(
        "Choose *e4m3fn* again, and raise the *bias* by 4 to 11. All numbers of the format are now 2⁴ = 16 times "
        "smaller. Which share of the gradients becomes zero?",
        {"preset": "e4m3fn", "bias_shift": 4},
        lambda s: (
            f"{percent(effect(s).flushed)} become zero, and the precision stays as it was. The price is at the "
            f"top, where the largest number is now {largest(s)}. These gradients are all smaller, so the shift costs "
            "nothing here."
        ),
        lambda s: effect(s).saturated == 0 and worst_error(s) == worst_error(s.changed(bias_shift=0)),
        ("preset", "bias_shift"),
        "histogram",
        "%",
    ),
    GuidedQuestion(
        "Go on to bias 15. Choose the *activation* of the layer *blocks.1.mlp.up*, and then its *gradient*. Which of the "
        "two does not fit into the window?",
        {"preset": "e4m3fn", "bias_shift": 8, "tensor": f"{LAYER}/gradient"},
        _no_shift_for_both,
        lambda s: effect(s).flushed > 0.5 and effect(s.changed(tensor=f"{LAYER}/activation")).saturated > 0.05,
        ("preset", "bias_shift", "chooser"),
        "histogram",
        ("the activation", "the gradient", "both"),
    ),
)


GUIDED = ((explorer, QUESTIONS),)


def checked_numbers() -> Folded:
    """Every number of the lab that no visible table has, for the tests: tables, numbers of the text, answers."""
    shown = explorer()
    answers = [question.answer(shown.state_at(**question.position)) for question in QUESTIONS]
    tables = (codes_by_range(), one_format_for_all(), landmarks(), stochastic_rounding(), numbers_of_the_text())
    return Folded(*tables, "\n".join(answers))
