"""Makes the drawings and walks of docs/architecture.md from the code: imports are read, walks are run and watched.

python -m tests.architecture           write them into the page
python -m tests.architecture --check   say whether the page is as the code is; exit code 1 if not
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import grimp

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs/architecture.md"
ROOMS_DRAWN_INSIDE = ("formats", "training", "exercises")


# ---- drawings: who imports whom --------------------------------------------------------------------------------------


def imports() -> grimp.ImportGraph:
    """The imports between all modules of lplab, those for type checkers alone left out."""
    return grimp.build_graph("lplab", exclude_type_checking_imports=True)


def arrows_between_parts(graph: grimp.ImportGraph, package: str) -> dict[str, set[str]]:
    """For each direct part (module or package) of ``package``, the other parts that it imports from."""
    depth = package.count(".") + 1

    def part(module: str) -> str | None:
        names = module.split(".")
        return names[depth] if module.startswith(f"{package}.") else None

    arrows: dict[str, set[str]] = {}
    for module in graph.modules:
        begin = part(module)
        if begin is None:
            continue
        ends = {part(imported) for imported in graph.find_modules_directly_imported_by(module)}
        arrows.setdefault(begin, set()).update(end for end in ends if end not in (None, begin))
    return arrows


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Groups of parts of which each can be reached from each other one (the strongly connected components).

    >>> circles({"a": {"b"}, "b": {"c"}, "c": {"b"}})
    [['b', 'c']]
    """
    reached = {part: _reached_from(part, arrows) for part in arrows}
    groups = {frozenset({a, *(b for b in reached[a] if a in reached.get(b, ()))}) for a in arrows}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def _reached_from(part: str, arrows: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(arrows.get(part, ()))
    while waiting:
        following = waiting.pop()
        if following not in seen:
            seen.add(following)
            waiting.extend(arrows.get(following, ()))
    return seen


def fewest_arrows(arrows: dict[str, set[str]]) -> dict[str, set[str]]:
    """The arrows that no longer way replaces (the transitive reduction of a drawing without circles).

    >>> sorted(fewest_arrows({"a": {"b", "c"}, "b": {"c"}, "c": set()})["a"])
    ['b']
    """
    return {
        begin: {end for end in ends if not any(end in _reached_from(via, arrows) for via in ends - {end})}
        for begin, ends in arrows.items()
    }


def drawing(graph: grimp.ImportGraph, package: str) -> str:
    """A Mermaid drawing of the parts of ``package``: an arrow goes from the part that imports to what it imports."""
    arrows = arrows_between_parts(graph, package)
    if package == "lplab":
        arrows = {part: arrows[part] & _rooms() for part in sorted(_rooms())}
    if circles(arrows):
        raise SystemExit(f"circles of imports in {package}: {circles(arrows)}")
    lines = [f"    {a} --> {b}" for a, ends in sorted(fewest_arrows(arrows).items()) for b in sorted(ends)]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def _rooms() -> set[str]:
    return {folder.parent.name for folder in (PROJECT / "lplab").glob("*/__init__.py")}


def table_of_rooms() -> str:
    """A table of the packages: what each is for (the first sentence of its docstring), and how many modules it has."""
    rows = ["| room | what it is for | modules |", "|---|---|---|"]
    for room in sorted(_rooms()):
        modules = len(list((PROJECT / "lplab" / room).rglob("*.py")))
        rows.append(f"| `{room}` | {_first_sentence(PROJECT / 'lplab' / room / '__init__.py')} | {modules} |")
    return "\n".join(rows)


def _first_sentence(module: Path) -> str:
    docstring = re.match(r'r?"""(.*?)(?:\.\s|\.?\n\n|\.?""")', module.read_text("utf-8"), re.DOTALL)
    return " ".join(re.sub(r"\*\*|:\w+:|``", "", docstring[1]).split()) if docstring else ""


def circles_of_modules(graph: grimp.ImportGraph) -> list[list[str]]:
    """Modules of the whole package that import each other in a circle."""
    return circles({m: set(graph.find_modules_directly_imported_by(m)) for m in graph.modules})


# ---- walks: which modules a call enters, in order --------------------------------------------------------------------


@contextmanager
def watched() -> Iterator[list[tuple[str, str]]]:
    """Collects (module, function) of each call of a Python function of lplab inside the ``with``, in order."""
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("lplab."):
            calls.append((module.removeprefix("lplab."), frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def entered(calls: Iterable[tuple[str, str]], depth: int) -> list[str]:
    """The parts of lplab in the order in which they are entered; ``depth`` 1 means packages, 2 what these contain.

    Small functions inside an expression, which another part may call back, do not count as a way back.

    >>> entered([("a.b", "f"), ("a.c", "g"), ("d.e", "h"), ("a.b", "<lambda>")], depth=1)
    ['a', 'd']
    """
    parts: list[str] = []
    for module, function in calls:
        part = ".".join(module.split(".")[:depth])
        if not function.startswith("<") and parts[-1:] != [part]:
            parts.append(part)
    return parts


def walk_of_a_tensor() -> list[tuple[str, str]]:
    """A tensor through ``quantize``, once a large one has loaded the loop: the way is known then."""
    import torch

    from lplab import formats as F

    number_format, x = F.get("e4m3fn"), torch.linspace(-1, 1, 64)
    number_format.quantize(torch.zeros(2**16))
    with watched() as calls:
        number_format.quantize(x)
    return calls


def walk_of_a_gradient() -> list[tuple[str, str]]:
    """A gradient through the hook of DistributedDataParallel with top-k, in the second step of a rank that is alone."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        return _two_steps_of_a_rank()
    finally:
        # The model has gone with the function that made it: PyTorch can wait for ever where a model outlives its group.
        dist.destroy_process_group()


def _two_steps_of_a_rank() -> list[tuple[str, str]]:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from lplab.compression import TopK
    from lplab.parallel import ddp_hook

    model = DistributedDataParallel(torch.nn.Linear(8, 4, bias=False))
    state = ddp_hook(model, TopK(1 / 8), overlap=False)  # all in the thread that is watched
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 8)).sum()
        with watched() as calls:
            loss.backward()
        state.apply(optimizer)
    return calls


def midpoint(low: float, high: float) -> float:
    """A student's answer to exercise 00.1."""
    return (low + high) / 2


def walk_of_an_answer() -> list[tuple[str, str]]:
    """A right answer to exercise 00.1 through ``check``, in the notebook's own process."""
    from lplab.exercises import check

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict("os.environ", LPLAB_PROGRESS=f"{folder}/progress.json"),
    ):
        check("00.1", midpoint)
        with watched() as calls:
            check("00.1", midpoint)
    return calls


WALKS: dict[str, Callable[[], list[tuple[str, str]]]] = {
    "a tensor": walk_of_a_tensor,
    "a gradient": walk_of_a_gradient,
    "an answer": walk_of_an_answer,
}


def walk(name: str) -> str:
    """The modules that a walk enters, in order, each with its first function there and what the module is for."""
    first: dict[str, str] = {}
    for module, function in WALKS[name]():
        if not function.startswith("<"):
            first.setdefault(module, function)
    rows = []
    for number, (module, function) in enumerate(first.items(), 1):
        path = PROJECT / "lplab" / Path(*module.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        rows.append(f"{number}. `{module}` (`{function}`): {_first_sentence(file)}.")
    return "\n".join(rows)


# ---- the page --------------------------------------------------------------------------------------------------------


def parts() -> dict[str, str]:
    """What is made from the code, by the name under which the page asks for it."""
    graph = imports()
    return {
        "rooms": table_of_rooms(),
        "all rooms": drawing(graph, "lplab"),
        **{f"inside {room}": drawing(graph, f"lplab.{room}") for room in ROOMS_DRAWN_INSIDE},
        **{f"walk of {name}": walk(name) for name in WALKS},
    }


def page_with(made: dict[str, str], page: str) -> str:
    r"""``page`` with each part between its two marks made anew; KeyError for a part that nobody makes.

    >>> page_with({"x": "new"}, "<!-- made: x -->\nold\n<!-- end -->")
    '<!-- made: x -->\nnew\n<!-- end -->'
    """
    return re.sub(
        r"(<!-- made: (.+?) -->\n).*?(\n<!-- end -->)",
        lambda found: found[1] + made[found[2]] + found[3],
        page,
        flags=re.DOTALL,
    )


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the page is as the code is")
    options = parser.parse_args()
    before = PAGE.read_text("utf-8")
    now = page_with(parts(), before)
    if options.check:
        print("docs/architecture.md is as the code is" if now == before else "docs/architecture.md is old")
        return int(now != before)
    PAGE.write_text(now, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
