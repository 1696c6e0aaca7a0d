"""The words of a check: progress, the smallest counterexample, why it is special, the pattern, what to do next."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.exercises.checks.grids import bits_of
from lplab.exercises.checks.numbers import count, decimal, pair, with_power
from lplab.exercises.checks.verdict import FAILED, NOT_YET, PASSED, Miss, Verdict
from lplab.exercises.exercise import RINGS, SHARES, Args, Exercise, Variant
from lplab.exercises.isolation import Outcome, Raised


@dataclass(frozen=True)
class Trouble:
    """What the first failing ring found."""

    ring: str
    sentence: str = ""
    rule: str = ""
    miss: Miss | None = None
    why: str = ""
    misses: tuple[Miss, ...] = ()
    right: int = 0
    total: int = 0
    mistake: str = ""
    not_started: bool = False


@dataclass(frozen=True)
class Known:
    """A known mistake that gives the student's answers: for every call, or only for every one that is missed."""

    name: str = ""
    everywhere: bool = False


def not_yet(exercise: Exercise) -> Verdict:
    """For a stub that nobody has filled in."""
    lines = (
        f"Exercise {exercise.id}: not yet. Replace the line with `raise` in `{exercise.name}` and run the cell again.",
        f'If you do not know how to begin: `hint("{exercise.id}")`.',
    )
    return Verdict(exercise.id, exercise.version, exercise.title, NOT_YET, "", lines, 0, exercise.points)


def unreadable(exercise: Exercise, problem: str) -> Verdict:
    """For an answer whose source cannot be taken along."""
    lines = (f"Exercise {exercise.id}: the check could not take your function along.", problem)
    return Verdict(exercise.id, exercise.version, exercise.title, FAILED, RINGS[0], lines, 0, exercise.points)


def passed(exercise: Exercise, rings: Sequence[Any], convention: Variant | None, outcome: Outcome) -> Verdict:
    """What was proved."""
    counts = [f"{count(r.size)} {r.name if r.size > 1 else 'named example'}" for r in rings if r.name == RINGS[1]]
    counts += [f"{count(ring.size)} values of the boundary set" for ring in rings if ring.name == RINGS[2]]
    lines = [f"Exercise {exercise.id}: passes all checks (version {exercise.version})."]
    proved = "; ".join([*counts, *[rule.name for rule in exercise.properties]])
    lines.append(f"What was checked: {proved}.")
    if exercise.conventions:
        lines.append(f"Of the legal ways, yours: {convention.name if convention else 'one of your own'}.")
    total = sum(ring.size for ring in rings)
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


def failed(exercise: Exercise, trouble: Trouble, known: Known, convention: Variant | None, outcome: Outcome) -> Verdict:
    """The message about the first failing ring."""
    lines = [
        _headline(exercise, trouble),
        *_body(exercise, trouble),
        *_pattern(exercise, trouble, known),
        *_printed(outcome),
    ]
    if convention and not exercise.accept and trouble.ring != RINGS[0]:  # of the form no reading says anything
        lines.append(f"Compared with the legal way nearest to yours: {convention.name}.")
    lines.append(f'Next: change the function and run the cell again, or open a hint with `hint("{exercise.id}")`.')
    return Verdict(
        exercise.id, exercise.version, exercise.title, FAILED, trouble.ring, tuple(lines),
        round(exercise.points * SHARES[trouble.ring]), exercise.points, trouble.right, trouble.total, known.name,
        convention.name if convention else "", trouble.miss, outcome.printed, outcome.seconds,
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


def _headline(exercise: Exercise, trouble: Trouble) -> str:
    name = f"Exercise {exercise.id}: "
    if trouble.ring == RINGS[0]:
        return name + "the check could not look at the values yet."
    if trouble.rule:
        return name + f"nearly. All single values are right, but one rule does not hold: {trouble.rule}."
    if trouble.total == 1:
        return name + "not yet right."
    tone = "nearly. " if trouble.right >= 0.9 * trouble.total else ""
    what = "examples" if trouble.ring == RINGS[1] else "values"
    return f"{name}{tone}{count(trouble.right)} of {count(trouble.total)} {what} right."


def _body(exercise: Exercise, trouble: Trouble) -> list[str]:
    miss = trouble.miss
    lines = [as_sentence(trouble.sentence)] if trouble.sentence else []
    if miss and miss.args and trouble.sentence and not trouble.rule:
        lines.append(f"This happens for {arguments(exercise, miss.args)}.")
    if miss and not trouble.sentence:
        which = "First example missed" if trouble.ring == RINGS[1] else "Smallest wrong one"
        yours, expected = _results(exercise, miss)
        lines.append(f"{which}: {arguments(exercise, miss.args)}. Yours {yours}, expected {expected}.")
    return [*lines, trouble.why] if trouble.why else lines


def _results(exercise: Exercise, miss: Miss) -> tuple[str, str]:
    """What was returned and what was expected: of long sequences the part that differs."""
    values = miss.yours, miss.expected
    if any(isinstance(value, int | float | bool) or np.ndim(value) == 0 for value in values):
        return _result(exercise, miss.args, values[0]), _result(exercise, miss.args, values[1])
    return pair(*values)


def _result(exercise: Exercise, args: Args, value: Any) -> str:
    """A result in decimal, and in bits where it is a number of the exercise's format."""
    fmt = exercise.line(args) if exercise.line else None
    bits = bits_of(fmt, value) if fmt is not None and isinstance(value, int | float) else ""
    return f"{decimal(value)} ({bits})" if bits else decimal(value)


def _pattern(exercise: Exercise, trouble: Trouble, mistake: Known) -> list[str]:
    """What all misses have in common, and the known mistake with which the answers coincide."""
    whose = "your answers coincide with" if mistake.everywhere else "where you are wrong, your answers are those of"
    known = f"{whose} a known mistake: {mistake.name}." if mistake.name else ""
    shared = _shared(exercise, trouble.misses) if len(trouble.misses) > 1 else ""
    if not shared:
        return [known[:1].upper() + known[1:]] if known else []
    sentence = f"All {count(len(trouble.misses))} misses are {shared}"
    return [f"{sentence}: {known}" if known else f"{sentence}."]


def _shared(exercise: Exercise, misses: Sequence[Miss]) -> str:
    """The kind of all these cases, if it is one, and the direction that all of them miss, if it is one."""
    kinds = {exercise.kind(miss.args) for miss in misses}
    if len(kinds) > 1:
        return ""
    kind = kinds.pop()
    numbers = all(isinstance(value, int | float) for miss in misses for value in (miss.yours, miss.expected))
    if kind != "ties" or not numbers:
        return kind
    up = {miss.expected > miss.yours for miss in misses}
    return kind + (f" that should have gone {'up' if up.pop() else 'down'}" if len(up) == 1 else "")


def _printed(outcome: Outcome) -> list[str]:
    text = outcome.printed.strip()
    return [f"Your code printed: {text[:200]}{' …' if len(text) > 200 else ''}"] if text else []
