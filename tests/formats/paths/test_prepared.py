"""A rounding is decided once for a format, a mode and a dtype: what is kept, for how long; and bits do not change."""

import copy
import dataclasses
import pickle
import sys
import threading
from collections import Counter
from functools import lru_cache

import ml_dtypes
import numpy as np
import pytest
import torch

from lplab import formats as F
from lplab.formats import apply
from lplab.formats.apply import PreparedBlocks, PreparedRounding, addresses, array_at, prepare
from lplab.formats.paths import kernel_selection
from lplab.training.emulation import prepared_rounding

from ..probes import BLOCKED, ELEMENTWISE, assert_same

needs_numba = pytest.mark.skipif(not kernel_selection.available(), reason="numba is not installed")
MODES = ["nearest_even", "up", "stochastic"]


def numbers(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 20, shape)).astype(np.float32)
    special = np.float32([np.nan, np.inf, -np.inf, -0.0, 1e-42, -3e38, 448.5])
    x.reshape(-1)[: x.size // 8][:7] = special[: x.size // 8]
    return x


def quantize_by_arrays(fmt, x, mode, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(kernel_selection, "loops_are_on", False)
        return fmt.quantize(x, mode, seed=3)


# -- one way ------------------------------------------------------------------------------------------------------


def entries(call) -> Counter:
    """How often each module of lplab is entered from another one. The frames of compiled loops lead nowhere."""
    counts: Counter[str] = Counter()

    def watch(frame, event, argument):
        if event == "call" and frame.f_back:
            here, back = (f.f_globals.get("__name__", "") for f in (frame, frame.f_back))
            if here.startswith("lplab.") and here != back:
                counts[here] += 1

    call()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return counts


@needs_numba
@pytest.mark.parametrize(
    ("name", "mode"),
    [*((name, "nearest_even") for name in ("e4m3fn", "bf16", "int8", "q4.12", "posit8_1", "e2m1")), ("e4m3fn", "up")],
)
def test_a_call_enters_few_modules_and_each_once(name, mode):
    fmt, x = F.get(name), numbers(2**16)
    fmt.quantize(x, mode)  # loads the loop
    small, out = x[:16].copy(), np.empty(16, np.float32)
    few = entries(lambda: fmt.quantize(small, mode))
    assert len(few) == 3 and set(few.values()) == {1}, few
    assert len(entries(lambda: fmt.quantize(small, mode, out=out))) <= 4
    tensor = torch.from_numpy(small)
    few = entries(lambda: fmt.quantize(tensor, mode))
    assert 4 <= len(few) <= 5, few  # one more: the module that knows torch


@needs_numba
@pytest.mark.parametrize(("name", "mode"), [("e4m3fn", "stochastic"), ("mxfp4", "nearest_even"), ("mxint8", "up")])
def test_seeds_and_scales_need_no_more_modules(name, mode):
    fmt, x = F.get(name), numbers(2**16)
    fmt.quantize(x, mode, seed=1)
    small = np.ones(64, np.float32)
    assert len(entries(lambda: fmt.quantize(small, mode, seed=1))) <= 5


@needs_numba
@pytest.mark.parametrize("name", ["e4m3fn", "int8", "radix4_fp4_even", "mxfp4", "nvfp4"])
def test_nothing_is_decided_twice(name, monkeypatch):
    """After the first call no loop is chosen or loaded again; an equal format shares what the first one prepared."""
    monkeypatch.setattr(apply, "prepare", lru_cache(prepare.__wrapped__))
    fmt = dataclasses.replace(F.get(name))
    x, chosen = numbers(2**10, 2**6), []
    for choose in ("choose_loop", "choose_block_loop"):
        real = getattr(kernel_selection, choose)
        monkeypatch.setattr(kernel_selection, choose, lambda *a, real=real: chosen.append(a) or real(*a))
    fmt.quantize(x)
    first = len(chosen)
    assert first
    again = dataclasses.replace(fmt) if not name.startswith("radix4") else fmt  # an equal table is another object
    for each in (x, x[:3], x.astype(ml_dtypes.bfloat16), torch.from_numpy(x), x.T):
        fmt.quantize(each)
        again.quantize(each)
    key = F.Rounding(), np.dtype("float32")
    assert len(chosen) == first and fmt.prepared_roundings.of(*key) is again.prepared_roundings.of(*key)


def test_training_rounds_by_the_same_objects():
    for name in ("e4m3fn", "int8", "radix4_fp4_even"):
        fmt = F.get(name)
        fmt.prepared_roundings.clear()  # prepare remembers 1,024 objects: other tests may have pushed out one of two
        fmt.quantize(np.zeros(3, np.float32))
        ours = prepared_rounding.Prepared(fmt, F.Rounding()).kernel
        assert ours is fmt.prepared_roundings.of(F.Rounding(), np.dtype("float32"))
        assert ours is fmt.prepared_roundings.of(F.Rounding(), torch.bfloat16)


def test_kinds_of_prepared_objects():
    roundings = F.get("nvfp4").prepared_roundings, F.get("fp32").prepared_roundings
    blocks, single = (each.of(F.Rounding("up"), np.dtype(">f8")) for each in roundings)
    assert isinstance(blocks, PreparedBlocks) and isinstance(single, PreparedRounding)
    assert (blocks.block_size, single.block_size) == (16, 1) and blocks.dtype == single.dtype == np.float64
    for dtype in (np.dtype(int), torch.int8, np.dtype(complex)):
        with pytest.raises(TypeError, match="cannot quantize elements of type"):
            roundings[1].of(F.Rounding(), dtype)


# -- what is kept ---------------------------------------------------------------------------------------------------


def test_a_format_remembers_a_bounded_number_of_roundings():
    fmt = F.FloatFormat(4, 2, bias=9)
    dtypes = [np.dtype(name) for name in ("f2", "f4", "f8", ml_dtypes.bfloat16)]
    for bits in range(1, 25):
        for variant in F.VARIANTS:
            for dtype in dtypes:
                assert fmt.prepared_roundings.of(F.Rounding("stochastic", bits, variant), dtype)
                assert len(fmt.prepared_roundings) <= apply.MAX_PREPARED
    assert 24 * 3 * 4 > apply.MAX_PREPARED > len(fmt.prepared_roundings) > 0


def test_counts_of_elements_are_bounded(monkeypatch):
    monkeypatch.setattr(kernel_selection, "_counts", Counter())
    monkeypatch.setattr(kernel_selection, "MAX_COUNTED_LOOPS", 3)
    for i in range(10):
        assert not kernel_selection.loading_pays_off(("a test", i), 1)
        assert len(kernel_selection._counts) <= 3


@pytest.mark.parametrize("name", [*ELEMENTWISE, *BLOCKED])
def test_copies_and_pickles(name):
    """Loops hold addresses of this process: they do not travel."""
    fmt, x = F.get(name), numbers(2**9, 2**7)
    want = fmt.quantize(x)
    assert len(fmt.prepared_roundings) > 0
    for other in (pickle.loads(pickle.dumps(fmt)), copy.deepcopy(fmt), copy.copy(fmt)):
        assert other == fmt and hash(other) == hash(fmt)
        assert_same(other.quantize(x), want, x)
    assert len(pickle.loads(pickle.dumps(fmt)).prepared_roundings) == 0


def test_a_changed_format_rounds_in_its_own_way():
    x = np.linspace(-9, 9, 1000, dtype=np.float32)
    fine, blocks = F.FixedFormat(8, 8), F.get("mxfp4")
    fine.quantize(x), blocks.quantize(x)
    coarse, short = dataclasses.replace(fine, fraction_bits=1), dataclasses.replace(blocks, block_size=2)
    assert_same(coarse.quantize(x), np.rint(x * 2) / 2 + np.float32(0), x)
    assert (fine.quantize(x) != coarse.quantize(x)).any()
    assert (short.quantize(x) != blocks.quantize(x)).any()
    assert short.prepared_roundings.of(F.Rounding(), x.dtype).block_size == 2


def test_names_of_roundings_are_told_apart_by_type():
    """True and 16.0 equal an allowed number of random bits, and are refused as before."""
    fmt = F.get("e4m3fn")
    fmt.quantize([0.3], "stochastic", seed=0, random_bits=1), fmt.quantize([0.3])
    for bits in (True, 16.0, [16]):
        with pytest.raises(ValueError, match="random_bits must be an integer from 1 to 24"):
            fmt.quantize([0.3], random_bits=bits)
    with pytest.raises(ValueError, match="unknown rounding"):
        fmt.quantize([0.3], ["up"])


# -- bits ------------------------------------------------------------------------------------------------------------


@needs_numba
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["e4m3fn", "int8", "q4.12", "posit8_1", "fp32", "mxfp4", "nvfp4"])
def test_loops_are_switched_off_at_any_time(name, mode, monkeypatch):
    fmt, x = F.get(name), numbers(2**9, 2**7)
    want = fmt.quantize(x, mode, seed=3)
    ready = fmt.prepared_roundings.of(F.Rounding(mode), x.dtype)
    monkeypatch.setattr(kernel_selection, "loops_are_on", False)
    assert ready.loop_for(x.size) is None and not ready.round_at(0, 0, x.size)
    for each in (x, torch.from_numpy(x)):
        assert_same(np.asarray(fmt.quantize(each, mode, seed=3)), want, x)


@needs_numba
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_many_small_arrays_load_a_loop(monkeypatch, kind):
    """... after so many elements; the bits stay."""
    monkeypatch.setattr(kernel_selection, "_loaded_loops", set())
    monkeypatch.setattr(kernel_selection, "_counts", Counter())
    monkeypatch.setattr(kernel_selection, "MIN_ELEMENTS_BEFORE_LOADING", 250)
    monkeypatch.setattr(apply, "prepare", lru_cache(prepare.__wrapped__))
    fmt, x = F.FloatFormat(4, 3, bias=8), numbers(100)
    key, results, loaded = (F.Rounding(), x.dtype), [], []
    for _ in range(4):
        results.append(np.asarray(fmt.quantize(kind(x))))
        loaded.append(fmt.prepared_roundings.of(*key)._loop is not None)
    assert loaded == [False, False, True, True]
    for result in results:
        assert_same(result, results[0], x)


@needs_numba
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["e4m3fn", "int8", "posit8_1", "mxfp4", "nvfp4"])
def test_memory_that_overlaps(name, mode, monkeypatch):
    """The result may lie in x, beside it, or across it, whatever the kind; always as if x had been copied."""
    fmt, wide = F.get(name), numbers(65, 2**10)
    fmt.quantize(wide, mode, seed=3)
    for rows in (slice(0, 1), slice(0, 64)):
        x = wide[rows]
        want = quantize_by_arrays(fmt, x, mode, monkeypatch)
        for shift in (0, 1):
            buffer = wide.copy()
            flat = buffer.reshape(-1)
            source = flat[: x.size].reshape(x.shape)
            target = flat[shift * 96 : shift * 96 + x.size].reshape(x.shape)
            assert fmt.quantize(source, mode, seed=3, out=target) is target
            assert_same(target, want, x)
            tensor = torch.from_numpy(wide.copy()).reshape(-1)
            target = tensor[shift * 96 : shift * 96 + x.size].reshape(x.shape)
            assert fmt.quantize(tensor[: x.size].reshape(x.shape), mode, seed=3, out=target) is target
            assert_same(target.numpy(), want, x)


@needs_numba
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (31,), (5, 7), (2, 3, 32), (1, 1, 1)])
@pytest.mark.parametrize("name", ["e4m3fn", "int8", "posit8_1", "mxfp4", "nvfp4"])
def test_small_shapes_after_large_ones(name, shape, monkeypatch):
    fmt = F.get(name)
    fmt.quantize(numbers(2**16))
    x = np.asarray(np.random.default_rng(2).standard_normal(shape), np.float32)
    want = quantize_by_arrays(fmt, x, "nearest_even", monkeypatch)
    for got in (fmt.quantize(x), fmt.quantize(torch.from_numpy(x)).numpy()):
        assert got.shape == shape and got.dtype == np.float32
        assert_same(got, want, x)


def test_many_threads_prepare_the_same():
    """Eight threads meet a format for the first time."""
    x, start, results = numbers(2**16), threading.Barrier(8), {}
    formats = [F.FloatFormat(4, 3, bias=6), F.IntFormat(7), F.BlockFormat(F.get("e2m1"), block_size=8)]

    def work(number):
        start.wait()
        results[number] = [fmt.quantize(part, "nearest_even") for fmt in formats for part in (x, x[:40])]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    for got in results.values():
        for one, other, part in zip(got, results[0], [x, x[:40]] * 3, strict=True):
            assert_same(one, other, part)


# -- addresses -------------------------------------------------------------------------------------------------------


def test_addresses():
    read_only = np.ones(4)
    read_only.flags.writeable = False
    arrays = [np.zeros(3), np.array(1.0), np.empty(0), np.zeros((2, 3))[1:], np.frombuffer(b"12345678"), read_only]
    for array in arrays:
        assert addresses(array) == [array.ctypes.data]
    assert addresses(*arrays) == [array.ctypes.data for array in arrays]
    x = np.arange(6, dtype=np.float32)
    array_at(addresses(x)[0], 6)[2:4] = -1
    assert x.tolist() == [0, 1, -1, -1, 4, 5]
