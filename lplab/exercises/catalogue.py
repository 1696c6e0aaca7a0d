"""All exercises by id. A new lab is a module ``labNN`` with a tuple EXERCISES and its name here."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module

from .exercise import Exercise

LABS = ("00", "01", "02")


@cache
def _all() -> dict[str, Exercise]:
    modules = [import_module(f"{__package__}.lab{lab}") for lab in LABS]
    return {exercise.id: exercise for module in modules for exercise in module.EXERCISES}


def names() -> list[str]:
    """The ids of all exercises, in the order of the course.

    >>> names()[:4]
    ['00.1', '00.2', '00.3', '01.1']
    """
    return list(_all())


def get(exercise_id: str) -> Exercise:
    """The exercise with this id; ValueError with the closest ids if there is none.

    >>> get("01.2").name
    'round_e4m3'
    """
    if exercise_id in _all():
        return _all()[exercise_id]
    close = difflib.get_close_matches(str(exercise_id), names(), n=3, cutoff=0.3) or names()
    raise ValueError(f"there is no exercise {exercise_id!r}; did you mean {' or '.join(close)}?")


def of_lab(lab: str) -> list[Exercise]:
    """The exercises of a lab, such as "01"; ValueError if it has none.

    >>> [exercise.name for exercise in of_lab("01")]
    ['decode', 'round_e4m3', 'duel', 'killers']
    """
    found = [exercise for exercise in _all().values() if exercise.lab == lab]
    if not found:
        raise ValueError(f"lab {lab!r} has no exercises; labs with exercises: {', '.join(LABS)}")
    return found
