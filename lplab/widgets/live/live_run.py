"""A long computation in a notebook, with a start button, a figure that is redrawn while it runs, and a stop button.

The computation is an iterator that a background thread consumes, so the cell returns at once and controls respond: in a
cell that blocks, a Stop button does nothing until the cell has ended. A later cell may ``await run.done()``, and should
if it computes much itself: two threads with many small steps compete for Python's lock, and together take ten times as
long as one after the other.

Where Python has no threads, as in a browser, the steps take turns with everything else on the kernel's event loop.
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
from lplab.widgets.controls import ControlGroup, line, set_text, show_errors
from lplab.widgets.missing import missing_line, missing_package

from .live_figure import LiveFigure

NOT_STARTED, PREPARING = "Not started yet", "Preparing the first step"  # in the titles of figures without a step
REDRAW_SECONDS = 0.1  # smallest time between two updates of the figure, each of which the browser has to draw
_latest: "weakref.WeakValueDictionary[str, LiveRun]" = weakref.WeakValueDictionary()


class LiveRun(ipywidgets.VBox):
    """A button that runs an iterator in the background, a progress bar, a figure that follows, and a Stop button.

    Args:
        steps: function that returns a fresh iterator; it yields whatever ``draw`` understands, after each step.
        draw: function of all that was yielded so far (a tuple) that returns a figure; always with the same traces.
        total: how many steps there will be.
        name: of the run, on the button. A second run of the same name stops the first, so that running a cell again
            does not leave the old run in the background.
        unit: the word for a step.
        start: whether to start at once.
        remark: function of everything yielded so far that returns the lines above the figure; they stand there before
            the first start too.

    Below the status stands `result_line`, in larger text: what `outcome` says. It is empty in most runs.

    `state` is "ready", "running", "stopped", "finished" or "failed". An error is shown in one line, and raised by
    `result`; a NotImplementedError shows "not yet" and leaves the run ready to start.

    >>> steps, draw = lambda: iter((1, 4, 9)), lambda results: go.Figure(go.Scatter(y=list(results)))
    >>> run = LiveRun(steps, draw, total=3, name="squares")
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
        self._turns: Iterator[None] = iter(())  # what is left of the work, where there are no threads
        self._results: list[Any] = []
        self._error: BaseException | None = None
        self.state = "ready"
        self._build(total)
        lines = [self.status, self.result_line, self.error_line, self.remark_line]
        super().__init__([self.row, *lines, self.figure, self._control_group])
        self.add_class("lp-controls")
        if start:
            self.start()

    def _build(self, total: int) -> None:
        self.figure = LiveFigure(self._draw(()))
        self.run_button = ipywidgets.Button(description=self.name, tooltip="start; the notebook stays usable")
        self.stop_button = ipywidgets.Button(
            description="Stop", tooltip="stop after this step; what is drawn stays", disabled=True
        )
        self.progress = ipywidgets.IntProgress(
            max=total, layout=ipywidgets.Layout(flex="1 1 120px", min_width="80px", width="auto")
        )
        self.time_left_line = line("", "lp-quiet")  # not announced: it changes all the time
        self.row = ipywidgets.Box([self.run_button, self.stop_button, self.progress, self.time_left_line])
        self.row.add_class("lp-row")
        self.row.layout.flex_flow = "row wrap"  # on a phone
        self.status = line("", "lp-quiet", "lp-live")
        self.result_line = line("", "lp-result", "lp-live")
        self.error_line = line("", "lp-error", "lp-live")
        self.remark_line = line("", "lp-error", "lp-live")
        self._control_group = ControlGroup()
        for each in (self.time_left_line, self.status, self.error_line):
            set_text(each, "")
        set_text(self.result_line, self.outcome())
        set_text(self.remark_line, *(self._remark(()) if self._remark else ()))
        self.run_button.on_click(show_errors(self.error_line, lambda _: self.start()))
        self.stop_button.on_click(show_errors(self.error_line, lambda _: self.stop()))

    # -- what a notebook may use ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start or restart in the background; does nothing while it runs."""
        with self._lock:
            if self.state == "running":
                return
            earlier = _latest.get(self.name)
            if earlier is not None and earlier is not self:
                earlier.stop()
            _latest[self.name] = self
            self._stop, self._results, self._error, self.state = threading.Event(), [], None, "running"
            self.run_button.disabled, self.stop_button.disabled = True, False
            self.progress.value, self.progress.bar_style = 0, ""
            for each in (self.result_line, self.error_line, self.remark_line):
                set_text(each, "")
            set_text(self.status, "Preparing: the first step comes after loading and compiling.")
            self._announce_start()
            self._launch(self._work(self._stop))

    def _launch(self, work: Iterator[None]) -> None:
        """Do the work in a thread, or, where none can be started, in turns with what else the event loop does."""
        self._thread = threading.Thread(target=_to_the_end, args=(work,), name=f"lplab {self.name}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # "can't start new thread"
            self._thread, self._turns = None, work
            try:
                self._task = asyncio.get_running_loop().create_task(self._take_turns(work))
            except RuntimeError:  # no event loop either: a script may still wait()
                set_text(self.status, "There are no threads here: wait() does the work.")

    @staticmethod
    async def _take_turns(work: Iterator[None]) -> None:
        for _ in work:
            await asyncio.sleep(0)

    def _announce_start(self) -> None:
        """Draw the figure of a run that has begun: loading and compiling can take many seconds."""
        empty = self._draw(())
        if NOT_STARTED in (words := empty.layout.title.text or ""):
            meta = {**(empty.layout.meta or {}), "title": PREPARING}
            empty.update_layout(title_text=words.replace(NOT_STARTED, PREPARING), meta=meta)
            figures.update(self.figure, empty)

    def stop(self) -> None:
        """Request a stop after the current step; returns at once."""
        self._stop.set()

    def wait(self, seconds: float | None = None) -> None:
        """Block until the end, for scripts and tests; in a notebook cell this would block every control.

        Raises:
            TimeoutError: it takes longer.
        """
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
            if thread.is_alive():
                raise TimeoutError(f"{self.name} is still running after {seconds} s")
        begun = time.monotonic()
        for _ in self._turns:
            if seconds is not None and time.monotonic() - begun > seconds:
                raise TimeoutError(f"{self.name} is still running after {seconds} s")

    async def done(self) -> "LiveRun":
        """Wait for the end without blocking: ``await run.done()`` in a later cell.

        Returns at once for a run that was never started. Interrupting the cell stops the run and keeps its figure.
        """
        try:
            await self._take_turns(self._turns)
            while self.state == "running":
                await asyncio.sleep(0.05)
        except (KeyboardInterrupt, asyncio.CancelledError):
            self.stop()
            raise
        return self

    def result(self) -> tuple[Any, ...]:
        """Everything that was yielded, also by a stopped run; the error of a failed run is raised."""
        with self._lock:
            if self._error is not None:
                raise self._error
            return tuple(self._results)

    def summary(self) -> str:
        """A sentence about a finished run for the status line; subclasses override it."""
        return ""

    def outcome(self) -> str:
        """What came out of a finished run, for `result_line`; before the first start, what is known already.

        Subclasses override it where that is what readers look for, such as the points of a score.
        """
        return ""

    def counted(self) -> str:
        """How far a run came, in words; subclasses override it where a step is not what readers count."""
        return f"{len(self._results)} of {self.progress.max} {self._unit}s"

    def seconds_left(self, seconds: float) -> float:
        """How long the rest takes, ``seconds`` after the first step; NaN where that is not known yet.

        Subclasses override it where steps do not take the same time.
        """
        count = len(self._results)
        return seconds / (count - 1) * (self.progress.max - count) if count > 1 else math.nan

    # -- the work ---------------------------------------------------------------------------------------------------

    def _work(self, stop: threading.Event) -> Iterator[None]:
        """Everything from the first step to the final state; it pauses after each step."""
        end, error, more, outcome = "finished", None, "", ""
        try:
            steps = self._steps()
            with contextlib.closing(steps) if isinstance(steps, Generator) else contextlib.nullcontext():
                yield from self._consume(steps, stop)
            # A generator is closed now, and its resources are freed, before the final state.
            if stop.is_set() and len(self._results) < self.progress.max:
                end = "stopped"
            self._show()
            if end == "finished":
                more, outcome = self.summary(), self.outcome()
        except NotImplementedError as problem:
            figures.update(self.figure, self._draw(()))
            self._end("ready", problem)
            return
        except Exception as problem:
            end, error = "failed", problem
        self._end(end, error, more, outcome)

    def _consume(self, steps: Iterator[Any], stop: threading.Event) -> Iterator[None]:
        last, began = 0.0, math.inf
        for step in steps:
            with self._lock:
                self._results.append(step)
            if began == math.inf:  # the first step also loads and compiles
                began = time.monotonic()
                set_text(self.status, "Running.")
            if stop.is_set():
                return
            if time.monotonic() - last > REDRAW_SECONDS:
                self._show(time.monotonic() - began)
                last = time.monotonic()
            yield

    def _show(self, seconds: float = 0.0) -> None:
        """Redraw figure and progress, ``seconds`` after the first step."""
        results = tuple(self._results)
        figures.update(self.figure, self._draw(results))
        self.progress.value = len(results)
        if self._remark is not None:
            set_text(self.remark_line, *self._remark(results))
        left = self.seconds_left(seconds) if seconds > 0 else math.nan
        if not math.isnan(left):
            set_text(self.time_left_line, time_left(left))

    def _end(self, state: str, error: BaseException | None, more: str = "", outcome: str = "") -> None:
        count = self.counted()
        messages = {
            "finished": f"Finished: {count}. {more}".strip(),
            "stopped": f"Stopped after {count}.",
            "ready": f"Not yet: {error}.",
        }
        with self._lock:
            self._error = error if state == "failed" else None
            self.run_button.disabled, self.stop_button.disabled = False, True
            if state != "ready":
                self.run_button.description = f"{self.name} again"
            set_text(self.time_left_line, "")
            self.progress.bar_style = {"finished": "success", "stopped": "warning", "failed": "danger"}.get(state, "")
            set_text(self.status, messages.get(state, ""))
            set_text(self.result_line, outcome)
            set_text(self.error_line, f"{one_line(error)} (after {count})" if error and state == "failed" else "")
            self.state = state  # last: code that waits for it then sees everything updated


def _to_the_end(work: Iterator[None]) -> None:
    for _ in work:
        pass


def time_left(seconds: float) -> str:
    """The remaining time as text, rounded so that it can be read while it changes.

    >>> time_left(0.4), time_left(41.7), time_left(200)
    ('1 s left', '42 s left', '4 min left')
    """
    return f"{max(math.ceil(seconds), 1)} s left" if seconds <= 90 else f"{math.ceil(seconds / 60)} min left"


def one_line(error: BaseException) -> str:
    r"""An exception as one line; of a package that is missing, what that means.

    >>> one_line(ValueError("no\nway"))
    'ValueError: no way'
    >>> one_line(ModuleNotFoundError("No module named 'torch'", name="torch"))
    'torch cannot be imported here, and this needs it. The rest of the lab does without it.'
    """
    if package := missing_package(error):
        return missing_line(package)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
