"""Work that takes seconds, in a notebook: it starts at a click, draws while it runs, and stops when told.

The work is an iterator that a background thread draws from, so the cell returns at once and every control stays alive:
a Stop button in a cell that blocks does nothing until the cell has ended. A later cell may ``await run.done()``, and
should if it computes much itself: two threads that each make many small steps hand Python's lock to and fro, and take
ten times as long as one after the other.
"""

import asyncio
import contextlib
import math
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import ipywidgets
import plotly.graph_objects as go

from lplab import figures

from .controls import Helper, guarded, line, say
from .live_figure import LiveFigure

PAUSE = 0.1  # seconds between two pictures: the browser has to draw each
_latest: "weakref.WeakValueDictionary[str, LiveRun]" = weakref.WeakValueDictionary()


class LiveRun(ipywidgets.VBox):
    """A button that runs an iterator in the background, a progress bar, a figure that follows, and a Stop button.

    Args:
        steps: function that returns a fresh iterator; it yields whatever ``draw`` understands, after each step.
        draw: function of all that was yielded so far (a tuple) that returns a figure; always with the same traces.
        total: how many steps there will be.
        name: of the work, on the button. A second run of the same name stops the first: running a cell again does
            not leave an orphan at work.
        unit: what a step is.
        start: whether to start at once.
        remark: function of all that was yielded so far that returns lines to be shown below the figure.

    `state` is "ready", "running", "stopped", "finished" or "failed". An error is shown in one line, and raised by
    `result`; a NotImplementedError says "not yet" and leaves the run ready to start.

    >>> run = LiveRun(lambda: iter((1, 4, 9)), lambda got: go.Figure(go.Scatter(y=list(got))), total=3, name="squares")
    >>> run.start()
    >>> run.wait(10)
    >>> run.state, run.result()
    ('finished', (1, 4, 9))
    """

    def __init__(
        self,
        steps: Callable[[], Iterator[Any]],
        draw: Callable[[tuple[Any, ...]], go.Figure],
        *,
        total: int,
        name: str = "Run",
        unit: str = "step",
        start: bool = False,
        remark: Callable[[tuple[Any, ...]], Sequence[str]] | None = None,
    ) -> None:
        if total < 1:
            raise ValueError(f"total must be at least 1, got {total}")
        self._steps, self._draw, self.name, self._unit = steps, draw, name, unit
        self._remark = remark
        self._lock = threading.RLock()  # callbacks come on any thread
        self._stop, self._thread = threading.Event(), None  # type: tuple[threading.Event, threading.Thread | None]
        self._got: list[Any] = []
        self._error: BaseException | None = None
        self.state = "ready"
        self._build(total)
        super().__init__([self.row, self.status, self.error_line, self.figure, self.remark_line, self._helper])
        self.add_class("lp-controls")
        if start:
            self.start()

    def _build(self, total: int) -> None:
        self.figure = LiveFigure(self._draw(()))
        self.run_button = ipywidgets.Button(description=self.name, tooltip="start; the notebook stays usable")
        self.stop_button = ipywidgets.Button(
            description="Stop", tooltip="stop after this step; what is drawn stays", disabled=True
        )
        self.progress = ipywidgets.IntProgress(max=total, layout=ipywidgets.Layout(flex="1 1 120px", min_width="80px"))
        self.left = line("", "lp-quiet")  # not announced: it changes all the time
        self.row = ipywidgets.Box([self.run_button, self.stop_button, self.progress, self.left])
        self.row.add_class("lp-row")
        self.status = line("", "lp-quiet", "lp-live")
        self.error_line = line("", "lp-error", "lp-live")
        self.remark_line = line("", "lp-error", "lp-live")
        self._helper = Helper()
        for each in (self.left, self.remark_line):
            say(each, "")
        say(self.status, "")
        say(self.error_line, "")
        self.run_button.on_click(guarded(self.error_line, lambda _: self.start()))
        self.stop_button.on_click(guarded(self.error_line, lambda _: self.stop()))

    # -- what a notebook may use ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start, or start anew; while it runs, do nothing. Returns at once."""
        with self._lock:
            if self.state == "running":
                return
            earlier = _latest.get(self.name)
            if earlier is not None and earlier is not self:
                earlier.stop()
            _latest[self.name] = self
            self._stop, self._got, self._error, self.state = threading.Event(), [], None, "running"
            self.run_button.disabled, self.stop_button.disabled = True, False
            self.progress.value, self.progress.bar_style = 0, ""
            say(self.error_line, "")
            say(self.remark_line, "")
            say(self.status, "Preparing: the first step comes after loading and compiling.")
            work = threading.Thread(target=self._work, args=(self._stop,), name=f"lplab {self.name}", daemon=True)
            self._thread = work
            work.start()

    def stop(self) -> None:
        """Ask the work to stop after the step at hand; returns at once."""
        self._stop.set()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the end, for scripts and tests: in a notebook cell this would block every control.

        Raises:
            TimeoutError: it takes longer.
        """
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
            if thread.is_alive():
                raise TimeoutError(f"{self.name} is still running after {seconds} s")

    async def done(self) -> "LiveRun":
        """Wait for the end without blocking: ``await run.done()`` in a later cell.

        A run that was never started is not waited for. Interrupting the cell stops the run and keeps what it drew.
        """
        try:
            while self.state == "running":
                await asyncio.sleep(0.05)
        except (KeyboardInterrupt, asyncio.CancelledError):
            self.stop()
            raise
        return self

    def result(self) -> tuple[Any, ...]:
        """All that was yielded, of a stopped run what there was; of a failed one, its error is raised."""
        with self._lock:
            if self._error is not None:
                raise self._error
            return tuple(self._got)

    def summary(self) -> str:
        """A sentence about a finished run, for its status line; none here."""
        return ""

    # -- the thread -------------------------------------------------------------------------------------------------

    def _work(self, stop: threading.Event) -> None:
        end, error, more = "finished", None, ""
        try:
            steps = self._steps()
            with contextlib.closing(steps) if isinstance(steps, Generator) else contextlib.nullcontext():
                self._follow(steps, stop)  # a generator has let go of everything before the end is said
            if stop.is_set() and len(self._got) < self.progress.max:
                end = "stopped"
            self._show()
            more = self.summary() if end == "finished" else ""
        except NotImplementedError as problem:
            self._end("ready", problem)
            return
        except Exception as problem:
            end, error = "failed", problem
        self._end(end, error, more)

    def _follow(self, steps: Iterator[Any], stop: threading.Event) -> None:
        last, began = 0.0, math.inf
        for step in steps:
            with self._lock:
                self._got.append(step)
            if began == math.inf:  # the first step also loads and compiles
                began = time.monotonic()
                say(self.status, "Running.")
            if stop.is_set():
                return
            if time.monotonic() - last > PAUSE:
                self._show(time.monotonic() - began)
                last = time.monotonic()

    def _show(self, seconds: float = 0.0) -> None:
        """Draw what there is; ``seconds`` have gone by since the first step."""
        got = tuple(self._got)
        figures.update(self.figure, self._draw(got))
        self.progress.value = len(got)
        if self._remark is not None:
            say(self.remark_line, *self._remark(got))
        if len(got) > 1 and seconds > 0:
            say(self.left, time_left(seconds / (len(got) - 1) * (self.progress.max - len(got))))

    def _end(self, state: str, error: BaseException | None, more: str = "") -> None:
        count = f"{len(self._got)} of {self.progress.max} {self._unit}s"
        said = {
            "finished": f"Finished: {count}. {more}".strip(),
            "stopped": f"Stopped after {count}.",
            "ready": f"Not yet: {error}.",
        }
        with self._lock:
            self._error = error if state == "failed" else None
            self.run_button.disabled, self.stop_button.disabled = False, True
            if state != "ready":
                self.run_button.description = f"{self.name} again"
            say(self.left, "")
            self.progress.bar_style = {"finished": "success", "stopped": "warning", "failed": "danger"}.get(state, "")
            say(self.status, said.get(state, ""))
            say(self.error_line, f"{one_line(error)} (after {count})" if error and state == "failed" else "")
            self.state = state  # last: whoever waits finds everything in place


def time_left(seconds: float) -> str:
    """How long it will take, coarse enough to be read while it changes.

    >>> time_left(0.4), time_left(41.7), time_left(200)
    ('1 s left', '42 s left', '4 min left')
    """
    return f"{max(math.ceil(seconds), 1)} s left" if seconds <= 90 else f"{math.ceil(seconds / 60)} min left"


def one_line(error: BaseException) -> str:
    r"""An exception as one line.

    >>> one_line(ValueError("no\nway"))
    'ValueError: no way'
    """
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
