"""Kinds of formats, and which cases of a product of parameters are run by default; the others are marked slow."""

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pytest

# The formats of a kind take the same branches of the code and differ in their numbers: see tests/test_kinds.py.
# The first of each kind is run by default.
KINDS = {
    "float32 itself": ("fp32",),
    "float with the exponents of float32": ("bf16", "tf32"),
    "float of 16 bits": ("fp16",),
    "float with infinity": ("e5m2", "e4m3", "e3m4"),
    "float with infinity, saturating": ("fp8_152", "hfp8_backward"),
    "float without infinity": ("e4m3fn",),
    "float without negative zero": ("e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz", "hfp8_forward"),
    "float without NaN": ("e2m1", "e3m2", "e2m3"),
    "float without subnormals": ("dlfloat16",),
    "float of P3109": ("binary8p3", "binary8p4", "binary8p5"),
    "radix 4": ("radix4_fp4_odd", "radix4_fp4_even"),
    "powers of two": ("e8m0",),
    "integer": ("int8", "int4", "int2"),
    "fixed point": ("q4.12",),
    "a table": ("nf4",),
    "posit": ("posit8_1", "posit8_2"),
    "posit of 16 bits": ("posit16_1", "posit16_2"),
    "logarithmic": ("lns8",),
    "blocks of floats": ("mxfp4", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3"),
    "blocks of integers": ("mxint8",),
    "blocks and a scale of the tensor": ("nvfp4",),
}
EXAMPLES = frozenset(members[0] for members in KINDS.values())
CLASSES = ("e4m3fn", "int8", "q4.12", "posit8_1", "lns8", "mxfp4", "nvfp4")  # one of each class of formats


def by_kind(names: Iterable[str], also: Collection[str] = ()) -> list[Any]:
    """Parameters: one format of each kind and those of ``also`` by default, the others marked slow."""
    return tiered(names, lambda name: name in EXAMPLES or name in also)


def by_class(names: Iterable[str]) -> list[Any]:
    """Parameters: one format of each class by default, the others marked slow."""
    return tiered(names, lambda name: name in CLASSES)


def tiered(cases: Iterable[Any], by_default: Callable[[Any], bool]) -> list[Any]:
    """Parameters: the cases for which ``by_default(case)`` holds as they are, the others marked slow."""
    return [case if by_default(case) else slow(case) for case in cases]


def pairs(first: Sequence[Any], second: Sequence[Any], third: Sequence[Any]) -> list[Any]:
    """Parameters: all pairs of ``first`` and ``second``, with each of ``third`` in turn.

    If both are at least as long as ``third``, any two values of different parameters meet: a fault needs three of them
    at once to be missed.
    """
    places = itertools.product(range(len(first)), range(len(second)))
    return [(first[i], second[j], third[(i + j) % len(third)]) for i, j in places]


def in_turn(first: Sequence[Any], second: Sequence[Any], every: int) -> list[Any]:
    """Parameters: all pairs. By default one in ``every``: each value of ``first`` with others of ``second``."""
    places = itertools.product(range(len(first)), range(len(second)))
    return [(first[i], second[j]) if (i + j) % every == 0 else slow((first[i], second[j])) for i, j in places]


def one_in_three(cases: Iterable[Any]) -> list[Any]:
    """Parameters: each third case by default, beginning with the first."""
    return [slow(case) if number % 3 else case for number, case in enumerate(cases)]


def slow(case: Any) -> Any:
    """A case that only the slow tier runs; a tuple holds the values of several parameters."""
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)


def on_cuda(cases: Iterable[Any]) -> list[Any]:
    """Parameters: the cases where there is a CUDA device; elsewhere a single skipped one."""
    import torch

    if torch.cuda.is_available():
        return list(cases)
    return [pytest.param(None, marks=pytest.mark.skip(reason="needs a CUDA device"), id="cuda")]
