"""Faults that somebody could make in the library, one line each, and where the tests of that line are.

``python -m tests.mutations`` plants each of them in a copy and says which tests find it. The faults of the labs are in
tests/labs. In planted_faults.txt a fault has four lines, and an empty one follows::

    name, file, and files or folders of tests where to look first, besides the doctests of the file
    what goes wrong, in one sentence
    - the text as it is, which the file has once
    + the text in its place
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """One wrong line; the fields are those of planted_faults.txt."""

    name: str
    file: str
    right: str
    wrong: str
    meaning: str
    tests: tuple[str, ...]


def read(text: str) -> tuple[Fault, ...]:
    r"""The faults of a text.

    >>> read("half lplab/shares.py tests/test_half.py\nHalf is a third.\n- x / 2\n+ x / 3\n")
    (Fault(name='half', file='lplab/shares.py', right='x / 2', wrong='x / 3', ..., tests=('tests/test_half.py',)),)
    """
    found = []
    for part in text.strip().split("\n\n"):
        first, meaning, right, wrong = part.splitlines()
        name, file, *tests = first.split()
        found.append(Fault(name, file, right.removeprefix("- "), wrong.removeprefix("+ "), meaning, tuple(tests)))
    return tuple(found)


FAULTS = read(Path(__file__).with_suffix(".txt").read_text("utf-8"))
