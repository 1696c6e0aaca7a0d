"""The check without its child process: trusted sources are called in this process, which is faster."""

import contextlib
import io
import json
import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from unittest import mock

import numpy as np

from lplab.exercises import isolation
from lplab.exercises.checks import judge
from lplab.exercises.checks.verdict import Verdict
from lplab.exercises.isolation import Limits, Outcome, child
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.isolation.run import Run
from lplab.exercises.model.exercise import Exercise


def judge_here(exercise: Exercise, answer: Answer) -> Verdict:
    """The verdict on an answer that ends by itself and needs no limits."""
    with mock.patch.object(judge, "run_isolated", run_here):
        return judge.judge(exercise, answer)


def run_here(
    answer: Answer,
    calls: Sequence[tuple],
    *,
    limits: Limits = isolation.DEFAULT,
    allowed: Sequence[str] = ("math", "numpy"),
) -> Outcome:
    """What ``run_isolated`` returns, by the same steps: arguments and values are encoded and decoded here, too."""
    lines = isolation._request(answer, calls, limits, allowed).splitlines()[:-1]
    request, *forms = map(json.loads, lines)
    run, printed = Run(len(calls), limits), io.StringIO()
    with _as_in_a_child(printed):
        child.run_calls(request, forms, lambda *message: run.on_message(json.dumps(message).encode("ascii")))
    return Outcome(tuple(run.values), run.stopped, tuple(run.changed), printed.getvalue()[:2000], seconds=0.0)


@contextlib.contextmanager
def _as_in_a_child(printed: io.StringIO) -> Iterator[None]:
    """Keep output and warnings in ``printed``; seed the global generators, and restore them at the end."""
    states = random.getstate(), np.random.get_state()
    random.seed(0)
    np.random.seed(0)
    try:
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            warnings.catch_warnings(action="default"),
            mock.patch.object(warnings, "showwarning", _print_warning),
        ):
            for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
                warnings.simplefilter("ignore", category)  # as Python itself does
            yield
    finally:
        sys.modules.pop("answer", None)
        random.setstate(states[0])
        np.random.set_state(states[1])


def _print_warning(*parts) -> None:
    """Print as the child does; pytest would capture it for its report."""
    sys.stderr.write(child.warned(*parts[:4]))
