"""Lab 03, the range of gradients: its tables, its guided questions, and the four trainings that run live."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab import figures, widgets
from lplab import formats as F
from lplab.datasets import captured
from lplab.figures.range_outcomes import RangeOutcomes, range_outcomes
from lplab.figures.window import window
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedQuestion
from lplab.labs.needing import needing
from lplab.number_text import percent, raised
from lplab.recordings import recorded
from lplab.widgets.explorers.range_explorer import SCORES, RangeState, first_to_overflow, label_of, largest_safe_scale

if TYPE_CHECKING:
    from lplab.widgets.live.live_trainers import LiveTrainers

GRADIENTS = "output_gradient_dx"  # what the explorer calls output gradients
LAST_STEP = 1000  # of the recording of the Transformer
LIVE_STEPS = 200  # gradients that are 256 times too small do their harm after about 120 steps


def outcomes(layer: str | None, step: int, scale: int = 0, fmt: str = "fp16") -> RangeOutcomes:
    """What a format makes of the recorded gradients of a layer (None: of all layers) behind a loss scale of 2^scale.

    >>> round(outcomes(SCORES, 1000).lost, 3)
    0.298
    """
    return range_outcomes(recorded("transformer").magnitudes(layer, GRADIENTS, step), window(F.get(fmt)), scale)


def power(exponent: int) -> str:
    """A power of two as text.

    >>> power(8), power(-24)
    ('2⁸', '2⁻²⁴')
    """
    return raised(f"2^{exponent}".replace("-", "\N{MINUS SIGN}"))


# -- tables ------------------------------------------------------------------------------------------------------------


def three_gradients() -> figures.DataTable:
    """Three gradients, multiplied by a loss scale, rounded to float16, and divided by the scale again.

    >>> three_gradients().columns["scale 1"][2]
    0.0
    """
    gradients, fp16 = (0.01, 0.00001, 0.00000001), F.get("fp16")
    columns: dict[str, Sequence[Any]] = {"gradient": [f"{g:.8f}".rstrip("0") for g in gradients]}
    names = {"scale 1": 0, f"scale {power(8)}": 8, f"scale {power(24)}": 24}
    for name, k in names.items():
        columns[name] = [float(fp16.quantize(g * 2.0**k)) / 2.0**k for g in gradients]
    return figures.DataTable(
        columns,
        caption="What is left of a gradient after scaling, rounding to float16, and dividing by the scale",
        formats=dict.fromkeys(names, _rounded_gradient),
    )


def _rounded_gradient(value: float) -> str:
    """Four significant digits without a power of ten, so that the columns can be compared by eye.

    >>> _rounded_gradient(0.00000001001), _rounded_gradient(0.0), _rounded_gradient(np.inf)
    ('0.00000001001', '0', 'infinite')
    """
    if not np.isfinite(value):
        return "infinite"
    return f"{Decimal(f'{value:.4g}'):f}"


def lost_scores() -> figures.DataTable:
    """The share of the attention scores' gradients, last block, that float16 makes zero: by step and loss scale.

    >>> [round(share, 3) for share in lost_scores().columns["no scale"]]
    [0.031, 0.166, 0.24, 0.262, 0.298]
    """
    steps = (0, 50, 250, 500, LAST_STEP)
    names = {"256 × smaller": -8, "no scale": 0, f"scale {power(8)}": 8, f"scale {power(16)}": 16}
    columns: dict[str, Sequence[Any]] = {"step": [f"{step:,}" for step in steps]}
    for name, k in names.items():
        columns[name] = [outcomes(SCORES, step, k).lost for step in steps]
    return figures.DataTable(
        columns,
        caption="Gradients of the attention scores in the last block: the share that float16 makes zero",
        formats=dict.fromkeys(names, ".1%"),
    )


def lost_length() -> figures.DataTable:
    """How many gradients of two layers float16 makes zero, and how much of the gradient's length goes with them.

    >>> round(lost_length().columns["of the length"][0], 4)
    0.0037
    """
    rows = [(layer, k, outcomes(layer, LAST_STEP, k)) for layer in (SCORES, "head") for k in (0, -4, -8)]
    return figures.DataTable(
        {
            "layer": [label_of(layer) for layer, _, _ in rows],
            "gradients": ["as they are" if k == 0 else f"{2**-k} times smaller" for _, k, _ in rows],
            "of the elements": [found.lost for _, _, found in rows],
            "of the length": [found.lost_length for _, _, found in rows],
        },
        caption="Step 1,000: the share that float16 makes zero. What vanishes are the smallest elements, "
        "and many of them together can still be a small part of the gradient's length (its 2-norm).",
        formats={"of the elements": ".0%", "of the length": ".1%"},
    )


def lost_updates() -> figures.DataTable:
    """The share of a residual net's updates that leave a 16-bit weight where it was, at three moments of a training.

    Weights and gradients are recorded ones. The learning rate is 0.05, as in that training.

    >>> [round(share, 3) for share in lost_updates().columns["fp16"]]
    [0.029, 0.142, 0.652]
    """
    stored = captured()
    steps, names = stored.steps_of("resnet"), ("fp16", "bf16")
    return figures.DataTable(
        {"step": steps} | {name: [_lost_share(stored, step, F.get(name)) for step in steps] for name in names},
        caption="Updates that leave a 16-bit weight where it was, in a recorded training of a residual network",
        formats=dict.fromkeys(names, ".1%"),
    )


def _lost_share(stored: Any, step: int, fmt: Any) -> float:
    lost = total = 0
    for name in stored.select("resnet", step, role="weight"):
        weight = fmt.quantize(stored[name].astype(np.float64))
        update = 0.05 * stored[f"{name}_gradient"]
        moves = update != 0
        lost += int(((fmt.quantize(weight - update) == weight) & moves).sum())
        total += int(moves.sum())
    return lost / total


def formats_without_scale() -> figures.DataTable:
    """What five formats make of all gradients after 1,000 steps without a loss scale.

    >>> formats_without_scale().columns["to zero"][1]
    0.0
    """
    names = {
        "fp16": "fp16",
        "bf16": "bf16",
        "dlfloat16": "DLFloat16 (1-6-9)",
        "fp8_152": "FP8 1-5-2",
        "hfp8_forward": "FP8 1-4-3",
    }
    shares = np.array([outcomes(None, LAST_STEP, fmt=name).shares for name in names])
    parts = ("to zero", "subnormal", "normal", "overflow")
    return figures.DataTable(
        {"format": list(names.values())} | {part: shares[:, i].tolist() for i, part in enumerate(parts)},
        caption="All gradients of the Transformer after 1,000 steps, without a loss scale",
        formats=dict.fromkeys(parts, ".1%"),
    )


def weights_after(scales: Sequence[float], steps: int = 20) -> list[np.ndarray]:
    """The weights of a small network after a training in float32 under each of these loss scales: float32 [weights]."""
    import torch

    from lplab.training import recipes, tasks

    found = []
    for scale in scales:
        trainer = tasks.get("mlp").trainer(replace(recipes.get("fp32"), loss_scale=scale))
        trainer.run(steps, progress=False)
        found.append(torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()]).numpy())
    return found


# -- live --------------------------------------------------------------------------------------------------------------


@needing("torch")
def train_four() -> LiveTrainers:
    """A button that trains the Transformer in float32, with a dynamic loss scale, without one, and with small gradients.

    The last run has a constant loss scale of 2⁻⁸, so its gradients are 256 times smaller and nothing scales them up.
    """
    from lplab.training import recipes, tasks

    wanted: dict[str, Any] = {
        "fp32": "fp32",
        "dynamic scale": "fp16_mixed",
        "no scale": recipes.get("fp16_mixed", loss_scale=1.0),
        "256 × smaller": recipes.get("fp16_mixed", loss_scale=2.0**-8),
    }
    makers: dict[str, Callable[[], Any]] = {
        name: partial(tasks.get("transformer").trainer, recipe) for name, recipe in wanted.items()
    }
    return widgets.live_trainers(
        makers, steps=LIVE_STEPS, name="Train four", bits=True, unit="bits a character", loss_range=(3.0, 6.5)
    )


@needing("torch")
def own_recording() -> widgets.RangeExplorer:
    """The explorer over a recording that is made here: a small network that learns digits for 61 steps."""
    from lplab.training import Recorder, tasks

    recorder = Recorder(every=10)
    tasks.get("mlp").trainer("fp32", recorder=recorder).run(61, progress=False)
    return widgets.RangeExplorer(recorder, format="FP8 1-5-2 (2018)", rows="all steps")


# -- guided questions --------------------------------------------------------------------------------------------------


def explorer() -> widgets.RangeExplorer:
    """The explorer as the lab opens it: at the step that its first prediction asks about."""
    return widgets.RangeExplorer(step=LAST_STEP)


def _here(state: RangeState, **changes: Any) -> RangeOutcomes:
    """What happens to the chosen tensor in a state, or after changes of it."""
    state = state.changed(**changes)
    return range_outcomes(state.magnitudes, state.window, state.scale)


def _shares(state: RangeState, **changes: Any) -> list[str]:
    return [percent(share) for share in _here(state, **changes).shares.tolist()]


def _overflow_answer(state: RangeState) -> str:
    layer = first_to_overflow(state)
    shown = range_outcomes(state.changed(layer=layer).magnitudes, state.window, state.scale)
    limit = largest_safe_scale(state)
    return (
        f"The layer {label_of(layer)}. At {power(state.scale)}, {percent(shown.overflowed)} of its "
        f"gradients overflow. At {power(limit or 0)} no layer overflows."
    )


QUESTIONS = (
    GuidedQuestion(
        "This is step 1,000 of your guess: what float16 makes zero lies in the zone *to zero*. Move *step* back to 0, "
        "before the training. Where do most gradients of the attention scores lie there?",
        {"step": 0},
        lambda state: (
            f"Nearly all, {_shares(state)[1]}, are subnormal. float16 still holds them, but with fewer bits. "
            f"{_shares(state)[0]} become zero, and {_shares(state, step=LAST_STEP)[0]} at the end: in the training the "
            "histogram gets wider, and its lower end moves out of the window."
        ),
        lambda state: (
            _here(state).shares[1] > 0.95
            and _here(state, step=LAST_STEP).lost > 5 * _here(state).lost
            and _octaves(state, step=LAST_STEP) > _octaves(state)
        ),
        ("step",),
        "histogram",
        ("to zero", "subnormal", "normal"),
    ),
    GuidedQuestion(
        "Go back to step 1,000, and move *loss scale* to 2⁸, which is 256. Which share still becomes zero?",
        {"step": LAST_STEP, "scale": 8},
        lambda state: (
            f"All bars move eight octaves to the right. {_shares(state)[0]} still become zero, instead of "
            f"{_shares(state, scale=0)[0]}, and nothing overflows."
        ),
        lambda state: _here(state).overflowed == 0 < _here(state).lost < 0.05 < _here(state, scale=0).lost,
        ("step", "scale"),
        "histogram",
        "%",
    ),
    GuidedQuestion(
        "The figure has a row for each layer now. Move *loss scale* up, until a number other than 0 appears in the column "
        "*over*. From which loss scale on does a layer overflow?",
        {"step": LAST_STEP, "scale": 22},
        _overflow_answer,
        lambda state: largest_safe_scale(state) == state.scale - 1,
        ("step", "scale"),
        "map",
        ("2¹⁰", "2¹⁶", "2²²", "2³⁰"),
    ),
    GuidedQuestion(
        "Set the loss scale back to 1 (2⁰), and choose the format *bf16*. Which share does it make zero? (In names of other "
        "formats, such as 1-5-2, three numbers count the bits of sign, exponent and mantissa.)",
        {"step": LAST_STEP, "format": "bf16"},
        lambda state: (
            f"Nothing becomes zero, and {_shares(state)[2]} are normal. bf16 has as many exponent bits as float32, so "
            "it needs no loss scale."
        ),
        lambda state: _here(state).shares[2] == 1,
        ("format", "scale", "step"),
        "histogram",
        "%",
    ),
)


def _octaves(state: RangeState, **changes: Any) -> int:
    """The width of the middle 98 % of the chosen tensor's magnitudes, in octaves."""
    found = state.changed(**changes).magnitudes
    reached = np.cumsum(found.counts) / max(found.total, 1)
    return int(np.searchsorted(reached, 0.99) - np.searchsorted(reached, 0.01))


GUIDED = ((explorer, QUESTIONS),)


# -- checked -----------------------------------------------------------------------------------------------------------


def numbers_of_the_text() -> list[str]:
    """What the text says and no visible table has, one line for each fact."""
    lines = [str(equal_weights())]
    for step, scale in ((0, 19), (LAST_STEP, 22)):
        before, at = (outcomes(None, step, k).overflowed for k in (scale - 1, scale))
        lines.append(f"step {step:,}: overflow from 2^{scale} on: {before == 0 < at}")
    lost = [outcomes(None, LAST_STEP, fmt=name).lost for name in ("fp8_152", "fp16")]
    fp16, scores = F.get("fp16"), recorded("transformer").magnitudes(SCORES, GRADIENTS, LAST_STEP)
    return [
        *lines,
        f"gradients of the scores that are exactly zero: {percent(scores.zeros / (scores.zeros + scores.total))}",
        f"FP8 1-5-2 loses {lost[0] / lost[1]:.1f} times as many gradients as fp16",
        f"after 1 comes {fp16.quantize(1 + 2**-10):.3f}; 1 + 0.0003 becomes {fp16.quantize(1.0003)}",
    ]


@needing("torch")
def equal_weights() -> str:
    """That the loss scale changes no weight in float32; trains a small network three times.

    Raises:
        RuntimeError: weights of trainings under different loss scales differ, so the text is wrong.
    """
    scales = (1.0, 2.0**10, 2.0**-8)
    first, *others = weights_after(scales)
    if not all((first == weights).all() for weights in others):
        raise RuntimeError(f"the weights after trainings under the loss scales {scales} differ")
    return f"{len(first):,} weights after 20 steps are equal to the last bit"


def checked_numbers() -> Folded:
    """The numbers that answer the predictions or stand in the text, for the tests."""
    return Folded(lost_scores(), lost_length(), "\n".join(numbers_of_the_text()))
