"""Inputs on which number formats go wrong: values, midpoints, their neighbours, specials, sets of bit patterns."""

from functools import cache

import numpy as np

from lplab import formats as F

LISTED_BITS = 12  # formats of up to as many bits are probed at every code
ELEMENTWISE = [name for name in F.names() if not hasattr(F.get(name), "block_size")]
BLOCKED = [name for name in F.names() if hasattr(F.get(name), "block_size")]


def codes_of_interest(bits: int) -> np.ndarray:
    """All codes of a narrow format; of a wide one the ends, each exponent's first and last codes, and random ones."""
    if bits <= LISTED_BITS:
        return np.arange(2**bits)
    corners = np.arange(2**LISTED_BITS) << (bits - LISTED_BITS)
    somewhere = np.random.default_rng(bits).integers(0, 2**bits, 1000)
    ends = np.arange(64)
    near = (c + d for c in (corners, somewhere) for d in (-2, -1, 0, 1))
    return np.unique(np.concatenate([ends, *near]) % 2**bits)


def with_neighbours(x: np.ndarray) -> np.ndarray:
    """x and the next float below and above, in the type of x."""
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate([x, np.nextafter(x, np.inf, dtype=x.dtype), np.nextafter(x, -np.inf, dtype=x.dtype)])


def boundary(fmt: F.Format, dtype: str = "float32") -> np.ndarray:
    """Values, points half and a quarter between them, binades beyond the largest; with neighbours and signs."""
    values = fmt.decode(codes_of_interest(fmt.bits))
    values = np.unique(np.abs(values[np.isfinite(values)]))
    middles = values[:-1] + np.diff(values) / 2
    quarters = values[:-1] + np.diff(values) / 4
    last_gap = values[-1] - values[-2]
    beyond = [values[-1] + last_gap * k for k in (0.25, 0.5, 0.75, 1, 1.5)] + [
        values[-1] * k for k in (1.25, 1.5, 2, 3, 4)
    ]
    below = values[values > 0][0] * 2.0 ** -np.arange(1, 27)
    with np.errstate(over="ignore", under="ignore"):
        points = np.concatenate([values, middles, quarters, beyond, below]).astype(dtype)
    points = with_neighbours(points)
    return np.unique(np.concatenate([points, -points]).view(_integer(dtype))).view(dtype)


def specials(dtype: str = "float32") -> np.ndarray:
    """Zeros, infinities, NaN, the ends of the type itself, all powers of two; with neighbours and signs."""
    info = np.finfo(dtype)
    least, most = int(np.log2(float(info.smallest_subnormal))), info.maxexp
    powers = np.ldexp(np.ones(1, dtype), np.arange(least, most))
    edges = np.array([0, info.smallest_subnormal, info.tiny, info.max, np.inf], dtype)
    points = np.concatenate([with_neighbours(powers), edges, with_neighbours(edges[2:4]), [np.nan]]).astype(dtype)
    return np.concatenate([points, -points])


@cache
def bfloat16_patterns() -> np.ndarray:
    """All 65,536 bfloat16 numbers as float32."""
    return (np.arange(2**16, dtype=np.uint32) << 16).view(np.float32)


@cache
def random_patterns(dtype: str = "float32", count: int = 2**16) -> np.ndarray:
    """Uniformly random bit patterns, half of them near 1, inside the range of most formats."""
    rng = np.random.default_rng(20261121)
    anywhere = rng.integers(0, 2 ** (8 * np.dtype(dtype).itemsize), count // 2, dtype=_integer(dtype)).view(dtype)
    near = rng.standard_normal(count // 2) * 2.0 ** rng.integers(-20, 20, count // 2)
    return np.concatenate([anywhere, near.astype(dtype)])


@cache
def probes(name: str, dtype: str = "float32") -> np.ndarray:
    """All of these inputs for one format of the catalogue: some 10^5 numbers."""
    return np.concatenate([boundary(F.get(name), dtype), common(dtype)])


@cache
def common(dtype: str = "float32") -> np.ndarray:
    """The part of the probes that does not depend on the format."""
    with np.errstate(invalid="ignore"):
        return np.concatenate([specials(dtype), bfloat16_patterns().astype(dtype), random_patterns(dtype)])


def assert_same(got: np.ndarray, want: np.ndarray, x: np.ndarray) -> None:
    """Equal bit for bit, the sign of zero included; any NaN equals any NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    differ = ~((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want))
    first = [tuple(map(float, row)) for row in zip(x[differ][:5], got[differ][:5], want[differ][:5], strict=True)]
    assert not differ.any(), f"{differ.sum()} of {differ.size} differ; (x, got, want): {first}"


def _integer(dtype: str) -> str:
    return f"uint{8 * np.dtype(dtype).itemsize}"
