"""Tseng et al. 2025, NVIDIA 2025: a Hadamard transform before rounding helps MXFP4; here also when, and NVFP4.

The transform spreads an outlier over its block. The operands are those of a trained network, both with and without the
transform on both operands of a product, where it cancels; and Gaussian numbers with outliers of several sizes. The
criteria were written before the measurement. A fourth one, of NVIDIA's sentence on the other two products, became a
claim of its own (hadamard_2025_forward): it is a statement of another paper, and it does not show.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lplab import formats
from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, paired_result, paired_text, surely_above, within
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.models import branch_transformer
from lplab.claims.framework.operands import Operands, operands
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.quantizers import Hadamard, PreScaled

BEFORE, BATCHES = 500, 2  # steps in float32; batches of 512 tokens
HEAD = "head"  # the last layer, which every recipe keeps in wide numbers
SIZES = {"mxfp4": 32, "nvfp4": 16}  # numbers that are transformed together: a block
NEAREST, STOCHASTIC = "nearest_even", "stochastic"
NETWORK, OUTLIERS = "operands of the Transformer", "Gaussian with outliers"
STRENGTHS = (1, 3, 10, 30, 100)  # the factor of the outliers
RARE, ROWS = 1 / 64, (256, 512)  # the share of numbers that are outliers; the shape of the Gaussian numbers
LEAST = 0.25  # decibels: what counts as help, 3 % of the error

WAYS = tuple({"format": format, "rounding": rounding} for format in SIZES for rounding in (NEAREST, STOCHASTIC))
POINTS: tuple[Point, ...] = (
    *({"numbers": NETWORK, **way} for way in WAYS),
    *({"numbers": OUTLIERS, **way, "strength": strength} for way in WAYS for strength in STRENGTHS),
)

claim = ClaimBuilder(
    id="hadamard_2025",
    title="A Hadamard transform before rounding helps MXFP4, and not NVFP4",
    paper=cite("tseng_2025", "nvidia_2025"),
    where="abstracts; NVIDIA's ablations of the transform",
    statement="Outliers in a block harm MXFP4, and a random Hadamard transform bounds what they do. The smaller "
    "blocks and finer scales of NVFP4 leave less of that harm; whether the transform helps there is disputed.",
    published="MXFP4 at 345 million parameters, validation loss 2.60 without and 2.51 with the transform "
    "(second-hand); NVFP4 at 1.2 billion parameters: neither its size nor its signs matter (read)",
    experiment=f"The operands of all products but the last of a character Transformer after {BEFORE} steps in float32: "
    "rounded in blocks along the axis of the product's sum, with a random Hadamard transform of a block of both "
    "operands and without. Help is the error that goes away, in decibels. And Gaussian numbers, of which one in 64 is "
    "made larger.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=20,
    limits="Errors of tensors and products at one moment of a small network: whether a training gains is in "
    "nvfp4_ingredients_2025. Stochastic MXFP4 has the pre-scale of 3/4. Papers disagree on signs: arXiv 2605.09825 "
    "(its abstract read) finds that random ones fail and fixed ones help.",
)


@cache
def _operands(seed: int) -> dict[str, Operands]:
    return operands(branch_transformer(), seed, BEFORE, BATCHES, skip=(HEAD,))


@cache
def gaussian(strength: float, seed: int) -> np.ndarray:
    """Gaussian numbers of which one in 64 is multiplied by ``strength``, float32 [256, 512].

    >>> float(abs(gaussian(1, 0)).max()) < 6 < 60 < float(abs(gaussian(30, 0)).max())
    True
    """
    rng = np.random.default_rng(seed)
    x, chosen = rng.standard_normal(ROWS), rng.random(ROWS) < RARE
    return np.where(chosen, strength * x, x).astype(np.float32)


def rounded(x: np.ndarray, format: str, rounding: str, seed: int) -> np.ndarray:
    """x in blocks along its last axis; stochastic MXFP4 after the pre-scale that keeps it unbiased."""
    if format == "mxfp4" and rounding == STOCHASTIC:
        return np.asarray(PreScaled(format, rounding=STOCHASTIC).quantize(x, seed=seed))
    return np.asarray(formats.get(format).quantize(x, rounding, seed=seed))


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """What the transform takes away of the error, in decibels; see :func:`tensor_numbers`."""
    format, rounding = point["format"], point["rounding"]
    transform = Hadamard(SIZES[format], signs=seed)
    if point["numbers"] == OUTLIERS:
        return tensor_numbers(gaussian(point["strength"], seed), format, rounding, transform, seed)
    return network_numbers(format, rounding, seed)


OPERANDS = {
    "y": ("activation_y", "weight_y"),
    "dx": ("gradient_dx", "weight_dx"),
    "dW": ("gradient_dW", "activation_dW"),
}
"""The operands of each product, as the names of the numbers have them."""


def network_numbers(
    format: str, rounding: str, seed: int, wanted: tuple[str, ...] = ("y", "dx", "dW")
) -> dict[str, float]:
    """Errors of some products of the network and of their operands: medians over the layers, in dB.

    Returns:
        ``product_y``, ``product_dx`` and ``product_dW``: what the transform of both operands takes away of the error.
        Of each operand the numbers of :func:`tensor_numbers`, with its name and that of the product behind.
    """
    transform = Hadamard(SIZES[format], signs=seed)
    numbers: dict[str, list[float]] = {}
    for parts in _operands(seed).values():
        for product, (a, b) in parts.products().items():
            if product not in wanted:
                continue
            sides = [_both_ways(x, format, rounding, transform, seed + n) for n, x in enumerate((a, b))]
            plain, turned = (left @ right.T for left, right in zip(*sides, strict=True))
            exact = a.astype(np.float64) @ b.T
            numbers.setdefault(f"product_{product}", []).append(_help(exact, plain, turned))
            for name, x in zip(OPERANDS[product], (a, b), strict=True):
                measured = tensor_numbers(x, format, rounding, transform, seed)
                for what, value in measured.items():
                    numbers.setdefault(f"{what}_{name}", []).append(value)
    return {name: round(float(np.median(values)), 4) for name, values in numbers.items()}


def _both_ways(
    x: np.ndarray, format: str, rounding: str, transform: Hadamard, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """x rounded, and the transform of x rounded, float64."""
    plain = rounded(x, format, rounding, seed)
    turned = rounded(transform.apply(x), format, rounding, seed)
    return plain.astype(np.float64), turned.astype(np.float64)


def tensor_numbers(x: np.ndarray, format: str, rounding: str, transform: Hadamard, seed: int) -> dict[str, float]:
    """The signal-to-noise ratio of a tensor, what the transform adds, and what the largest number of a block does.

    Returns:
        ``snr``: without the transform, dB. ``help``: with the transform more, dB. ``top``: the share of the blocks'
        energy that is in the largest number of each block. ``top_error``: the error of that number, relative to it.
    """
    plain, turned = _both_ways(x, format, rounding, transform, seed)
    back = transform.invert(turned, x.shape[-1])
    power = np.sum(x.astype(np.float64) ** 2)
    blocks, values = (_in_blocks(each, SIZES[format]) for each in (x, plain))
    largest = np.abs(blocks).argmax(1)[:, None]
    true, got = (np.take_along_axis(each, largest, 1) for each in (blocks, values))
    return {
        "snr": round(10 * float(np.log10(power / np.sum((plain - x) ** 2))), 4),
        "help": round(_help(x, plain, back), 4),
        "top": round(float(np.sum(true**2) / power), 6),
        "top_error": round(float(np.sqrt(np.sum((got - true) ** 2) / np.sum(true**2))), 6),
    }


def _in_blocks(x: np.ndarray, size: int) -> np.ndarray:
    """The blocks along the last axis as rows, float64; the last ones filled up with zeros."""
    fill = -x.shape[-1] % size
    return np.pad(x.astype(np.float64), [(0, 0)] * (x.ndim - 1) + [(0, fill)]).reshape(-1, size)


def _help(exact: np.ndarray, plain: np.ndarray, turned: np.ndarray) -> float:
    """How much smaller the error is with the transform, in decibels of its power.

    >>> _help(np.zeros(2), np.array([0.0, 10.0]), np.array([1.0, 0.0]))
    20.0
    """
    return float(10 * np.log10(np.sum((plain - exact) ** 2) / np.sum((turned - exact) ** 2)))


def _of(results: Results, format: str, number: str, rounding: str = NEAREST) -> np.ndarray:
    return results.values(number, numbers=NETWORK, format=format, rounding=rounding)


def _drawn(results: Results, format: str, strength: float, rounding: str = NEAREST, number: str = "help") -> np.ndarray:
    return results.values(number, numbers=OUTLIERS, format=format, rounding=rounding, strength=strength)


FOR_DW = {"gradients": "help_gradient_dW", "the product dW": "product_dW"}
"""Where both papers use the transform."""


def _text(results: Results, format: str, rounding: str = NEAREST) -> str:
    each = [f"{what} {paired_text(_of(results, format, name, rounding), 2)} dB" for what, name in FOR_DW.items()]
    return join_words(each)


@claim.criterion("It helps MXFP4 for the weight gradient")
def mxfp4_gains(results: Results) -> CheckResult:
    """In MXFP4 the error of gradients along the tokens and of the product dW is surely smaller by a quarter decibel."""
    conditions = [above(_of(results, "mxfp4", name), LEAST) for name in FOR_DW.values()]
    return paired_result(f"MXFP4, rounded to nearest; the transform adds: {_text(results, 'mxfp4')}.", *conditions)


@claim.criterion("It does not help NVFP4 there")
def nvfp4_does_not(results: Results) -> CheckResult:
    """In NVFP4 the same errors are surely not smaller by a quarter decibel."""
    conditions = [within(_of(results, "nvfp4", name), LEAST) for name in FOR_DW.values()]
    return paired_result(f"NVFP4, rounded to nearest; the transform adds: {_text(results, 'nvfp4')}.", *conditions)


@claim.criterion("It is a matter of outliers")
def outliers_decide(results: Results) -> CheckResult:
    """On Gaussian numbers the transform does nothing for MXFP4, and with outliers 30 times as large it helps."""
    none, strong = (_drawn(results, "mxfp4", strength) for strength in (1, 30))
    text = join_words([f"{np.median(_drawn(results, 'mxfp4', s)):+.1f} dB at {s}" for s in STRENGTHS])
    return CheckResult(
        bool((np.abs(none) < LEAST).all()) and surely_above(strong, LEAST),
        f"MXFP4, Gaussian numbers of which one in 64 is larger by a factor; the transform adds {text}.".replace(
            "-", "−"
        ),
    )


@claim.explanation("Under stochastic rounding it is the same")
def draws_are_alike(results: Results) -> CheckResult:
    """Both first criteria under stochastic rounding, which no paper that we know of shows for tensors."""
    helped = [above(_of(results, "mxfp4", name, STOCHASTIC), LEAST) for name in FOR_DW.values()]
    not_helped = [within(_of(results, "nvfp4", name, STOCHASTIC), LEAST) for name in FOR_DW.values()]
    return paired_result(
        f"Stochastic, MXFP4 with its pre-scale; the transform adds: {_text(results, 'mxfp4', STOCHASTIC)}. NVFP4: "
        f"{_text(results, 'nvfp4', STOCHASTIC)}.",
        *helped,
        *not_helped,
    )


@claim.explanation("NVFP4 stores the largest number of a block almost exactly")
def the_largest_is_exact(results: Results) -> CheckResult:
    """Why: the fine scale of NVFP4 is made from the largest number; the power of two of MXFP4 misses it by more."""
    errors, shares = (
        {f: float(np.median(_of(results, f, f"{number}_gradient_dW"))) for f in SIZES}
        for number in ("top_error", "top")
    )
    return CheckResult(
        errors["nvfp4"] < errors["mxfp4"] / 2,
        f"The largest number of a block, of gradients along the tokens, has {100 * shares['nvfp4']:.0f} % of the "
        f"energy in NVFP4 and {100 * shares['mxfp4']:.0f} % in MXFP4. NVFP4 misses it by {100 * errors['nvfp4']:.1f} "
        f"%, MXFP4 by {100 * errors['mxfp4']:.1f} %. The transform makes many middling numbers of one that was nearly "
        "exact.",
    )


@claim.explanation("With strong outliers it hurts NVFP4 more")
def outliers_hurt_nvfp4(results: Results) -> CheckResult:
    """In NVFP4 the transform takes away more, the stronger the outliers."""
    none, strong = (_drawn(results, "nvfp4", strength) for strength in (1, 30))
    text = join_words([f"{np.median(_drawn(results, 'nvfp4', s)):+.1f} dB at {s}" for s in STRENGTHS])
    return paired_result(
        f"NVFP4, Gaussian numbers of which one in 64 is larger by a factor; the transform adds {text}.".replace(
            "-", "−"
        ),
        above(none - strong),
    )


@claim.explanation("NVFP4 without the transform is better than MXFP4 with it")
def nvfp4_needs_none(results: Results) -> CheckResult:
    """On gradients along the tokens."""
    plain = _of(results, "nvfp4", "snr_gradient_dW")
    turned = _of(results, "mxfp4", "snr_gradient_dW") + _of(results, "mxfp4", "help_gradient_dW")
    return paired_result(
        f"Gradients along the tokens, signal to noise: NVFP4 {np.median(plain):.1f} dB; MXFP4 with the transform "
        f"{np.median(turned):.1f} dB (medians of layers, added).",
        above(plain - turned),
    )


@claim.summary
def measured(results: Results) -> str:
    """What the transform adds for dW, in both formats."""
    return f"the transform adds, in MXFP4: {_text(results, 'mxfp4')}; in NVFP4: {_text(results, 'nvfp4')}"


def _drawn_rows(results: Results, rounding: str) -> dict[str, Any]:
    return {
        f"{format.upper()}, {where}": _of(results, format, name, rounding)
        for format in SIZES
        for where, name in FOR_DW.items()
    }


claim.draw("help for dW, nearest, dB", lambda results: _drawn_rows(results, NEAREST), statistic=MEAN, differences=True)
claim.draw(
    "help for dW, stochastic, dB", lambda results: _drawn_rows(results, STOCHASTIC), statistic=MEAN, differences=True
)
claim.draw(
    "help by the factor of outliers, nearest, dB",
    lambda results: {f"{f.upper()}, × {s}": _drawn(results, f, s) for f in SIZES for s in STRENGTHS},
    differences=True,
)

claim.compared(
    theirs_on="language models of 345 million and 1.2 billion parameters",
    ours_on="characters, a small Transformer",
    rows=(
        {
            "MXFP4, gradients": "MXFP4, gradients",
            "MXFP4, the product dW": "MXFP4, weight gradient",
            "NVFP4, gradients": "NVFP4, gradients",
            "NVFP4, the product dW": "NVFP4, weight gradient",
        },
    ),
)
claim.found(mxfp4_gains, holds="MXFP4 has less error", fails="MXFP4 has no less error")
claim.found(nvfp4_does_not, holds="NVFP4 has not", fails="so has NVFP4")
claim.found(outliers_decide, holds="outliers decide", fails="outliers do not decide")
claim.leaves_out("no training was run")

HADAMARD_2025 = claim.build()
