"""An answer: the source of a student's function with all that it needs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """Self-contained source text, and the name of the function in it that is called."""

    source: str
    name: str
