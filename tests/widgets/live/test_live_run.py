"""Work in the background: it returns at once, stops when told, says its errors, and leaves no orphan."""

import asyncio
import concurrent.futures
import contextlib
import threading
import time

import numpy as np
import plotly.graph_objects as go
import pytest

from lplab import figures
from lplab.training import FixedPointConfig
from lplab.widgets import LiveRun, live_training, train_with
from lplab.widgets.live.live_run import time_left

SECONDS = 60  # patience with a loaded machine; nothing here takes that long


def in_a_loop(coroutine):
    """Run in an event loop of its own thread: after browser tests this thread has one that is running."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def draw(got):
    return go.Figure(go.Scatter(y=np.array(got, float)))


def until(gate):
    """Yield one step, then wait for the gate before each of the others."""
    yield 0
    for k in range(1, 1000):
        assert gate.wait(SECONDS)
        time.sleep(0.002)
        yield k


@pytest.fixture
def gate():
    gate = threading.Event()
    yield gate
    gate.set()


def run_of(gate, name, total=1000):
    return LiveRun(lambda: until(gate), draw, total=total, name=name)


def became(run, state):
    end = time.monotonic() + SECONDS
    while run.state != state:
        assert time.monotonic() < end, f"{run.state}, not {state}"
        time.sleep(0.01)


def test_it_says_that_it_prepares_until_the_first_step(gate):
    def waits():
        assert gate.wait(SECONDS)
        yield from range(2)

    run = LiveRun(waits, draw, total=2, name="prepares")
    messages = []
    run.status.observe(lambda change: messages.append(change["new"]), "value")
    run.start()
    assert run.status.value.startswith("Preparing")
    gate.set()
    run.wait(SECONDS)
    assert messages[-2:] == ["Running.", "Finished: 2 of 2 steps."]


def test_what_came_out_stands_in_a_line_of_its_own(gate):
    class Counted(LiveRun):
        def outcome(self):
            return f"{len(self._results)} squares" if self._results else "9 squares before"

    def steps():
        yield 0
        assert gate.wait(SECONDS)
        yield 1

    run = Counted(steps, draw, total=2, name="counts", remark=lambda got: ["no square yet"] if not got else [])
    assert run.result_line in run.children and run.result_line.value == "9 squares before"
    assert run.remark_line.value == "no square yet"
    run.start()
    became(run, "running")
    assert not run.result_line.value and run.result_line.layout.display == "none"
    gate.set()
    run.wait(SECONDS)
    assert run.result_line.value == "2 squares" and run.result_line.layout.display is None
    assert run.status.value == "Finished: 2 of 2 steps." and not run.remark_line.value
    plain = run_of(gate, "plain")
    assert not plain.result_line.value and plain.result_line.layout.display == "none"


def test_the_figure_says_that_it_prepares(gate):
    def waits():
        assert gate.wait(SECONDS)
        yield from ()

    run = LiveRun(waits, lambda _: figures.training_epochs([], epochs=2), total=2, name="prepares a figure")
    assert "Not started yet" in run.figure.layout.title.text
    run.start()
    assert "Preparing the first step" in run.figure.layout.title.text
    assert run.figure.layout.meta["title"] == "Preparing the first step"
    gate.set()
    run.wait(SECONDS)


def test_it_draws_all_it_got_and_says_that_it_is_finished():
    run = LiveRun(lambda: iter(range(5)), draw, total=5, name="five", unit="epoch")
    assert run.state == "ready" and run.result() == () and run.stop_button.disabled
    run.run_button.click()
    run.wait(SECONDS)
    assert run.result() == (0, 1, 2, 3, 4) and run.figure.data[0].y.tolist() == [0, 1, 2, 3, 4]
    assert run.progress.value == 5 and run.status.value == "Finished: 5 of 5 epochs."
    assert run.stop_button.disabled and not run.run_button.disabled
    assert run.run_button.description == "five again"


def test_start_returns_at_once_and_stop_keeps_what_there_is(gate):
    run = run_of(gate, "stops")
    run.start()
    became(run, "running")
    assert not run.stop_button.disabled and run.run_button.disabled
    run.start()  # a second click while it runs does nothing
    run.stop_button.click()
    gate.set()
    run.wait(SECONDS)
    assert run.state == "stopped" and 1 <= len(run.result()) <= 3
    assert run.status.value.startswith("Stopped after") and run.progress.bar_style == "warning"


def test_it_can_be_started_anew():
    run = LiveRun(lambda: iter((1, 2)), draw, total=2, name="twice")
    for _ in range(2):
        run.start()
        run.wait(SECONDS)
        assert run.result() == (1, 2)


def test_running_the_cell_again_stops_the_earlier_run(gate):
    first, second = run_of(gate, "same cell"), run_of(gate, "same cell")
    other = run_of(gate, "another cell")
    first.start()
    other.start()
    second.start()
    gate.set()
    first.wait(SECONDS)
    assert first.state == "stopped"
    assert second.state == "running" and other.state == "running"
    for run in (second, other):
        run.stop()
        run.wait(SECONDS)


def test_an_error_is_one_line_and_is_raised_by_result():
    def broken():
        yield 1
        raise ValueError("no\nway <b>")

    run = LiveRun(broken, draw, total=3, name="broken")
    run.start()
    run.wait(SECONDS)
    assert run.state == "failed" and run.error_line.value == "ValueError: no way &lt;b&gt; (after 1 of 3 steps)"
    with pytest.raises(ValueError, match="no\nway"):
        run.result()
    assert run.progress.bar_style == "danger" and not run.run_button.disabled


def test_an_error_in_the_figure_is_said_too():
    run = LiveRun(lambda: iter((1,)), lambda got: draw(got) if not got else 1 / 0, total=1, name="bad figure")
    run.start()
    run.wait(SECONDS)
    assert run.state == "failed" and "ZeroDivisionError" in run.error_line.value


def test_a_later_cell_can_wait_without_blocking(gate):
    run = run_of(gate, "waited for")

    async def cells():
        await run.done()  # never started: not waited for
        run.start()
        beats = 0

        async def notebook_lives():
            nonlocal beats
            while run.state == "running":
                beats += 1
                if beats == 3:
                    run.stop()
                    gate.set()
                await asyncio.sleep(0.01)

        alive = asyncio.create_task(notebook_lives())
        await run.done()
        await alive
        return beats

    assert in_a_loop(cells()) >= 3 and run.state == "stopped"


def test_interrupting_the_waiting_cell_stops_the_run(gate):
    run = run_of(gate, "interrupted")

    async def cell():
        run.start()
        waiting = asyncio.create_task(run.done())
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    in_a_loop(cell())
    gate.set()
    run.wait(SECONDS)
    assert run.state == "stopped" and len(run.result()) >= 1


def test_waiting_has_an_end(gate):
    run = run_of(gate, "patience")
    run.start()
    with pytest.raises(TimeoutError, match="still running after 0.05 s"):
        run.wait(0.05)
    run.stop()
    gate.set()
    run.wait(SECONDS)
    with pytest.raises(ValueError, match="total must be at least 1"):
        LiveRun(lambda: iter(()), draw, total=0)


# ---- trainings -------------------------------------------------------------------------------------------------------


def coin(x, fraction_bits, rng):
    steps = x * 2.0**fraction_bits
    return (np.floor(steps) + (rng.random(x.shape) < steps % 1)) / 2.0**fraction_bits


def test_ones_own_rounding_trains_beside_the_librarys():
    run = train_with(coin, 8, epochs=3, hidden=(16,))
    run.wait(SECONDS)
    assert [trace.name for trace in run.figure.data] == [
        "yours",
        "the library's coin",
        "nearest (ties down)",
        "floating point",
    ]
    assert all(len(trace.y) == 3 for trace in run.figure.data)
    assert run.run_button.description == "Train with coin again"


def test_a_stub_is_answered_politely():
    def stochastic_round(x, fraction_bits, rng):
        raise NotImplementedError

    run = train_with(stochastic_round)
    run.wait(SECONDS)
    assert run.state == "ready" and run.error_line.value == "" and run.result() == ()
    assert run.status.value == "Not yet: stochastic_round is still to be written; then run this cell again."
    assert run.figure.layout.meta["title"] == "Not started yet", "it prepares no more"


def test_a_wrong_function_is_named_in_one_line():
    run = train_with(lambda x, bits, rng: x * 1.0, 8)
    run.wait(SECONDS)
    assert run.state == "failed" and "which is no multiple of 2^-10" in run.error_line.value
    with pytest.raises(TypeError, match="rounding must be a function"):
        train_with("stochastic")


def test_runs_are_asked_for_at_every_start():
    seeds = iter(range(10))
    run = live_training(lambda: {"coin": FixedPointConfig(seed=next(seeds), epochs=1, hidden=(8,))}, epochs=1)
    found = []
    for _ in range(2):
        run.start()
        run.wait(SECONDS)
        found.append(run.result())
    assert found[0] != found[1]


def test_the_time_left_is_that_of_the_steps_to_come():
    run = LiveRun(lambda: iter(range(50)), draw, total=50, name="fifty")
    run._results = list(range(11))
    run._show(seconds=20.0)  # ten steps after the first: two seconds each, 39 are left
    assert time_left(78) in run.time_left_line.value and time_left(78) != time_left(100)


# ---- where Python has no threads, as in a browser --------------------------------------------------------------------


@pytest.fixture
def no_threads(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


def in_turns(coroutine):
    """Run in an event loop here: no thread can be started."""
    with without_a_loop(), contextlib.closing(asyncio.new_event_loop()) as loop:
        return loop.run_until_complete(coroutine)


@contextlib.contextmanager
def without_a_loop():
    """As where no event loop is running; after browser tests this thread has one."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(running)


def test_without_threads_the_steps_take_turns_with_the_event_loop(no_threads):
    seen = []

    async def cell():
        run = LiveRun(lambda: iter(range(5)), draw, total=5, name="in turns")
        run.start()
        assert run.state == "running" and run.result() == ()
        while run.state == "running":
            seen.append(len(run.result()))
            await asyncio.sleep(0)
        return run

    run = in_turns(cell())
    assert run.state == "finished" and run.result() == (0, 1, 2, 3, 4)
    assert len(set(seen)) > 2, "other work had its turns in between"


def test_without_threads_a_stop_is_heard_between_two_steps(no_threads):
    async def cell():
        run = LiveRun(lambda: iter(range(1000)), draw, total=1000, name="stopped in turns")
        run.start()
        for _ in range(3):
            await asyncio.sleep(0)
        run.stop()
        return await run.done()

    run = in_turns(cell())
    assert run.state == "stopped" and 1 <= len(run.result()) < 10


def test_without_threads_and_event_loop_wait_does_the_work(no_threads):
    run = LiveRun(lambda: iter(range(3)), draw, total=3, name="waited for")
    with without_a_loop():
        run.start()
    assert "wait() does the work" in run.status.value
    run.wait(SECONDS)
    assert run.state == "finished" and run.result() == (0, 1, 2)


def test_a_missing_package_is_a_line_and_the_cell_goes_on(no_threads):
    def steps():
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
        yield

    async def cell():
        run = LiveRun(steps, draw, total=3, name="needs torch")
        run.start()
        return await run.done()

    run = in_turns(cell())
    assert run.state == "failed"
    assert "torch cannot be imported here, and this needs it. The rest of the lab" in run.error_line.value
