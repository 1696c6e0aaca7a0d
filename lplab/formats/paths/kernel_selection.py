"""Which compiled loop serves which format, and when loading it pays.

numba is imported on the first large array, or once many numbers have been rounded. A loop that this process has not
used yet is loaded from disk (or compiled, the first time on a machine, in half a second). Small arrays do not wait for
that: :mod:`lplab.formats.paths.array_kernels` rounds them in microseconds, with the same bits.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any
from weakref import WeakValueDictionary

from lplab.formats.paths import table_rules
from lplab.formats.paths.rules import FLOAT_LAYOUTS, block_rule, grid_rule
from lplab.formats.rounding import Rounding
from lplab.formats.rounding_spec import BlockSpec, Grid, Table

MIN_COMPILED_SIZE = 2**15  # elements of one array from which on a loop is loaded
MIN_ELEMENTS_BEFORE_LOADING = 2**18  # elements of many arrays
MAX_COUNTED_LOOPS = 4096
ROUNDINGS: WeakValueDictionary[int, Any] = WeakValueDictionary()  # by number, for an operator, which takes numbers
_loaded_loops: set[Hashable] = set()  # loops that this process has used; only speed depends on it
_counts: Counter[Hashable] = Counter()  # elements that each of the other loops could have rounded so far

Loop = Callable[..., None]
"""Rounds contiguous memory into disjoint memory: (addresses of x and out, number of elements, scale, number of the
first element, two keys of random bits). The scale is that of integers; other formats ignore it."""


loops_are_on = find_spec("numba") is not None and os.environ.get("LPLAB_NO_NUMBA", "") in ("", "0")
"""What :func:`available` tells; read as a variable where each call asks."""


def available() -> bool:
    """Whether compiled loops may be used: numba is installed, and ``LPLAB_NO_NUMBA`` was not set at the import.

    >>> isinstance(available(), bool)
    True
    """
    return loops_are_on


@contextmanager
def without_compiled_loops(switch: bool = True) -> Iterator[None]:
    """Round with array operations alone for a while, in all threads; ``switch=False`` leaves it as it is.

    >>> with without_compiled_loops():
    ...     available()
    False
    """
    global loops_are_on
    before = loops_are_on
    loops_are_on = before and not switch
    try:
        yield
    finally:
        loops_are_on = before


def loading_pays_off(loop_key: Hashable, size: int) -> bool:
    """Whether a loop is loaded, or is worth loading for an array of ``size`` elements, given those that came before."""
    if loop_key in _loaded_loops:
        return True
    if len(_counts) >= MAX_COUNTED_LOOPS:
        _counts.clear()
    _counts[loop_key] += size
    if size < MIN_COMPILED_SIZE and _counts[loop_key] < MIN_ELEMENTS_BEFORE_LOADING:
        return False
    _loaded_loops.add(loop_key)
    return True


def choose_loop(
    spec: Grid | Table, rounding: Rounding, real: str, scaled: bool = False
) -> tuple[Hashable, Callable[[], Loop | None]] | None:
    """The loop that rounds float32 or float64 (``real``) to a grid or a table; None where no loop serves.

    Args:
        spec, rounding: what is rounded to, and how.
        real: the type of the numbers.
        scaled: whether each call has a scale by which numbers are divided before and multiplied afterwards.

    Returns:
        The key under which the loop counts as loaded, and the function that loads it. That returns None for tables that
        are too fine for a lookup.
    """
    if isinstance(spec, Table):
        if scaled or rounding.is_stochastic or real != "float32":
            return None
        # What small tables need is made in milliseconds; a large one may take a tenth of a second each.
        which = spec.values.size if spec.values.size <= 2 * table_rules.MAX_COMPARISONS + 1 else id(spec)
        return ("table", which, rounding.mode), lambda: _load_table(spec, rounding)
    word, rule = FLOAT_LAYOUTS[real], grid_rule(spec, rounding, real)
    step_fits = spec.step == 1 or (not scaled and spec.smallest == 0 and word.pattern(spec.step) > word.min_normal)
    if rule is None or not step_fits:
        return None
    step = scaled or spec.step != 1
    return (real, rule.word, rule.flags, step), lambda: _kernels().rounding_loop(rule, real, step)


def _load_table(table: Table, rounding: Rounding) -> Loop | None:
    rule = table_rules.table_rule(table, rounding)
    if rule is not None:
        return _kernels().rounding_loop(rule, "float32", False)
    lookup = table_rules.lookup_arguments(table, rounding)
    return None if lookup is None else _kernels().table_loop(*lookup)


def choose_block_loop(
    spec: BlockSpec, rounding: Rounding, real: str
) -> tuple[Hashable, Callable[[], Callable[..., Any]]] | None:
    """The loops that round blocks, as :func:`choose_loop` gives those of single numbers."""
    block = block_rule(spec, rounding) if real == "float32" else None
    if block is None:
        return None
    key = block.element.word, block.element.flags, block.scale and (block.scale.word, block.scale.flags), spec.size
    if block.scale is None:
        return key, lambda: _kernels().power_of_two_blocks_loop(spec, block)
    return key, lambda: _kernels().rounded_scale_blocks_loop(spec, block)


def _kernels() -> Any:
    """The module of compiled loops; numba is imported only now."""
    from lplab.formats.paths import numba_kernels

    return numba_kernels
