"""Docstrings read alone, and what they refer to is there: roles (:func:`name`), dotted names and files in backticks."""

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("plotly")
pytest.importorskip("ipywidgets")

ROOT = Path(__file__).parents[1]
ROLE = re.compile(r":(class|func|meth|attr|mod|data|exc|obj):`([^`]+)`")
DOTTED = re.compile(r"(?<!`)`{1,2}(lplab(?:\.\w+)+)(?:\(\))?`{1,2}")
FILE = re.compile(r"(?<!`)``?((?:[\w-]+/)*[\w-]+\.py)``?")
# Beginnings that need the docstring of something else: a reader of help() or a hover has only this one.
NEEDS_ANOTHER = re.compile(r"(?:Of|As|Like|See|The same|Ditto|Those|These|They|It|Its|Their|Both\.|Both together)\b")
OPTIONAL = ("triton",)  # of the extra `gpu`, which `start.py test --all` installs
PACKAGES = sorted(path.parent.relative_to(ROOT / "lplab").parts[:1] for path in (ROOT / "lplab").rglob("__init__.py"))


def docstrings(path: Path) -> Iterator[tuple[str, str, str]]:
    """The docstrings of a module, as (where, innermost class, text)."""

    def walk(node: Any, where: str, inside: str) -> Iterator[tuple[str, str, str]]:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = node.name if isinstance(node, ast.ClassDef) else inside
            where = f"{where}.{node.name}" if not isinstance(node, ast.Module) else where
            text = ast.get_docstring(node)
            if text:
                yield where, inside, text
        for child in ast.iter_child_nodes(node):
            yield from walk(child, where, inside)

    yield from walk(ast.parse(path.read_text("utf-8")), ".".join(path.relative_to(ROOT).with_suffix("").parts), "")


@functools.cache
def is_module(name: str) -> bool:
    """Whether a module of this name can be imported."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        return error.name in OPTIONAL
    return True


def is_there(target: str, module: str, inside: str) -> bool:
    """Whether a name means something; what needs a package that is not installed counts as there."""
    try:
        return resolves(target, module, inside)
    except ModuleNotFoundError as error:
        if error.name in OPTIONAL:
            return True
        raise


def has(owner: Any, names: list[str]) -> bool:
    """Whether names can be followed from an object: attributes, fields of dataclasses, attributes set in __init__."""
    for place, name in enumerate(names):
        if hasattr(owner, name):
            owner = getattr(owner, name)
            continue
        is_last = place == len(names) - 1
        return is_last and inspect.isclass(owner) and is_instance_attribute(owner, name)
    return True


def is_instance_attribute(owner: type, name: str) -> bool:
    """Whether objects of a class have this attribute: a field, or one that a method assigns."""
    kinds = [kind for kind in owner.__mro__ if kind.__module__.startswith("lplab")]
    if any(name in getattr(kind, "__annotations__", {}) for kind in kinds):
        return True
    return any(re.search(rf"\bself\.{name}\b[^=\n]*=", inspect.getsource(kind)) for kind in kinds)


def resolves(target: str, module: str, inside: str) -> bool:
    """Whether a name means something: in its class, in its module, from the top, or beside its module."""
    names = target.split(".")
    here = importlib.import_module(module)
    if (inside and hasattr(here, inside) and has(getattr(here, inside), names)) or has(here, names):
        return True
    beside = (here.__name__ if hasattr(here, "__path__") else here.__package__ or "").split(".")
    for whole in (names, beside + names):
        for length in range(len(whole), 0, -1):
            if is_module(".".join(whole[:length])):
                if has(importlib.import_module(".".join(whole[:length])), whole[length:]):
                    return True
                break
    return False


@pytest.mark.parametrize("package", sorted({parts[0] if parts else "." for parts in PACKAGES}))
def test_what_docstrings_refer_to_is_there(package):
    """Sphinx links these names; a reader of help() looks for them."""
    folder = ROOT / "lplab" / package
    missing = []
    for path in sorted(folder.glob("*.py") if package == "." else folder.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for where, inside, text in docstrings(path):
            for role, named in ROLE.findall(text):
                target = re.sub(r"\s+", " ", named).rpartition("<")[2].rstrip(">").lstrip("~")
                if target.startswith("."):  # beside this module
                    target = f"{'.'.join(path.parent.relative_to(ROOT).parts)}{target}"
                if not (is_module(target) if role == "mod" else is_there(target, module, inside)):
                    missing.append(f"{where}: :{role}:`{named}`")
            missing += [f"{where}: {name}" for name in DOTTED.findall(text) if not is_there(name, module, inside)]
            for name in FILE.findall(text):
                if not any(
                    (start / name).exists() for start in (path.parent, ROOT / "lplab", ROOT, *path.parents[1:3])
                ):
                    missing.append(f"{where}: {name}")
    assert not missing, "\n".join(missing)


def reads_alone(text: str) -> bool:
    """Whether a docstring begins with its own subject and ends its first paragraph as a sentence or before a list."""
    first = " ".join(text.partition("\n\n")[0].split())
    return NEEDS_ANOTHER.match(first) is None and first.rstrip("`\"')”*")[-1:] in ".!?:…"


def test_docstrings_read_alone():
    places = [(where, text) for path in (ROOT / "lplab").rglob("*.py") for where, _, text in docstrings(path)]
    assert len(places) > 4000
    assert [f"{where}: {text.splitlines()[0]}" for where, text in places if not reads_alone(text)] == []


def test_a_docstring_that_needs_another_is_noticed():
    needy = ("Of both.", "As above.", "The same, rounded.", "Seconds of a step", "See `Form`.")
    assert not any(map(reads_alone, needy)) and reads_alone("Seconds of a step.")
