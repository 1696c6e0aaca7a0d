"""Run students' functions in this process: for browsers and other places where Python can start no process.

**There is no fence here.** The code of an answer can do what the notebook itself can: read its files, and everything
that the browser or the machine allows. So this is for people who check their own answers; grading never uses it.

What remains are the guards against mistakes, so that a check says the same as in a process of its own. An endless loop
ends at a number of steps (:mod:`.steps`); a single call of numpy is one step, however long it takes. Output is limited.
Imports that the exercise does not need are refused. At the end the modules that an answer may import are as they were:
their attributes, numpy's settings, the states of the global random generators, the warnings. What an answer changes
inside a class or a list of a module stays changed, and nothing limits its memory.
"""

import builtins
import contextlib
import decimal
import importlib
import io
import json
import math
import random
import sys
import time
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from lplab.exercises.isolation import child
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.isolation.outcome import Limits, Outcome, Stopped
from lplab.exercises.isolation.request import encode_calls
from lplab.exercises.isolation.run import TOO_MUCH, ChildRun
from lplab.exercises.isolation.steps import STEP, OverTheLimitError, StepLimit, counted

MAX_STEPS = 10_000_000  # of all calls together; the longest solution of the course takes 377,138 (exercise 08.3)
MAX_PRINTED = 2_000  # characters of the output that are kept


def run_in_process(
    answer: Answer, calls: Sequence[tuple], *, limits: Limits, allowed: Sequence[str] = ("math", "numpy")
) -> Outcome:
    r"""What ``run_isolated`` returns, by the same steps, in this process.

    Of ``limits``, ``printed_kb`` holds, and ``wall_seconds`` for the time of computing. Hashes of strings differ from
    one start of Python to the next here.

    >>> outcome = run_in_process(Answer("def half(x):\n    return x / 2", "half"), [(3,), ("3",)], limits=Limits())
    >>> outcome.values  # doctest: +ELLIPSIS
    (1.5, Raised(type='TypeError', message="unsupported operand ...", line=2, text='return x / 2'))
    >>> run_in_process(Answer("def f():\n    while True: pass", "f"), [()], limits=Limits()).stopped.sentence
    'stopped after 10,000,000 steps, in call 1 of 1: a loop that never ends, or far too much work'
    """
    begun = time.perf_counter()
    request, forms = encode_calls(answer, calls, limits, allowed)
    run, printed = ChildRun(len(calls), limits), _Printed(limits)
    limit = StepLimit(MAX_STEPS, limits.wall_seconds)

    def send(*message: Any) -> None:
        if child.guards.changed_builtins(originals):  # what follows here uses them
            raise OverTheLimitError
        if limit.spent:  # also where the code caught what the step raised
            run.stop("time", f"stopped after {limit.spent}, {run.where()}: {TOO_MUCH}")
        elif message[:2] == ("raised", "KeyboardInterrupt"):
            run.stop("exit", f"stopped {run.where()}, as by Ctrl-C")
        else:
            run.check_printed(printed.printed_bytes)
        if not run.stopped:
            run.on_message(json.dumps(message).encode("ascii"))
        if run.stopped:
            raise OverTheLimitError

    with _as_it_was(allowed), _as_in_a_child(printed, limit):
        originals = child.guards.snapshot(np, math, builtins)
        with contextlib.suppress(OverTheLimitError):
            child.run_calls(request, forms, send, counted)
        changed = child.guards.changed_builtins(originals)
    if changed:
        run.stopped = Stopped("tampering", child.replaced(changed))
    run.check_printed(printed.printed_bytes)
    seconds = time.perf_counter() - begun
    skipped = run.what_did_not_run()
    return Outcome(tuple(run.values), run.stopped, tuple(run.changed), printed.getvalue(), seconds, skipped=skipped)


class _Printed(io.StringIO):
    """Keeps the beginning of what is printed, and counts the rest; far too much raises OverTheLimitError."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self.printed_bytes, self._most = 0, 1000 * limits.printed_kb

    def write(self, text: str) -> int:
        self.printed_bytes += len(text.encode("utf-8", errors="replace"))
        super().write(text[: MAX_PRINTED - self.tell()] if self.tell() < MAX_PRINTED else "")
        if self.printed_bytes > self._most:
            raise OverTheLimitError(f"{self._most:,} bytes of output")
        return len(text)


# ---- what an answer finds, and what it leaves ------------------------------------------------------------------------


@contextlib.contextmanager
def _as_in_a_child(printed: io.StringIO, limit: StepLimit) -> Iterator[None]:
    """What a process of its own would bring: no input, output kept in ``printed``, seeded generators, warnings."""
    random.seed(0)
    np.random.seed(0)
    stdin, sys.stdin = sys.stdin, io.StringIO()
    builtins.input = _no_input  # `_as_it_was` puts these two back
    setattr(builtins, STEP, limit.step)
    try:
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            warnings.catch_warnings(action="default"),
            _room_to_recurse(),
        ):
            warnings.showwarning = _print_warning  # type: ignore[assignment]
            for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
                warnings.simplefilter("ignore", category)  # as Python itself does
            yield
    finally:
        sys.stdin = stdin


@contextlib.contextmanager
def _as_it_was(allowed: Sequence[str]) -> Iterator[None]:
    """At the end, give the modules that student code may import, and what they keep beside them, their state of now."""
    for name in child.guards.HARMLESS:
        importlib.import_module(name)
    roots = {*child.guards.HARMLESS, *(name.partition(".")[0] for name in allowed), "builtins"}
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in roots]
    before = child.guards.snapshot(*(module for module in modules if isinstance(module, types.ModuleType)))
    states, answer = (random.getstate(), np.random.get_state()), sys.modules.get("answer")
    try:
        with np.errstate(), np.printoptions(), decimal.localcontext():
            yield
    finally:
        for module, attributes in before.items():
            _restore(vars(module), attributes)
        random.setstate(states[0])
        np.random.set_state(states[1])
        sys.modules.pop("answer", None)
        if answer is not None:
            sys.modules["answer"] = answer


def _restore(now: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Give a module the attributes that it had; parts of it that were imported since then stay."""
    for name in [name for name, value in now.items() if name not in before and not isinstance(value, types.ModuleType)]:
        del now[name]
    for name, value in before.items():
        if now.get(name, _restore) is not value:
            now[name] = value


@contextlib.contextmanager
def _room_to_recurse() -> Iterator[None]:
    """Allow as many calls inside each other as a fresh process does; a browser's own limit is lower, and stays."""
    limit = sys.getrecursionlimit()
    if sys.platform != "emscripten":
        depth, frame = 0, sys._getframe()
        while frame := frame.f_back:  # type: ignore[assignment]
            depth += 1
        sys.setrecursionlimit(depth + 1000)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _no_input(prompt: object = "") -> NoReturn:
    print(prompt, end="")
    raise EOFError("EOF when reading a line")


def _print_warning(*parts: Any) -> None:
    """Print as the child does; a notebook would show it elsewhere."""
    sys.stderr.write(child.warned(*parts[:4]))
