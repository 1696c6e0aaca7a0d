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
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from lplab.exercises.grading.cells import Cell
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
from lplab.exercises.isolation.answers import Answer

CellPosition = tuple[int, int]  # number of the cell, place of the statement in it
BUILTINS = frozenset(dir(builtins))
MAX_NEEDS = 100_000  # names at positions that are followed; a notebook of knots is included whole
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
        if ANYTHING in self.effect.calls:  # the text that exec is given
            texts = [part.value for part in ast.walk(self.node) if isinstance(part, ast.Constant)]
            reads |= {word for text in texts if isinstance(text, str) for word in re.findall(r"\w+", text)}
        return reads | ({RANDOM} & self.effect.calls)

    @cached_property
    def needs(self) -> frozenset[str]:
        """What it uses when it runs, together with what functions use that it may call at once."""
        if isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return self.reads | self.names.later if self.node.decorator_list else self.reads
        return self.reads | self.names.later

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
    """All statements of a notebook, and what they do to each other's names."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.by_cell: dict[int, list[Statement]] = {}
        self.counts = {cell.number: cell.count for cell in cells if cell.count is not None}
        self._not_run: dict[int, list[Statement]] = defaultdict(list)  # below the line at which a cell stopped
        for cell in cells:
            self.by_cell[cell.number], stopped = [], False
            for statement in _statements(cell):
                stopped |= cell.stopped_at is not None and statement.node.lineno > cell.stopped_at
                (self._not_run[cell.number] if stopped else self.by_cell[cell.number]).append(statement)
                stopped |= isinstance(statement.node, ast.Raise)
        self.everything = [one for some in (self.by_cell, self._not_run) for each in some.values() for one in each]
        parts = [part for statement in self.everything for part in statement.parts]
        self.effects = Effects([part.node for part in parts])
        for part in parts:
            part.effect = self.effects.of(part.node)
        self.uses_results = any(_is_result(name) for part in parts for name in part.names.reads | part.names.later)
        self.binds_underscore = any("_" in part.names.binds for part in parts)
        self._orders: dict[tuple[int, ...], _Order] = {}

    def answers(self, name: str, check: CellPosition) -> list[SlicedAnswer]:
        """What ``name`` can mean for a check at this position: as the cells stand, and as they may have run.

        How they ran the numbers say that the notebook has given them; where it has none, someone may have gone back to
        the cell of the check after all others had run. An empty list if nothing defines the name.
        """
        file_order = list(self.by_cell)
        number = self.counts.get(check[0])
        if number is None:
            other = [cell for cell in file_order if cell != check[0]] + [check[0]] * (check[0] in self.by_cell)
        else:
            ran = sorted((count, cell) for cell, count in self.counts.items() if count <= number)
            other = [cell for _, cell in ran]
        found = [self._answer(name, check, self._order(cells)) for cells in (file_order, other)]
        answers = [one for one in found if one is not None]
        return answers[:1] if len({(one.used, one.running) for one in answers}) == 1 else answers

    def _order(self, cells: Sequence[int]) -> _Order:
        """These cells in this order, then what did not run in it."""
        key = tuple(cells)
        if key not in self._orders:
            ran = [statement for cell in cells for statement in self.by_cell[cell]]
            rest = [statement for cell in self.by_cell if cell not in set(cells) for statement in self.by_cell[cell]]
            rest += [statement for some in self._not_run.values() for statement in some]
            self._orders[key] = _Order([*ran, *rest], self)
        return self._orders[key]

    def _answer(self, name: str, check: CellPosition, order: _Order) -> SlicedAnswer | None:
        found = _Slice(name, order.before(check), order)
        if not any(name in part.binds for index in found.kept for part in found.parts_of(index)):
            return None
        used = [order.statements[index] for index in found.indices()]
        running = [one.at for one in used if not one.module and not _is_plain_function(one.node)]
        foreign = frozenset(found.foreign)
        return SlicedAnswer(Answer(found.source(), name), frozenset(one.at for one in used), tuple(running), foreign)


def _is_plain_function(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not (node.decorator_list or node.args.defaults or node.args.kw_defaults)


class _Order:
    """Statements in an order, and where each name is bound or what it stands for may change."""

    def __init__(self, statements: list[Statement], notebook: Definitions) -> None:
        self.statements, self.notebook = statements, notebook
        self.group = notebook.effects.group
        self._binding: dict[str, list[int]] = defaultdict(list)
        self._changing: dict[str, list[int]] = defaultdict(list)
        self._stars: list[int] = []
        self._showing: list[int] = []
        for index, statement in enumerate(statements):
            is_foreign = bool(statement.parts[0].reads & set(notebook.effects.foreign))
            if notebook.uses_results and statement.shows is not None and not is_foreign:
                self._showing.append(index)
            for part in statement.parts:
                for name in part.binds:
                    self._append(self._binding[name], index)
                for group in part.effect.stores | part.effect.calls | part.effect.foreign:
                    self._append(self._changing[group], index)
            if statement.module and "*" in statement.parts[0].names.binds:
                self._stars.append(index)

    @staticmethod
    def _append(places: list[int], index: int) -> None:
        if not places or places[-1] != index:
            places.append(index)

    def before(self, check: CellPosition) -> int:
        """The index up to which statements ran before a check; a compound statement around the check is one of them."""
        for index, statement in enumerate(self.statements):
            if statement.at == check:
                return index + isinstance(statement.node, COMPOUND)
        return len(self.statements)

    def of(self, name: str, before: int) -> Iterator[int]:
        """The statements on which the value of a name depends, last one first, back to one that settles it.

        Where no statement above binds the name, those below count: cells may have been moved.
        """
        is_bound = False
        for index in self._below(name, before):
            yield index
            is_bound |= any(name in part.binds for part in self.statements[index].parts)
            if name in self.statements[index].kills or (name in SHOWN[:1] and self._settles(index)):
                return
        if is_bound or name in BUILTINS or name in (RANDOM, ANYTHING) or self._shown(name):
            return
        for index in self._below(name, len(self.statements)):
            if index < before:
                break
            yield index
            is_bound = True
            if name in self.statements[index].kills:
                return
        if not is_bound:
            yield from (index for index in self._stars if not self.statements[index].module.startswith("lplab"))

    def _below(self, name: str, before: int) -> Iterator[int]:
        group = self.group(name)
        places = [self._binding.get(name, []), self._changing.get(group, []), self._changing.get(ANYTHING, [])]
        if self._shown(name):
            places.append(self._showing)
        last = None
        for index in heapq.merge(*(_reversed_below(some, before) for some in places), reverse=True):
            if index != last:
                yield index
            last = index

    def _settles(self, index: int) -> bool:
        """Whether this is certainly the last result."""
        value = getattr(self.statements[index].node, "value", None)
        is_something = isinstance(value, ast.BinOp | ast.Compare) or getattr(value, "value", None) is not None
        return self.statements[index].shows is not None and is_something

    def _shown(self, name: str) -> bool:
        return _is_result(name) and not (name in SHOWN and self.notebook.binds_underscore)


def _reversed_below(places: Sequence[int], before: int) -> Iterator[int]:
    return (index for index in reversed(places) if index < before)


class _Slice:
    """The statements that one function depends on.

    Attributes:
        kept: by the index of a statement: the places of the parts of it that are included.
        foreign: modules, and the cells that hand to them what the function uses.
    """

    def __init__(self, name: str, before: int, order: _Order) -> None:
        self.order = order
        self.kept: dict[int, set[int]] = {}
        self.foreign: set[tuple[str, int]] = set()
        self._wanted: dict[int, set[str]] = {}
        self._imported: set[int] = set()
        self._shown: set[int] = set()
        self._follow(name, before)

    def _follow(self, name: str, before: int) -> None:
        waiting = [(name, before, True)]
        seen: set[tuple[str, int, bool]] = set()
        while waiting:
            need = waiting.pop()
            if need in seen or (*need[:2], True) in seen:
                continue
            seen.add(need)
            if len(seen) > MAX_NEEDS:
                self._include_all(before)
                return
            for index in self.order.of(*need[:2]):
                waiting += self._include(index, *need)

    def _include_all(self, before: int) -> None:
        for index, statement in enumerate(self.order.statements[:before]):
            self.kept[index] = set(range(len(statement.parts)))
            self._imported.add(index)

    def _include(self, index: int, name: str, before: int, is_sure: bool) -> Iterator[tuple[str, int, bool]]:
        """Include what of a statement concerns a name; the names that are needed for it, each with its place.

        What is only sure to be needed if a function changes what it is given brings no import that is refused with it.
        """
        statement, order = self.order.statements[index], self.order
        wanted = self._wanted.setdefault(index, set())
        wanted.add(name)
        if statement.shows is not None and order._shown(name):
            self._shown.add(index)
            self.kept[index] = {0}
            yield from ((used, index, is_sure) for used in statement.parts[0].reads)
        changed = True
        while changed:
            changed = False
            groups = {order.group(one) for one in wanted} | {ANYTHING}
            for place, part in enumerate(statement.parts):
                binds = bool(part.binds & wanted) or "*" in part.names.binds
                stores = bool(part.effect.stores & groups)
                if part.effect.foreign & groups and not (binds or stores):
                    self._note_foreign(part, statement)
                if place in self.kept.get(index, ()) or not (binds or stores or part.effect.calls & groups):
                    continue
                heads = {i for i, one in enumerate(statement.parts) if one.is_kept} - self.kept.get(index, set())
                self.kept.setdefault(index, set()).update({place} | heads)
                sure = is_sure and (binds or stores)
                for one in {place} | heads:
                    wanted |= statement.parts[one].reads
                    yield from ((used, index, sure) for used in statement.parts[one].needs)
                changed = True
        if statement.module and index in self.kept and (is_sure or not self._is_refused(statement)):
            self._imported.add(index)
        for place in self.kept.get(index, ()):
            if name in statement.parts[place].binds:  # functions in it may run at any time until then
                yield from ((used, before, is_sure) for used in statement.parts[place].names.later)

    def _is_refused(self, statement: Statement) -> bool:
        return bool(statement.parts[0].names.binds & set(self.order.notebook.effects.foreign))

    def _note_foreign(self, part: Part, statement: Statement) -> None:
        known = self.order.notebook.effects.foreign
        modules = {known[name] for name in part.reads & set(known)} - QUIET
        self.foreign |= {(module, statement.at[0]) for module in modules}

    def parts_of(self, index: int) -> list[Part]:
        """The parts of a statement that are included."""
        return [self.order.statements[index].parts[place] for place in sorted(self.kept[index])]

    def indices(self) -> list[int]:
        """The statements that are included; what one needs comes before it where all of it stands below."""
        chosen = [i for i in sorted(self.kept) if not self.order.statements[i].module or i in self._imported]
        definers: dict[str, list[int]] = defaultdict(list)
        for index in chosen:
            for part in self.parts_of(index):
                for name in part.binds:
                    definers[name].append(index)
        made, entered = [], set[int]()
        for first in chosen:
            path = [] if first in entered else [(first, self._missing(first, definers))]
            entered.add(first)
            while path:
                index, missing = path[-1]
                deeper = next((one for one in missing if one not in entered), None)
                if deeper is None:
                    made.append(index)
                    path.pop()
                else:
                    entered.add(deeper)
                    path.append((deeper, self._missing(deeper, definers)))
        return made

    def _missing(self, index: int, definers: dict[str, list[int]]) -> Iterator[int]:
        """The statements below one that bind what it uses when it runs and nothing above it binds."""
        waiting = [name for part in self.parts_of(index) for name in sorted(part.reads)]
        seen = set(waiting)
        while waiting:
            name = waiting.pop()
            places = definers.get(name, [])
            if places and places[0] > index:
                yield from places
            for place in places:
                more = {used for part in self.parts_of(place) for used in part.names.later} - seen
                seen |= more
                waiting += sorted(more)

    def source(self) -> str:
        """All that is included, as text."""
        notebook = self.order.notebook
        future = [statement.text for statement in notebook.everything if statement.module == "__future__"]
        indices = self.indices()
        meanings: dict[str, set[str | int]] = defaultdict(set)  # of each name: imports by their text
        for index in indices:
            statement = self.order.statements[index]
            for part in self.parts_of(index):
                for name in part.binds:
                    meanings[name].add(statement.text if statement.module else index)
        imports, blocks = list[str](), list[str]()
        for index in indices:
            statement = self.order.statements[index]
            is_first = statement.module and all(len(meanings[name]) == 1 for name in statement.parts[0].names.binds)
            (imports if is_first else blocks).append(self._text(index, statement))
        head = ['Out, _, __, ___ = {}, "", "", ""'] if self._shown else []
        parts = ["\n".join([*dict.fromkeys(future), *sorted(set(imports))]), *head, *blocks]
        return "\n\n\n".join(filter(None, parts)) + "\n"

    def _text(self, index: int, statement: Statement) -> str:
        if index in self._shown:
            return _shown_text(statement)
        left_out = [part.node for place, part in enumerate(statement.parts) if place not in self.kept[index]]
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
    found = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    reads = frozenset(part.id for part in found if isinstance(part.ctx, ast.Load))
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
