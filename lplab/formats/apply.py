"""One way from what users pass (numbers, lists, numpy arrays, torch tensors) to rounded numbers.

The first call of a format, a rounding and a dtype finds out which compiled loop serves, and binds its constants; later
calls run it. Where none serves, or loading one does not pay yet, whole-array operations do the work. The choice never
changes a bit of the result. ``LPLAB_NO_NUMBA=1`` in the environment switches the compiled loops of a process off.
``Format.quantize``, ``encode`` and the emulation of training use the same objects.
"""

from __future__ import annotations

import ctypes
import secrets
import sys
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from lplab.formats import counter_rng
from lplab.formats.inputs import as_float_array, as_rows, working_dtype
from lplab.formats.paths import array_kernels, block_rounding, kernel_selection
from lplab.formats.rounding import Rounding, as_rounding
from lplab.formats.rounding_spec import BlockSpec, Grid, RoundingSpec, Table

SCRATCH_SIZE = 2**13  # elements of a scratch copy
MAX_PREPARED = 256  # roundings that a format remembers
NO_KEYS = 0, 0
_NOTHING = ctypes.c_char * 0  # a view of no bytes: it can be made at the start of any buffer


def quantize(
    roundings: PreparedRoundings,
    x: Any,
    rounding: str | Rounding = "nearest_even",
    seed: Any = None,
    out: Any = None,
    axis: int | None = None,
    random_bits: int = 16,
    variant: str = "C",
) -> Any:
    """The work behind ``Format.quantize``: see there."""
    mode: Any = rounding
    if type(mode) is not str or type(random_bits) is not int:
        rounding = as_rounding(mode, random_bits, variant)
        mode, random_bits, variant = rounding.mode, rounding.random_bits, rounding.variant
    number = counter_rng.seed_to_int(seed) if mode == "stochastic" else 0
    if isinstance(x, np.ndarray):
        if type(x) is not np.ndarray:
            if isinstance(x, np.ma.MaskedArray):
                again = mode, number, None, axis, random_bits, variant
                return keep_mask(x, out, lambda plain: quantize(roundings, plain, *again))
            x = np.asarray(x)
        return _quantize_array(roundings[mode, random_bits, variant, x.dtype], x, number, out, axis)
    torch: Any = sys.modules.get("torch")
    tensor: Any = getattr(torch, "Tensor", ())  # missing while another thread is importing torch
    if isinstance(x, tensor):
        from lplab.formats import tensors

        if torch.compiler.is_dynamo_compiling() and out is None and -(2**63) <= number < 2**63:
            how = mode, random_bits, variant, number, axis
            return torch.ops.lplab.quantize(x, roundings.number, *how)
        return tensors.quantize(roundings[mode, random_bits, variant, x.dtype], x, number, out, axis)
    if out is not None:
        raise ValueError("out is for numpy arrays and torch tensors; a number or a list gives a new result")
    array = np.asarray(x) if isinstance(x, np.generic) else as_float_array(x)
    result = _quantize_array(roundings[mode, random_bits, variant, array.dtype], array, number, None, axis)
    if isinstance(x, np.generic):
        return result[()]
    return float(result) if array.ndim == 0 else result


def _quantize_array(prepared: Any, x: np.ndarray, seed: int, out: Any, axis: int | None) -> np.ndarray:
    block = prepared.block_size
    whole = block == 1 or (x.ndim > 0 and axis in (-1, x.ndim - 1) and x.shape[-1] % block == 0)
    if whole and x.dtype is prepared.dtype and type(x) is np.ndarray and x.flags.c_contiguous:
        if out is None:
            target = np.empty_like(x)
        else:
            _check_out(x, out)
            target = _target(out, x)
        prepared(x, target, seed)
        return target if out is None else _deliver(target, x, out)
    _check_out(x, out)
    if block == 1:
        source = np.ascontiguousarray(x, dtype=prepared.dtype).reshape(x.shape)
        target = _target(out, source)
        prepared(source, target, seed)
        return _deliver(target, x, out)
    rows, undo = as_rows(np, x, axis)
    rows = np.ascontiguousarray(rows, dtype=prepared.dtype)
    target = _target(out if axis in (None, -1, x.ndim - 1) else None, rows)
    prepared(rows, target, seed)
    return _deliver(undo(target), x, out)


def keep_mask(x: np.ma.MaskedArray, out: Any, quantize: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Round the numbers of a masked array that are not masked; the others stay, and count as 0 in a block.

    Args:
        x: the masked array.
        out: None, or where the result is written.
        quantize: rounds a plain array.
    """
    if x is np.ma.masked:
        return x
    masked = np.ma.getmaskarray(x)
    rounded = quantize(np.where(masked, 0, x.data).astype(x.dtype, copy=False))
    _check_out(x, out)
    result = np.ma.MaskedArray(np.where(masked, x.data, rounded), mask=x.mask.copy(), fill_value=x.fill_value)
    if out is None:
        return result
    out[...] = result
    return out


def _check_out(x: np.ndarray, out: Any) -> None:
    if out is None:
        return
    if not isinstance(out, np.ndarray) or out.shape != x.shape or out.dtype != x.dtype:
        what = f"{out.dtype} array of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ValueError(f"out must be a numpy array of shape {x.shape} and dtype {x.dtype}, like x; got a {what}")


def _target(out: np.ndarray | None, x: np.ndarray) -> np.ndarray:
    """Where the result for contiguous x goes: straight into ``out`` if its memory allows, else into new memory."""
    if out is not None and out.dtype == x.dtype and out.flags.c_contiguous and out.flags.writeable:
        at, to = addresses(x, out)
        if at == to or not np.may_share_memory(out, x):
            return out if out.shape == x.shape else out.reshape(x.shape)
    return np.empty_like(x)


def _deliver(result: np.ndarray, x: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """The result in the dtype of x, in ``out`` if there is one."""
    if out is None:
        with np.errstate(over="ignore"):
            return result.astype(x.dtype.newbyteorder("="), copy=False)
    if out is not result and not np.may_share_memory(out, result):
        with np.errstate(over="ignore"):
            out[...] = result
    return out


def addresses(*arrays: np.ndarray) -> list[int]:
    """The addresses of the first elements of contiguous arrays, as ``array.ctypes.data``, in a fifth of its time.

    >>> x = np.zeros(3)
    >>> addresses(x, x[1:]) == [x.ctypes.data, x.ctypes.data + 8]
    True
    """
    try:
        return [ctypes.addressof(_NOTHING.from_buffer(array)) for array in arrays]
    except (TypeError, ValueError, BufferError):  # memory that cannot be written to
        return [array.ctypes.data for array in arrays]


def array_at(address: int, count: int) -> np.ndarray:
    """The float32 array [count] at an address; whoever uses it keeps the memory alive.

    >>> x = np.float32([1, 2, 3])
    >>> array_at(x.ctypes.data, 2)
    array([1., 2.], dtype=float32)
    """
    return np.frombuffer((ctypes.c_float * count).from_address(address), np.float32)


class LoadedWhenItPays:
    """The compiled loop of a rounding, which is loaded once enough numbers were rounded.

    Args:
        choice: the key under which numbers are counted, and what loads the loop; None where there is no loop.
    """

    def __init__(self, choice: tuple[Hashable, Callable[[], Callable[..., Any] | None]] | None) -> None:
        self._choice = choice
        self._loop: Callable[..., Any] | None = None

    def loop_for(self, count: int) -> Callable[..., Any] | None:
        """The compiled loop; None where there is none, or where it is not worth loading for ``count`` more elements."""
        if self._choice is None or not kernel_selection.loops_are_on:
            return None
        if self._loop is None:
            key, load = self._choice
            if kernel_selection.loading_pays_off(key, count):
                self._loop = load()
        return self._loop


class PreparedRounding(LoadedWhenItPays):
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
            array_kernels.quantize_into(np, x.reshape(-1), out.reshape(-1), self.spec, self.rounding, seed)

    def round_at(self, x: int, out: int, count: int, seed: int = 0, scale: float | None = None) -> bool:
        """Round contiguous memory into disjoint memory, given by addresses; False where no loop is ready.

        Args:
            x, out: addresses of native numbers of ``dtype``.
            count: how many there are.
            seed: of the random bits.
            scale: what numbers are divided by before and multiplied by afterwards, if each call has a scale.
        """
        loop = self.loop_for(count)
        if loop is None:
            return False
        scale = self.scale if scale is None else scale
        if not self.is_stochastic:
            loop(x, out, count, scale)
            return True
        stretch = array_kernels.ELEMENTS_PER_KEY
        for start in range(0, count, stretch):
            keys, at = counter_rng.keys(seed, start // stretch), start * self.dtype.itemsize
            loop(x + at, out + at, min(stretch, count - start), scale, 0, keys)
        return True

    def _in_place(self, x: np.ndarray, seed: int) -> None:
        loop = self.loop_for(x.size)
        if loop is None:
            array_kernels.quantize_into(np, x, x, self.spec, self.rounding, seed)
            return
        from lplab.formats.paths.numba_kernels import share  # the loop is there, so numba is

        for start in range(0, x.size, array_kernels.ELEMENTS_PER_KEY):
            keys = counter_rng.keys(seed, start // array_kernels.ELEMENTS_PER_KEY) if self.is_stochastic else NO_KEYS
            stretch = x[start : start + array_kernels.ELEMENTS_PER_KEY]

            def piece(first: int, stop: int, stretch: np.ndarray = stretch, keys: tuple[int, int] = keys) -> None:
                scratch = np.empty(SCRATCH_SIZE, x.dtype)  # in place no loop would use vector instructions
                for at in range(first, stop, SCRATCH_SIZE):
                    part = stretch[at : min(at + SCRATCH_SIZE, stop)]
                    scratch[: part.size] = part
                    loop(*addresses(scratch, part), part.size, self.scale, at, keys)

            share(piece, stretch.size)


class PreparedBlocks(LoadedWhenItPays):
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
        self.block_size, self.is_stochastic = spec.size, rounding.is_stochastic
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
        keys = counter_rng.keys(seed) if self.is_stochastic else NO_KEYS
        hard = loop(x, out, count // self.block_size, keys)
        if hard is not None:
            self._redo_with_arrays(array_at(x, count), array_at(out, count), hard, keys)

    def _redo_with_arrays(self, x: np.ndarray, out: np.ndarray, hard: np.ndarray, keys: tuple[int, int]) -> None:
        """Round the blocks whose numbers are given in ``hard``."""
        size, draws = self.block_size, None
        if self.is_stochastic:
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

    Attributes:
        number: what the operator ``lplab::quantize`` knows it by.

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
        self.spec, self.number = spec, secrets.randbits(62)  # no number of another process
        kernel_selection.ROUNDINGS[self.number] = self

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
