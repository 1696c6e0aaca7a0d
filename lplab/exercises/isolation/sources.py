"""The source text of one function or class, also where it was defined in a cell of a notebook."""

import ast
import contextlib
import linecache
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

OTHER_ENDS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # characters that end a line for str.splitlines and not for Python
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


@dataclass(frozen=True)
class Source:
    """``text`` defines ``name`` (None for a lambda, whose text is an expression); ``scope`` is what it can see."""

    text: str
    name: str | None
    scope: dict[str, Any]


def undecorated(value: Any) -> tuple[Any, int]:
    """The function inside decorators that tell what they wrap (``functools.wraps``, ``numpy.vectorize``), and how many.

    >>> undecorated(np.vectorize(undecorated)) == (undecorated, 1)
    True
    """
    depth = 0
    while inner := (value.pyfunc if isinstance(value, np.vectorize) else getattr(value, "__wrapped__", None)):
        value, depth = inner, depth + 1
    return value, depth


def source_of_function(value: Any) -> Source:
    """The source of a function, with its decorators if ``value`` is the decorated one; ValueError if it has none.

    >>> source_of_function(undecorated).name
    'undecorated'
    """
    function, depth = undecorated(value)
    around = function.__qualname__.rpartition(".")[0]
    if around and not around.endswith("<locals>"):
        raise ValueError(f"`{function.__qualname__}` is a method; write a function outside of the class")
    name, code = function.__name__, function.__code__
    lines = _lines(code.co_filename, function.__globals__)
    node = _the_one([node for node in _definitions(lines) if _made(node, code)], code, lines)
    if node is None:
        raise ValueError(
            f"the source of `{name}` is not to be found; define it with def in a cell that does not begin with %%"
        )
    scope = function.__globals__ | _around(function)
    if isinstance(node, ast.Lambda):
        return Source(_expression(node, lines), None, scope)
    decorators = len(getattr(node, "decorator_list", []))
    if depth not in (0, decorators):
        raise ValueError(f"`{name}` is wrapped in other functions; write them with @ above its def, or leave them out")
    return Source(_block(node, lines, decorated=depth > 0), node.name, scope)


def source_of_class(value: type, scope: dict[str, Any]) -> Source:
    """The source of a class that is seen from ``scope``, the globals of a function; ValueError if it has none."""
    for filename in _files_of_class(value):
        lines = _lines(filename, scope)
        for node in reversed(list(_definitions(lines))):
            if isinstance(node, ast.ClassDef) and node.name == value.__name__ and _may_have_made(node, value):
                return Source(_block(node, lines, decorated=True), node.name, scope)
    raise ValueError(f"the source of class `{value.__name__}` is not to be found; define it with class in a cell")


def _may_have_made(node: ast.ClassDef, value: type) -> bool:
    """Whether a class has the names that ``node`` gives it: an older cell may hold another class of the same name."""
    names = {part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    names |= {
        part.target.id for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    if bool(node.bases) == (value.__bases__ == (object,)):
        return False
    return all(name in vars(value) or name in getattr(value, "__annotations__", ()) for name in names)


def _around(function: types.FunctionType) -> dict[str, Any]:
    """The variables that a function uses of the functions around it."""
    variables = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not set yet
            variables[name] = cell.cell_contents
    return variables


def _files_of_class(value: type) -> Iterator[str]:
    for member in vars(value).values():
        function, _ = undecorated(getattr(member, "fget", None) or getattr(member, "__func__", member))
        if isinstance(function, types.FunctionType):
            yield function.__code__.co_filename
    yield getattr(sys.modules.get(value.__module__), "__file__", None) or ""
    # Cells of a notebook have no time of change; the newest comes last.
    yield from reversed([name for name, entry in linecache.cache.items() if len(entry) == 4 and entry[1] is None])


def _lines(filename: str, module: dict[str, Any]) -> list[str]:
    """The lines as Python counts them. IPython keeps those of a cell as ``str.splitlines`` does, which counts more."""
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, module)
    if lines and "get_ipython" in module:
        history = getattr(module["get_ipython"](), "history_manager", None)
        for text in reversed(getattr(history, "input_hist_parsed", ())):
            if any(mark in text for mark in OTHER_ENDS) and [f"{line}\n" for line in text.splitlines()] == lines:
                return [f"{line}\n" for line in text.removesuffix("\n").split("\n")]
    return lines


def _definitions(lines: list[str]) -> Iterator[Definition]:
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # no Python, such as a file of doctests, or too deep
        return iter(())
    return (node for node in ast.walk(tree) if isinstance(node, Definition))


def _first_line(node: Definition) -> int:
    """The first line of a definition, as Python counts: a definition begins with its first decorator."""
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])


def _made(node: Definition, code: types.CodeType) -> bool:
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    return name == code.co_name and _first_line(node) == code.co_firstlineno and not isinstance(node, ast.ClassDef)


def _the_one(nodes: list[Definition], code: types.CodeType, lines: list[str]) -> Definition | None:
    """The one of several lambdas in a line that compiles to ``code``."""
    if len(nodes) < 2:
        return nodes[0] if nodes else None
    same = [node for node in nodes if _same(compile(_expression(node, lines), "", "eval").co_consts[0], code)]
    return same[0] if len(same) == 1 else None


def _same(one: types.CodeType, other: types.CodeType) -> bool:
    return (one.co_code, one.co_consts, one.co_names) == (other.co_code, other.co_consts, other.co_names)


def _expression(node: Definition, lines: list[str]) -> str:
    return f"({ast.get_source_segment(''.join(lines), node)})"


def _block(node: Any, lines: list[str], decorated: bool) -> str:
    begin = _first_line(node) if decorated else node.lineno
    text = "".join(lines[begin - 1 : node.end_lineno]).rstrip("\n")
    before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
    is_indented = bool(before.rpartition("\f")[2])  # Python counts columns from a form feed on
    return f"if True:\n{text}" if is_indented else text  # dedenting would change the text of long strings
