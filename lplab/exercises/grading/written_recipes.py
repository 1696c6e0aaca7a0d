"""The recipes with which the cells of a notebook call a capstone's function, found without running a cell.

Followed from cell to cell are dictionaries that are written out under a name, and what changes them:
``mine["weight"] = "nvfp4"``, ``mine.update({...})``, ``mine |= {...}``, ``del mine["name"]``. A change of another kind,
such as one in a loop, gets a note.
"""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lplab.exercises.capstone.capstone_value import Capstone
from lplab.exercises.capstone.few_bits_capstone import FEW_BITS
from lplab.exercises.grading.notebook_cells import Cell
from lplab.exercises.isolation.answers import Answer
from lplab.training.recipe.recipe_data import MAX_TEXT

METHODS = ("add", "append", "clear", "extend", "fill", "insert", "pop", "remove", "reverse", "sort", "update")
MAX_CALLS = 100  # of a capstone's function in a notebook that are read, the last ones
NOT_WRITTEN_OUT = "{}(…) is not given a dictionary that is written out"
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError, SyntaxError, RecursionError, MemoryError)


@dataclass(frozen=True)
class WrittenRecipe:
    """A recipe as it stands at a call of the capstone's function, or at the end of the notebook.

    Args:
        where: it was found.
        answer: the recipe; None where it cannot be read.
        note: what is not followed, "" if nothing.
    """

    where: str
    answer: Answer | None = None
    note: str = ""


def written_recipes(cells: Sequence[Cell], capstone: Capstone = FEW_BITS) -> Iterator[WrittenRecipe]:
    """The recipe of each call, cells taken from top to bottom; then that of the last call as it stands at the end.

    Calls are those of the capstone's function, ``own_recipe`` in lab 14.

    Someone who changes a cell below the call and runs the call again means the second.

    >>> from lplab.exercises.grading.notebook_cells import read_cell
    >>> cells = [read_cell(1, "mine = {'weight': 'nvfp4'}"), read_cell(2, "own_recipe(mine)")]
    >>> cells += [read_cell(3, "mine['weight'] = 'bf16'")]
    >>> [(found.where, found.answer.source) for found in written_recipes(cells)]
    [('code cell 2', '{"weight": "nvfp4"}'), ('the last cell', '{"weight": "bf16"}')]
    """
    statements = [(cell.where, statement) for cell in cells for statement in (cell.tree.body if cell.tree else ())]
    calls = [_calls(statement, capstone.call) for _, statement in statements]
    unread = sum(map(len, calls)) - MAX_CALLS
    names, last = WrittenDictionaries(capstone.call), None
    for (where, statement), some in zip(statements, calls, strict=True):
        for call in some:
            unread -= 1
            if unread < 0:
                yield _recipe(call, names, where, capstone)
                last = call
        names.run(statement, where)
    if last is not None and last.args and isinstance(last.args[0], ast.Name):
        found = _recipe(last, names, "the last cell", capstone)
        if found.answer is not None:  # else the name stands for something else by then
            yield found


def _calls(statement: ast.stmt, function: str) -> list[ast.Call]:
    """The calls of a function, alone or of a module."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return [call for call in calls if function in (getattr(call.func, "id", ""), getattr(call.func, "attr", ""))]


def _recipe(call: ast.Call, names: WrittenDictionaries, where: str, capstone: Capstone) -> WrittenRecipe:
    """The recipe that a call is given by then."""
    unread = WrittenRecipe(where, note=NOT_WRITTEN_OUT.format(capstone.call))
    try:
        (given,) = call.args
        data = names.value(given)
        if not isinstance(data, dict) or _is_long(data):
            return unread
        name = given.id if isinstance(given, ast.Name) else ""
        return WrittenRecipe(where, capstone.as_answer(data), names.not_followed.get(name, ""))
    except UNREADABLE:
        return unread


def _is_long(data: Any) -> bool:
    """Whether JSON of it would be longer than any recipe; lists in lists may take no room here and gigabytes there."""
    length = 0
    for part in json.JSONEncoder().iterencode(data):
        length += len(part)
        if length > MAX_TEXT:
            return True
    return False


class WrittenDictionaries:
    """The values that names have while the statements of a notebook run one after the other, as far as it is known.

    Args:
        function: that the notes name.

    Attributes:
        values: by name.
        not_followed: by name: a note on the last change that is not followed.

    >>> names = WrittenDictionaries()
    >>> for line in ast.parse("a = {'x': 1}; b = a; b['y'] = {**a, 'x': 2}; del a['x']").body:
    ...     names.run(line, "code cell 1")
    >>> names.values["a"]
    {'y': {'x': 2}}
    """

    def __init__(self, function: str = "own_recipe") -> None:
        self.function = function
        self.values: dict[str, Any] = {}
        self.not_followed: dict[str, str] = {}

    def run(self, statement: ast.stmt, where: str) -> None:
        """Follow a statement; ``where`` is the place of it, for notes."""
        try:
            followed = self._follow(statement)
        except UNREADABLE:  # whatever code may hold, or an error that the student saw, too
            followed = False
        if followed:
            return
        assigned = _assigned_names(statement)
        for name in changed_names(statement) & set(self.values):
            if name in assigned:
                del self.values[name]
            else:
                note = f"{self.function} uses {name}, which {where} changes in a way that grading does not follow"
                self.not_followed[name] = note

    def _follow(self, statement: ast.stmt) -> bool:
        """Carry out an assignment or a change of a dictionary; False for another statement."""
        match statement:
            case ast.Assign(targets=targets, value=value):
                found = self.value(value)
                for target in targets:
                    self._assign(target, found)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self.value(value))
            case ast.AugAssign(target=target, op=ast.BitOr(), value=value):
                self._dictionary(target).update(self._dictionary(value))
            case ast.Delete(targets=targets) if all(isinstance(target, ast.Subscript) for target in targets):
                for target in targets:
                    assert isinstance(target, ast.Subscript), "the case says so"
                    del self._dictionary(target.value)[self._key(target.slice)]
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=base, attr="update"), args=args, keywords=keywords)):
                changes = {str(keyword.arg): self.value(keyword.value) for keyword in keywords}
                given = [self._dictionary(one) for one in args]
                for one in (*given, changes):
                    self._dictionary(base).update(one)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=base, attr="pop"), args=[key, *_])):
                self._dictionary(base).pop(self._key(key), None)
            case _:
                return False
        return True

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.values[target.id] = value
            self.not_followed.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            self._dictionary(target.value)[self._key(target.slice)] = value
        else:
            raise ValueError("several names at once, or an attribute")

    def _dictionary(self, node: ast.expr) -> dict[Any, Any]:
        found = self.value(node)
        if not isinstance(found, dict):
            raise ValueError("no dictionary")
        return found

    def _key(self, node: ast.expr) -> str:
        key = ast.literal_eval(node)
        if not isinstance(key, str):
            raise ValueError("a recipe has no other keys than text")
        return key

    def value(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises:
            KeyError: a name is not known.
            ValueError: the expression is not of literals, names, ``**``, ``|`` and copies.
        """
        match node:
            case ast.Name(id=name):
                return self.values[name]
            case ast.Dict(keys=keys, values=values):
                found: dict[Any, Any] = {}
                for key, value in zip(keys, values, strict=True):
                    found |= self._dictionary(value) if key is None else {self._key(key): self.value(value)}
                return found
            case ast.List(elts=parts):
                return [self.value(part) for part in parts]
            case ast.Subscript(value=base, slice=key):
                return self._dictionary(base)[self._key(key)]
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._dictionary(left) | self._dictionary(right)
            case ast.Call(func=ast.Attribute(value=base, attr="copy"), args=[]):
                return dict(self._dictionary(base))
            case ast.Call(func=ast.Name(id="dict"), args=[base], keywords=[]):
                return dict(self._dictionary(base))
            case ast.Call(func=ast.Name(id="deepcopy") | ast.Attribute(attr="deepcopy"), args=[base], keywords=[]):
                found = self._dictionary(base)
                if _is_long(found):
                    raise ValueError("longer than any recipe")
                return copy.deepcopy(found)
        return ast.literal_eval(node)


def _assigned_names(statement: ast.stmt) -> set[str]:
    """The names that a statement gives another value."""
    return {
        node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }


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
