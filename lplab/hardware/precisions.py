"""Bits of a training recipe: of every tensor, on the wire and in memory, and the peaks that its products run at.

Plain data, no arithmetic: :mod:`lplab.training` has the effect of formats on accuracy, this module that on time.

>>> get("hfp8_2019").gradient_bits, get("fp16_mixed").master_bits
(8, 32)
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lplab.checks import check_number
from lplab.lookup import lookup

ENDS = ("first", "last", "embedding")
_BLOCKS = ("last", "embedding", "product")  # what recipes of 2024 and 2025 leave in 16 bits


@dataclass(frozen=True)
class Precision:
    """The bits of one recipe.

    Attributes:
        name, label: in code and in figures.
        weight_bits, activation_bits, gradient_bits: of products' operands: weights, activations, errors. Where a block
            shares a scale, with each number's part of it: 4.5 bits in NVFP4.
        forward_peaks: peaks to run at, best first; a chip takes the first that it has.
        dx_peaks: the same for both products of the backward pass; by default those of the forward pass.
        output_bits: of the results of products before the next rounding, and of norms and activations.
        weight_wire_bits, gradient_wire_bits: of weights and gradients that learners exchange.
        master_bits: of the master weights; 0 without them.
        optimizer_bits: of one number of the optimizer's state (momentum).
        keep: kinds of layers that stay in 16 bits: "first", "last", "embedding", "depthwise", "shortcut", "product"
            (those of attention).
        trains: False for inference only.
        source: where the recipe is from.
    """

    name: str
    label: str
    weight_bits: float
    activation_bits: float
    gradient_bits: float
    forward_peaks: tuple[str, ...]
    dx_peaks: tuple[str, ...] = ()
    output_bits: float = 16
    weight_wire_bits: float = 32
    gradient_wire_bits: float = 32
    master_bits: float = 32
    optimizer_bits: float = 32
    keep: tuple[str, ...] = ()
    trains: bool = True
    source: str = ""

    def __post_init__(self) -> None:
        for key, value in vars(self).items():
            low = 0 if key in ("master_bits", "gradient_bits") else 1
            if key.endswith("_bits") and not low <= check_number(f"{self.name}: {key}", value) <= 64:
                raise ValueError(f"{self.name}: {key} must be from {low} to 64, got {value}")
        if not self.forward_peaks:
            raise ValueError(f"{self.name}: its products need a rate to run at")
        object.__setattr__(self, "dx_peaks", self.dx_peaks or self.forward_peaks)


_16: dict[str, Any] = {"weight_wire_bits": 16, "gradient_wire_bits": 16}  # what learners send
_STATE_16: dict[str, Any] = {"master_bits": 16, "optimizer_bits": 16}
_ALL = (
    Precision("fp32", "FP32", 32, 32, 32, ("fp32",), output_bits=32, master_bits=0, source="the baseline"),
    Precision("tf32", "TF32", 32, 32, 32, ("tf32",), output_bits=32, master_bits=0, source="NVIDIA's A100"),
    Precision("bf16", "BF16", 16, 16, 16, ("bf16", "fp16"), **_16, source="mixed precision"),
    Precision("fp16_mixed", "FP16 mixed", 16, 16, 16, ("fp16", "bf16"), **_16, source="Micikevicius et al. 2018"),
    Precision("fp8_2018", "FP8 (2018)", 8, 8, 8, ("fp8",), **_16, **_STATE_16, keep=ENDS, source="Wang et al. 2018"),
    Precision(
        "hfp8_2019",
        "hybrid FP8 (2019)",
        8,
        8,
        8,
        ("fp8",),
        **_STATE_16,
        weight_wire_bits=8,
        gradient_wire_bits=16,
        keep=(*ENDS, "depthwise"),
        source="Sun et al. 2019",
    ),
    Precision(
        "int4_fp4_2020",
        "4 bits (2020)",
        4,
        4,
        4,
        ("int4",),
        ("fp4",),
        **_16,
        **_STATE_16,
        keep=(*ENDS, "depthwise", "shortcut"),
        source="Sun et al. 2020",
    ),
    Precision(
        "deepseek_2024",
        "FP8 tiles (2024)",
        8 + 32 / 128**2,
        8 + 32 / 128,
        8 + 32 / 128,
        ("fp8",),
        **_16,
        keep=_BLOCKS,
        source="DeepSeek-V3 2024: float32 scales of 128 × 128 weights and 1 × 128 other numbers",
    ),
    Precision(
        "mxfp4_2025",
        "MXFP4 backward (2025)",
        16,
        16,
        4 + 8 / 32,
        ("bf16", "fp16"),
        ("fp4",),
        **_16,
        keep=_BLOCKS,
        source="Tseng et al. 2025; the copies of weights and activations that the backward pass rounds are not counted",
    ),
    Precision(
        "quartet_2025",
        "MXFP4 (2025)",
        4 + 8 / 32,
        4 + 8 / 32,
        4 + 8 / 32,
        ("fp4",),
        **_16,
        keep=_BLOCKS,
        source="Castro et al. 2025: E8M0 scales of 32 numbers",
    ),
    Precision(
        "mxfp8_2025",
        "MXFP8 (2025)",
        8 + 8 / 32,
        8 + 8 / 32,
        8 + 8 / 32,
        ("fp8",),
        **_16,
        keep=_BLOCKS,
        source="Mishra et al. 2025: E8M0 scales of 32 numbers",
    ),
    Precision(
        "nvfp4_2025",
        "NVFP4 (2025)",
        4 + 8 / 16**2,
        4 + 8 / 16,
        4 + 8 / 16,
        ("fp4",),
        **_16,
        keep=_BLOCKS,
        source="NVIDIA 2025: E4M3 scales of 16 × 16 weights and 16 other numbers; late layers are counted in 4 bits",
    ),
    Precision(
        "w4a16",
        "4-bit weights, inference",
        4 + 20 / 128,
        16,
        0,
        ("fp16", "bf16"),
        master_bits=0,
        keep=("last", "embedding"),
        trains=False,
        source="Frantar et al. 2022, Lin et al. 2023: 128 weights share a scale of 16 bits and a zero of 4",
    ),
    Precision("int8", "INT8, inference", 8, 8, 0, ("int8",), master_bits=0, trains=False, source="integer inference"),
    Precision(
        "int4", "INT4, inference", 4, 4, 0, ("int4",), master_bits=0, keep=ENDS, trains=False, source="Choi et al. 2019"
    ),
    Precision(
        "int2",
        "2 bits, inference",
        2,
        2,
        0,
        ("int2",),
        master_bits=0,
        keep=ENDS,
        trains=False,
        source="Choi et al. 2019",
    ),
)
PRECISIONS = MappingProxyType({precision.name: precision for precision in _ALL})
"""All precisions by name; a new one is a new entry."""


def training(name: str | Precision) -> Precision:
    """The precision that :func:`get` gives, for a step of training.

    Raises:
        ValueError: there is none of this name, or it is for inference.

    >>> training("int8")
    Traceback (most recent call last):
    ...
    ValueError: int8 is for inference; a step of training takes one of fp32, tf32, bf16, fp16_mixed, ...
    """
    found = get(name)
    if not found.trains:
        others = ", ".join(precision.name for precision in _ALL if precision.trains)
        raise ValueError(f"{found.name} is for inference; a step of training takes one of {others}")
    return found


def names() -> list[str]:
    """The names of all precisions, from wide to narrow.

    >>> names()[:3]
    ['fp32', 'tf32', 'bf16']
    """
    return list(PRECISIONS)


def get(name: str | Precision) -> Precision:
    """The precision of this name; a :class:`Precision` is passed through.

    Raises:
        ValueError: there is none; the message names the closest.

    >>> get("hfp8_2018")
    Traceback (most recent call last):
    ...
    ValueError: there is no precision 'hfp8_2018'; did you mean fp8_2018 or hfp8_2019 or mxfp8_2025?
    """
    return name if isinstance(name, Precision) else lookup(PRECISIONS, name, "precision")
