"""All exercises and questions by id. A new lab is a package ``labNN`` with EXERCISES and QUESTIONS, named here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from lplab.exercises.model.exercise import Exercise
from lplab.exercises.model.questions import Question
from lplab.lookup import closest_names

CAPSTONES = {"14.4": "few_bits_capstone.FEW_BITS", "16.5": "meetings.MEETINGS"}
"""What is graded as an exercise, but whose answer is data, and where: see lplab.exercises.capstone.capstone_value."""
LABS = ("00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16")


@cache
def _lab(lab: str) -> tuple[dict[str, Exercise], dict[str, Question]]:
    """The exercises and the questions of one lab by id. A check loads its own lab alone: some ten modules of 150."""
    module = import_module(f"lplab.exercises.lab{lab}")
    return {each.id: each for each in module.EXERCISES}, {each.id: each for each in module.QUESTIONS}


def _all(kind: int) -> dict[str, Any]:
    """Everything of one kind by id: 0 are exercises, 1 questions."""
    return {key: value for lab in LABS for key, value in _lab(lab)[kind].items()}


def _lookup(kind: int, wanted: str, what: str) -> Any:
    lab = str(wanted)[:2]
    if lab in LABS and wanted in _lab(lab)[kind]:
        return _lab(lab)[kind][wanted]
    close = closest_names(wanted, _all(kind), cutoff=0.3) or list(_all(kind))  # only suggestions need all labs
    raise ValueError(f"there is no {what} {wanted!r}; did you mean {' or '.join(close)}?")


def names() -> list[str]:
    """The ids of all exercises, in the order of the course.

    >>> names()[:4]
    ['00.1', '00.2', '00.3', '01.1']
    """
    return list(_all(0))


def get(exercise_id: str) -> Exercise:
    """The exercise with this id, also a capstone; ValueError with the closest ids if there is none.

    >>> get("01.2").name
    'round_e4m3'
    """
    if exercise_id in CAPSTONES:
        return capstone(exercise_id).exercise
    return _lookup(0, exercise_id, "exercise")


def question(question_id: str) -> Question:
    """The question with this id; ValueError with the closest ids if there is none.

    >>> question("01.a").truth()
    55
    """
    return _lookup(1, question_id, "question")


def of_lab(lab: str) -> list[Exercise]:
    """The exercises of a lab, such as "01"; ValueError if it has none.

    >>> [exercise.name for exercise in of_lab("01")]
    ['decode', 'round_e4m3', 'killers', 'duel']
    """
    if lab not in LABS:
        raise ValueError(f"lab {lab!r} has no exercises; labs with exercises: {', '.join(LABS)}")
    return list(_lab(lab)[0].values())


def graded(lab: str) -> list[Exercise]:
    """What is graded of a lab: its exercises, and its capstone if it has one; ValueError if there is nothing.

    >>> [exercise.id for exercise in graded("14")]
    ['14.1', '14.2', '14.3', '14.4']
    """
    return of_lab(lab) + [get(each) for each in CAPSTONES if each[:2] == lab]


def capstone(exercise_id: str) -> Any:
    """The capstone that is graded as this exercise, a :class:`lplab.exercises.capstone.capstone_value.Capstone`.

    >>> capstone("14.4").call
    'own_recipe'
    """
    module, name = CAPSTONES[exercise_id].split(".")
    return getattr(import_module(f"lplab.exercises.capstone.{module}"), name)


def capstones() -> list[Any]:
    """All capstones, in the order of the course.

    >>> [each.call for each in capstones()]
    ['own_recipe', 'own_meetings']
    """
    return [capstone(each) for each in CAPSTONES]
