"""Program slicing: from the cells of a notebook, the definition of one function and all that it uses.

Only definitions are included: imports, functions, classes, assignments. Loops, calls and prints are never run; where
they change something that the function uses, a note says so.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lplab.exercises.grading.cells import Cell
from lplab.exercises.isolation.answers import Answer

CellPosition = tuple[int, int]  # number of the cell, place of the statement in it
SIMPLE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
HARMLESS = (ast.Import, ast.ImportFrom, ast.Pass, ast.Raise)  # beside definitions in a try or an if
METHODS = ("add", "append", "clear", "extend", "fill", "insert", "pop", "remove", "reverse", "sort", "update")


@dataclass(frozen=True)
class Definition:
    """One statement that defines names.

    Args:
        at: its position.
        names: what it defines; empty for ``from x import *``.
        needs: the global names that it uses.
        text: its source.
        is_import, by_value: whether it is an import; whether it takes the values of names when it runs.
    """

    at: CellPosition
    names: frozenset[str]
    needs: frozenset[str]
    text: str
    is_import: bool = False
    by_value: bool = False


@dataclass(frozen=True)
class SlicedAnswer:
    """An answer, the definitions in it, and the names that it uses."""

    answer: Answer
    used: tuple[Definition, ...]
    needs: frozenset[str]


class Definitions:
    """All definitions of a notebook, and the statements that change their names."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.all: list[Definition] = []
        self.changes: dict[str, list[CellPosition]] = {}  # names changed by statements that are not included
        for cell in cells:
            body = cell.tree.body if cell.tree else []
            lines = cell.text.split("\n")
            for place, node in enumerate(body):
                at = (cell.number, place)
                if isinstance(node, ast.Import | ast.ImportFrom):
                    self.all += _imports(node, at)
                elif _is_definition(node):
                    self.all.append(_definition(node, _text(lines, body, place), at))
                else:
                    for name in changed_names(node):
                        self.changes.setdefault(name, []).append(at)
        self.by_name: dict[str, list[Definition]] = {}
        for definition in self.all:
            for name in definition.names:
                self.by_name.setdefault(name, []).append(definition)

    def answers(self, name: str, check: CellPosition) -> list[SlicedAnswer]:
        """What ``name`` can mean for a check at this position: by the order of cells, or by the latest definitions.

        The two differ where a name is defined more than once: cells run from top to bottom give the first, cells that
        were gone back to give the second. An empty list if nothing defines the name.
        """
        candidates = [self._answer(name, check), self._answer(name, None, cell=check[0])]
        both = [one for one in candidates if one is not None]
        return both[:1] if len({frozenset(one.used) for one in both}) == 1 else both

    def _answer(self, name: str, before: CellPosition | None, cell: int = 0) -> SlicedAnswer | None:
        own = self._choose(name, before, cell)
        if own is None:
            return None
        used = self._gather(own, before)
        if before and all(definition.at < before for definition in used):
            used.sort(key=lambda definition: definition.at)  # as the cells ran
        needs = frozenset().union(*(definition.needs for definition in used))
        return SlicedAnswer(Answer(self._source(used, needs), name), tuple(used), needs)

    def _choose(self, name: str, before: CellPosition | None, cell: int = 0) -> Definition | None:
        """The definition of a name that counts: that of the cell, the latest before a position, the latest."""
        known = self.by_name.get(name, [])
        beside = [definition for definition in known if definition.at[0] == cell]
        above = [definition for definition in known if before and definition.at < before]
        return next((some[-1] for some in (beside, above, known) if some), None)

    def _gather(self, own: Definition, before: CellPosition | None) -> list[Definition]:
        """A definition and all that it needs, those that are needed first; functions may need each other."""
        order: list[Definition] = []
        entered = {own}
        path = [(own, self._needed(own, before))]
        while path:
            definition, needed = path[-1]
            deeper = next((one for one in needed if one not in entered), None)
            if deeper is None:
                order.append(definition)
                path.pop()
            else:
                entered.add(deeper)
                path.append((deeper, self._needed(deeper, before)))
        return order

    def _needed(self, definition: Definition, before: CellPosition | None) -> Iterator[Definition]:
        for name in sorted(definition.needs):
            chosen = None
            if definition.by_value and (before or name in definition.names):  # n = n + 1: the n above it
                above = [one for one in self.by_name.get(name, []) if one.at < definition.at]
                chosen = above[-1] if above else None
            if chosen is None and name not in definition.names:  # else: a function that calls itself
                chosen = self._choose(name, before)
            if chosen is not None:
                yield chosen

    def _source(self, used: list[Definition], needs: frozenset[str]) -> str:
        unknown = needs - {name for definition in used for name in definition.names} - set(dir(builtins))
        stars = [d for d in self.all if d.is_import and not d.names and _may_define(d.text, unknown)]
        future = [d for d in self.all if d.text.startswith("from __future__ ")]
        imports = dict.fromkeys(d.text for d in [*future, *stars, *used] if d.is_import)
        blocks = [definition.text for definition in used if not definition.is_import]
        return "\n\n\n".join(filter(None, ["\n".join(imports), *blocks])) + "\n"


def _may_define(star: str, unknown: frozenset[str]) -> bool:
    """Whether to include a ``from x import *``: it may shadow builtins (numpy, math) or define a missing name."""
    return star.split()[1] in ("math", "numpy") or (bool(unknown) and not star.startswith("from lplab"))


def _imports(node: ast.Import | ast.ImportFrom, at: CellPosition) -> Iterator[Definition]:
    """One definition for each imported name, so that an answer imports nothing that it does not use."""
    origin = f"from {'.' * node.level}{node.module or ''} " if isinstance(node, ast.ImportFrom) else ""
    for alias in node.names:
        text = f"{origin}import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
        bound = alias.asname or (alias.name if origin else alias.name.partition(".")[0])
        yield Definition(at, frozenset({bound} - {"*"}), frozenset(), text, is_import=True)


def _is_definition(node: ast.stmt) -> bool:
    """Whether a statement does nothing but define; a try or an if does so if all in it does."""
    if isinstance(node, ast.Assign):
        return all(_is_plain(target) for target in node.targets)
    if isinstance(node, ast.AnnAssign):
        return _is_plain(node.target)
    if isinstance(node, ast.If):
        return all(isinstance(part, HARMLESS) or _is_definition(part) for part in [*node.body, *node.orelse])
    if isinstance(node, ast.Try):
        inner = [part for handler in node.handlers for part in handler.body]
        every = [*node.body, *inner, *node.orelse, *node.finalbody]
        return all(isinstance(part, HARMLESS) or _is_definition(part) for part in every)
    return isinstance(node, SIMPLE)


def _is_plain(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(map(_is_plain, target.elts))
    return isinstance(target, ast.Name) or (isinstance(target, ast.Starred) and _is_plain(target.value))


def _definition(node: ast.stmt, text: str, at: CellPosition) -> Definition:
    names, needs = _names(text)
    by_value = not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    return Definition(at, names, needs, text, by_value=by_value)


def _text(lines: Sequence[str], body: Sequence[ast.stmt], place: int) -> str:
    """The source of one statement, decorators and comments included; unparsed where it shares a line with another."""
    node = body[place]
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    neighbours = [*body[max(place - 1, 0) : place], *body[place + 1 : place + 2]]
    if any(other.lineno <= (node.end_lineno or first) and (other.end_lineno or 0) >= first for other in neighbours):
        return ast.unparse(node)
    return "\n".join(lines[first - 1 : node.end_lineno])


@lru_cache(maxsize=4096)
def _names(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a statement defines, and the global names that it uses."""
    try:
        top = symtable.symtable(text, "cell", "exec")
    except (
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ):  # parsed, yet no compiler takes it: two arguments of one name
        return frozenset(_bound_by_eye(text)), frozenset()
    symbols = top.get_symbols()
    defined = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported() or s.is_namespace()}
    used = {s.get_name() for s in symbols if s.is_referenced()}
    return frozenset(defined), frozenset(used | set(_globals_inside(top)))


def _bound_by_eye(text: str) -> list[str]:
    return [getattr(node, "name", "") for node in ast.parse(text).body]


def _globals_inside(table: symtable.SymbolTable) -> Iterator[str]:
    for child in table.get_children():
        yield from (symbol.get_name() for symbol in child.get_symbols() if symbol.is_global())
        yield from _globals_inside(child)


def changed_names(node: ast.stmt) -> set[str]:
    """The names whose values a statement may change: ``table.append(1)``, ``table[3] = 1``, ``n += 1``, loops.

    >>> sorted(changed_names(ast.parse("for i in range(3): table[i] = 2.0**i").body[0]))
    ['i', 'table']
    """
    names = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Subscript | ast.Attribute) and not isinstance(part.ctx, ast.Load):
            names.add(_base(part))
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in METHODS:
            names.add(_base(part.func))
    return names - {""}


def _base(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
