"""Every item once, in pieces, on the next free thread; and large arrays get the same bits from any number of them."""

import multiprocessing
import threading

import numpy as np
import pytest
import torch

from lplab import formats as F
from lplab.formats.paths import kernel_selection
from lplab.formats.paths.array_kernels import MIN_ELEMENTS_TO_SHARE

pool = pytest.importorskip("lplab.formats.paths.numba_kernels", exc_type=ImportError)
PIECE, PIECES_PER_THREAD, parallel_for, share = pool.PIECE, pool.PIECES_PER_THREAD, pool.parallel_for, pool.share


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 100, 1001])
@pytest.mark.parametrize("min_piece", [1, 3, 1000])
def test_everything_is_done_once(count, threads, min_piece):
    done = []
    parallel_for(lambda first, last: done.append((first, last)), count, threads, min_piece)
    assert sorted(i for first, last in done for i in range(first, last)) == list(range(count))
    assert len(done) <= PIECES_PER_THREAD * threads
    if threads > 1 and len(done) > threads:
        assert min(last - first for first, last in done) >= min_piece


def test_a_delayed_thread_leaves_the_other_pieces_to_the_other():
    done, most = [], threading.Event()

    def work(first, last):
        if threading.current_thread() is not threading.main_thread():
            assert most.wait(60), "the other thread waits for this one"
            return
        done.append(last - first)
        if sum(done) > 700:
            most.set()

    parallel_for(work, 1200, 2)
    assert most.is_set()


def test_an_error_in_any_thread_is_raised():
    def work(first, last):
        if last == 10:
            raise ZeroDivisionError("in the last piece")

    with pytest.raises(ZeroDivisionError, match="last piece"):
        parallel_for(work, 10, 3)


@pytest.mark.parametrize("unit", [1, 16, 384, 2 * PIECE])
def test_pieces_begin_at_whole_pieces(unit, monkeypatch):
    monkeypatch.setattr(pool, "default_threads", lambda: 3)
    count, done = (MIN_ELEMENTS_TO_SHARE + PIECE) // unit + 1, []
    share(lambda first, last: done.append((first, last)), count, unit)
    assert len(done) > 1
    assert sorted(i for first, last in done for i in range(first, last)) == list(range(count))
    assert all(first % max(1, PIECE // unit) == 0 for first, _ in done)


LARGE = MIN_ELEMENTS_TO_SHARE + 3 * PIECE + 32
CASES = [
    ("e4m3fn", "nearest_even"), ("bf16", "stochastic"), ("int4", "up"), ("posit8_1", "nearest_even"),
    ("radix4_fp4_even", "nearest_away"), ("mxfp4", "stochastic"), ("mxint8", "nearest_even"), ("nvfp4", "stochastic"),
]  # fmt: skip


def large() -> np.ndarray:
    rng = np.random.default_rng(6)
    x = (rng.standard_normal(LARGE) * 2.0 ** rng.integers(-20, 20, LARGE)).astype(np.float32)
    x[[7, LARGE // 2, LARGE - 40]] = np.nan, np.inf, 3e38
    return x


def rounded(fmt, x, mode):
    return fmt.quantize(x, mode, seed=5 if mode == "stochastic" else None)


@pytest.mark.skipif(not kernel_selection.available(), reason="numba is not installed")
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_the_same_bits_at_every_number_of_threads(name, mode, monkeypatch):
    fmt, x, used = F.get(name), large(), set()
    monkeypatch.setattr(pool, "default_threads", lambda: 1)
    want = rounded(fmt, x, mode)
    part = MIN_ELEMENTS_TO_SHARE // 2
    if name != "nvfp4":  # the scale of a tensor depends on all of its numbers
        np.testing.assert_array_equal(rounded(fmt, x[:part], mode), want[:part])
    real = pool.parallel_for
    monkeypatch.setattr(pool, "parallel_for", lambda *a: used.add(a[2]) or real(*a))
    for threads in (2, 3, 16):
        monkeypatch.setattr(pool, "default_threads", lambda threads=threads: threads)
        in_place = x.copy()
        fmt.quantize(in_place, mode, seed=5 if mode == "stochastic" else None, out=in_place)
        for got in (rounded(fmt, x, mode), rounded(fmt, torch.from_numpy(x), mode).numpy(), in_place):
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    assert used == {2, 3, 16}


def _in_a_child(x, mode, results):
    results.put(rounded(F.get("e4m3fn"), x, mode))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_gets_a_pool_of_its_own(monkeypatch):
    monkeypatch.setattr(pool, "default_threads", lambda: 2)
    x, fork = large(), multiprocessing.get_context("fork")
    want, results = rounded(F.get("e4m3fn"), x, "stochastic"), fork.Queue()
    child = fork.Process(target=_in_a_child, args=(x, "stochastic", results))
    child.start()
    np.testing.assert_array_equal(results.get(timeout=60), want)
    child.join()
