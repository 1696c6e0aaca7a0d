"""How work is shared out: all of it once, in pieces, by whoever is free."""

import threading

import pytest

from lplab.arithmetic.threads import PIECES, share_out


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 100, 1001])
@pytest.mark.parametrize("least", [1, 3, 1000])
def test_everything_is_done_once(count, threads, least):
    done = []
    share_out(lambda first, last: done.append((first, last)), count, threads, least)
    assert sorted(i for first, last in done for i in range(first, last)) == list(range(count))
    assert len(done) <= PIECES * threads
    if threads > 1 and len(done) > threads:
        assert min(last - first for first, last in done) >= least


def test_a_thread_that_is_held_up_leaves_the_rest_to_the_other():
    done, most = [], threading.Event()

    def work(first, last):
        if threading.current_thread() is not threading.main_thread():
            assert most.wait(60), "the other thread waits for this one"
            return
        done.append(last - first)
        if sum(done) > 700:
            most.set()

    share_out(work, 1200, 2)
    assert most.is_set()


def test_an_error_in_any_thread_is_raised():
    def work(first, last):
        if last == 10:
            raise ZeroDivisionError("in the last piece")

    with pytest.raises(ZeroDivisionError, match="last piece"):
        share_out(work, 10, 3)
