"""What a weight costs in the formats that language models are stored in: bits with scales, zeros and all else.

bits = own bits + (bits of the scale + bits of the zero) / weights that share them.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from lplab.checks import check_at_least

GGUF = "the block's structure in llama.cpp"


def bits_per_weight(bits: float, group: float, scale_bits: float = 16, zero_bits: float = 0) -> float:
    """Bits of a weight with its share of what its group stores.

    Args:
        bits: of the weight itself.
        group: weights that share a scale and a zero.
        scale_bits, zero_bits: of these.

    Raises:
        ValueError: a number that is negative, or a group below 1.

    >>> bits_per_weight(4, 128, zero_bits=4), bits_per_weight(3, 32) > bits_per_weight(3, 128)
    (4.15625, True)
    """
    bits, scale_bits, zero_bits = check_at_least(0, bits=bits, scale_bits=scale_bits, zero_bits=zero_bits)
    (group,) = check_at_least(1, group=group)
    return bits + (scale_bits + zero_bits) / group


@dataclass(frozen=True)
class StoredWeights:
    """A format of stored weights.

    Attributes:
        name: of the format.
        weights: that one block holds.
        bits: that the block takes, with its scales.
        levels: what its values are.
        source: where the layout is written.
    """

    name: str
    weights: int
    bits: float
    levels: str
    source: str

    @property
    def bits_per_weight(self) -> float:
        """All bits of a block by its weights."""
        return self.bits / self.weights


STORED_WEIGHTS = MappingProxyType(
    {
        row.name: row
        for row in (
            StoredWeights("F16", 1, 16, "half precision", "IEEE 754"),
            StoredWeights("Q8_0", 32, 34 * 8, "8 bits, a scale of 16", GGUF),
            StoredWeights("Q6_K", 256, 210 * 8, "6 bits, 16 scales of 8 bits and one of 16", GGUF),
            StoredWeights("Q5_K", 256, 176 * 8, "5 bits, 8 scales and 8 minima of 6 bits, two numbers of 16", GGUF),
            StoredWeights("Q4_1", 32, 20 * 8, "4 bits, a scale and a minimum of 16", GGUF),
            StoredWeights("Q4_0", 32, 18 * 8, "4 bits, a signed scale of 16", GGUF),
            StoredWeights("Q4_K", 256, 144 * 8, "4 bits, 8 scales and 8 minima of 6 bits, two numbers of 16", GGUF),
            StoredWeights("nvfp4", 16, 16 * 4 + 8, "E2M1, a scale in E4M3 (and one for the tensor)", "NVIDIA 2025"),
            StoredWeights("nf4", 64, 64 * 4 + 32, "16 quantiles of a normal distribution, a scale of 32", "QLoRA"),
            StoredWeights("mxfp4", 32, 32 * 4 + 8, "E2M1, a scale in E8M0", "OCP MX 1.0"),
            StoredWeights("int4 g128", 128, 128 * 4 + 16 + 4, "4 bits, a scale of 16 and a zero of 4", "GPTQ, AWQ"),
            StoredWeights("nf4, double", 64 * 256, 256 * (64 * 4 + 8) + 32, "scales in 8 bits, 256 share one", "QLoRA"),
            StoredWeights("Q3_K", 256, 110 * 8, "3 bits, 16 scales of 6 bits and one of 16", GGUF),
            StoredWeights("IQ3_XXS", 256, 98 * 8, "a codebook of 256 for four weights, signs, scales", GGUF),
            StoredWeights("Q2_K", 256, 84 * 8, "2 bits, 16 scales and minima of 4 bits, two numbers of 16", GGUF),
            StoredWeights("int2 g64", 64, 64 * 2 + 16 + 2, "2 bits, a scale of 16 and a zero of 2", "GPTQ"),
            StoredWeights("IQ2_XXS", 256, 66 * 8, "a codebook of 256 for eight weights, signs, scales", GGUF),
            StoredWeights("ternary, packed", 5, 8, "3^5 = 243 values in a byte, without scales", "BitNet b1.58"),
        )
    }
)
"""The formats, by name, from many bits to few."""
