"""What a format does to a tensor, in numbers. Every share and decibel that a figure shows comes from here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lplab import formats
from lplab.figures.window import AnyRounding, window

OUTCOMES = ("exact", "rounded", "flushed", "saturated")
EXACT, ROUNDED, FLUSHED, SATURATED = range(4)


@dataclass(frozen=True)
class TensorStatistics:
    """Shares, errors and counts of one tensor in one format.

    The four shares are of the finite elements and add up to 1 (all NaN for a tensor without any).

    Attributes:
        format: name of the format.
        rounding: name of the rounding.
        count: elements of the tensor.
        nan: elements that are NaN already before quantization.
        infinite: elements that are infinite already before.
        zero: share of finite elements that are zero already before; they count as exact.
        exact: share that the format holds as it is.
        rounded: share that goes to a neighbour.
        flushed: share that was not zero and becomes zero.
        saturated: share beyond the largest value, or that becomes infinity or NaN.
        overflowed: how many finite elements become infinity or NaN; they are left out of the numbers below.
        sqnr_db: 10·log10(Σx² / Σ(q − x)²); infinite without error, NaN without signal.
        bias: mean of q − x.
        smallest: the smallest magnitude that is not zero (NaN without any).
        largest: the largest finite magnitude (NaN without any).
    """

    format: str
    rounding: str
    count: int
    nan: int
    infinite: int
    zero: float
    exact: float
    rounded: float
    flushed: float
    saturated: float
    overflowed: int
    sqnr_db: float
    bias: float
    smallest: float
    largest: float


@dataclass(frozen=True)
class Quantized:
    """The finite elements of a tensor, what they became, and their outcomes.

    Attributes:
        x: float64 [n], the finite elements in C order.
        q: float64 [n], the same elements quantized.
        outcome: uint8 [n], an index into ``OUTCOMES``.
        count: elements of the tensor, finite or not.
        nan: how many are NaN.
        infinite: how many are infinite.
        scale: the median scale of the blocks of a block format; 1 for all others.
    """

    x: np.ndarray = field(repr=False)
    q: np.ndarray = field(repr=False)
    outcome: np.ndarray = field(repr=False)
    count: int
    nan: int
    infinite: int
    scale: float = 1.0


def tensor_statistics(tensor: Any, fmt: Any, rounding: AnyRounding = "nearest_even", seed: int = 0) -> TensorStatistics:
    """Quantize a tensor: shares that are exact, rounded, underflow, saturate; the quantization error (SQNR, bias).

    Args:
        tensor: float numpy array or torch tensor of any shape, empty ones and non-finite elements included.
        fmt: a format or its name.
        rounding: one of ``lplab.formats.ROUNDINGS``.
        seed: for stochastic rounding.

    >>> import numpy as np
    >>> s = tensor_statistics(np.array([0.0, 1.0, 1.01, 1e-4, 1e4]), "e4m3fn")
    >>> s.exact, s.rounded, s.flushed, s.saturated
    (0.4, 0.2, 0.2, 0.2)
    """
    fmt = as_format(fmt)
    return statistics_of(quantized(tensor, fmt, rounding, seed), fmt, rounding)


def statistics_of(result: Quantized, fmt: Any, rounding: AnyRounding) -> TensorStatistics:
    """The numbers of a tensor that is quantized already (several figures can share one)."""
    n = len(result.x)
    shares = np.bincount(result.outcome, minlength=4) / n if n else np.full(4, math.nan)
    stays = np.isfinite(result.q)
    x, q = result.x[stays], result.q[stays]
    error, size = q - x, np.abs(result.x)
    signal, noise = float(np.square(x).sum()), float(np.square(error).sum())
    return TensorStatistics(
        format=name_of(fmt),
        rounding=rounding_text(rounding),
        count=result.count,
        nan=result.nan,
        infinite=result.infinite,
        zero=float(np.mean(size == 0)) if n else math.nan,
        exact=float(shares[EXACT]),
        rounded=float(shares[ROUNDED]),
        flushed=float(shares[FLUSHED]),
        saturated=float(shares[SATURATED]),
        overflowed=int(n - stays.sum()),
        sqnr_db=_decibels(signal, noise),
        bias=float(error.mean()) if len(x) else math.nan,
        smallest=float(size[size > 0].min()) if size.any() else math.nan,
        largest=float(size.max()) if n else math.nan,
    )


def rounding_text(rounding: AnyRounding) -> str:
    """The name of a rounding in words, given by name or as a ``formats.Rounding``.

    >>> rounding_text("nearest_even")
    'nearest even'
    >>> rounding_text(formats.Rounding("stochastic", random_bits=4))
    'stochastic (4 random bits)'
    """
    if not isinstance(rounding, formats.Rounding):
        return str(rounding).replace("_", " ")
    many = f"stochastic ({rounding.random_bits} random bits)"
    return many if rounding.is_stochastic else rounding.mode.replace("_", " ")


def _decibels(signal: float, noise: float) -> float:
    if signal == 0:
        return math.nan
    return 10 * math.log10(signal / noise) if noise else math.inf


def quantized(tensor: Any, fmt: Any, rounding: AnyRounding = "nearest_even", seed: int = 0) -> Quantized:
    """Quantize a tensor; the outcome of each finite element."""
    fmt = as_format(fmt)
    array = as_array(tensor)
    q = np.asarray(fmt.quantize(array, rounding, seed=seed), np.float64).ravel()
    low, high, scale = _bounds(array, fmt, rounding)
    array = array.ravel()
    finite = np.isfinite(array)
    nan = int(np.isnan(array).sum())
    x, q = array[finite].astype(np.float64), q[finite]
    low, high = (edge[finite] if edge.ndim else edge for edge in (low, high))
    outcome = np.full(len(x), ROUNDED, np.uint8)
    outcome[(q == 0) & (x != 0)] = FLUSHED
    outcome[(x > high) | (x < low) | ~np.isfinite(q)] = SATURATED
    outcome[q == x] = EXACT
    return Quantized(x, q, outcome, array.size, nan, int(array.size - finite.sum() - nan), scale)


def _bounds(array: np.ndarray, fmt: Any, rounding: AnyRounding) -> tuple[np.ndarray, np.ndarray, float]:
    """Beyond which numbers elements saturate: one pair for all, or one by each block's scale; and the median scale."""
    edges = window(fmt, rounding)
    low, high = np.float64(edges.low), np.float64(edges.high)
    if not hasattr(fmt, "block_size") or not array.size:
        return np.asarray(low), np.asarray(high), 1.0
    if fmt.tile[0] > 1:
        raise ValueError(f"{fmt.label}: statistics need blocks along one axis; they know no tiles")
    usable = np.abs(array) <= np.finfo(np.float32).max  # block scales are computed in float32
    codes = fmt.encode(np.where(usable, array, 0), rounding, seed=0)
    scales = np.asarray(fmt.scale.decode(codes.scales)) * codes.tensor_scale
    used = scales[np.isfinite(scales) & (scales > 0)]
    spread = np.repeat(scales, fmt.block_size, axis=-1)[..., : array.shape[-1] if array.ndim else 1].ravel()
    return low * spread, high * spread, float(np.median(used)) if len(used) else 1.0


def as_array(tensor: Any) -> np.ndarray:
    """A float32 or float64 numpy array of a tensor: numpy or torch (half precision becomes float32).

    >>> as_array([1, 2]).dtype
    dtype('float64')
    """
    if hasattr(tensor, "detach"):  # torch, which is not imported here
        tensor = tensor.detach().cpu()
        tensor = (tensor if str(tensor.dtype) == "torch.float64" else tensor.float()).numpy()
    array = np.asarray(tensor)
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise TypeError(f"a tensor of real numbers is needed, got dtype {array.dtype}")
    small = array.dtype.name in ("float16", "bfloat16", "float32")
    return array.astype(np.float32 if small else np.float64, copy=False)


def as_format(fmt: Any) -> Any:
    """A format from itself or from its name in the catalogue."""
    return formats.get(fmt) if isinstance(fmt, str) else fmt


def as_formats(fmts: Any) -> list[Any]:
    """A list of at least one format from one format, one name, or several of them."""
    several = isinstance(fmts, list | tuple)
    chosen = [as_format(f) for f in fmts] if several else [as_format(fmts)]
    if not chosen:
        raise ValueError("at least one format is needed")
    return chosen


def name_of(fmt: Any) -> str:
    """The name by which a figure calls a format.

    >>> from lplab import formats
    >>> name_of(formats.get("e4m3fn"))
    'e4m3fn'
    """
    return getattr(fmt, "label", "") or getattr(fmt, "name", "") or repr(fmt)
