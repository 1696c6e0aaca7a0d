"""parallel_for: every item once, in pieces, on the next free thread."""

import threading

import pytest

from lplab.formats.threads import PIECES_PER_THREAD, parallel_for


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
