"""Lab 06, two 8-bit formats: its tables, its guided questions, and the training that it runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lplab import claims, datasets, figures, widgets
from lplab import formats as F
from lplab.exercises.lab06 import delayed_table
from lplab.figures import DataTable
from lplab.figures.plane import group_medians
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, guided
from lplab.labs.needing import needing
from lplab.number_text import decibels, number, percent
from lplab.widgets.explorers import plane_explorer as plane
from lplab.widgets.explorers.plane_explorer import PlaneState

FORWARD, BACKWARD, E4M3 = "HFP8 forward (1-4-3)", "HFP8 backward (1-5-2)", "OCP E4M3"
NAMES = {"hfp8_forward": "1-4-3", "hfp8_backward": "1-5-2", "e4m3fn": "E4M3", "fp16": "fp16"}
LAYER = "transformer/step1000/blocks.0.attention.qkv"
GRADIENT = "blocks.0.attention.qkv/gradient"
MOVED = 22  # a bias at which 1-4-3 holds the gradients
CLAIM = "hfp8_2019"


# ---- the explorer and its questions ----------------------------------------------------------------------------------


def explorer() -> widgets.PlaneExplorer:
    """The plane where the first prediction asks: a gradient in the format that keeps the weights."""
    return widgets.PlaneExplorer(format=FORWARD, tensor=GRADIENT)


def median_row(state: PlaneState, group: str) -> tuple[float, float]:
    """Signal to noise (dB) and lost share of the median row of "weights", "activations" or "gradients"."""
    return group_medians(plane.rows(state), group)


def _decibels(state: PlaneState, group: str) -> str:
    return decibels(median_row(state, group)[0], digits=0)


def _lost(state: PlaneState, group: str) -> str:
    return f"{100 * median_row(state, group)[1]:.0f} %"


def _which_group_fits(state: PlaneState) -> str:
    return (
        f"1-4-3 holds the weights and the activations: the median rows keep {_decibels(state, 'weights')} and "
        f"{_decibels(state, 'activations')}, and lose next to nothing. It loses {_lost(state, 'gradients')} of the "
        "gradients, because they lie to the left of the window. More mantissa bits would not help them. The window must lie further left."
    )


def _what_the_exponent_bit_buys(state: PlaneState) -> str:
    fine = state.changed(format=FORWARD)
    return (
        f"The gradients win: the median row loses {_lost(state, 'gradients')} instead of {_lost(fine, 'gradients')}. "
        f"The weights pay: they keep {_decibels(state, 'weights')} instead of {_decibels(fine, 'weights')}, and so do "
        "the activations. 6 dB less means that the error doubles."
    )


def _what_another_bias_does(state: PlaneState) -> str:
    return (
        f"With a bias of {state.bias} the window ends at {number(state.number_format.max, plain=True)}. The median row "
        f"of the gradients loses less than 1 % now, but {_lost(state, 'weights')} of the weights are larger than that, "
        "and saturate. One window cannot be in two places."
    )


def _what_a_scale_does(state: PlaneState) -> str:
    wide = state.changed(format=BACKWARD)
    return (
        f"1-4-3 is better for all three groups: its gradients keep {_decibels(state, 'gradients')}, those of 1-5-2 "
        f"{_decibels(wide, 'gradients')}. Once every tensor is moved into the window, range is no longer what is "
        "missing, and the third mantissa bit wins."
    )


def _fits(state: PlaneState, group: str) -> bool:
    return median_row(state, group)[1] < 0.01


QUESTIONS = (
    GuidedQuestion(
        "This is 1-4-3, and the framed row is the gradient of your guess. Which of the three groups does 1-4-3 lose?",
        {"format": FORWARD, "tensor": GRADIENT},
        _which_group_fits,
        lambda state: (
            _fits(state, "weights") and _fits(state, "activations") and median_row(state, "gradients")[1] > 0.5
        ),
        ("format",),
        "tensors",
        ("weights", "activations", "gradients"),
    ),
    GuidedQuestion(
        "Now choose *HFP8 backward (1-5-2)*. The gradients lose less. By how many dB does the signal to noise of the "
        "weights fall?",
        {"format": BACKWARD, "tensor": GRADIENT},
        _what_the_exponent_bit_buys,
        lambda state: all(
            5 < median_row(state.changed(format=FORWARD), group)[0] - median_row(state, group)[0] < 7
            for group in ("weights", "activations")
        ),
        ("format",),
        "tensors",
        "dB",
    ),
    GuidedQuestion(
        "Go back to 1-4-3. A larger *exponent bias* makes all numbers of the format smaller, so the window moves to the "
        "left. Raise it until most gradients are blue. Which share of the weights is lost then?",
        {"format": FORWARD, "bias": MOVED, "tensor": GRADIENT},
        _what_another_bias_does,
        lambda state: _fits(state, "gradients") and median_row(state, "weights")[1] > 0.5,
        ("format", "bias"),
        "tensors",
        "%",
    ),
    GuidedQuestion(
        f"Move the bias back to {F.get('hfp8_forward').bias}, and choose the scale *one per tensor*. Which of the two "
        "formats keeps the gradients better now?",
        {"format": FORWARD, "scaling": plane.TENSOR, "tensor": GRADIENT},
        _what_a_scale_does,
        lambda state: all(
            median_row(state, group)[0] > median_row(state.changed(format=BACKWARD), group)[0]
            for group in plane.GROUPS.values()
        ),
        ("format", "bias", "scaling"),
        "tensors",
        ("1-4-3", "1-5-2"),
    ),
)
GUIDED = ((explorer, QUESTIONS),)


def guided_explorer() -> GuidedExplorer:
    """The explorer below its questions."""
    return guided(explorer(), QUESTIONS)


# ---- tables ----------------------------------------------------------------------------------------------------------


def two_formats() -> DataTable:
    """Range and precision of the two formats of 2019."""
    each = [F.get(name) for name in ("hfp8_forward", "hfp8_backward")]
    return DataTable(
        {
            "format": [NAMES[f.name] for f in each],
            "smallest": [f.smallest_subnormal for f in each],
            "largest": [f.max for f in each],
            "octaves": [f.dynamic_range_octaves for f in each],
            "numbers from 1 to 2": [2**f.mantissa_bits for f in each],
            "largest error from 1 to 2": [100 * 2.0 ** -(f.mantissa_bits + 1) for f in each],
        },
        caption="The two 8-bit formats of 2019: 1-4-3 is more precise, 1-5-2 has more range.",
        formats={"smallest": ".6f", "largest": ",g", "octaves": ".0f", "largest error from 1 to 2": "{:.4g} %".format},
    )


def what_you_saw() -> DataTable:
    """Weight, activation and gradient of one layer in four formats, without a scale."""
    stored = datasets.captured()
    each = {
        name: [figures.tensor_statistics(stored[f"{LAYER}/{role}"], name) for role in plane.GROUPS] for name in NAMES
    }
    return DataTable(
        {
            "format": [NAMES[name] for name in each],
            **{
                f"{role} (dB)": [numbers[i].sqnr_db for numbers in each.values()] for i, role in enumerate(plane.GROUPS)
            },
            "gradient to zero": [numbers[2].flushed for numbers in each.values()],
        },
        caption="Signal to noise of three tensors of one layer, and the share of the gradient that becomes zero.",
        formats={**{f"{role} (dB)": ".1f" for role in plane.GROUPS}, "gradient to zero": percent},
    )


def gradients() -> DataTable:
    """The gradients of all layers in 1-4-3, without a scale."""
    each = [
        (plane.label_of(name.rpartition("/")[0]), figures.tensor_statistics(tensor, "hfp8_forward"))
        for name, tensor in plane.tensors("Transformer").items()
        if name.endswith("/gradient")
    ]
    return DataTable(
        {
            "gradient of": [label for label, _ in each],
            "to zero": [numbers.flushed for _, numbers in each],
            "signal to noise (dB)": [numbers.sqnr_db for _, numbers in each],
        },
        caption="Gradients in 1-4-3 without a scale.",
        formats={"to zero": percent, "signal to noise (dB)": ".1f"},
    )


def delayed() -> Folded:
    """Delayed scaling over 400 recorded steps, for some histories and margins: what the sliders of the figure find."""
    rows = delayed_table(lengths=(1, 16, 64), margins=(0, 1))
    lengths, margins, clipped, _, unused = zip(*rows, strict=True)
    table = DataTable(
        {
            "history (steps)": lengths,
            "margin (octaves)": margins,
            "steps clipped": clipped,
            "unused octaves": unused,
        },
        caption="The gradient of a layer over 400 steps, in E4M3 with delayed scaling.",
        formats={"unused octaves": ".1f"},
    )
    return Folded(table, line="Six positions of the sliders (open it after you have tried)")


def numbers_of(name: str) -> set[float]:
    """All finite numbers of a format."""
    values = F.get(name).codebook()
    return set(values[np.isfinite(values)].tolist())


def three_formats() -> DataTable:
    """1-4-3 of 2019 beside E4M3 of 2022: how many numbers, and what becomes of a small and of a large one."""
    names = ("hfp8_forward", "e4m3fn")
    return DataTable(
        {
            "format": [NAMES[name] for name in names],
            "bias": [F.get(name).bias for name in names],
            "numbers": [len(numbers_of(name)) for name in names],
            "largest": [F.get(name).max for name in names],
            "0.001 becomes": [float(F.get(name).quantize(0.001)) for name in names],
            "100 becomes": [float(F.get(name).quantize(100)) for name in names],
        },
        caption="Two formats with four exponent bits and three mantissa bits, without a scale.",
        formats={"largest": "g", "0.001 becomes": ".3g", "100 becomes": "g"},
    )


def fitting_loss_scales(format: str) -> list[int]:
    """The exponents of the powers of two with which a format holds all gradients of the trained Transformer.

    With such a loss scale no gradient saturates, and of the median gradient less than 1 % becomes zero.
    """
    kept = F.get(format)
    sizes = [np.abs(x[x != 0]) for name, x in plane.tensors("Transformer").items() if name.endswith("gradient")]

    def fits(exponent: int) -> bool:
        scaled = [np.ldexp(x, exponent) for x in sizes]
        lost = [float((x <= kept.smallest_subnormal / 2).mean()) for x in scaled]
        return max(x.max() for x in scaled) <= kept.max and float(np.median(lost)) < 0.01

    return [exponent for exponent in range(-8, 40) if fits(exponent)]


def facts() -> DataTable:
    """The other numbers that the text of the lab gives, each computed."""
    stored, fine = datasets.captured(), F.get("hfp8_forward")
    tensors = plane.tensors("Transformer").items()
    sizes = {role: [np.abs(x[x != 0]) for name, x in tensors if name.endswith(role)] for role in plane.GROUPS}
    middles = {role: np.log2([np.median(x) for x in each]) for role, each in sizes.items()}
    weight = figures.tensor_statistics(stored[f"{LAYER}/weight"], "hfp8_forward")
    small = 3e-5
    scaled = PlaneState(scaling=plane.TENSOR)
    fitting = {name: fitting_loss_scales(name) for name in ("hfp8_forward", "hfp8_backward")}
    common = {16 * value for value in numbers_of("hfp8_forward")} ^ numbers_of("e4m3fn")
    claim = claims.get(CLAIM)
    results = claims.stored(claim).results(claim)
    scaled_loss = "1-4-3 gradients, scale 1000"
    recipes = ("float32", "hybrid", "1-5-2 everywhere", scaled_loss, "1-4-3 gradients, no scale")
    losses = {name: results.values("loss", recipe=name) for name in recipes}
    behind = losses["1-5-2 everywhere"] - losses["hybrid"]
    lost = {name: (losses[name] - losses["float32"]) / losses["float32"] for name in recipes[1:4]}
    known = {
        "rounding error of a weight, share of its size": f"{10 ** (-weight.sqnr_db / 20):.3f}",
        "a weight of 1-4-3 that becomes zero": percent(weight.flushed),
        "the median weight lies at 2^": f"{np.median(middles['weight']):.1f}",
        "the median activation lies at 2^": f"{np.median(middles['activation']):.1f}",
        "the median gradient lies at 2^": f"{np.median(middles['gradient']):.1f}",
        "largest activation": f"{max(x.max() for x in sizes['activation']):.1f}",
        "half of the smallest number of 1-4-3": f"{fine.smallest_subnormal / 2:.2g}",
        "0.00003 in 1-4-3": f"{float(fine.quantize(small)):g}",
        "0.00003 times 1,024": f"{1024 * small:g}",
        "rounded": f"{float(fine.quantize(1024 * small)):g}",
        "divided by 1,024": f"{float(fine.quantize(1024 * small)) / 1024:.3g}",
        "1-4-3 with a scale for each tensor": ", ".join(_decibels(scaled, group) for group in plane.GROUPS.values()),
        **{
            f"loss scales that fit in {NAMES[name]}": f"2^{ks[0]} to 2^{ks[-1]}, {len(ks)}"
            for name, ks in fitting.items()
        },
        "numbers in only one of 16 times 1-4-3 and E4M3": f"{sorted(common)}",
        "1-5-2 and E5M2 have the same numbers": f"{numbers_of('hfp8_backward') == numbers_of('e5m2')}",
        "seeds on which 1-5-2 is behind the hybrid": f"{int((behind > 0).sum())} of {len(behind)}",
        "most that a seed of the hybrid loses": percent(float(lost["hybrid"].max())),
        "most that a seed of 1-5-2 for everything loses": percent(float(lost["1-5-2 everywhere"].max())),
        "most that a seed of 1-4-3 and a loss scale of 1,000 loses": percent(float(lost[scaled_loss].max())),
        "times as much as the hybrid": f"{lost['1-5-2 everywhere'].mean() / lost['hybrid'].mean():.1f}",
        "test digits of the small network": f"{digits_of_the_test()}",
        "loss of four recipes (bits), the worst": f"{max(losses[n].max() for n in recipes[:4]):.2f}",
        "loss of 1-4-3 for gradients, the best": f"{losses['1-4-3 gradients, no scale'].min():.2f}",
    }
    return DataTable({"what": list(known), "value": list(known.values())}, caption="Numbers of the text.")


@needing("torch")
def digits_of_the_test() -> int:
    """How many digits test the small network of exercise 06.3."""
    from lplab.training import tasks

    return len(tasks.get("digits_resnet").test()[1])


def checked_numbers() -> Folded:
    """The numbers that answer the prediction or stand in the text, for the tests."""
    return Folded(what_you_saw(), gradients(), facts())


# ---- the training ----------------------------------------------------------------------------------------------------


@needing("torch")
def train_five_recipes(steps: int = 60) -> widgets.LiveTrainers:
    """A button that trains a small Transformer in float32, in hybrid FP8, and with one format for both passes.

    The format 1-4-3 is there twice, with a constant loss scale and without.

    Args:
        steps: of every training.
    """
    from lplab.claims.framework.models import small_transformer  # needs PyTorch
    from lplab.claims.papers.hfp8_2019 import FINE, FINE_SCALED, HYBRID, ONE, SWITCHES
    from lplab.training import recipes

    def trainer(recipe: Any) -> Any:
        return small_transformer().trainer(recipe, seed=0)

    names = (HYBRID, FINE_SCALED, ONE, FINE)
    makers = {name: partial(trainer, recipes.get("hfp8_2019", **SWITCHES[name])) for name in names}
    makers["fp32"] = partial(trainer, "fp32")
    return widgets.live_trainers(makers, steps=steps, name="Train five recipes", bits=True, loss_range=(3, 6))
