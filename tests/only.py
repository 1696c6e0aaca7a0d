"""A Python that finds nothing but what an extra of lplab installs, without installing anything: in other processes."""

import functools
import os
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[1]
# Python runs this module at each start, in every process that inherits the environment.
SITECUSTOMIZE = """
import os, sys
from importlib.machinery import PathFinder

MODULES, DISTRIBUTIONS = (frozenset(os.environ[name].split()) for name in ("ONLY_WITHOUT", "ONLY_NOT_INSTALLED"))


class Finder(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return None if fullname.partition(".")[0] in MODULES else super().find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, *args, **kwargs):
        found = super().find_distributions(*args, **kwargs)
        return (each for each in found if each.name not in DISTRIBUTIONS)


sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""


def required(*extras: str) -> set[str]:
    """The names of all distributions that lplab with these extras brings, as far as they are installed here."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    todo = [Requirement(text) for text in project["dependencies"]] + [Requirement(f"lplab[{','.join(extras)}]")]
    found: dict[str, set[str]] = {}
    while todo:
        each = todo.pop()
        name = canonicalize_name(each.name)
        new = {"", *each.extras} - found.get(name, set())
        found.setdefault(name, set()).update(new)
        if name == "lplab":
            todo += [Requirement(text) for extra in new - {""} for text in project["optional-dependencies"][extra]]
            continue
        try:
            needs = [Requirement(text) for text in metadata.requires(name) or []]
        except metadata.PackageNotFoundError:  # of another system, say
            continue
        todo += [n for n in needs for extra in new if n.marker is None or n.marker.evaluate({"extra": extra})]
    return set(found)


@functools.cache
def modules() -> dict[str, set[str]]:
    """Each module that is installed at the top level, and the distributions that it is of."""
    found = metadata.packages_distributions()
    return {module: {canonicalize_name(name) for name in names} for module, names in found.items()}


def environment(folder: Path, *extras: str) -> dict[str, str]:
    """The environment of processes that find lplab and what its ``extras`` bring; no program is on their PATH."""
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE, "utf-8")
    there = required(*extras)
    hidden = [module for module, names in modules().items() if names.isdisjoint(there)]
    others = [each.name for each in metadata.distributions() if canonicalize_name(each.name) not in there]
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONSTARTUP")}
    return {
        **kept,
        "PATH": str(folder),
        "PYTHONPATH": os.pathsep.join((str(folder), str(PROJECT))),
        "ONLY_WITHOUT": " ".join(hidden),
        "ONLY_NOT_INSTALLED": " ".join(others),
        "LPLAB_PROGRESS": str(folder / "progress.json"),
    }
