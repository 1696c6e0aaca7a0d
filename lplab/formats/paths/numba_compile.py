"""How numba compiles the inner loops: cached on disk, with addresses as arguments and the widest vector registers.

Loops call the functions of :mod:`lplab.formats.words`, bound to numba's names by :func:`words_for`. The functions here
are compiled by numba, too.
"""

# mypy: ignore-errors
# (numba gives the types in these functions a stricter meaning than Python's)

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import njit, types
from numba.core.cgutils import voidptr_t
from numba.extending import intrinsic, overload

from lplab.formats import words
from lplab.formats.paths.grid_rules import FLOAT_LAYOUTS


def compile_loop(loop: Callable, names: dict[str, Any] | None = None, label: str = "", **more: Any) -> Callable:
    """The loop compiled, without Python's lock and without checks for division by zero.

    Args:
        loop: a function in numba's Python.
        names: what global names in the loop stand for, beside those of its module, such as what :func:`words_for`
            gives. numba's store on disk knows a loop by its file, name and closure alone. So compiled functions must
            come in by ``names``, not by the closure.
        label: a name for all that ``names`` decides; the store tells loops apart by it.
        more: options of ``numba.njit``.
    """
    options = {"nogil": True, "error_model": "numpy", **more}
    if names:
        code, name = loop.__code__, f"{loop.__qualname__}.{label}.{words_stamp(words)}"
        loop = FunctionType(code, loop.__globals__ | names, loop.__name__, loop.__defaults__, loop.__closure__)
        loop.__qualname__ = name
    try:
        return njit(loop, cache=True, **options)
    except RuntimeError:  # nowhere to write the machine code to: compile in each process
        return njit(loop, **options)


@cache
def words_for(real: str, **flags: Any) -> dict[str, Any]:
    """The functions of :mod:`lplab.formats.words` for numba to inline, with the names that they use, by name.

    Args:
        real: "float32" or "float64".
        flags: of ``words.FLAGS``.
    """
    word = FLOAT_LAYOUTS[real]
    I, F = np.dtype(word.integer).type, np.dtype(real).type  # noqa: E741

    def narrow(x):
        raise NotImplementedError("narrow() exists in compiled code only")

    @overload(narrow, jit_options={"forceinline": True})
    def _narrow(x):
        if isinstance(x, types.Boolean):
            return lambda x: x
        return (lambda x: F(x)) if isinstance(x, types.Float) else (lambda x: I(x))

    inlined = njit(forceinline=True, nogil=True, error_model="numpy")
    names = {
        "narrow": narrow,
        "as_real": inlined(lambda bits: I(bits).view(F)),
        "as_bits": inlined(lambda number: F(number).view(I)),
        "to_real": inlined(lambda integer: F(integer)),
        "where": inlined(lambda condition, a, b: a if condition else b),
        "minimum": inlined(lambda a, b: min(a, b)),
        "maximum": inlined(lambda a, b: max(a, b)),
        "floor": inlined(lambda number: np.floor(number)),
        "rint": inlined(lambda number: np.rint(number)),
        "divide": inlined(lambda a, b: F(a / b)),
        "unrolled": range,
        **{name: I(value) for name, value in word.constants().items()},
    }
    bound = words.bound(names | flags, inlined, narrowed_words(words))
    if real == "float64":
        bound["random_bits"] = words_for("float32")["random_bits"]
    return bound


@cache
def narrowed_words(module: ModuleType) -> dict[str, Callable]:
    """The functions of a module of words, by name, with the result of each operation in the word.

    numba widens integers to 64 bits; the loops would not use vector instructions.
    """

    class Narrowed(ast.NodeTransformer):
        def _narrow(self, node: ast.AST) -> ast.AST:
            self.generic_visit(node)
            return ast.Call(ast.Name("narrow", ast.Load()), [node], [])

        visit_BinOp = visit_UnaryOp = _narrow

        def visit_Constant(self, node: ast.Constant) -> ast.AST:
            return self._narrow(node) if type(node.value) in (int, float) else node

    text, found = ast.parse(inspect.getsource(module)), {}
    functions = [node for node in text.body if isinstance(node, ast.FunctionDef) and node.name in module.WORDS]
    text.body = [Narrowed().visit(node) for node in functions]
    exec(compile(ast.fix_missing_locations(text), module.__file__, "exec"), found)
    return {name: found[name] for name in module.WORDS}


@cache
def words_stamp(module: ModuleType) -> str:
    """Some digits that change with the text of a module of words, or of this module: numba's store looks at neither."""
    texts = inspect.getsource(module) + inspect.getsource(sys.modules[__name__])
    return hashlib.sha256(texts.encode()).hexdigest()[:8]


@intrinsic
def pointer(context, address):
    """An address as a pointer: numba passes a number in a fraction of the time that it needs for an array."""
    return types.voidptr(types.int64), lambda c, builder, signature, args: builder.inttoptr(args[0], voidptr_t)


@intrinsic
def use_wide_vectors(context):
    """Let the function that calls this use all 512 bits of a vector register, where the processor has so many.

    LLVM uses half of them by default, because a few wide instructions slow the clock down for the code that follows.
    These loops run long enough to profit. LLVM also learns that subnormal numbers may be flushed: else it would compare
    a pattern with zero as a number. llvmlite knows no attributes with values, hence ``set.add``.

    LLVM inlines only functions with the same attributes into such a loop, or those that say ``forceinline``. So these
    loops call ``maximum`` and ``as_bits`` of :func:`words_for`: Python's ``max`` or numpy's ``view`` would stay a call,
    and cost a loop its vector instructions. A slow test looks for them.
    """

    def attribute(context, builder, signature, args):
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        set.add(builder.function.attributes, '"denormal-fp-math"="dynamic,dynamic"')
        return context.get_dummy_value()

    return types.none(), attribute
