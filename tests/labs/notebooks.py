"""The rules for the notebooks in labs/, and the tool that brings a notebook into the form in which it is committed.

    python tests/labs/notebooks.py labs/*.ipynb          strip unchecked outputs, report broken rules
    python tests/labs/notebooks.py --run labs/*.ipynb    the same after a fresh run from top to bottom

nbval compares only cells marked ``# NBVAL_CHECK_OUTPUT``, and passes even those when their stored output is missing. So
outputs of marked cells are kept and required; all others are dropped, as they only make changes hard to read.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

MARK = "# NBVAL_CHECK_OUTPUT"
CHECKED_CELLS = 3
CELL_LINES, CODE_LINES, WORDS = 15, 120, 2000
HEADINGS = ("Predict", "What you saw", "Limits", "Summary", "References")
VARYING = r"0x[0-9a-f]{6,}|/(?:home|root|tmp|Users|work)/|[A-Z]:\\|'uid': '"  # addresses, paths, plotly's random ids


def source(cell: dict[str, Any]) -> str:
    """Text of a cell (a string or a list of lines, both are allowed in the file)."""
    return "".join(cell["source"])


def is_checked(cell: dict[str, Any]) -> bool:
    """Whether nbval compares this cell's output."""
    return cell["cell_type"] == "code" and MARK in source(cell).splitlines()


def strip(notebook: dict[str, Any]) -> None:
    """Drop, in place, what nothing compares: outputs and counts of unchecked cells, widget states, versions."""
    notebook["metadata"] = {key: value for key, value in notebook["metadata"].items() if key == "kernelspec"}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        cell["metadata"] = {key: value for key, value in cell["metadata"].items() if key == "tags"}
        if not is_checked(cell):
            cell["outputs"], cell["execution_count"] = [], None


def problems(notebook: dict[str, Any], name: str) -> list[str]:
    """The rules that a notebook breaks, one line each; empty if it may be committed."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [
        *name_and_form(notebook, name),
        *[f"code cell {n}: {text}" for n, cell in enumerate(code, 1) for text in cell_problems(cell)],
        *checks(code),
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
        yield f"{checked} cells marked {MARK}, fewer than {CHECKED_CELLS}"
    total = sum(len(source(cell).splitlines()) for cell in code)
    if total > CODE_LINES:
        yield f"{total} lines of code, more than {CODE_LINES}: move code into the library"


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

    node = nbformat.from_dict(notebook)
    nbclient.NotebookClient(node, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return json.loads(nbformat.writes(node))


def main(argv: Sequence[str] | None = None) -> int:
    """Strip (and with ``--run``, first run) notebooks in place; exit code 1 if one breaks a rule."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("notebooks.py", description=__doc__, formatter_class=raw)
    parser.add_argument("--run", action="store_true", help="run each notebook from top to bottom first")
    parser.add_argument("files", nargs="+", type=Path)
    args = parser.parse_args(argv)
    broken = 0
    for path in args.files:
        notebook = json.loads(path.read_text("utf-8"))
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
