"""torch's casts and numpy's float16. torch's overflow to float8 changed in 2.12: float8 is compared in range only."""

import dataclasses

import numpy as np
import pytest

from lplab import formats as F

from .probes import assert_same, probes

torch = pytest.importorskip("torch")

EXACT = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}  # overflow to infinity in every version
IN_RANGE = {
    "e4m3fn": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
}


def integers(codes: torch.Tensor) -> np.ndarray:
    """The bits of a torch tensor as unsigned numpy integers."""
    return codes.view(getattr(torch, f"uint{8 * codes.element_size()}")).numpy()


@pytest.mark.parametrize("name", EXACT)
def test_halves(name):
    x = probes(name)
    want = torch.from_numpy(x).to(getattr(torch, EXACT[name]))
    assert_same(F.get(name).quantize(x), want.float().numpy(), x)
    number = ~torch.isnan(want).numpy()
    np.testing.assert_array_equal(F.get(name).encode(x)[number], integers(want)[number])


@pytest.mark.parametrize("name", IN_RANGE)
def test_float8_in_range(name):
    fmt, x = F.get(name), probes(name)
    x = x[~(np.abs(fmt.quantize(x)) >= fmt.max) & np.isfinite(x)]
    want = torch.from_numpy(x).to(getattr(torch, IN_RANGE[name]))
    assert_same(fmt.quantize(x), want.float().numpy(), x)
    np.testing.assert_array_equal(fmt.encode(x), integers(want))


@pytest.mark.parametrize("name", IN_RANGE | EXACT)
def test_finfo(name):
    fmt, info = F.get(name), torch.finfo(getattr(torch, (IN_RANGE | EXACT)[name]))
    assert (fmt.bits, fmt.max, fmt.min, fmt.smallest_normal) == (info.bits, info.max, info.min, info.tiny)
    if not name.endswith("fnuz"):  # torch gives 2^−m for the gap above 1 in every format, but half of it for the fnuz
        assert fmt.eps == info.eps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpy_float16(dtype):
    """numpy rounds float64 to float16 once, unlike a path through float32."""
    x = probes("fp16", dtype)
    with np.errstate(all="ignore"):
        want = x.astype(np.float16)
    assert_same(F.get("fp16").quantize(x), want.astype(dtype), x)
    number = ~np.isnan(x)
    np.testing.assert_array_equal(F.get("fp16").encode(x)[number], want.view(np.uint16)[number])


def test_e8m0_beyond_its_range():
    """torch rounds ties up and makes NaN of what is beyond 2^127. It drops the sign; here negative numbers are NaN."""
    fmt = dataclasses.replace(F.get("e8m0"), beyond=2.0**128)
    x = probes("e8m0")
    x = x[(x == 0) | (x >= 2.0**-126) | np.isnan(x)]  # it rounds float32's subnormal numbers another way
    theirs = torch.from_numpy(x).to(torch.float8_e8m0fnu).view(torch.uint8).numpy()
    np.testing.assert_array_equal(fmt.encode(x, "nearest_away"), theirs)
    assert F.get("e8m0").encode([3.0, 1.6 * 2.0**127, np.inf, 0.0, -1.0]).tolist() == [128, 254, 254, 0, 255]
    assert fmt.quantize([1.6 * 2.0**127, 2.0**127], "down").tolist() == [2.0**127, 2.0**127]


def test_numpy_float32():
    x = probes("fp32", "float64")
    with np.errstate(all="ignore"):
        want = x.astype(np.float32)
    assert_same(F.get("fp32").quantize(x), want.astype(np.float64), x)
    number = ~np.isnan(x)
    np.testing.assert_array_equal(F.get("fp32").encode(x)[number], want.view(np.uint32)[number])


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp32", "tf32"])
def test_what_fits_is_left_alone(name):
    """A format that holds all values of a narrower type changes none of them."""
    fmt = dataclasses.replace(F.get(name), subnormals=True)
    x = probes("e5m2")[np.isfinite(probes("e5m2"))]
    x = F.get("e5m2").quantize(x)
    assert_same(fmt.quantize(x), x, x)
