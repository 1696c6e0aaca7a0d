"""Exercise 03.2: where unscaling goes: after the sum of the micro-batches, before clipping and weight decay."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal
from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import SameShape


def training_step(w, gradients, scale, lr, max_norm, decay):
    """New weights after one step of SGD; gradients are those of scale * loss, in float16, a row per micro-batch."""
    g = gradients.astype(np.float32).sum(axis=0) / scale
    if not np.isfinite(g).all():
        return w.copy()
    norm = np.sqrt((g * g).sum())
    if norm > max_norm:
        g = g * (max_norm / norm)
    return w - lr * (g + decay * w)


TO_32, SUM = "gradients.astype(np.float32).sum(axis=0) / scale", ".sum(axis=0) / scale"
FINITE, SKIP, LARGE = "if not np.isfinite(g).all():", "return w.copy()", "if norm > max_norm:"
CLIP, UPDATE = "g = g * (max_norm / norm)", "return w - lr * (g + decay * w)"
TRIPLES = ((3, 4), (1, 2, 2), (2, 3, 6), (1, 4, 8), (2, 6, 9))  # whose norms are whole: 5, 3, 7, 9, 11
FAR = 2.0**20  # a norm that nothing here reaches


def half(*rows: Any) -> np.ndarray:
    """Rows of numbers in float16."""
    return np.array(rows, dtype=np.float16)


def single(*values: float) -> np.ndarray:
    """Numbers in float32."""
    return np.array(values, dtype=np.float32)


def cases() -> list[Args]:
    """Steps in which every number is exact, so that all right ways give the same bits: powers of two and whole norms."""
    rng = np.random.default_rng(2018)
    found: list[Args] = []
    for triple in TRIPLES:
        whole = np.array(triple, np.float64) * rng.choice([-1.0, 1.0], len(triple))
        norm = float(np.sqrt((whole * whole).sum()))
        for power in (0, 5, 10):
            for clip in (0.5, 1.0, 4.0):
                for decay in (0.0, 0.125):
                    first = rng.integers(-8, 9, len(triple)).astype(np.float64)
                    w = rng.integers(-8, 9, len(triple)) / 4.0
                    rows = half(first, whole - first)
                    found.append((w.astype(np.float32), rows, 2.0**power, 0.25, norm * clip / 2.0**power, decay))
    return [*found, *overflows()]


def overflows() -> list[Args]:
    """Steps that must be left out, and one whose sum only float16 could not hold."""
    w = single(1.0, -2.0)
    rows = [half([np.inf, 1]), half([1, np.nan]), half([1, 2], [-np.inf, 2])]
    steps: list[Args] = [(w, each, 256.0, 0.5, FAR, 0.25) for each in rows]
    return [*steps, (w, half([60000, 0], [60000, 0]), 2.0**14, 0.5, FAR, 0.0)]


def show(args: Args) -> str:
    """All arguments; the gradients row by row."""
    w, gradients, *numbers = args
    rows = "; ".join(decimal(row) for row in np.asarray(gradients, np.float64))
    names = ("scale", "lr", "max_norm", "decay")
    rest = ", ".join(f"{name} = {decimal(value)}" for name, value in zip(names, numbers, strict=True))
    return f"w = {decimal(w)}, gradients = [{rows}], {rest}"


def why(args: Args, expected: Any) -> str:
    """The gradient as it should have been."""
    _, gradients, scale, _, max_norm, _ = args
    g = np.asarray(gradients, np.float64).sum(axis=0) / scale
    if not np.isfinite(g).all():
        return "One gradient is not finite: the step is left out."
    norm = float(np.sqrt((g * g).sum()))
    clipped = f"more than max_norm, so it is multiplied by {decimal(max_norm / norm)}" if norm > max_norm else "so nothing is clipped"
    return f"Summed and unscaled the gradient is {decimal(g)}. Its norm is {decimal(norm)}, {clipped}."


UNSCALED = Exercise(
    id="03.2",
    version=1,
    title="Where unscaling goes",
    goal="Goal 2: take the loss scale out again in the right place",
    minutes=15,
    difficulty=2,
    statement=r"""
        Write `training_step(w, gradients, scale, lr, max_norm, decay)`, which returns the weights after one step of SGD. Each row of `gradients` is float16 and belongs to one micro-batch. Their **sum** is the gradient of `scale` × loss. Work in float32.

        - If the sum holds an infinity or a NaN, return the weights as they are.
        - Let $g$ be the true gradient, without the scale. If its norm is larger than `max_norm`, multiply $g$ by `max_norm` / norm.
        - Then $w \leftarrow w - lr\,(g + decay\cdot w)$.
    """,
    reference=training_step,
    form=SameShape(0),
    signed_zero=False,
    show=show,
    why=why,
    examples=(
        Example((single(1, 1), half([3, 4]), 1.0, 0.5, FAR, 0.0), "No scale, no clipping, no decay: w − lr · g."),
        Example((single(1, 1), half([384, 512]), 128.0, 0.5, FAR, 0.0), "The same gradient of 128 times the loss: the same step. A loss scale is no learning rate."),
        Example((single(1, 1), half([384, 512]), 128.0, 0.5, 2.5, 0.0), "The true norm is 5, twice max_norm: half the step. The norm of what was scaled is 640."),
        Example((single(2, -2), half([96, 128]), 128.0, 0.5, 10.0, 0.25), "The true norm is 1.25: no clipping. Weight decay sees w as it is, not divided by the scale."),
        Example((single(1, -2), half([np.inf, 1]), 128.0, 0.5, 10.0, 0.25), "An overflow: the step is left out, its weight decay too."),
        Example((single(0, 0), half([3 * 2.0**-12, 2.0**-10]), 2.0**18, 1.0, FAR, 0.0), "The true gradients are 3 · 2⁻³⁰ and 2⁻²⁸. float16 ends at 2⁻²⁴: divided there, both would be zero."),
        Example((single(0, 0), half([40000, 0], [40000, 0]), 2.0**10, 1.0, FAR, 0.0), "80,000 is beyond float16; in float32 it is a number like others."),
    ),
    boundary=cases,
    mistakes=(
        mistake("clipped before it is unscaled: the norm of the scaled gradient is meaningless", SUM, ".sum(axis=0)", UPDATE, "return w - lr * (g / scale + decay * w)"),
        mistake("not unscaled: the loss scale becomes a learning rate", SUM, ".sum(axis=0)"),
        mistake("the whole update is unscaled, weight decay included", SUM, ".sum(axis=0)", LARGE, "if norm > max_norm * scale:", CLIP, "g = g * (max_norm * scale / norm)", UPDATE, "return w - lr * (g + decay * w) / scale"),
        mistake("multiplied by the scale instead of divided", SUM, ".sum(axis=0) * scale"),
        mistake("unscaled twice", SUM, ".sum(axis=0) / scale / scale"),
        mistake("unscaled in float16: the small ones vanish after all", TO_32, "(gradients.astype(np.float32).sum(axis=0) / scale).astype(np.float16).astype(np.float32)"),
        mistake("micro-batches are summed in float16", TO_32, "gradients.sum(axis=0, dtype=np.float16).astype(np.float32) / scale"),
        mistake("micro-batches are averaged instead of summed", ".sum(axis=0)", ".mean(axis=0)"),
        mistake("every micro-batch is clipped on its own", TO_32, "sum(r * min(1.0, max_norm / (np.sqrt((r * r).sum()) or 1.0)) for r in gradients.astype(np.float32) / scale)"),
        mistake("no step is left out", FINITE, "if False:"),
        mistake("only infinities are looked for, not NaN", "not np.isfinite(g).all()", "np.isinf(g).any()"),
        mistake("what is not finite is set to zero, and the step is taken", FINITE, "if False:", "norm = np", "g = np.where(np.isfinite(g), g, 0)\n    norm = np"),
        mistake("weight decay is applied although the step is left out", SKIP, "return w - lr * decay * w"),
        mistake("weight decay is clipped, too", "    norm = np", "    g = g + decay * w\n    norm = np", UPDATE, "return w - lr * g"),
        mistake("each element is clipped, not the norm", LARGE, "if True:", CLIP, "g = np.clip(g, -max_norm, max_norm)"),
        mistake("short gradients are stretched to max_norm", LARGE, "if norm > 0:"),
    ),
    hints=(
        "Take w = [1, 1], gradients [[384, 512]], scale 128: the true gradient is [3, 4] and its norm 5. Whatever max_norm was tuned for, it was tuned for that 5.",
        "In this order: to float32, sum, divide by the scale, look for what is not finite, clip, add the weight decay, update. Whatever looks at the size of a gradient comes after unscaling.",
        "`gradients.astype(np.float32)` before the sum, `np.isfinite(g).all()` before the step, `np.sqrt((g * g).sum())` for the norm of the unscaled g. Clip only where the norm is larger than max_norm. Weight decay uses w itself and is added after clipping.",
    ),
)
