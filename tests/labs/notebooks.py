"""The rules for the notebooks in labs/, and the tool that brings a notebook into the form in which it is committed.

    python -m tests.labs.notebooks labs/*.ipynb          write exercises, strip unchecked outputs, report broken rules
    python -m tests.labs.notebooks --run labs/*.ipynb    the same after a fresh run from top to bottom

nbval compares only cells with the tag ``nbval-check-output``, and passes even those when their stored output is
missing. So outputs of these cells are kept and required; all others are dropped, as they only make changes hard to
read. A cell may be folded: its metadata then say ``"jupyter": {"source_hidden": true, "outputs_hidden": true}``.

The cells with the ids ``statement-01-2`` and ``exercise-01-2`` hold exercise 01.2; their text comes from the exercise.
"""

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lplab import exercises

TAG = "nbval-check-output"
CHECKED_CELLS = 3
CELL_LINES, CODE_LINES, WORDS = 15, 120, 3000
HEADINGS = ("Predict", "What you saw", "Limits", "Summary", "References")
VARYING = r"0x[0-9a-f]{6,}|/(?:home|root|tmp|Users|work)/|[A-Z]:\\|'uid': '"  # addresses, paths, plotly's random ids


def source(cell: dict[str, Any]) -> str:
    """Text of a cell (a string or a list of lines, both are allowed in the file)."""
    return "".join(cell["source"])


def is_checked(cell: dict[str, Any]) -> bool:
    """Whether nbval compares this cell's output."""
    return cell["cell_type"] == "code" and TAG in cell["metadata"].get("tags", [])


def exercise_part(cell: dict[str, Any]) -> tuple[str, str] | None:
    """What this cell holds of an exercise: ("statement" or "exercise", id); None for all other cells."""
    found = re.fullmatch(r"(statement|exercise)-(\d\d)-(\d)", cell.get("id", ""))
    return (found[1], f"{found[2]}.{found[3]}") if found else None


def text_of(part: str, exercise_id: str) -> str:
    """The text that a cell of an exercise must have."""
    exercise = exercises.get(exercise_id)
    return exercise.box if part == "statement" else exercise.cell


def write_exercises(notebook: dict[str, Any]) -> None:
    """Write the text of all exercises into their cells, in place."""
    for cell in notebook["cells"]:
        if found := exercise_part(cell):
            cell["source"] = text_of(*found).splitlines(keepends=True)


def solved(notebook: dict[str, Any]) -> dict[str, Any]:
    """A copy in which every exercise is solved."""
    copy = json.loads(json.dumps(notebook))
    for cell in copy["cells"]:
        found = exercise_part(cell)
        if found and found[0] == "exercise":
            exercise = exercises.get(found[1])
            cell["source"] = f'{exercise.solution}\n\ncheck("{exercise.id}", {exercise.name})'
    return copy


def number_cells(notebook: dict[str, Any]) -> None:
    """Give every cell an id, as format 4.5 wants it; those that have one keep it."""
    notebook["nbformat_minor"] = 5
    used = {cell.get("id") for cell in notebook["cells"]}
    free = (name for name in (f"cell-{number:02}" for number in range(1, 1000)) if name not in used)
    for cell in notebook["cells"]:
        cell["id"] = cell.get("id") or next(free)


def strip(notebook: dict[str, Any]) -> None:
    """Drop, in place, what nothing compares: outputs and counts of unchecked cells, widget states, versions."""
    notebook["metadata"] = {key: value for key, value in notebook["metadata"].items() if key == "kernelspec"}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        cell["metadata"] = {key: value for key, value in cell["metadata"].items() if key in ("tags", "jupyter")}
        if not is_checked(cell):
            cell["outputs"], cell["execution_count"] = [], None


def problems(notebook: dict[str, Any], name: str) -> list[str]:
    """The rules that a notebook breaks, one line each; empty if it may be committed."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [
        *name_and_form(notebook, name),
        *[f"code cell {n}: {text}" for n, cell in enumerate(code, 1) for text in cell_problems(cell)],
        *checks(code),
        *exercise_problems(notebook["cells"], name[:2]),
        *unknown_calls(notebook["cells"]),
        *rebound(code),
        *prose([source(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]),
    ]


def name_and_form(notebook: dict[str, Any], name: str) -> Iterator[str]:
    """File name, format, kernel, saved state, title."""
    if not re.fullmatch(r"\d\d_[a-z0-9_]+\.ipynb", name):
        yield f"the name is not NN_title.ipynb: {name}"
    if notebook["metadata"].get("kernelspec", {}).get("name") != "python3":
        yield "the kernel is not python3"
    if "widgets" in notebook["metadata"]:
        yield "saved widget state: megabytes that nobody reads"
    first = notebook["cells"][0]
    if first["cell_type"] != "markdown" or not re.match(r"#\s.+", source(first)):
        yield "the first cell is no title"
    elif not (re.search(r"\b(19|20)\d\d\b", source(first)) and re.search(r"\d+\s*min", source(first))):
        yield "the first cell lacks the year or the minutes"


def cell_problems(cell: dict[str, Any]) -> Iterator[str]:
    """Length and outputs of one code cell."""
    lines = source(cell).splitlines()
    if len(lines) > CELL_LINES:
        yield f"{len(lines)} lines, more than {CELL_LINES}: move code into the library"
    if any(line.startswith("# NBVAL_CHECK") for line in lines):
        yield f"a mark for nbval in front of the reader: use the tag {TAG}"
    if any(line.startswith("# NBVAL_SKIP") for line in lines):
        yield "NBVAL_SKIP: a cell that no test runs"
    if not is_checked(cell):
        if cell["outputs"] or cell["execution_count"] is not None:
            yield "a stored output that nothing compares (strip it)"
    elif not cell["outputs"] or cell["execution_count"] is None:
        yield "checked, but without stored output or execution count: nbval would pass whatever it prints"
    elif any(output["output_type"] == "error" for output in cell["outputs"]):
        yield "its stored output is an error"
    elif re.search(VARYING, json.dumps(cell["outputs"])):
        yield "its stored output has a path, an address or a random id"


def checks(code: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Enough code is checked, and there is not too much of it."""
    checked = sum(map(is_checked, code))
    if checked < CHECKED_CELLS:
        yield f"{checked} cells with the tag {TAG}, fewer than {CHECKED_CELLS}"
    total = sum(len(source(cell).splitlines()) for cell in code)
    if total > CODE_LINES:
        yield f"{total} lines of code, more than {CODE_LINES}: move code into the library"


def exercise_problems(cells: Sequence[dict[str, Any]], lab: str) -> Iterator[str]:
    """Every exercise of the lab is there with its own text, and no solution is."""
    wanted = {(part, name) for name in exercises.names() if name[:2] == lab for part in ("statement", "exercise")}
    there = [found for cell in cells if (found := exercise_part(cell))]
    for part, name in sorted(wanted.symmetric_difference(there)):
        yield f"{part} {name} is {'missing' if (part, name) in wanted else 'of another lab'}"
    for cell in cells:
        found = exercise_part(cell)
        if found in wanted and source(cell) != text_of(*found):
            yield f"{found[0]} {found[1]} is not the exercise's own text: run this tool"
    for name in sorted({name for _, name in wanted}):
        body = exercises.get(name).solution.rpartition('"""')[2].strip()
        if any(body in source(cell) for cell in cells):
            yield f"the solution of {name} is in the notebook"


def unknown_calls(cells: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What the text tells a student to call must have been imported."""
    code = "\n".join(source(cell) for cell in cells if cell["cell_type"] == "code")
    imported = set(re.findall(r"\w+", " ".join(re.findall(r"^from lplab.exercises import (.*)$", code, re.MULTILINE))))
    text = "\n".join(source(cell) for cell in cells if cell["cell_type"] == "markdown")
    for name in sorted(set(re.findall(r"`(\w+)\(", text)) & set(exercises.__all__) - imported):
        yield f"the text says `{name}(...)`, but no cell imports it"


def rebound(code: Sequence[dict[str, Any]]) -> Iterator[str]:
    """No cell gives an imported name to something else: cells run again, and would find that instead."""
    trees = [ast.parse(source(cell)) for cell in code]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    imported = {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}
    for number, tree in enumerate(trees, 1):
        for name in sorted(imported & set(bound(tree))):
            yield f"code cell {number}: {name} is imported, and this cell makes it something else"


def bound(tree: ast.AST) -> Iterator[str]:
    """Names that the code of a cell binds for the cells after it; imports, and what is inside functions, left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            yield from (inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))
        elif not isinstance(node, ast.Lambda):
            if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
                yield node.id
            if isinstance(node, ast.ExceptHandler) and node.name:
                yield node.name
            yield from bound(node)


def prose(texts: Sequence[str]) -> Iterator[str]:
    """The blocks that every lab has, and not too many words."""
    headings = " | ".join(re.findall(r"^#+\s+(.*)$", "\n".join(texts), re.MULTILINE)).lower()
    missing = [heading for heading in HEADINGS if heading.lower() not in headings]
    if missing:
        yield f"no heading with {', '.join(missing)}"
    words = sum(len(text.split()) for text in texts)
    if words > WORDS:
        yield f"{words} words, more than {WORDS}"


def run(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with the outputs of a fresh run in ``folder``."""
    import nbclient
    import nbformat

    node = nbformat.reads(json.dumps(notebook), as_version=4)  # joins what the file keeps as lines
    nbclient.NotebookClient(node, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return json.loads(nbformat.writes(node))


def main(argv: Sequence[str] | None = None) -> int:
    """Bring notebooks into form (with ``--run``, run them first) in place; exit code 1 if one breaks a rule."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tests.labs.notebooks", description=__doc__, formatter_class=raw)
    parser.add_argument("--run", action="store_true", help="run each notebook from top to bottom before")
    parser.add_argument("files", nargs="+", type=Path)
    args = parser.parse_args(argv)
    broken = 0
    for path in args.files:
        notebook = json.loads(path.read_text("utf-8"))
        number_cells(notebook)
        write_exercises(notebook)
        if args.run:
            notebook = run(notebook, path.parent)
        strip(notebook)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
        for problem in problems(notebook, path.name):
            print(f"{path}: {problem}")
            broken += 1
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
