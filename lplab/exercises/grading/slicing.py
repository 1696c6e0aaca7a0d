"""Program slicing: from the cells of a notebook, the definition of one function and all that it may depend on.

Included is every statement that may bind a name that the function uses, or may change an object that such a name may
stand for, in the order in which the cells ran; the others are left out, also inside loops and conditions. What is
included runs where the answer is judged, behind the same fence.
"""

from __future__ import annotations

import ast
import builtins
import copy
import heapq
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from lplab.exercises.grading.effects import (
    ANYTHING,
    QUIET,
    RANDOM,
    Effect,
    Effects,
    Names,
    names_of,
    star_names,
    walk_now,
)
from lplab.exercises.grading.notebook_cells import Cell
from lplab.exercises.isolation.answers import Answer

CellPosition = tuple[int, int]  # number of the cell, place of the statement in it
BUILTINS = frozenset(dir(builtins))
MAX_NEEDS = 50_000  # statements on which a name may depend that are looked at; a notebook of knots is included whole
MAX_CHARACTERS = 2_000_000  # of all answers of a notebook, each need counted as some
CHARACTERS_A_NEED = 20
SHOWN = ("_", "__", "___")  # the last three results of a notebook
RESULTS = re.compile(r"_\d+|Out")  # results by the number of their cell
BODIES = ("body", "orelse", "finalbody")
COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
CONTROL = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Pass, ast.Global, ast.Nonlocal)
RAISING = (ast.Attribute, ast.Await, ast.Call, ast.Div, ast.FloorDiv, ast.Mod, ast.Subscript)
NOTHING = Effect(frozenset(), frozenset(), frozenset(), frozenset())


@dataclass(eq=False)
class Part:
    """A simple statement, or the head of a compound one.

    Args:
        node: it; of a head, the statement with nothing in it.
        names, effect: what it does.
        is_kept: whether it runs wherever the statement around it does: heads, and what leads out of a loop.
    """

    node: ast.stmt
    names: Names
    is_kept: bool
    effect: Effect = NOTHING

    @cached_property
    def reads(self) -> frozenset[str]:
        """What it uses when it runs."""
        reads = self.names.reads
        if isinstance(self.node, ast.AugAssign):
            reads |= {self.node.target.id} if isinstance(self.node.target, ast.Name) else set()
        return reads | ({RANDOM} & self.effect.calls)

    @cached_property
    def needs(self) -> frozenset[str]:
        """What it uses when it runs, together with what functions use that it may call at once."""
        if (
            isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and not self.node.decorator_list
        ):
            return self.reads
        needs = self.reads | self.names.later
        if ANYTHING in self.effect.calls:  # the text that exec is given
            texts = [part.value for part in ast.walk(self.node) if isinstance(part, ast.Constant)]
            needs |= {word for text in texts if isinstance(text, str) for word in re.findall(r"\w+", text)}
        return needs

    @cached_property
    def binds(self) -> frozenset[str]:
        """What it may bind when it runs."""
        return self.names.binds | self.effect.sets


@dataclass(eq=False)
class Statement:
    """One statement of a cell.

    Args:
        at: its position.
        text: its source.
        node, parts: what there is in it.
        module: of an import, what is imported, "" for others.
        shows: the number under which the notebook keeps its value as a result; None where it keeps none.
        has_run: whether the notebook says that it ran to its end.
    """

    at: CellPosition
    text: str
    node: ast.stmt
    parts: tuple[Part, ...]
    module: str = ""
    shows: int | None = None
    has_run: bool = False

    @cached_property
    def heads(self) -> set[int]:
        """The places of the parts that run wherever it does."""
        return {place for place, part in enumerate(self.parts) if part.is_kept}

    @cached_property
    def binding(self) -> dict[str, list[int]]:
        """For each name the places of the parts that may bind it."""
        return _by_key(part.binds for part in self.parts)

    @cached_property
    def foreign(self) -> frozenset[str]:
        """The objects that some part of it hands to foreign modules."""
        return frozenset().union(*(part.effect.foreign for part in self.parts))

    @cached_property
    def _changing(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        return _by_key(part.effect.stores for part in self.parts), _by_key(part.effect.calls for part in self.parts)

    @property
    def changes(self) -> set[str]:
        """The objects that it may change."""
        return {*self._changing[0], *self._changing[1], *self.foreign}

    def concerning(self, name: str, group: str) -> Iterator[tuple[int, bool]]:
        """The places of the parts that concern a name, each with whether the part itself does, and no function."""
        stores, calls = self._changing
        for places, is_direct in ((self.binding.get(name), True), (stores.get(group), True), (calls.get(group), False)):
            yield from ((place, is_direct) for place in places or ())
        yield from ((place, True) for place in self.binding.get("*", ()))

    @cached_property
    def kills(self) -> frozenset[str]:
        """The names that certainly have another value after it."""
        if self.module:  # `import scipy` leaves what `import scipy.stats` has loaded to be loaded
            is_whole = "*" not in self.text and ("." not in self.text or " as " in self.text or "from " in self.text)
            return self.parts[0].names.binds if is_whole else frozenset()
        if isinstance(self.node, (*COMPOUND, ast.Expr)):
            inside = self.node.body if isinstance(self.node, ast.With | ast.AsyncWith) else []
            return frozenset(part.name for part in inside if isinstance(part, ast.FunctionDef))
        may_raise = not self.has_run and any(isinstance(part, RAISING) for part in walk_now(self.node))
        return frozenset() if may_raise else self.parts[0].names.binds


def _by_key(sets: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for place, keys in enumerate(sets):
        for key in keys:
            places[key].append(place)
    return dict(places)


@dataclass(frozen=True)
class SlicedAnswer:
    """An answer, and what may be missing in it.

    Args:
        answer: the function and what it depends on.
        used: the positions of the statements in it.
        running: of those that are no mere definitions, in their order.
        foreign: modules that no answer may import and that may change what the function uses, each with the number of
            the cell.
    """

    answer: Answer
    used: frozenset[CellPosition]
    running: tuple[CellPosition, ...]
    foreign: frozenset[tuple[str, int]]


class Definitions:
    """All statements of a notebook, and what they do to each other's names.

    Attributes:
        is_spent: whether its answers are so long together, or such a knot, that no more of them are read.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        ran: dict[int, list[Statement]] = {}
        not_run: list[Statement] = []  # below the line at which a cell stopped
        for cell in cells:
            ran[cell.number], stopped = [], False
            for statement in _statements(cell):
                stopped |= cell.stopped_at is not None and statement.node.lineno > cell.stopped_at
                (not_run if stopped else ran[cell.number]).append(statement)
                stopped |= isinstance(statement.node, ast.Raise)
        self.everything = [*(one for some in ran.values() for one in some), *not_run]
        self.future = dict.fromkeys(one.text for one in self.everything if one.module == "__future__")
        parts = [part for statement in self.everything for part in statement.parts]
        self.effects = Effects([part.node for part in parts])
        for part in parts:
            part.effect = self.effects.of(part.node)
        self.uses_results = any(_is_result(name) for part in parts for name in part.names.reads | part.names.later)
        self.binds_underscore = any("_" in part.names.binds for part in parts)
        self.is_spent, self._spent = False, 0
        self._as_it_stands = Statements(ran.values(), not_run, self)
        counted = sorted((cell.count, cell.number) for cell in cells if cell.count is not None)
        self._counted = {number for _, number in counted}
        others = [one for number, some in ran.items() if number not in self._counted for one in some]
        self._as_counted = Statements([ran[number] for _, number in counted], [*others, *not_run], self)

    def answers(self, name: str, check: CellPosition) -> list[SlicedAnswer]:
        """What ``name`` can mean for a check at this position: as the cells stand, and as they may have run.

        How they ran the numbers say that the notebook has given them; where it has none, someone may have gone back to
        the cell of the check after all others had run. An empty list if nothing defines the name.
        """
        other = Order(self._as_counted) if check[0] in self._counted else Order(self._as_it_stands, last=check[0])
        found = [self._answer(name, check, order) for order in (Order(self._as_it_stands), other)]
        answers = [one for one in found if one is not None]
        return answers[:1] if len({(one.used, one.running) for one in answers}) == 1 else answers

    def _answer(self, name: str, check: CellPosition, order: Order) -> SlicedAnswer | None:
        found = _Slice(name, order.before(check), order)
        if not any(name in order.statement(rank).binding for rank in found.kept):
            return None
        answer = Answer(found.source(), name)
        self._spent += len(answer.source) + CHARACTERS_A_NEED * found.needs
        self.is_spent = self._spent > MAX_CHARACTERS
        used = [order.statement(rank) for rank in found.ranks()]
        running = [one.at for one in used if not one.module and not _is_plain_function(one.node)]
        return SlicedAnswer(answer, frozenset(one.at for one in used), tuple(running), frozenset(found.foreign))


def _is_plain_function(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not (node.decorator_list or node.args.defaults or node.args.kw_defaults)


class Statements:
    """Statements in the order in which they ran, and where each name is bound or what it stands for may change.

    Args:
        cells: the statements of each cell.
        not_run: those that did not run.
        notebook: what is known of all.
    """

    def __init__(
        self, cells: Iterable[Sequence[Statement]], not_run: Iterable[Statement], notebook: Definitions
    ) -> None:
        self.notebook = notebook
        self.all: list[Statement] = []
        self.of_cell: dict[int, range] = {}
        for some in cells:
            if some:
                self.of_cell[some[0].at[0]] = range(len(self.all), len(self.all) + len(some))
                self.all += some
        self.ran = len(self.all)
        self.all += not_run
        self.places: dict[CellPosition, int] = {}
        self.binding: dict[str, list[int]] = defaultdict(list)
        self.changing: dict[str, list[int]] = defaultdict(list)
        self.stars: list[int] = []
        self.showing: list[int] = []
        foreign = set(notebook.effects.foreign)
        for index, statement in enumerate(self.all):
            self.places.setdefault(statement.at, index)
            if notebook.uses_results and statement.shows is not None and not statement.parts[0].reads & foreign:
                self.showing.append(index)
            for name in statement.binding:
                self.binding[name].append(index)
            for group in statement.changes:
                self.changing[group].append(index)
            if "*" in statement.binding:
                self.stars.append(index)


class Order:
    """An order of statements: each has a rank, and those of one cell may come after all others.

    Args:
        statements: in the order in which they ran.
        last: the number of the cell that ran once more at the end.

    Attributes:
        goes_back: whether a statement was asked for that comes after one which uses what it binds.
    """

    def __init__(self, statements: Statements, last: int = 0) -> None:
        self.known, self.notebook = statements, statements.notebook
        self.group = statements.notebook.effects.group
        self._last = statements.of_cell.get(last, range(0))
        self._size = len(statements.all)
        self.goes_back = False

    def statement(self, rank: int) -> Statement:
        """The statement of a rank."""
        return self.known.all[rank % self._size]

    def _rank(self, index: int) -> int:
        return index + self._size * (1 if index in self._last else 2 * (index >= self.known.ran))

    def ranks_below(self, before: int) -> Iterator[int]:
        """The ranks of all statements below one."""
        return (rank for index in range(self._size) if (rank := self._rank(index)) < before)

    def before(self, check: CellPosition) -> int:
        """The rank up to which statements ran before a check; a compound statement around the check is one of them."""
        index = self.known.places.get(check)
        if index is None:
            return 2 * self._size
        return self._rank(index) + isinstance(self.known.all[index].node, COMPOUND)

    def of(self, name: str, before: int) -> Iterator[int]:
        """The statements, by rank, on which the value of a name depends, last one first, back to one that settles it.

        Where no statement above binds the name, those below count: cells may have been moved.
        """
        is_bound = False
        for rank in self._below(name, before):
            yield rank
            statement = self.statement(rank)
            is_bound |= name in statement.binding
            if name in statement.kills or (name == SHOWN[0] and self._settles(statement)):
                return
        if is_bound or name in BUILTINS or name in (RANDOM, ANYTHING) or self._shown(name):
            return
        for rank in self._below(name, 3 * self._size):
            if rank < before:
                break
            self.goes_back = True
            yield rank
            is_bound = True
            if name in self.statement(rank).kills:
                return
        if not is_bound:
            stars = (index for index in self.known.stars if not self.known.all[index].module.startswith("lplab"))
            yield from map(self._rank, stars)

    def _below(self, name: str, before: int) -> Iterator[int]:
        known = self.known
        places = [known.binding.get(name), known.changing.get(self.group(name)), known.changing.get(ANYTHING)]
        if self._shown(name):
            places.append(known.showing)
        ranks = (self._ranks_below(some, before) for some in places if some)
        last = None
        for rank in heapq.merge(*ranks, reverse=True):
            if rank != last:
                yield rank
            last = rank

    def _ranks_below(self, places: list[int], before: int) -> Iterator[int]:
        """The ranks of some indices, which are sorted, from the highest one below ``before`` on."""
        ran = bisect_left(places, self.known.ran)
        begin, end = bisect_left(places, self._last.start), bisect_left(places, self._last.stop)
        for slots in (range(len(places) - 1, ran - 1, -1), range(end - 1, begin - 1, -1)):
            yield from (rank for slot in slots if (rank := self._rank(places[slot])) < before)
        first = min(bisect_left(places, before), ran)
        yield from (places[slot] for slot in range(first - 1, -1, -1) if not begin <= slot < end)

    @staticmethod
    def _settles(statement: Statement) -> bool:
        """Whether its value is certainly the last result."""
        value = getattr(statement.node, "value", None)
        is_something = isinstance(value, ast.BinOp | ast.Compare) or getattr(value, "value", None) is not None
        return statement.shows is not None and is_something

    def _shown(self, name: str) -> bool:
        return _is_result(name) and not (name in SHOWN and self.notebook.binds_underscore)


class _Slice:
    """The statements that one function depends on.

    Attributes:
        kept: by the rank of a statement: the places of the parts of it that are included.
        foreign: modules, and the cells that hand to them what the function uses.
    """

    def __init__(self, name: str, before: int, order: Order) -> None:
        self.order = order
        self.kept: dict[int, set[int]] = {}
        self.foreign: set[tuple[str, int]] = set()
        self._wanted: dict[int, set[str]] = {}
        self._imported: set[int] = set()
        self._shown: set[int] = set()
        self.needs = 0
        self._follow(name, before)

    def _follow(self, name: str, before: int) -> None:
        waiting = [(name, before, True)]
        seen: set[tuple[str, int, bool]] = set()
        while waiting:
            need = waiting.pop()
            if need in seen or (*need[:2], True) in seen:
                continue
            seen.add(need)
            for rank in self.order.of(*need[:2]):
                self.needs += 1
                if self.needs > MAX_NEEDS:
                    self._include_all(before)
                    return
                waiting += self._include(rank, *need)

    def _include_all(self, before: int) -> None:
        for rank in self.order.ranks_below(before):
            self.kept[rank] = set(range(len(self.order.statement(rank).parts)))
            self._imported.add(rank)

    def _include(self, rank: int, name: str, before: int, is_sure: bool) -> Iterator[tuple[str, int, bool]]:
        """Include what of a statement concerns a name; the names that are needed for it, each with its place.

        What is only sure to be needed if a function changes what it is given brings no import that is refused with it.
        """
        statement, order = self.order.statement(rank), self.order
        if statement.shows is not None and order._shown(name):
            self._shown.add(rank)
            self.kept[rank] = {0}
            yield from ((used, rank, is_sure) for used in statement.parts[0].reads)
        wanted, waiting = self._wanted.setdefault(rank, set()), [name, ANYTHING]
        while waiting:
            one = waiting.pop()
            if one in wanted:
                continue
            wanted.add(one)
            for place, is_direct in statement.concerning(one, order.group(one)):
                kept = self.kept.setdefault(rank, set())
                for new in {place} | (set() if kept else statement.heads):
                    if new not in kept:
                        kept.add(new)
                        waiting += statement.parts[new].needs
                        sure = is_sure and is_direct
                        yield from ((used, rank, sure) for used in statement.parts[new].needs)
            self._note_foreign(statement, order.group(one))
        if statement.module and rank in self.kept and (is_sure or not self._is_refused(statement)):
            self._imported.add(rank)
        for place in statement.binding.get(name, ()):
            if place in self.kept.get(rank, ()):  # functions in it may run at any time until then
                yield from ((used, before, is_sure) for used in statement.parts[place].names.later)

    def _is_refused(self, statement: Statement) -> bool:
        return bool(statement.parts[0].names.binds & self.order.notebook.effects.foreign.keys())

    def _note_foreign(self, statement: Statement, group: str) -> None:
        known = self.order.notebook.effects.foreign
        for part in statement.parts if group in statement.foreign else ():
            if group in part.effect.foreign:
                modules = {known[name] for name in part.reads & known.keys()} - QUIET
                self.foreign |= {(module, statement.at[0]) for module in modules}

    def parts_of(self, rank: int) -> list[Part]:
        """The parts of a statement that are included."""
        return [self.order.statement(rank).parts[place] for place in sorted(self.kept[rank])]

    def ranks(self) -> list[int]:
        """The statements that are included; what one needs comes before it where all of it stands below."""
        chosen = [i for i in sorted(self.kept) if not self.order.statement(i).module or i in self._imported]
        if not self.order.goes_back or self.needs > MAX_NEEDS:
            return chosen
        definers: dict[str, list[int]] = defaultdict(list)
        later: dict[int, set[str]] = {}
        for rank in chosen:
            parts = self.parts_of(rank)
            later[rank] = {name for part in parts for name in part.names.later}
            for name in {name for part in parts for name in part.binds}:
                definers[name].append(rank)
        made, entered = [], set[int]()
        for first in chosen:
            path = [] if first in entered else [(first, self._missing(first, definers, later))]
            entered.add(first)
            while path:
                rank, missing = path[-1]
                deeper = next((one for one in missing if one not in entered), None)
                if deeper is None:
                    made.append(rank)
                    path.pop()
                else:
                    entered.add(deeper)
                    path.append((deeper, self._missing(deeper, definers, later)))
        return made

    def _missing(self, rank: int, definers: dict[str, list[int]], later: dict[int, set[str]]) -> Iterator[int]:
        """The statements below one that bind what it uses when it runs and nothing above it binds."""
        seen = {name for part in self.parts_of(rank) for name in part.reads}
        waiting = sorted(seen)
        while waiting:
            places = definers.get(waiting.pop(), [])
            if places and places[0] > rank:
                yield from places
            for place in places:
                more = later[place] - seen
                seen |= more
                waiting += sorted(more)

    def source(self) -> str:
        """All that is included, as text."""
        ranks = self.ranks()
        meanings: dict[str, set[str | int]] = defaultdict(set)  # of each name: imports by their text
        for rank in ranks:
            statement = self.order.statement(rank)
            for part in self.parts_of(rank):
                for name in part.binds:
                    meanings[name].add(statement.text if statement.module else rank)
        imports, blocks = list[str](), list[str]()
        for rank in ranks:
            statement = self.order.statement(rank)
            is_first = statement.module and all(len(meanings[name]) == 1 for name in statement.parts[0].names.binds)
            (imports if is_first else blocks).append(self._text(rank, statement))
        head = ['Out, _, __, ___ = {}, "", "", ""'] if self._shown else []
        parts = ["\n".join([*self.order.notebook.future, *sorted(set(imports))]), *head, *blocks]
        return "\n\n\n".join(filter(None, parts)) + "\n"

    def _text(self, rank: int, statement: Statement) -> str:
        if rank in self._shown:
            return _shown_text(statement)
        left_out = [part.node for place, part in enumerate(statement.parts) if place not in self.kept[rank]]
        if not left_out:
            return statement.text
        try:
            return ast.unparse(_without(statement.node, left_out))
        except ValueError:  # f-strings that Python 3.11 cannot write
            return statement.text


def _is_result(name: str) -> bool:
    return name in SHOWN or RESULTS.fullmatch(name) is not None


def _shown_text(statement: Statement) -> str:
    """An expression whose value the notebook keeps unless it is None."""
    number = statement.shows
    lines = [f"if (_{number} := (", statement.text, ")) is not None:", f"    Out[{number}] = _{number}"]
    return "\n".join([*lines, f"    ___, __, _ = __, _, _{number}"])


# ---- from cells to statements ----------------------------------------------------------------------------------------


def _statements(cell: Cell) -> Iterator[Statement]:
    body = cell.tree.body if cell.tree else []
    lines = cell.text.split("\n")
    number = cell.number if cell.count is None else cell.count
    for place, node in enumerate(body):
        at = (cell.number, place)
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imports(node, at)
            continue
        shows = number if isinstance(node, ast.Expr) and place == len(body) - 1 else None
        has_run = cell.count is not None and cell.stopped_at is None
        yield Statement(at, _text(lines, body, place), node, tuple(_parts(node)), shows=shows, has_run=has_run)


def _imports(node: ast.Import | ast.ImportFrom, at: CellPosition) -> Iterator[Statement]:
    """One statement for each imported name, so that an answer imports nothing that it does not use."""
    origin = f"from {'.' * node.level}{node.module or ''} " if isinstance(node, ast.ImportFrom) else ""
    for alias in node.names:
        text = f"{origin}import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
        bound = {alias.asname or (alias.name if origin else alias.name.partition(".")[0])}
        module = (node.module or ".") if isinstance(node, ast.ImportFrom) else alias.name
        if bound == {"*"}:
            bound = set(star_names(module)) or bound
        one = copy.copy(node)
        one.names = [alias]
        yield Statement(at, text, node, (Part(one, Names(binds=frozenset(bound)), True),), module)


def _text(lines: Sequence[str], body: Sequence[ast.stmt], place: int) -> str:
    """The source of one statement, decorators and comments included; unparsed where it shares a line with another."""
    node = body[place]
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    neighbours = [*body[max(place - 1, 0) : place], *body[place + 1 : place + 2]]
    if any(other.lineno <= (node.end_lineno or first) and (other.end_lineno or 0) >= first for other in neighbours):
        return ast.unparse(node)
    return "\n".join(lines[first - 1 : node.end_lineno])


def _parts(node: ast.stmt) -> Iterator[Part]:
    """The simple statements in one, and the heads of those around them."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, COMPOUND):
            yield _part(one, isinstance(one, CONTROL))
            continue
        yield _part(_head(one), True)
        for block in reversed(_blocks(one)):
            waiting += reversed(getattr(*block))


def _part(node: ast.stmt, is_kept: bool) -> Part:
    try:
        names = names_of(ast.unparse(node))
    except ValueError:  # f-strings that Python 3.11 cannot write
        names = _names_by_eye(node)
    except RecursionError:
        return Part(ast.Pass(), _names_by_eye(node), is_kept)
    if isinstance(node, ast.Delete):
        names = Names(names.binds | frozenset(_stored(node)), names.reads - frozenset(_stored(node)))
    return Part(node, names, is_kept)


def _names_by_eye(node: ast.stmt) -> Names:
    """The names in a statement that cannot be written as text again."""
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    reads = frozenset(part.id for part in names if isinstance(part.ctx, ast.Load))
    return Names(frozenset({*_stored(node), getattr(node, "name", "")} - {""}), reads, reads)


def _stored(node: ast.stmt) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)]


def _blocks(node: ast.stmt) -> list[tuple[ast.AST, str]]:
    """Where a compound statement keeps lists of statements."""
    inside = [*getattr(node, "handlers", []), *getattr(node, "cases", [])]
    return [(one, name) for one in (node, *inside) for name in BODIES if getattr(one, name, None)]


def _head(node: ast.stmt) -> ast.stmt:
    """A compound statement with nothing in it."""
    head = copy.copy(node)
    for name in ("handlers", "cases"):
        if hasattr(head, name):
            setattr(head, name, [copy.copy(one) for one in getattr(head, name)])
    for one, name in _blocks(head):
        setattr(one, name, [ast.Pass()])
    return head


def _without(node: ast.stmt, left_out: Iterable[ast.stmt]) -> ast.stmt:
    """A compound statement without some of the simple statements in it."""
    gone = set(map(id, left_out))
    whole = copy.copy(node)
    for name in ("handlers", "cases"):
        if hasattr(whole, name):
            setattr(whole, name, [copy.copy(one) for one in getattr(whole, name)])
    for one, name in _blocks(whole):
        kept = [part for part in getattr(one, name) if id(part) not in gone]
        inner = [_without(part, left_out) if isinstance(part, COMPOUND) else part for part in kept]
        setattr(one, name, inner or [ast.Pass()])
    return whole
