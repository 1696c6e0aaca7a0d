"""The messages of a check: progress, the smallest counterexample and why, what all have in common, what to do next."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.exercises.checks.grids import bits_of
from lplab.exercises.checks.numbers import count_text, decimal, differing_parts, with_power, without_noise
from lplab.exercises.checks.verdict import FAILED, NOT_YET, PASSED, Counterexample, Verdict
from lplab.exercises.isolation import Outcome, Raised
from lplab.exercises.model.exercise import STAGES, Args, Exercise, Variant


@dataclass(frozen=True)
class Failure:
    """The result of the first stage that fails."""

    stage: str
    sentence: str = ""
    rule: str = ""
    counterexample: Counterexample | None = None
    why: str = ""
    counterexamples: tuple[Counterexample, ...] = ()
    right: int = 0
    total: int = 0
    mistake: str = ""
    not_started: bool = False


@dataclass(frozen=True)
class MatchedMistake:
    """A known mistake that gives the student's results: for every call, or only for those that are wrong."""

    name: str = ""
    everywhere: bool = False


def not_yet(exercise: Exercise) -> Verdict:
    """The verdict on an unmodified stub."""
    lines = (
        f"Exercise {exercise.id}: not yet. Replace the line with `raise` in `{exercise.name}` and run the cell again.",
        f'If you do not know how to begin: `hint("{exercise.id}")`.',
    )
    return Verdict(exercise.id, exercise.version, exercise.title, NOT_YET, "", lines, 0, exercise.points)


def unreadable(exercise: Exercise, problem: str) -> Verdict:
    """The verdict on an answer whose source cannot be read."""
    lines = (f"Exercise {exercise.id}: the check could not read the source of your function.", problem)
    return Verdict(exercise.id, exercise.version, exercise.title, FAILED, STAGES[0], lines, 0, exercise.points)


def passed(exercise: Exercise, stages: Sequence[Any], convention: Variant | None, outcome: Outcome) -> Verdict:
    """The verdict on an answer that passes: what was checked."""
    sizes = {stage.name: stage.size for stage in stages}
    examples = sizes[STAGES[1]]
    counts = [f"{count_text(examples)} {STAGES[1] if examples > 1 else 'named example'}"]
    counts += [
        f"{count_text(sizes[name])} harder cases, chosen where mistakes show" for name in STAGES[2:3] if name in sizes
    ]
    lines = [f"Exercise {exercise.id}: passes all checks."]
    proved = "; ".join([*counts, *[rule.name for rule in exercise.properties]])
    lines.append(f"What was checked: {proved}.")
    if exercise.conventions:
        lines.append(f"Several ways are right here. Yours: {convention.name if convention else 'one of your own'}.")
    total = sum(stage.size for stage in stages)
    return Verdict(
        exercise.id, exercise.version, exercise.title, PASSED, "", tuple(lines), exercise.points, exercise.points,
        right=total, total=total, convention=convention.name if convention else "", printed=outcome.printed,
        seconds=outcome.seconds,
    )  # fmt: skip


def as_sentence(text: str) -> str:
    """A clause as a sentence.

    >>> as_sentence("line 2, `y`: no such name")
    'Line 2, `y`: no such name.'
    """
    return text[:1].upper() + text[1:] + "." * (not text.endswith((".", "?", "!")))


def failed(
    exercise: Exercise,
    failure: Failure,
    known: MatchedMistake,
    convention: Variant | None,
    outcome: Outcome,
    points: float,
) -> Verdict:
    """The verdict on an answer that fails: the message about the first failing stage, and the points it earns."""
    lines = [
        _headline(exercise, failure),
        *_body(exercise, failure),
        *_pattern(exercise, failure, known),
        *_skipped(failure, outcome),
        *_printed(outcome),
    ]
    if convention and not exercise.accept and failure.stage != STAGES[0]:  # no convention concerns the form
        lines.append(f"Compared with the legal way nearest to yours: {convention.name}.")
    lines.append(f'Next: change the function and run the cell again, or open a hint with `hint("{exercise.id}")`.')
    return Verdict(
        exercise.id, exercise.version, exercise.title, FAILED, failure.stage, tuple(lines),
        points, exercise.points, failure.right, failure.total, known.name,
        convention.name if convention else "", failure.counterexample, outcome.printed, outcome.seconds,
        outcome.skipped,
    )  # fmt: skip


def raised(exercise: Exercise, error: Raised) -> str:
    """An exception as a sentence, with the text of the line (its number is not that in the notebook's cell)."""
    where = f" at `{error.text.strip()}`" if error.text else ""
    what = f"{error.type} ({error.message})" if error.message else error.type
    alone = not inspect.signature(exercise.reference).parameters and "required positional argument" in error.message
    return f"`{exercise.name}` raises {what}{where}" + ": the check calls it without arguments" * alone


def arguments(exercise: Exercise, args: Args) -> str:
    """The arguments of a call in words: "x = 0.3, fraction_bits = 4"."""
    if exercise.show:
        return exercise.show(args)
    names = inspect.signature(exercise.reference).parameters
    return ", ".join(
        f"{name} = {with_power(value)}" for name, value in zip(names, args, strict=True) if not hasattr(value, "seed")
    )


def _headline(exercise: Exercise, failure: Failure) -> str:
    name = f"Exercise {exercise.id}: "
    if failure.stage == STAGES[0]:
        return name + "the check could not look at the values yet."
    if failure.rule:
        return name + f"nearly. All single values are right, but one rule does not hold: {failure.rule}."
    if failure.total == 1:
        return name + "not yet right."
    tone = "nearly. " if failure.right >= 0.9 * failure.total else ""
    what = "examples" if failure.stage == STAGES[1] else "values"
    return f"{name}{tone}{count_text(failure.right)} of {count_text(failure.total)} {what} right."


def _body(exercise: Exercise, failure: Failure) -> list[str]:
    wrong = failure.counterexample
    lines = [as_sentence(failure.sentence)] if failure.sentence else []
    if wrong and wrong.args and failure.sentence and not failure.rule:
        lines.append(f"This happens for {arguments(exercise, wrong.args)}.")
    if wrong and not failure.sentence:
        which = "First example missed" if failure.stage == STAGES[1] else "Smallest wrong one"
        yours, expected = _results(exercise, wrong)
        lines.append(f"{which}: {arguments(exercise, wrong.args)}. Yours {yours}, expected {expected}.")
    return [*lines, failure.why] if failure.why else lines


def _results(exercise: Exercise, wrong: Counterexample) -> tuple[str, str]:
    """What was returned and what was expected: of long sequences the part that differs."""
    values = wrong.yours, wrong.expected
    if exercise.tolerance:
        values = without_noise(values)
    if not all(isinstance(value, list | tuple) or np.ndim(value) for value in values):
        return _result(exercise, wrong.args, values[0]), _result(exercise, wrong.args, values[1])
    names = getattr(exercise.form, "names", ())  # of several arrays
    return differing_parts(*values, exercise.tolerance, names)


def _result(exercise: Exercise, args: Args, value: Any) -> str:
    """A result in decimal, and in bits where it is a number of the exercise's format."""
    fmt = exercise.number_line_format(args) if exercise.number_line_format else None
    bits = bits_of(fmt, value) if fmt is not None and isinstance(value, int | float) else ""
    return f"{decimal(value)} ({bits})" if bits else decimal(value)


def _pattern(exercise: Exercise, failure: Failure, mistake: MatchedMistake) -> list[str]:
    """What all counterexamples have in common, and the known mistake that gives the same results."""
    whose = "your answers coincide with" if mistake.everywhere else "where you are wrong, your answers are those of"
    known = f"{whose} a known mistake: {mistake.name}." if mistake.name else ""
    shared = _shared(exercise, failure.counterexamples) if len(failure.counterexamples) > 1 else ""
    if not shared:
        return [known[:1].upper() + known[1:]] if known else []
    count = len(failure.counterexamples)
    sentence = f"{'Both' if count == 2 else f'All {count_text(count)}'} misses are {shared}"
    return [f"{sentence}: {known}" if known else f"{sentence}."]


def _shared(exercise: Exercise, counterexamples: Sequence[Counterexample]) -> str:
    """The kind of all counterexamples, if they share one, and the direction that ties should have taken."""
    kinds = {exercise.kind(each.args) for each in counterexamples}
    if len(kinds) > 1:
        return ""
    kind = kinds.pop()
    results = [value for each in counterexamples for value in (each.yours, each.expected)]
    numbers = all(isinstance(value, int | float) for value in results)
    if kind != "ties" or not numbers:
        return kind
    up = {each.expected > each.yours for each in counterexamples}
    return kind + (f" that should have gone {'up' if up.pop() else 'down'}" if len(up) == 1 else "")


def _skipped(failure: Failure, outcome: Outcome) -> list[str]:
    is_told = not outcome.skipped or outcome.skipped == failure.sentence
    return [] if is_told else [f"A line above the function went wrong: {outcome.skipped}."]


def _printed(outcome: Outcome) -> list[str]:
    text = outcome.printed.strip()
    return [f"Your code printed (in all cases together): {text[:200]}{' …' if len(text) > 200 else ''}"] if text else []
