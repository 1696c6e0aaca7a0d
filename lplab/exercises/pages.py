"""Documentation pages of the exercises: what each asks and checks, and which mistakes it catches."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from lplab.exercises.checks.feedback import arguments
from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.numbers import count_text
from lplab.exercises.checks.verdict import Verdict
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model.exercise import STAGES, Exercise, Variant

SURVIVES = "survives"
EQUIVALENT = "equivalent"
HEAD = """# The exercises

Made by `lplab exercises --all` from the exercises themselves; do not edit. Solutions and hints are not here: a student
finds them in the lab.

{table}
"""


def verdict_on(exercise: Exercise, mistake: Variant) -> Verdict:
    """What the check says of a known mistake."""
    source = "import math\nimport numpy as np\n\n" + mistake.apply(exercise.solution)
    return judge(exercise, Answer(source, exercise.name))


def caught_by(exercise: Exercise, mistake: Variant) -> str:
    """The stage that catches a known mistake, "equivalent" if no check can, or "survives".

    >>> from lplab import exercises
    >>> exercise = exercises.get("00.1")
    >>> caught_by(exercise, exercise.mistakes[0])
    'named examples'
    """
    if mistake.equivalent:
        return EQUIVALENT
    return verdict_on(exercise, mistake).ring or SURVIVES


def page(exercise: Exercise, stages: Iterable[str]) -> str:
    """An exercise as Markdown; ``stages`` names for each of its mistakes the stage that catches it."""
    parts = [
        exercise.box.replace("###", "##", 1),
        f"`{exercise.name}` returns {exercise.form.describe()}. Version {exercise.version}, {exercise.points} points.",
        "\n".join(
            ["Named examples:", "", *[f"- {example(exercise, each.args)}{each.why}" for each in exercise.examples]]
        ),
        _rest(exercise),
        "\n".join(["| known mistake | caught by |", "|---|---|", *_mistakes(exercise, stages)]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def example(exercise: Exercise, args: tuple) -> str:
    """The arguments of a named example as the beginning of a line."""
    text = arguments(exercise, args) if args else ""
    return f"{text}: " if text else ""


def _rest(exercise: Exercise) -> str:
    lines = []
    if boundary := exercise.boundary():
        lines.append(f"Boundary set: {count_text(len(boundary))} calls.")
    if exercise.properties:
        lines.append(f"Properties: {'; '.join(rule.name for rule in exercise.properties)}.")
    if exercise.conventions:
        lines.append(f"Legal ways: {'; '.join(way.name for way in exercise.conventions)}.")
    return textwrap.fill(" ".join(lines), 160)


def _mistakes(exercise: Exercise, stages: Iterable[str]) -> Iterable[str]:
    for mistake, stage in zip(exercise.mistakes, stages, strict=True):
        yield f"| {mistake.name} | {stage}{': ' + mistake.equivalent if mistake.equivalent else ''} |"


def kill_table(found: dict[str, list[str]]) -> str:
    """How many mistakes each stage catches, by exercise id, as Markdown."""
    columns = [*STAGES, EQUIVALENT, SURVIVES]
    rows = [
        f"| {name} | {len(stages)} | " + " | ".join(str(stages.count(column) or "") for column in columns) + " |"
        for name, stages in found.items()
    ]
    head = f"| exercise | known mistakes | {' | '.join(columns)} |"
    return "\n".join([head, "|---|" + "--:|" * (len(columns) + 1), *rows])
