"""The word functions of :mod:`lplab.formats.words` bound to Triton, with the kernels around them.

A kernel is plain Python with names from a namespace, as word functions are. :func:`namespace` makes one for a word and
for flags; Triton compiles what is called from it. This module imports Triton, so other modules import it inside the
functions that need it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any

import triton
import triton.language as tl

from lplab.formats import words
from lplab.formats.gpu import names as primitives
from lplab.formats.gpu import shells
from lplab.formats.paths import grid_rules

IS_INTERPRETED = triton.knobs.runtime.interpret  # by Triton's interpreter on the CPU, as the tests do


@lru_cache(maxsize=512)
def namespace(real: str, **flags: Any) -> dict[str, Any]:
    """The word functions and kernels for a word and for flags, compiled when they are first called.

    Args:
        real: "float32" or "float64".
        flags: of :data:`lplab.formats.words.FLAGS`, and what the kernels ask for: constants, or compiled functions.
    """
    word = grid_rules.FLOAT_LAYOUTS[real]
    constants = {
        **word.constants(),
        "TO_WHOLE": 2.0**word.fraction_bits,
        "REAL": getattr(tl, real),
        "INTEGER": getattr(tl, word.integer),
    }
    names = known(**words.FLAGS | constants | flags)
    names |= {"__name__": __name__, "tl": tl, "unrolled": range if IS_INTERPRETED else tl.static_range}
    bind(primitives, names)
    words.bound(names, compiled)
    bind(shells, names)
    return names


def known(**values: Any) -> dict[str, Any]:
    """What is known when a kernel is compiled: constants by name. Compiled functions stay as they are."""
    # The interpreter takes a number wherever it stands; the compiler takes names of constants alone.
    return {name: value if IS_INTERPRETED or callable(value) else tl.constexpr(value) for name, value in values.items()}


def bind(module: ModuleType, names: dict[str, Any]) -> None:
    """Compile the functions of a module over a namespace, which then holds them, too."""
    for name, kernel in vars(module).items():
        if isinstance(kernel, FunctionType):
            bound = FunctionType(kernel.__code__, names, name)
            bound.__annotations__ = kernel.__annotations__
            names[name] = compiled(bound)


def compiled(function: Callable) -> Any:
    """What Triton makes of a function."""
    return triton.jit(function, do_not_specialize=[name for name in SEEDS if name in function.__code__.co_varnames])


SEEDS = ("first", "key_1", "key_2")  # arguments that differ from call to call: one kernel for all of their values
