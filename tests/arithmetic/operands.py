"""Operands on which narrow sums lose accuracy, and a comparison bit for bit."""

import numpy as np

from lplab import formats as F

KINDS = ("fp8", "gradients", "dlfloat", "spread", "patterns", "powers", "small")


def operand(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """A float32 array of one kind; "patterns" has NaN, infinities and subnormal numbers in it."""
    normal = rng.standard_normal(shape)
    if kind == "fp8":
        return F.get("hfp8_forward").quantize(normal.astype(np.float32))
    if kind == "gradients":
        return F.get("e5m2").quantize((normal * 2.0 ** rng.integers(-18, 14, shape)).astype(np.float32))
    if kind == "dlfloat":
        return F.get("dlfloat16").quantize((normal * 2.0 ** rng.integers(-18, 14, shape)).astype(np.float32))
    if kind == "spread":
        return (normal * 2.0 ** rng.integers(-60, 40, shape)).astype(np.float32)
    if kind == "patterns":
        return rng.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)
    if kind == "powers":
        return (rng.choice([-1.0, 1.0, 0.0, -0.0], shape) * 2.0 ** rng.integers(-14, 14, shape)).astype(np.float32)
    return rng.integers(-3, 4, shape).astype(np.float32)


def assert_same(got: object, want: object) -> None:
    """Equal bit for bit, the sign of zero included; any NaN equals any NaN."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape
    differ = ~((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want))
    assert not differ.any(), f"{differ.sum()} of {differ.size} differ: {got[differ][:5]} instead of {want[differ][:5]}"
