"""An exercise as data: what the student reads, what the check compares, which mistakes it recognizes.

Everything else comes from this one value: the notebook cell, the check, the solution, the row in the report, the page
of the documentation and the test that proves the check. Add an exercise by adding a module to a ``labNN`` package.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lplab.exercises.model.forms import Form

STAGES = ("form", "named examples", "boundary set", "properties")

Args = tuple[Any, ...]


@dataclass(frozen=True)
class Example:
    """One call with the reason why it was chosen; the reason is shown when the answer gets it wrong."""

    args: Args
    why: str


@dataclass(frozen=True)
class Variant:
    """Another way to write the solution: its source with some pieces replaced, or a source of its own.

    Args:
        name: what it does, in words that complete "your answers coincide with: ...".
        edits: pairs (old, new); each old text must occur exactly once in the solution.
        source: the whole function instead, where it shares too little with the solution.
        equivalent: why this variant gives the same results everywhere, if it does: then no check can catch it.
        raises: the exception that the mistake itself causes in some call; any other exception is a typing error.
    """

    name: str
    edits: tuple[tuple[str, str], ...] = ()
    source: str = ""
    equivalent: str = ""
    raises: str = ""

    def apply(self, solution: str) -> str:
        """The source of this variant of ``solution``; ValueError if an edit does not fit."""
        text = self.source or solution
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(
                    f"variant {self.name!r}: {old!r} must occur once in the solution, not {text.count(old)} times"
                )
            text = text.replace(old, new)
        return text


def mistake(name: str, *edits: str, equivalent: str = "", raises: str = "") -> Variant:
    """A typical mistake as a change of the solution: old text, new text, and so on in pairs.

    >>> mistake("ties go up", "round(x)", "math.floor(x + 0.5)").apply("return round(x)")
    'return math.floor(x + 0.5)'
    """
    return Variant(name, tuple(zip(edits[::2], edits[1::2], strict=True)), equivalent=equivalent, raises=raises)


def wrong(name: str, source: str) -> Variant:
    """A typical mistake as a source of its own, with the provided helpers that it uses."""
    return Variant(name, source=textwrap.dedent(source).strip() + "\n")


@dataclass(frozen=True)
class Finding:
    """Why a property does not hold: a sentence with both numbers, the call, the mistake if it is certain."""

    sentence: str
    args: Args = ()
    yours: Any = None
    mistake: str = ""


@dataclass(frozen=True)
class Property:
    """Something that must hold for many calls together.

    Args:
        name: what must hold, such as "rounding a number of the format changes nothing".
        calls: makes the arguments of all calls; from fixed seeds, so that the same answer always gets the same verdict.
        check: gets calls and results; returns None, or why the property does not hold.
    """

    name: str
    calls: Callable[[], Sequence[Args]]
    check: Callable[[Sequence[Args], Sequence[Any]], Finding | None]


def nothing_special(args: Args, expected: Any) -> str:
    """The default for ``why``: no explanation."""
    return ""


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Args:
        id: lab and number, such as "01.2"; reports and marks are keyed by it.
        version: raised whenever the same answer may be judged otherwise.
        title, goal, minutes, difficulty: the box above the stub; the goal is one of the lab's, difficulty is 1 to 3.
        statement: Markdown.
        reference: the solution; its source is what a student sees. Only numpy, math and the like may be used in it.
            Its signature and docstring above ``raise NotImplementedError`` are the stub.
        form: what a result must look like.
        examples: 5 to 8 calls, each with its reason.
        boundary: makes the arguments of the boundary set.
        properties: what must hold beyond that.
        mistakes: typical mistakes, each named as the misconception that it stands for.
        conventions: the accepted conventions, where there are several, that of the solution first (without edits); an
            answer must follow one of them throughout, and the check says which.
        hints: at most three: the failing case, the concept, the step that is missed.
        accept: where many results are right: says for arguments and result what is wrong, in one sentence, or "". Then
            nothing is compared with the reference.
        stub: Python that defines the function, where the stub is not the one made from the reference.
        show: the arguments in words; by default "x = 0.3, fraction_bits = 4".
        why: says, for arguments and expected result, what is special about this case.
        kind: a plural for what kind of case the arguments are ("ties"), or "" for an ordinary one.
        elements: position of an array argument whose elements correspond to the result's; then a counterexample is one
            element.
        number_line_format: makes from the arguments the format on whose number line a counterexample is drawn.
        signed_zero: whether −0 differs from 0.
        tolerance: how far right results can differ by rounding alone, as a share of the largest number of a result; 0
            where all right solutions give the same bits. Known mistakes are recognized with the same tolerance.
        is_repair: whether the stub is a wrong function to be repaired, which is judged, and not an empty one; it is
            then written out.
        modules: what the answer may import beside Python's harmless modules.
        provided: helpers that are defined above the stub and the solution, in this order.
        points: for a pass; see `partial_points` for an answer that fails.
        withheld: in a student edition, how many known mistakes were left out together with the solution; see
            `checks.withheld`.
    """

    id: str
    version: int
    title: str
    goal: str
    minutes: int
    difficulty: int
    statement: str
    reference: Callable[..., Any]
    form: Form
    examples: tuple[Example, ...]
    mistakes: tuple[Variant, ...]
    hints: tuple[str, ...]
    boundary: Callable[[], Sequence[Args]] = tuple
    properties: tuple[Property, ...] = ()
    conventions: tuple[Variant, ...] = ()
    accept: Callable[[Args, Any], str] | None = None
    stub: str = ""
    show: Callable[[Args], str] | None = None
    why: Callable[[Args, Any], str] = nothing_special
    kind: Callable[[Args], str] = lambda args: ""
    elements: int | None = None
    number_line_format: Callable[[Args], Any] | None = None
    signed_zero: bool = True
    tolerance: float = 0.0
    is_repair: bool = False
    modules: tuple[str, ...] = ("math", "numpy")
    provided: tuple[Callable[..., Any], ...] = ()
    points: int = 6
    withheld: int = 0

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d\d\.\d", self.id):
            raise ValueError(f"an exercise's id is lab and number such as '01.2', got {self.id!r}")
        if not 1 <= self.difficulty <= 3:
            raise ValueError(f"exercise {self.id}: difficulty is 1, 2 or 3, got {self.difficulty}")
        if not 1 <= len(self.hints) <= 3:
            raise ValueError(f"exercise {self.id}: one to three hints, got {len(self.hints)}")
        if self.stub and f"def {self.name}(" not in self.stub:
            raise ValueError(f"exercise {self.id}: its stub must define {self.name}")
        if self.is_repair and not self.stub:
            raise ValueError(f"exercise {self.id}: the function to be repaired is missing: give it as its stub")
        if self.points % 3:
            raise ValueError(f"exercise {self.id}: points must be a multiple of 3, got {self.points}")

    @property
    def lab(self) -> str:
        """The lab's number, such as "01"."""
        return self.id[:2]

    @property
    def name(self) -> str:
        """The function that the student writes."""
        return self.reference.__name__

    @property
    def known_mistakes(self) -> int:
        """How many typical mistakes are known, here or to the instructor, less those that are right everywhere."""
        return sum(not mistake.equivalent for mistake in self.mistakes) or self.withheld

    @cached_property
    def solution(self) -> str:
        """The source of the solution, as a student could have written it (modules are imported on top)."""
        return self._with_imports(*self._helpers, textwrap.dedent(inspect.getsource(self.reference)))

    @property
    def _helpers(self) -> list[str]:
        return [textwrap.dedent(inspect.getsource(helper)) for helper in self.provided]

    @staticmethod
    def _with_imports(*sources: str) -> str:
        """The sources one below the other, with the imports that they need (a variant may need others)."""
        known = {"math": "import math", "np": "import numpy as np"}
        imports = [line for name, line in known.items() if re.search(rf"\b{name}\.", "\n".join(sources))]
        return "\n\n\n".join(part for part in ("\n".join(imports), *(s.rstrip("\n") for s in sources)) if part) + "\n"

    @cached_property
    def stub_source(self) -> str:
        """The function as the student finds it."""
        stub = textwrap.dedent(self.stub).strip() + "\n" if self.stub else self._stub_of_reference()
        return self._with_imports(*self._helpers, stub) if self.provided else stub

    def _stub_of_reference(self) -> str:
        """Signature and docstring of the reference, with nothing behind them yet."""
        source = textwrap.dedent(inspect.getsource(self.reference))
        function = ast.parse(source).body[0]
        if not isinstance(function, ast.FunctionDef) or ast.get_docstring(function) is None:
            raise ValueError(f"exercise {self.id}: its reference needs a docstring, as its stub is made from it")
        head = source.splitlines()[: function.body[0].end_lineno]  # the docstring is its first statement
        return "\n".join([*head, "    raise NotImplementedError"]) + "\n"

    @property
    def cell(self) -> str:
        """The notebook cell: stub and check."""
        return f'{self.stub_source}\n\ncheck("{self.id}", {self.name})'

    @property
    def box(self) -> str:
        """The Markdown above the cell: goal, minutes, difficulty, statement."""
        dots = "●" * self.difficulty + "○" * (3 - self.difficulty)
        head = f"### Exercise {self.id}: {self.title}\n\n"
        facts = f"*{self.goal} · about {self.minutes} minutes · difficulty {dots} ({self.difficulty} of 3)*\n\n"
        return head + facts + textwrap.dedent(self.statement).strip()
