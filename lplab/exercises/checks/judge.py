"""Judge an answer: four rings, cheapest first; only the first that fails is reported.

The student's code runs in a child process (`isolation`), which gets nothing but arguments. All comparing happens here.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.exercises.checks import feedback
from lplab.exercises.checks.compare import misses, sizes_of
from lplab.exercises.checks.feedback import Known, Trouble
from lplab.exercises.checks.variants import Failure, answers, function_of
from lplab.exercises.checks.verdict import Miss, Verdict
from lplab.exercises.exercise import RINGS, Args, Exercise, Finding, Variant
from lplab.exercises.isolation import Limits, Outcome, Raised, Unusable, run_isolated
from lplab.exercises.isolation.answers import Answer

FORM, EXAMPLES, BOUNDARY, PROPERTIES = RINGS
FEW = 0.05  # of all calls: that many answers may differ from those of a known mistake which explains every miss


@dataclass(frozen=True)
class Ring:
    """Some calls and how to look at their results."""

    name: str
    calls: tuple[Args, ...]
    look: Callable[[Sequence[Any]], Trouble | None]
    size: int  # of values compared


def judge(exercise: Exercise, answer: Answer, limits: Limits | None = None) -> Verdict:
    """The verdict on one answer. Nothing that a student does raises an error here.

    Args:
        exercise: what is checked.
        answer: the student's source and the name of the function.
        limits: of time, memory and print; the default suits every exercise.
    """
    if is_stub(exercise, answer):
        return feedback.not_yet(exercise)
    compared = (*[example.args for example in exercise.examples], *exercise.boundary())
    ruled = [_property(rule) for rule in exercise.properties]
    calls = (*compared, *[args for ring in ruled for args in ring.calls])
    outcome = run_isolated(answer, calls, limits=limits or Limits(), allowed=exercise.modules)
    convention = _convention(exercise, compared, outcome)
    expected = answers(function_of(exercise, convention), list(compared))
    rings = [*_comparisons(exercise, compared, expected), *ruled]
    trouble = _first_trouble(exercise, rings, outcome)
    if trouble is None:
        return feedback.passed(exercise, rings, convention, outcome)
    if trouble.not_started:
        return feedback.not_yet(exercise)
    return feedback.failed(exercise, trouble, _misconception(exercise, trouble, calls, outcome), convention, outcome)


def is_stub(exercise: Exercise, answer: Answer) -> bool:
    """Whether the function is still as it came, comments, layout and docstring apart."""
    return not exercise.starts_broken and _body(answer.source, answer.name) in (
        _body(exercise.stub, exercise.name),
        "",
        "Pass()",
        "Expr(value=Constant(value=Ellipsis))",
    )


def _body(source: str, name: str) -> str:
    """The statements of one function as text; unlike anything else if the source cannot be read."""
    try:
        tree = ast.parse(textwrap.dedent(source))
    except (SyntaxError, ValueError):  # the child will say where
        return "unreadable"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return "\n".join(ast.dump(part) for part in node.body if not _is_docstring(part))
    return "no function"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


# ---- the rings ------------------------------------------------------------------------------------------------------


def _comparisons(exercise: Exercise, compared: tuple[Args, ...], expected: list[Any]) -> list[Ring]:
    """The named examples, and the boundary set where there is one."""
    split = len(exercise.examples)
    whys = [example.why for example in exercise.examples]
    rings = [_comparison(exercise, EXAMPLES, compared[:split], expected[:split], whys)]
    if compared[split:]:
        rings.append(_comparison(exercise, BOUNDARY, compared[split:], expected[split:], []))
    return rings


def _comparison(exercise: Exercise, name: str, calls: tuple[Args, ...], expected: list[Any], whys: list[str]) -> Ring:
    """A ring in which every result is compared with the expected one, or accepted by the exercise's own rule."""
    sizes = [_size(exercise, result) for result in expected]

    def look(results: Sequence[Any]) -> Trouble | None:
        found = list(_misses(exercise, calls, results, expected))
        if not found:
            return None
        first, i, sentence = found[0] if whys else min(found, key=lambda each: sizes_of(each[0]))
        return Trouble(
            name,
            sentence=sentence,
            miss=first,
            why=whys[i] if whys else exercise.why(first.args, expected[i] if sentence else first.expected),
            misses=tuple(miss for miss, *_ in found),
            right=sum(sizes[: len(results)]) - len(found),
            total=sum(sizes),
        )

    return Ring(name, calls, look, sum(sizes))


def _misses(
    exercise: Exercise, calls: Sequence[Args], results: Sequence[Any], expected: Sequence[Any]
) -> Iterator[tuple[Miss, int, str]]:
    """What is missed, in which call, and in which words where the exercise has a rule of its own."""
    for i, (args, yours, wanted) in enumerate(zip(calls, results, expected, strict=False)):
        if exercise.accept is None:
            yield from ((miss, i, "") for miss in misses(exercise, args, yours, wanted))
        elif sentence := exercise.accept(args, yours):
            yield Miss(args, yours, None), i, sentence


def _size(exercise: Exercise, result: Any) -> int:
    """How many misses a call can have: as many as elements where these are compared one by one, else one."""
    return 1 if exercise.elements is None else int(np.size(result))


def _property(rule: Any) -> Ring:
    calls = tuple(rule.calls())

    def look(results: Sequence[Any]) -> Trouble | None:
        finding: Finding | None = rule.look(calls, results)
        if finding is None:
            return None
        miss = Miss(finding.args, finding.yours, None) if finding.args else None
        return Trouble(PROPERTIES, sentence=finding.sentence, rule=rule.name, miss=miss, mistake=finding.mistake)

    return Ring(PROPERTIES, calls, look, 0)


def _first_trouble(exercise: Exercise, rings: list[Ring], outcome: Outcome) -> Trouble | None:
    position = 0
    if outcome.stopped and outcome.stopped.reason in ("syntax", "definition", "import", "tampering"):
        return Trouble(FORM, sentence=outcome.stopped.sentence)
    for ring in rings:
        results = outcome.values[position : position + len(ring.calls)]
        for i, (args, result) in enumerate(zip(ring.calls, results, strict=False)):
            trouble = _form(exercise, args, result, position + i in outcome.changed)
            if trouble:
                earlier = isinstance(result, Raised) and not trouble.not_started and ring.name != PROPERTIES
                return (ring.look(results[:i]) if earlier else None) or trouble
        trouble = ring.look(results) if len(results) == len(ring.calls) or ring.name != PROPERTIES else None
        if trouble:
            return trouble
        if len(results) < len(ring.calls):
            assert outcome.stopped is not None, "run_isolated says why calls are missing"
            return Trouble(FORM, sentence=outcome.stopped.sentence, miss=Miss(ring.calls[len(results)], None, None))
        position += len(ring.calls)
    return None


def _form(exercise: Exercise, args: Args, result: Any, changed: bool) -> Trouble | None:
    """What is wrong with the form of one result, if anything."""
    miss = Miss(args, result, None)
    if isinstance(result, Raised):
        if result.type == "NotImplementedError":
            return Trouble(FORM, not_started=True)
        return Trouble(FORM, sentence=feedback.raised(exercise, result), miss=miss)
    if isinstance(result, Unusable):
        return Trouble(FORM, sentence=f"`{exercise.name}` returns {result.sentence}", miss=miss)
    if result is None:
        return Trouble(
            FORM,
            sentence=f"`{exercise.name}` returns None: a return statement is missing, or is not reached.",
            miss=miss,
        )
    problem = exercise.form.problem(args, result)
    if problem:
        return Trouble(FORM, sentence=f"`{exercise.name}` {problem}.", miss=miss)
    if changed:
        return Trouble(FORM, sentence=f"`{exercise.name}` changes its input in place: work on a copy of it.", miss=miss)
    return None


# ---- which reading, which mistake -----------------------------------------------------------------------------------


def _convention(exercise: Exercise, compared: tuple[Args, ...], outcome: Outcome) -> Variant | None:
    """The legal reading with which most answers agree; all must, where agreeing decides nothing but the name."""
    if not exercise.conventions or not outcome.values:
        return None
    counts = [_disagreements(exercise, reading, compared, outcome) for reading in exercise.conventions]
    best = counts.index(min(counts))
    return exercise.conventions[best] if counts[best] == 0 or not exercise.accept else None


def _disagreements(exercise: Exercise, variant: Variant, calls: Sequence[Args], outcome: Outcome) -> int:
    expected = answers(function_of(exercise, variant), list(calls))
    return sum(not _agrees(exercise, *triple) for triple in zip(calls, outcome.values, expected, strict=False))


def _agrees(exercise: Exercise, args: Args, yours: Any, theirs: Any) -> bool:
    if isinstance(yours, Raised) or isinstance(theirs, Failure):
        return isinstance(yours, Raised) and isinstance(theirs, Failure)
    if isinstance(yours, Unusable) or yours is None:
        return False
    if exercise.form.problem(args, yours) or exercise.form.problem(args, theirs):
        return False
    return not misses(exercise, args, yours, theirs)


def _misconception(exercise: Exercise, trouble: Trouble, calls: Sequence[Args], outcome: Outcome) -> Known:
    """The known mistake that gives the same answers.

    If none gives the same answers everywhere, one that does so for every miss is named where it differs for few calls
    else: a mistake that happens to be wrong in the same place is no explanation.
    """
    if trouble.ring == FORM or trouble.mistake:
        return Known(trouble.mistake, everywhere=True)
    pairs = list(zip(calls, outcome.values, strict=False))
    missed = {id(miss.args) for miss in trouble.misses} if exercise.elements is None else set()
    fewest, name = FEW * len(pairs), ""
    for mistake in exercise.mutants:
        function, differ = function_of(exercise, mistake), 0
        for args, yours in pairs:
            if _agrees(exercise, args, yours, *answers(function, [args])):
                continue
            differ += 1
            if not missed or id(args) in missed or differ > fewest:
                break  # it explains too little: the other calls need no answer
        else:
            if not differ:
                return Known(mistake.name, everywhere=True)
            fewest, name = differ - 1, mistake.name
    return Known(name)
