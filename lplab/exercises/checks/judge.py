"""Judge an answer in four stages, cheapest first; only the first that fails is reported.

The student's code runs in a child process (`isolation`), which gets nothing but arguments. Results are
compared in this process. A notebook where there are no processes hands over another way to run it.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.exercises.checks import feedback
from lplab.exercises.checks.compare import counterexamples, simplicity_key
from lplab.exercises.checks.credit import partial_points
from lplab.exercises.checks.feedback import Failure, MatchedMistake
from lplab.exercises.checks.variants import NoResult, answers, expected_results, function_of
from lplab.exercises.checks.verdict import Counterexample, Verdict
from lplab.exercises.isolation import Limits, Outcome, Raised, Unusable, run_isolated
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model.exercise import STAGES, Args, Exercise, Finding, Variant

FORM, EXAMPLES, BOUNDARY, PROPERTIES = STAGES
NO_RESULTS = ("syntax", "definition", "import", "tampering")  # reasons for which no result of a run counts
Judge = Callable[[Exercise, Answer], Verdict]  # what judges one answer
MAX_UNEXPLAINED_SHARE = 0.05  # of all calls: how many other answers may differ from those of a matching known mistake


@dataclass(frozen=True)
class CheckStage:
    """Some calls and the check of their results."""

    name: str
    calls: tuple[Args, ...]
    check: Callable[[Sequence[Any]], Failure | None]
    size: int  # of values compared


def judge(
    exercise: Exercise, answer: Answer, limits: Limits | None = None, run: Callable[..., Outcome] = run_isolated
) -> Verdict:
    """The verdict on one answer. Nothing in an answer raises an error here.

    Args:
        exercise: what is checked.
        answer: the student's source and the name of the function.
        limits: of time, memory and print; the default suits every exercise.
        run: runs the student's code, with the arguments of :func:`lplab.exercises.isolation.run_isolated`.

    Raises:
        RuntimeError: there are no processes here, and ``run`` needs them.
    """
    if is_stub(exercise, answer):
        return feedback.not_yet(exercise)
    compared = (*[example.args for example in exercise.examples], *exercise.boundary())
    property_stages = [_property(rule) for rule in exercise.properties]
    calls = (*compared, *[args for stage in property_stages for args in stage.calls])
    outcome = run(answer, calls, limits=limits or Limits(), allowed=exercise.modules)
    convention = _convention(exercise, compared, outcome)
    expected = expected_results(exercise, convention, list(compared))
    stages = [*_comparisons(exercise, compared, expected), *property_stages]
    failure = _first_failure(exercise, stages, outcome)
    if failure is None:
        return feedback.passed(exercise, stages, convention, outcome)
    if failure.not_started:
        return feedback.not_yet(exercise)
    matched = _matched_mistake(exercise, failure, calls, outcome)
    points = 0.0 if is_untouched(exercise, answer) else _points(exercise, compared, expected, outcome)
    return feedback.failed(exercise, failure, matched, convention, outcome, points)


def is_untouched(exercise: Exercise, answer: Answer) -> bool:
    """Whether the body of the function is that of the stub, also of one that is to be repaired."""
    return _body(answer.source, answer.name) == _body(exercise.stub_source, exercise.name)


def is_stub(exercise: Exercise, answer: Answer) -> bool:
    """Whether the function is still the unmodified stub; comments, layout and docstring do not count."""
    return not exercise.is_repair and _body(answer.source, answer.name) in (
        _body(exercise.stub_source, exercise.name),
        "",
        "Pass()",
        "Expr(value=Constant(value=Ellipsis))",
    )


def _body(source: str, name: str) -> str:
    """The statements of one function as text; a text of its own if the source cannot be parsed."""
    try:
        tree = ast.parse(textwrap.dedent(source))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return "\n".join(ast.dump(part) for part in node.body if not _is_docstring(part))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the child will say where
        return "unreadable"
    return "no function"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


# ---- the stages -----------------------------------------------------------------------------------------------------


def _comparisons(exercise: Exercise, compared: tuple[Args, ...], expected: list[Any]) -> list[CheckStage]:
    """The named examples, and the boundary set where there is one."""
    split = len(exercise.examples)
    whys = [example.why for example in exercise.examples]
    stages = [_comparison(exercise, EXAMPLES, compared[:split], expected[:split], whys)]
    if compared[split:]:
        stages.append(_comparison(exercise, BOUNDARY, compared[split:], expected[split:], []))
    return stages


def _comparison(
    exercise: Exercise, name: str, calls: tuple[Args, ...], expected: list[Any], whys: list[str]
) -> CheckStage:
    """A stage in which every result is compared with the expected one, or accepted by the exercise's own rule."""
    sizes = [_size(exercise, result) for result in expected]

    def check(results: Sequence[Any]) -> Failure | None:
        found = list(_counterexamples(exercise, calls, results, expected))
        if not found:
            return None
        first, i, sentence = found[0] if whys else min(found, key=lambda each: simplicity_key(each[0]))
        return Failure(
            name,
            sentence=sentence,
            counterexample=first,
            why=whys[i] if whys else exercise.why(first.args, expected[i] if sentence else first.expected),
            counterexamples=tuple(counterexample for counterexample, *_ in found),
            right=sum(sizes[: len(results)]) - len(found),
            total=sum(sizes),
        )

    return CheckStage(name, calls, check, sum(sizes))


def _counterexamples(
    exercise: Exercise, calls: Sequence[Args], results: Sequence[Any], expected: Sequence[Any]
) -> Iterator[tuple[Counterexample, int, str]]:
    """Each counterexample, the index of its call, and a sentence where the exercise has a rule of its own."""
    for i, (args, yours, wanted) in enumerate(zip(calls, results, expected, strict=False)):
        if exercise.accept is None:
            yield from ((each, i, "") for each in counterexamples(exercise, args, yours, wanted))
        elif sentence := exercise.accept(args, yours):
            yield Counterexample(args, yours, None), i, sentence


def _size(exercise: Exercise, result: Any) -> int:
    """How many values of a call are compared: its elements where the exercise says so, else one."""
    return 1 if exercise.elements is None else int(np.size(result))


def _property(rule: Any) -> CheckStage:
    calls = tuple(rule.calls())

    def check(results: Sequence[Any]) -> Failure | None:
        finding: Finding | None = rule.check(calls, results)
        if finding is None:
            return None
        counterexample = Counterexample(finding.args, finding.yours, None) if finding.args else None
        return Failure(
            PROPERTIES,
            sentence=finding.sentence,
            rule=rule.name,
            counterexample=counterexample,
            mistake=finding.mistake,
        )

    return CheckStage(PROPERTIES, calls, check, 0)


def _first_failure(exercise: Exercise, stages: list[CheckStage], outcome: Outcome) -> Failure | None:
    position = 0
    if outcome.stopped and outcome.stopped.reason in NO_RESULTS:
        return Failure(FORM, sentence=outcome.stopped.sentence)
    for stage in stages:
        results = outcome.values[position : position + len(stage.calls)]
        for i, (args, result) in enumerate(zip(stage.calls, results, strict=False)):
            failure = _form(exercise, args, result, position + i in outcome.changed)
            if failure:
                earlier = isinstance(result, Raised) and not failure.not_started and stage.name != PROPERTIES
                return (stage.check(results[:i]) if earlier else None) or failure
        failure = stage.check(results) if len(results) == len(stage.calls) or stage.name != PROPERTIES else None
        if failure:
            return failure
        if len(results) < len(stage.calls):
            assert outcome.stopped is not None, "a run says why calls are missing"
            unfinished = Counterexample(stage.calls[len(results)], None, None)
            return Failure(FORM, sentence=outcome.stopped.sentence, counterexample=unfinished)
        position += len(stage.calls)
    return None


def _form(exercise: Exercise, args: Args, result: Any, changed: bool) -> Failure | None:
    """What is wrong with the form of one result, if anything."""
    counterexample = Counterexample(args, result, None)
    if isinstance(result, Raised):
        if result.type == "NotImplementedError":
            return Failure(FORM, not_started=True)
        return Failure(FORM, sentence=feedback.raised(exercise, result), counterexample=counterexample)
    if isinstance(result, Unusable):
        return Failure(FORM, sentence=f"`{exercise.name}` returns {result.sentence}", counterexample=counterexample)
    if result is None:
        return Failure(
            FORM,
            sentence=f"`{exercise.name}` returns None: a return statement is missing, or is not reached.",
            counterexample=counterexample,
        )
    problem = exercise.form.problem(args, result)
    if problem:
        return Failure(FORM, sentence=f"`{exercise.name}` {problem}.", counterexample=counterexample)
    if changed:
        sentence = f"`{exercise.name}` changes its input in place: work on a copy of it."
        return Failure(FORM, sentence=sentence, counterexample=counterexample)
    return None


# ---- partial credit -------------------------------------------------------------------------------------------------


def _points(exercise: Exercise, compared: tuple[Args, ...], expected: list[Any], outcome: Outcome) -> float:
    """What an answer earns that fails: see `partial_points`.

    Where calls are missing, since the time or the memory ended, the boundary set earns nothing: how far it came
    depends on the machine.
    """
    if outcome.stopped and outcome.stopped.reason in NO_RESULTS:
        return 0.0
    right = [_right(exercise, *call, outcome) for call in enumerate(zip(compared, expected, strict=True))]
    sizes = [_size(exercise, result) for result in expected]
    split = len(exercise.examples)
    boundary = sum(right[split:]) / sum(sizes[split:]) if sizes[split:] else 1.0
    if len(outcome.values) < len(compared):
        boundary = 0.0
    return partial_points(exercise.points, sum(right[:split]) / sum(sizes[:split]), boundary)


def _right(exercise: Exercise, index: int, call: tuple[Args, Any], outcome: Outcome) -> int:
    """How many values of one call are right; none where it is missing or its result has not the form."""
    (args, wanted), results = call, outcome.values[index : index + 1]
    if not results or _form(exercise, args, results[0], index in outcome.changed):
        return 0
    return _size(exercise, wanted) - len(list(_counterexamples(exercise, [args], results, [wanted])))


# ---- which convention, which mistake --------------------------------------------------------------------------------


def _convention(exercise: Exercise, compared: tuple[Args, ...], outcome: Outcome) -> Variant | None:
    """The convention with which most answers agree; all must agree where it decides nothing but the name."""
    if not exercise.conventions or not outcome.values:
        return None
    counts = [_disagreements(exercise, convention, compared, outcome) for convention in exercise.conventions]
    best = counts.index(min(counts))
    return exercise.conventions[best] if counts[best] == 0 or not exercise.accept else None


def _disagreements(exercise: Exercise, variant: Variant, calls: Sequence[Args], outcome: Outcome) -> int:
    expected = expected_results(exercise, variant, list(calls))
    return sum(not _agrees(exercise, *triple) for triple in zip(calls, outcome.values, expected, strict=False))


def _agrees(exercise: Exercise, args: Args, yours: Any, theirs: Any) -> bool:
    if isinstance(yours, Raised) or isinstance(theirs, NoResult):
        return isinstance(yours, Raised) and isinstance(theirs, NoResult)
    if isinstance(yours, Unusable) or yours is None:
        return False
    if exercise.form.problem(args, yours) or exercise.form.problem(args, theirs):
        return False
    return not counterexamples(exercise, args, yours, theirs)


def _matched_mistake(exercise: Exercise, failure: Failure, calls: Sequence[Args], outcome: Outcome) -> MatchedMistake:
    """The known mistake that gives the same answers.

    If none gives the same answers everywhere, one that gives them for every wrong call is named, provided that it
    differs in few other calls: a mistake that is wrong in the same place by chance explains nothing.
    """
    if failure.stage == FORM or failure.mistake:
        return MatchedMistake(failure.mistake, everywhere=True)
    pairs = list(zip(calls, outcome.values, strict=False))
    missed = {id(each.args) for each in failure.counterexamples} if exercise.elements is None else set()
    fewest, name = MAX_UNEXPLAINED_SHARE * len(pairs), ""
    for mistake in exercise.mistakes:
        function, differ = function_of(exercise, mistake), 0
        for args, yours in pairs:
            if _agrees(exercise, args, yours, *answers(function, [args])):
                continue
            differ += 1
            if not missed or id(args) in missed or differ > fewest:
                break  # too many differ: the other calls need no comparison
        else:
            if not differ:
                return MatchedMistake(mistake.name, everywhere=True)
            fewest, name = differ - 1, mistake.name
    return MatchedMistake(name)
