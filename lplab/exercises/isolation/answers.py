"""A student's function and all that it uses, as self-contained source: for the child process and for the report."""

import __future__

import ast
import builtins
import contextlib
import keyword
import symtable
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lplab.exercises.isolation.literals import MODULES, NotPlainError, describe_type, to_literal
from lplab.exercises.isolation.sources import source_of_class, source_of_function, undecorated

SHELLS = ("IPython", "ipykernel")  # they put their own exit, open and display among a notebook's names
UNNAMED = "answer"  # the name of a lambda


@dataclass(frozen=True)
class Answer:
    r"""``source`` is self-contained Python text (imports, constants, helpers, the function), ``name`` what is called.

    A name that Python cannot have raises a ValueError. Whether the source is any good shows when it is run.

    >>> Answer("def half(x):\n    return x / 2", "half").name
    'half'
    """

    source: str
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.source, str):
            raise ValueError(f"the source of an answer is text, not {describe_type(self.source)}")
        if not isinstance(self.name, str) or not self.name.isidentifier() or keyword.iskeyword(self.name):
            raise ValueError(f"an answer needs the name of a function, not {self.name!r}")


def answer_of(function: Callable) -> Answer:
    """The answer made from a live function: its source and that of everything it uses.

    Included: functions and classes of the same notebook or module (their source, and what they use in turn),
    imports, constants, and the variables of a function around it. What cannot be included raises a ValueError of one
    line: objects such as a DataFrame or a file, methods, a function without source.

    >>> from math import floor
    >>> step = 0.5
    >>> def truncated(x):
    ...     return floor(x / step) * step
    >>> print(answer_of(truncated).source)
    from math import floor
    <BLANKLINE>
    step = 0.5
    <BLANKLINE>
    def truncated(x):
        return floor(x / step) * step
    <BLANKLINE>
    """
    if not callable(function):
        raise ValueError(f"an answer is a function, not {describe_type(function)}")
    dependencies = _Dependencies(getattr(undecorated(function)[0], "__module__", None))
    name = dependencies.add_answer(function)
    return Answer(dependencies.text(), name)


class _Dependencies:
    """What an answer depends on: each name once, defined before the names whose definitions use it."""

    def __init__(self, home: str | None) -> None:
        self.home = home  # functions and classes of this module are included as source; others are imported
        self.future = ""
        self.imports: dict[str, None] = {}
        self.blocks: list[str] = []
        self.aliases: list[str] = []
        self.values: dict[str, Any] = {}  # what each name stands for
        self.names: dict[int, str] = {}  # under which name each function or class is defined

    def text(self) -> str:
        """The source of the answer."""
        parts = ["\n".join([self.future, *self.imports]).strip(), *self.blocks, "\n".join(self.aliases)]
        return "\n\n".join(filter(None, parts)) + "\n"

    def add_answer(self, function: Any) -> str:
        """Add the answer itself, and return its name."""
        name = str(getattr(function, "__name__", ""))
        defined = isinstance(undecorated(function)[0], types.FunctionType | type)
        line = None if defined and not _of_a_library(self.home) else _import_line(name, function)
        if line is None and defined:
            return self._add_definition(None, function, _names_of(self.home))
        if line is None:
            raise ValueError(
                f"an answer is a function made with def, not {describe_type(function)}; write one that calls it"
            )
        self.imports[line] = None
        return name

    def add(self, name: str, value: Any, user: str, scope: dict[str, Any]) -> None:
        """Make ``name`` stand for ``value``, as it does for the function or class ``user``."""
        if name in self.values:
            if not _equal(self.values[name], value):
                raise ValueError(f"your functions use two different things named `{name}`; give them different names")
            return
        self.values[name] = value
        inner, _ = undecorated(value)
        if isinstance(value, types.ModuleType):
            self.imports[f"import {name}" if name == value.__name__ else f"import {value.__name__} as {name}"] = None
        elif isinstance(inner, types.FunctionType | type) and inner.__module__ == self.home:
            self._add_definition(name, value, scope)
        else:
            self._add_other(name, value, user)

    def _add_other(self, name: str, value: Any, user: str) -> None:
        try:
            text = to_literal(value)
        except NotPlainError as error:
            line = _import_line(name, value)
            if line is None:
                raise ValueError(f"`{user}` uses `{name}`, {error}; make it inside the function") from None
            self.imports[line] = None
        else:
            self.imports |= {f"import {module}": None for module in MODULES if f"{module}." in text}
            self.blocks.append(f"{name} = {text}")

    def _add_definition(self, name: str | None, value: Any, scope: dict[str, Any]) -> str:
        """Add a function or class and what it uses; ``name`` is its name there, if not the one it was defined with."""
        if id(value) in self.names:
            self._alias(name, self.names[id(value)])
            return self.names[id(value)]
        source = source_of_class(value, scope) if isinstance(value, type) else source_of_function(value)
        defined = source.name or name or UNNAMED
        if defined != name and not _equal(self.values.setdefault(defined, value), value):
            raise ValueError(f"your functions use two different things named `{defined}`; give them different names")
        self.values[defined] = value
        self.names[id(value)] = defined
        for used in _globals_of(source.text, defined):
            if used in source.scope and not _of_the_shell(used, source.scope[used]):
                self.add(used, source.scope[used], defined, source.scope)
        for used in _names_of_fields(source.text):
            if _is_of_typing(source.scope.get(used)):
                self.add(used, source.scope[used], defined, source.scope)
        self.future = self.future or _future(value)
        self.blocks.append(source.text if source.name else f"{defined} = {source.text}")
        for attribute, text in _attributes(value, source.text):
            self.imports |= {f"import {module}": None for module in MODULES if f"{module}." in text}
            self.blocks.append(f"{defined}.{attribute} = {text}")
        self._alias(name, defined)
        return defined

    def _alias(self, name: str | None, defined: str) -> None:
        if name not in (None, defined):
            self.aliases.append(f"{name} = {defined}")


def _globals_of(text: str, name: str) -> list[str]:
    """The names that the source of ``name`` looks up outside of itself; ValueError if it makes no sense alone.

    Annotations do not count, as they are not evaluated in an answer.
    """
    try:
        top = symtable.symtable(f"from __future__ import annotations\n{text}", name, "exec")
    except SyntaxError as error:
        raise ValueError(f"`{name}` cannot stand alone ({error.msg}); define it at the left margin of a cell") from None
    except (RecursionError, MemoryError):
        raise ValueError(
            f"`{name}` is nested too deeply: write it with fewer brackets and signs inside others"
        ) from None

    def walk(table: symtable.SymbolTable) -> Iterator[str]:
        for symbol in table.get_symbols():
            if symbol.is_referenced() if table is top else symbol.is_global():
                yield symbol.get_name()
        for child in table.get_children():
            if child.get_type() != "annotation":
                yield from walk(child)

    return [used for used in dict.fromkeys(walk(top)) if not used.startswith("__")]


def _names_of_fields(text: str) -> set[str]:
    """The names in the annotations of classes: decorators such as ``dataclass`` look some of them up."""
    classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    fields = [node.annotation for one in classes for node in one.body if isinstance(node, ast.AnnAssign)]
    return {part.id for field in fields for part in ast.walk(field) if isinstance(part, ast.Name)}


def _is_of_typing(value: Any) -> bool:
    """Whether this is ``ClassVar``, ``InitVar`` or the like, or a module that has them."""
    home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return home in ("typing", "dataclasses")


def _attributes(value: Any, text: str) -> Iterator[tuple[str, str]]:
    """The attributes that a function or class got after its definition, as literals, as far as they are plain."""
    inner, _ = undecorated(value)
    body = [part for node in ast.parse(text).body if isinstance(node, ast.ClassDef) for part in node.body]
    given = {name: written for part in body for name, written in _assigned(part)}
    for name, attribute in vars(inner).items():
        with contextlib.suppress(NotPlainError):
            literal = to_literal(attribute)
            if not name.startswith("_") and not (name in given and _is_unchanged(given[name], literal)):
                yield name, literal


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(node, ast.Assign | ast.AnnAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name):
                yield target.id, node.value


def _is_unchanged(written: ast.expr | None, literal: str) -> bool:
    """Whether a value is what the body of the class says, as far as that is written out."""
    try:
        return written is None or to_literal(ast.literal_eval(written)) == literal
    except (ValueError, TypeError, RecursionError):  # an expression of another kind, whose value is not known here
        return True


def _of_the_shell(name: str, value: Any) -> bool:
    """Whether this is a builtin, or the shell's stand-in for one, such as its ``exit`` and ``open``."""
    builtin = getattr(builtins, name, None)
    maker = getattr(value, "__module__", None) or ""
    return builtin is not None and (undecorated(value)[0] is builtin or maker.partition(".")[0] in SHELLS)


def _names_of(module: str | None) -> dict[str, Any]:
    return getattr(sys.modules.get(module or ""), "__dict__", {})


def _of_a_library(module: str | None) -> bool:
    top = (module or "").partition(".")[0]
    return top in sys.stdlib_module_names or top == "numpy"


def _import_line(name: str, value: Any) -> str | None:
    """How ``value`` comes to its name by import; None if no module has it."""
    own = getattr(value, "__name__", name)
    if getattr(builtins, str(own), None) is value:
        return f"{name} = {own}"
    for module in ("numpy", "math", getattr(value, "__module__", None), *sys.modules):
        for known in (own, name):
            if module != "__main__" and _names_of(module).get(known) is value:
                return f"from {module} import {known}" + f" as {name}" * (known != name)
    return None


def _future(value: Any) -> str:
    code = getattr(undecorated(value)[0], "__code__", None)
    as_text = code is not None and code.co_flags & __future__.annotations.compiler_flag
    return "from __future__ import annotations" if as_text else ""


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are the same object, or constants of the same text."""
    if one is other:
        return True
    try:
        return to_literal(one) == to_literal(other)
    except NotPlainError:
        return False
