"""NVIDIA 2025: in NVFP4 the Hadamard transform belongs on the operands of dW alone; elsewhere it hurts.

The same operands and the same transform as in hadamard_2025, whose fourth criterion this was.
"""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, paired_result, paired_text
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.claims.papers.hadamard_2025 import (
    BEFORE,
    NEAREST,
    OPERANDS,
    SIZES,
    gaussian,
    network_numbers,
    tensor_numbers,
)
from lplab.quantizers import Hadamard

FORMAT = "nvfp4"
WITHOUT, WITH = ("y", "dx"), "dW"  # the products where the paper leaves the transform out, and the one where it has it
GAUSSIAN = "Gaussian numbers"
SIDES = ("top_left", "top_right")  # the numbers of the two operands of a product
NEAR = 0.05  # a share of the energy: what counts as the same as in Gaussian numbers

POINTS: tuple[Point, ...] = (*({"product": product} for product in OPERANDS), {"product": GAUSSIAN})

claim = ClaimBuilder(
    id="hadamard_2025_forward",
    title="In NVFP4 a Hadamard transform hurts the forward pass and dx",
    paper=cite("nvidia_2025"),
    where="ablations of the transform",
    statement="NVFP4 has the random Hadamard transform on the operands of dW alone: in the forward pass and for dx it "
    "makes a training worse.",
    published="used for dW alone; elsewhere it hurts (read)",
    experiment=f"The operands of all products but the last of a character Transformer after {BEFORE} steps in float32, "
    "rounded to NVFP4 along the axis of the product's sum, with the transform of 16 numbers of both operands and "
    "without: by how much the error of the products y and dx changes, in decibels.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=15,
    limits="Errors of products at one moment of a small network, not its training. The paper's weights share scales in "
    "16 × 16 tiles, which a transform would undo; the blocks here are 1 × 16.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """What the transform adds to a product (dB), and the energy of the largest number of a block of its operands.

    Returns:
        ``help``, and ``top_left`` and ``top_right`` of the two operands; of Gaussian numbers ``top`` alone.
    """
    product = point["product"]
    if product == GAUSSIAN:
        transform = Hadamard(SIZES[FORMAT], signs=seed)
        return {"top": tensor_numbers(gaussian(1, seed), FORMAT, NEAREST, transform, seed)["top"]}
    measured = network_numbers(FORMAT, NEAREST, seed, (product,))
    left, right = OPERANDS[product]
    return {
        "help": measured[f"product_{product}"],
        "top_left": round(measured[f"top_{left}"], 4),
        "top_right": round(measured[f"top_{right}"], 4),
    }


def _help(results: Results, product: str) -> np.ndarray:
    return results.values("help", product=product)


def _shares(results: Results) -> dict[str, np.ndarray]:
    """The share of the energy that is in the largest number of a block, by operand."""
    pairs = {
        name: (product, side) for product, names in OPERANDS.items() for name, side in zip(names, SIDES, strict=True)
    }
    return {name: results.values(side, product=product) for name, (product, side) in pairs.items()}


@claim.criterion("The errors of y and dx grow")
def errors_grow(results: Results) -> CheckResult:
    """The errors of both products are surely larger with the transform."""
    gains = {product: _help(results, product) for product in WITHOUT}
    text = join_words([f"{product} {paired_text(gain, 2)} dB" for product, gain in gains.items()])
    return paired_result(f"The transform adds to the products: {text}.", *(above(-gain) for gain in gains.values()))


@claim.explanation("The operands of y and dx are as Gaussian numbers: it has nothing to spread")
def nothing_to_spread(results: Results) -> CheckResult:
    """The largest number of a block has about the energy that it has among Gaussian numbers; not so for dW."""
    plain = float(np.median(results.values("top", product=GAUSSIAN)))
    shares = {name: float(np.median(values)) for name, values in _shares(results).items()}
    calm = [shares[name] for product in WITHOUT for name in OPERANDS[product]]
    outliers = shares[OPERANDS[WITH][0]]
    return CheckResult(
        max(abs(share - plain) for share in calm) < NEAR < outliers - plain,
        f"The largest of 16 numbers has {100 * min(calm):.0f} to {100 * max(calm):.0f} % of their energy in the "
        f"operands of y and dx, and {100 * plain:.0f} % among Gaussian numbers, which no transform changes. In "
        f"gradients along the tokens it has {100 * outliers:.0f} %. Large networks have outliers in their activations, "
        "too.",
    )


@claim.explanation("Where there are outliers, in dW, it does hurt")
def it_hurts_dw(results: Results) -> CheckResult:
    """The product for which the paper uses the transform is the one whose error grows here."""
    gain = _help(results, WITH)
    return paired_result(f"The transform adds to the product dW: {paired_text(gain, 2)} dB.", above(-gain))


@claim.summary
def measured(results: Results) -> str:
    """What the transform adds to the three products."""
    each = join_words([f"{product} {paired_text(_help(results, product), 2)}" for product in OPERANDS])
    return f"the transform adds to the products, dB: {each}"


claim.draw(
    "what the transform adds in NVFP4, dB",
    lambda results: {f"product {product}": _help(results, product) for product in OPERANDS},
    statistic=MEAN,
    differences=True,
)
claim.draw(
    "energy of the largest of 16 numbers, %",
    lambda results: {
        GAUSSIAN: 100 * results.values("top", product=GAUSSIAN),
        **{name.replace("_", ", "): 100 * values for name, values in _shares(results).items()},
    },
    axis=(0, 50),
)

claim.compared(
    theirs_on="large language models",
    ours_on="characters, a small Transformer",
    rows=({"product y": "forward, y", "product dx": "backward, dx", "product dW": "weight gradient, dW"},),
)
claim.found(errors_grow, holds="more error in y and dx", fails="no more error in y and dx")
claim.found(it_hurts_dw, holds="more in dW", fails="no more in dW")
claim.leaves_out("no training was run")

HADAMARD_2025_FORWARD = claim.build()
