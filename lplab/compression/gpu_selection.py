"""AdaComp's bins on a GPU, by a kernel that Triton compiles: one pass over memory.

This module imports Triton and torch, so other modules import it inside the functions that need it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import triton
from torch import Tensor

from lplab.compression import adacomp_kernel, adacomp_words
from lplab.formats import words
from lplab.formats.gpu import compiler, dispatch


def select(
    residual: Tensor, gradient: Tensor, extra: float, bin: int, flags: tuple[bool, bool, bool], new: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Write residual + gradient to ``new``; None where no kernel serves.

    Args:
        residual, gradient, new: flat float32, on a device that :func:`lplab.formats.gpu.serves`.
        extra: how many times more the gradient counts in H.
        bin: elements in a bin.
        flags: whether signs are those of G, whether bins of zeros are sent, whether each other bin sends an element.

    Returns:
        The largest magnitude of each bin, and which elements are sent: bool.
    """
    count, bins = gradient.numel(), -(-gradient.numel() // bin)
    flat = all(x.dtype == torch.float32 and x.is_contiguous() for x in (residual, gradient, new))
    if not flat or not 0 < bins < 2**30:
        return None
    maxima, sent = gradient.new_empty(bins), gradient.new_empty(count, dtype=torch.int8)
    width = triton.next_power_of_2(bin)
    height = max(dispatch.BLOCK // width, 1)
    arguments = residual, gradient, new, maxima, sent, count, bins, bin, extra
    dispatch.launch(_kernel(*flags), -(-bins // height), *arguments, BINS=height, WIDTH=width)
    return maxima, sent.view(torch.bool)


@lru_cache(maxsize=8)
def _kernel(sign_of_g: bool, zeros: bool, always_one: bool) -> Any:
    flags = compiler.known(SIGN_OF_G=sign_of_g, ZEROS=zeros, ALWAYS_ONE=always_one)
    names = {**compiler.namespace("float32"), **flags}
    words.bound(names, compiler.compiled, {name: getattr(adacomp_words, name) for name in adacomp_words.WORDS})
    compiler.bind(adacomp_kernel, names)
    return names["select"]
