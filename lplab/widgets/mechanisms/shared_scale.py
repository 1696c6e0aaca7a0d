"""Lab 13: eight numbers share a scale. One of them is dragged, and the ruler of E2M1 stretches for all."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab import formats as F

from .mechanism import Mechanism

SIZES = (1.2, 0.4, 0.9, 0.3, 0.7, 8.0, 0.2, 1.6)
OUTLIER = 5  # its place
STEP, COUNT = 0.125, 64  # of the outlier: 0.125 to 8
ELEMENT, SCALE = F.get("e2m1"), F.get("e8m0")
RULES = {"down": "floor", "up": "rceil"}


def data() -> dict[str, Any]:
    """Scales and rounded numbers for each size of the outlier, each cut and both ways to round a scale.

    >>> block = data()["blocks"]["down"][0][63]  # no cut, and an outlier of 8
    >>> block["scales"], block["rounded"]
    ([2.0], [1.0, 0.0, 1.0, 0.0, 1.0, 8.0, 0.0, 2.0])
    """
    values = np.unique(ELEMENT.codebook())
    return {
        "sizes": list(SIZES),
        "outlier": OUTLIER,
        "step": STEP,
        "count": COUNT,
        "ruler": values[values > 0].tolist(),
        "blocks": {name: [blocks(cut, rule) for cut in range(len(SIZES))] for name, rule in RULES.items()},
    }


def blocks(cut: int, rule: str) -> list[dict[str, list[float]]]:
    """For each size of the outlier, the scales of one block or of two, and what the eight numbers become.

    Args:
        cut: how many numbers the first block has; 0 for a single block of all.
        rule: how a scale is rounded to a power of two, one of ``lplab.formats.block_format.SCALE_RULES``.
    """
    x = np.tile(SIZES, (COUNT, 1))
    x[:, OUTLIER] = STEP * np.arange(1, COUNT + 1)
    fmt = F.BlockFormat(ELEMENT, block_size=len(SIZES), scale_rule=rule)
    codes = [fmt.encode(part) for part in (np.split(x, [cut], axis=1) if cut else [x])]
    scales = np.concatenate([SCALE.decode(code.scales) for code in codes], axis=1)
    rounded = np.concatenate([fmt.decode(code) for code in codes], axis=1)
    return [{"scales": s.tolist(), "rounded": r.tolist()} for s, r in zip(scales, rounded, strict=True)]


MECHANISM = Mechanism(
    name="shared_scale",
    title="Eight numbers that share a scale",
    todo="Drag the *orange: large number* up and down. "
    "Then drag *✂ no cut* to the right, to give the numbers two scales.",
    alt="Eight bars over the ruler of E2M1, whose marks are multiples of a scale. The tallest bar can be moved. The "
    "taller it is, the wider is the ruler, and short bars become 0. A cut gives each side a ruler of its own.",
    data=data,
)
