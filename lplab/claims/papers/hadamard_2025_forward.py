"""NVIDIA 2025: in NVFP4 the Hadamard transform belongs on the operands of dW alone; elsewhere it hurts.

The same operands and the same transform as in hadamard_2025, whose fourth criterion this was.
"""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import paired_text, surely_above
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import CheckResult, Numbers, Point, Results
from lplab.claims.framework.compare import join_words
from lplab.claims.papers.hadamard_2025 import BEFORE, NEAREST, SIZES, gaussian, network_numbers, tensor_numbers
from lplab.quantizers import Hadamard

FORMAT = "nvfp4"
NETWORK, GAUSSIAN = "operands of the Transformer", "Gaussian"
PRODUCTS = {"y": ("activation_y", "weight_y"), "dx": ("gradient_dx", "weight_dx")}
WHERE_IT_IS_USED = "gradient_dW"
NEAR = 0.05  # a share of the energy: what counts as the same as in Gaussian numbers

POINTS: tuple[Point, ...] = ({"numbers": NETWORK}, {"numbers": GAUSSIAN})

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
    budget_seconds=20,
    limits="Errors of products at one moment of a small network, not its training. The paper's weights share scales in "
    "16 × 16 tiles, which a transform would undo; the blocks here are 1 × 16.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """What the transform adds to products and operands (dB), and the energy of the largest number of a block."""
    if point["numbers"] == NETWORK:
        return network_numbers(FORMAT, NEAREST, seed)
    return tensor_numbers(gaussian(1, seed), FORMAT, NEAREST, Hadamard(SIZES[FORMAT], signs=seed), seed)


def _of(results: Results, number: str) -> np.ndarray:
    return results.values(number, numbers=NETWORK)


@claim.criterion("The errors of y and dx grow")
def errors_grow(results: Results) -> CheckResult:
    """The errors of both products are surely larger with the transform."""
    gains = {product: _of(results, f"product_{product}") for product in PRODUCTS}
    text = join_words([f"{product} {paired_text(gain, 2)} dB" for product, gain in gains.items()])
    return CheckResult(
        all(surely_above(-gain) for gain in gains.values()), f"The transform adds to the products: {text}."
    )


@claim.explanation("These operands are as Gaussian numbers: it has nothing to spread")
def nothing_to_spread(results: Results) -> CheckResult:
    """The largest number of a block has about the energy that it has among Gaussian numbers; not so for dW."""
    plain = float(np.median(results.values("top", numbers=GAUSSIAN)))
    shares = {name: float(np.median(_of(results, f"top_{name}"))) for pair in PRODUCTS.values() for name in pair}
    outliers = float(np.median(_of(results, f"top_{WHERE_IT_IS_USED}")))
    return CheckResult(
        max(abs(share - plain) for share in shares.values()) < NEAR < outliers - plain,
        f"The largest of 16 numbers has {100 * min(shares.values()):.0f} to {100 * max(shares.values()):.0f} % of "
        f"their energy in the operands of y and dx, and {100 * plain:.0f} % among Gaussian numbers, which no transform "
        f"changes. In gradients along the tokens it has {100 * outliers:.0f} %. Large networks have outliers in their "
        "activations, too.",
    )


@claim.explanation("Where there are outliers, in dW, it does hurt")
def it_hurts_dw(results: Results) -> CheckResult:
    """The product for which the paper uses the transform is the one whose error grows here."""
    gain = _of(results, "product_dW")
    return CheckResult(surely_above(-gain), f"The transform adds to the product dW: {paired_text(gain, 2)} dB.")


@claim.summary
def measured(results: Results) -> str:
    """What the transform adds to the three products."""
    each = join_words([f"{p} {paired_text(_of(results, f'product_{p}'), 2)}" for p in ("y", "dx", "dW")])
    return f"the transform adds to the products, dB: {each}"


claim.draw(
    "what the transform adds in NVFP4, dB",
    lambda results: {f"product {p}": _of(results, f"product_{p}") for p in ("y", "dx", "dW")},
)
claim.draw(
    "energy of the largest of 16 numbers, %",
    lambda results: {
        "Gaussian": 100 * results.values("top", numbers=GAUSSIAN),
        **{
            name.replace("_", ", "): 100 * _of(results, f"top_{name}")
            for name in ("activation_y", "weight_y", "gradient_dx", WHERE_IT_IS_USED)
        },
    },
    axis=(0, 50),
)

HADAMARD_2025_FORWARD = claim.build()
