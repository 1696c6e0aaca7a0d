"""How numba compiles the inner loops: cached on disk, with addresses as arguments and the widest vector registers.

The functions here are compiled by numba, too.
"""

# mypy: ignore-errors
# (numba gives the types in these functions a stricter meaning than Python's)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core.cgutils import voidptr_t
from numba.extending import intrinsic


def compile_loop(loop: Callable, **more: Any) -> Callable:
    """The loop compiled, without Python's lock and without checks for division by zero.

    Args:
        loop: a function in numba's Python.
        more: options of ``numba.njit``.
    """
    options = {"nogil": True, "error_model": "numpy", **more}
    try:
        return njit(loop, cache=True, **options)
    except RuntimeError:  # nowhere to write the machine code to: compile in each process
        return njit(loop, **options)


@intrinsic
def pointer(context, address):
    """An address as a pointer: numba passes a number in a fraction of the time that it needs for an array."""
    return types.voidptr(types.int64), lambda c, builder, signature, args: builder.inttoptr(args[0], voidptr_t)


@intrinsic
def use_wide_vectors(context):
    """Let the function that calls this use all 512 bits of a vector register, where the processor has so many.

    LLVM uses half of them by default, because a few wide instructions slow the clock down for the code that follows.
    These loops run long enough to profit.  llvmlite knows no attributes with values, hence ``set.add``.
    """

    def attribute(context, builder, signature, args):
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), attribute
