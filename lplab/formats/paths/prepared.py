"""A format, a rounding and a type of numbers, decided once: what is left for each call is to run a loop.

The first call finds out which compiled loop serves, and binds its constants. Where none serves, or loading one does not
pay yet, whole-array operations do the work. The choice never changes a bit of the result. ``LPLAB_NO_NUMBA=1`` in the
environment switches the compiled loops of a process off. ``Format.quantize`` and the emulation of training use the same
objects.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np

from lplab.formats import counter_rng
from lplab.formats.inputs import working_dtype
from lplab.formats.paths import array_kernels, block_rounding, kernel_selection
from lplab.formats.paths.addresses import addresses, array_at
from lplab.formats.paths.kernel_selection import Loop
from lplab.formats.rounding import Rounding
from lplab.formats.rounding_spec import BlockSpec, Grid, RoundingSpec, Table

ELEMENTS_PER_STEP = 2**15  # what whole-array operations work on at a time stays in the processor's cache
ELEMENTS_PER_KEY = 2**32  # elements that share a pair of random keys
SCRATCH_SIZE = 2**13  # elements of a scratch copy
MAX_PREPARED = 256  # roundings that a format remembers


LoopType = TypeVar("LoopType")


class LoadedWhenItPays(Generic[LoopType]):
    """The compiled loop of a rounding, which is loaded once enough numbers were rounded.

    Args:
        choice: the key under which numbers are counted, and what loads the loop; None where there is no loop.
    """

    def __init__(self, choice: tuple[Hashable, Callable[[], LoopType | None]] | None) -> None:
        self._choice = choice
        self._loop: LoopType | None = None

    def loop_for(self, count: int) -> LoopType | None:
        """The compiled loop; None where there is none, or where it is not worth loading for ``count`` more elements."""
        if self._choice is None or not kernel_selection.available():
            return None
        if self._loop is None:
            key, load = self._choice
            if kernel_selection.loading_pays_off(key, count):
                self._loop = load()
        return self._loop


class PreparedRounding(LoadedWhenItPays[Loop]):
    """How float32 or float64 numbers are rounded to a grid or a table, ready for any number of arrays.

    Get one from :func:`prepare`. It may be used from several threads.

    Args:
        spec: what is rounded to.
        rounding: a ``Rounding``.
        real: "float32" or "float64".
        scaled: whether each call has a scale; then only :meth:`loop_for` is of use.

    Attributes:
        block_size: 1: numbers are rounded one by one.
        dtype: of the numbers, native.
        scale: what loops take as scale: the step of integers.
    """

    block_size = 1

    def __init__(self, spec: Grid | Table, rounding: Rounding, real: str, scaled: bool = False) -> None:
        self.spec, self.rounding, self.dtype = spec, rounding, np.dtype(real)
        self.scale = spec.step if isinstance(spec, Grid) else 1.0
        self.is_stochastic = rounding.is_stochastic
        super().__init__(kernel_selection.choose_loop(spec, rounding, real, scaled))

    def __call__(self, x: np.ndarray, out: np.ndarray, seed: int = 0) -> None:
        """Round a contiguous array into another of the same shape and type; they share all memory or none.

        >>> from lplab.formats import get
        >>> x = np.float32([0.3, 1000])
        >>> prepare(get("e4m3fn").rounding_spec, Rounding(), "float32")(x, x)
        >>> x
        array([3.125e-01, 4.480e+02], dtype=float32)
        """
        at, to = addresses(x, out)
        if at == to:
            self._in_place(x.reshape(-1), seed)
        elif not self.round_at(at, to, x.size, seed):
            self.by_arrays(x.reshape(-1), out.reshape(-1), seed)

    def round_at(self, x: int, out: int, count: int, seed: int = 0) -> bool:
        """Round contiguous memory into disjoint memory, given by addresses; False where no loop is ready."""
        loop = self.loop_for(count)
        if loop is None:
            return False
        if not self.is_stochastic:
            loop(x, out, count, self.scale)
            return True
        for start in range(0, count, ELEMENTS_PER_KEY):
            keys, at = counter_rng.keys(seed, start // ELEMENTS_PER_KEY), start * self.dtype.itemsize
            loop(x + at, out + at, min(ELEMENTS_PER_KEY, count - start), self.scale, 0, keys)
        return True

    def _in_place(self, x: np.ndarray, seed: int) -> None:
        loop = self.loop_for(x.size)
        if loop is None:
            self.by_arrays(x, x, seed)
            return
        scratch = np.empty(min(SCRATCH_SIZE, x.size), x.dtype)  # in place no loop would use vector instructions
        for start in range(0, x.size, ELEMENTS_PER_KEY):
            keys = counter_rng.keys(seed, start // ELEMENTS_PER_KEY) if self.is_stochastic else (0, 0)
            stretch = x[start : start + ELEMENTS_PER_KEY]
            for first in range(0, stretch.size, SCRATCH_SIZE):
                part = stretch[first : first + SCRATCH_SIZE]
                scratch[: part.size] = part
                loop(*addresses(scratch, part), part.size, self.scale, first, keys)

    def by_arrays(self, x: np.ndarray, out: np.ndarray, seed: int = 0) -> None:
        """Round a flat array into another without a compiled loop; the same bits."""
        for start in range(0, x.size, ELEMENTS_PER_KEY):
            key, stop = counter_rng.keys(seed, start // ELEMENTS_PER_KEY), min(start + ELEMENTS_PER_KEY, x.size)
            for first in range(start, stop, ELEMENTS_PER_STEP):
                part = slice(first, min(first + ELEMENTS_PER_STEP, stop))
                draws = None
                if self.is_stochastic:
                    count, bits = part.stop - first, self.rounding.random_bits
                    draws = counter_rng.random_bits(np, key, first - start, count, bits)
                out[part] = array_kernels.quantize(np, x[part], self.spec, self.rounding, draws)


class PreparedBlocks(LoadedWhenItPays[Callable[..., Any]]):
    """How rows of float32 or float64 numbers are rounded block by block, ready for any number of arrays.

    Get one from :func:`prepare`. It may be used from several threads.

    Args:
        spec: what is rounded to.
        rounding: of the elements.
        real: "float32" or "float64".

    Attributes:
        block_size: elements of a block.
        dtype: of the numbers, native.
    """

    def __init__(self, spec: BlockSpec, rounding: Rounding, real: str) -> None:
        self.spec, self.rounding, self.dtype = spec, rounding, np.dtype(real)
        self.block_size = spec.size
        super().__init__(kernel_selection.choose_block_loop(spec, rounding, real))

    def __call__(self, x: np.ndarray, out: np.ndarray, seed: int = 0) -> None:
        """Round a contiguous array of at least one dimension into another; blocks lie along the last axis.

        >>> from lplab.formats import get
        >>> x = np.float32([[0.3, 1000]])  # the largest element is 6, the scale a power of two
        >>> prepare(get("mxfp4").rounding_spec, Rounding(), "float32")(x, x)
        >>> x
        array([[  0., 768.]], dtype=float32)
        """
        if not x.size:
            return
        length, loop = x.shape[-1], self.loop_for(x.size)
        fill = -length % self.block_size
        if loop is not None and not fill:
            at, to = addresses(x, out)
            if abs(at - to) >= x.nbytes:  # no shared memory
                self._run(loop, at, to, x.size, seed)
                return
        rows, target = x.reshape(-1, length), out.reshape(-1, length)
        if loop is None:
            target[...] = block_rounding.quantize(np, rows, self.spec, self.rounding, seed)
            return
        filled = np.zeros((rows.shape[0], length + fill), x.dtype)
        filled[:, :length] = rows
        result = np.empty_like(filled)
        at, to = addresses(filled, result)
        self._run(loop, at, to, filled.size, seed)
        target[...] = result[:, :length]

    def round_at(self, x: int, out: int, count: int, seed: int = 0) -> bool:
        """Round whole blocks of contiguous memory into disjoint memory, given by addresses; False without a loop."""
        loop = self.loop_for(count)
        if loop is not None:
            self._run(loop, x, out, count, seed)
        return loop is not None

    def _run(self, loop: Callable[..., Any], x: int, out: int, count: int, seed: int) -> None:
        keys = counter_rng.keys(seed) if self.rounding.is_stochastic else (0, 0)
        hard = loop(x, out, count // self.block_size, keys)
        if hard is not None:
            self._redo_with_arrays(array_at(x, count), array_at(out, count), hard, keys)

    def _redo_with_arrays(self, x: np.ndarray, out: np.ndarray, hard: np.ndarray, keys: tuple[int, int]) -> None:
        """Round the blocks whose numbers are given in ``hard``."""
        size, draws = self.block_size, None
        if self.rounding.is_stochastic:
            all_draws = counter_rng.random_bits(np, keys, 0, x.size, self.rounding.random_bits)
            draws = all_draws.reshape(-1, size)[hard].reshape(-1)
        split = x.reshape(-1, size)[hard]
        out.reshape(-1, size)[hard] = block_rounding.round_blocks(np, split, self.spec, self.rounding, draws)


Prepared = PreparedRounding | PreparedBlocks


@lru_cache(maxsize=1024)
def prepare(spec: RoundingSpec, rounding: Rounding, real: str, scaled: bool = False) -> Any:
    """The one :class:`PreparedRounding` or :class:`PreparedBlocks` of a spec, a rounding and a type of numbers.

    >>> from lplab.formats import get
    >>> int8 = get("int8").rounding_spec
    >>> prepare(int8, Rounding(), "float32") is prepare(int8, Rounding("nearest_even"), "float32")
    True
    """
    if isinstance(spec, BlockSpec):
        return PreparedBlocks(spec, rounding, real)
    return PreparedRounding(spec, rounding, real, scaled)


class PreparedRoundings(dict[tuple[str, int, str, Any], Any]):
    """What one format has prepared: (mode, random bits, variant, dtype of numpy or torch) → what :func:`prepare` gives.

    A key that is not there yet is prepared; at most ``MAX_PREPARED`` are remembered. Copies and pickles are empty, as
    loops hold addresses.

    Raises:
        TypeError: a dtype that cannot be rounded.

    >>> from lplab.formats import get
    >>> prepared = PreparedRoundings(get("e4m3fn").rounding_spec)
    >>> prepared.of(Rounding(), np.dtype("float16")).dtype, len(prepared)
    (dtype('float32'), 1)
    >>> prepared["nearest_even", 16, "C", np.dtype("float16")] is prepared.of(Rounding(), np.dtype("float16"))
    True
    """

    def __init__(self, spec: RoundingSpec) -> None:
        super().__init__()
        self.spec = spec

    def of(self, rounding: Rounding, dtype: Any) -> Any:
        """What is prepared for a rounding and a dtype."""
        return self[rounding.mode, rounding.random_bits, rounding.variant, dtype]

    def __missing__(self, key: tuple[str, int, str, Any]) -> Prepared:
        mode, random_bits, variant, dtype = key
        name = dtype.name if isinstance(dtype, np.dtype) else str(dtype).removeprefix("torch.")
        prepared = prepare(self.spec, Rounding(mode, random_bits, variant), working_dtype(name))
        if len(self) >= MAX_PREPARED:
            self.clear()
        self[key] = prepared
        return prepared

    def __reduce__(self) -> tuple[Any, ...]:
        return PreparedRoundings, (self.spec,)
