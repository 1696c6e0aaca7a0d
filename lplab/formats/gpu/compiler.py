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
from lplab.formats.paths import rules

IS_INTERPRETED = triton.knobs.runtime.interpret  # by Triton's interpreter on the CPU, as the tests do


@lru_cache(maxsize=512)
def namespace(real: str, module: ModuleType = shells, **flags: Any) -> dict[str, Any]:
    """The word functions and kernels for a word and for flags, compiled when they are first called.

    Args:
        real: "float32" or "float64".
        module: where the kernels are: its ``KERNELS`` names them.
        flags: of :data:`lplab.formats.words.FLAGS`, and what the kernels ask for: constants, or compiled functions.
    """
    word = rules.FLOAT_LAYOUTS[real]
    constants = {
        **word.constants(),
        "TO_WHOLE": 2.0**word.fraction_bits,
        "REAL": getattr(tl, real),
        "INTEGER": getattr(tl, word.integer),
    }
    # The interpreter takes a number wherever it stands; the compiler takes names of constants alone.
    known = {**words.FLAGS, **constants, **flags}
    names = {name: value if IS_INTERPRETED or callable(value) else tl.constexpr(value) for name, value in known.items()}
    names |= {"__name__": __name__, "tl": tl, "unrolled": range if IS_INTERPRETED else tl.static_range}
    _bind(primitives, names)
    words.bound(names, _compiled)
    _bind(module, names)
    return names


def _bind(module: ModuleType, names: dict[str, Any]) -> None:
    for name in module.KERNELS:
        kernel = getattr(module, name)
        bound = FunctionType(kernel.__code__, names, name)
        bound.__annotations__ = kernel.__annotations__
        names[name] = _compiled(bound)


def _compiled(function: Callable) -> Any:
    return triton.jit(function, do_not_specialize=[name for name in SEEDS if name in function.__code__.co_varnames])


SEEDS = ("first", "key_1", "key_2")  # arguments that differ from call to call: one kernel for all of their values
