"""The code cells of a notebook as syntax trees: magics removed, cells that cannot be parsed noted, nothing run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

TIMERS = ("time", "timeit", "capture", "prun")  # cell magics below which there is Python that runs in the notebook
TIMED_LINE = re.compile(r"^(\s*)%(?:time|prun)\s+(?=[^\s-])", re.MULTILINE)  # so does what stands behind it
MAGIC_LINE = re.compile(r"^(\s*)(?:[%!?]|[\w., ]+=\s*[%!]).*|^(\s*)[\w.]+\?+\s*$", re.MULTILINE)
ARROW = re.compile(r"^-+> ?(\d{1,6}) (.*)$", re.MULTILINE)  # the first one points into the cell
COLORS = re.compile(r"\x1b\[[\d;]*m")
CHECK_LINE = re.compile(r"""^.*\bcheck\(\s*["'](\d\d\.\d)["']\s*,\s*(\w+).*$""", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """One code cell.

    Args:
        number: among the code cells, from 1.
        text: the Python in it.
        tree: None where the text cannot be read as Python.
        note: what was left out or could not be read, "" if nothing.
        count: the number that the kernel gave it when it ran last; None if the notebook does not say.
        stopped_at: the line of it at which it raised then; None if it did not, as far as the notebook says.
    """

    number: int
    text: str
    tree: ast.Module | None
    note: str = ""
    count: int | None = None
    stopped_at: int | None = None

    @property
    def where(self) -> str:
        """The name of the cell in a note."""
        return f"code cell {self.number}"

    def checks_by_pattern(self) -> list[tuple[str, str]]:
        """Exercise and function of each ``check("01.2", f)`` in a text that cannot be parsed."""
        return [(found[1], found[2]) for found in CHECK_LINE.finditer(self.text)]


def cells_of(notebook: dict[str, Any]) -> Iterator[Cell]:
    """The code cells of a notebook of format 4, as `json` gives it; cells of another form are skipped."""
    cells = (cell for cell in notebook["cells"] if isinstance(cell, dict) and cell.get("cell_type") == "code")
    for number, cell in enumerate(cells, 1):
        source = cell.get("source", "")
        lines = source if isinstance(source, list) else [source]
        found = read_cell(number, "".join(line for line in lines if isinstance(line, str)))
        count = cell.get("execution_count")
        is_count = type(count) is int and count > 0
        yield replace(found, count=count if is_count else None, stopped_at=_stopped_at(found.text, cell.get("outputs")))


def _stopped_at(text: str, outputs: Any) -> int | None:
    """The line at which a cell raised, by the traceback below it; it is believed where it quotes that very line."""
    lines = text.split("\n")
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, dict) and output.get("output_type") == "error":
            traceback = output.get("traceback")
            frames = "\n".join(map(str, traceback)) if isinstance(traceback, list) else ""
            match = ARROW.search(COLORS.sub("", frames))
            if match and 1 <= (line := int(match[1])) <= len(lines) and lines[line - 1].strip() == match[2].strip():
                return line
    return None


def read_cell(number: int, text: str) -> Cell:
    r"""One cell, without its magics.

    >>> ast.unparse(read_cell(1, "%matplotlib inline\n!ls\nx = 3").tree.body[-1])
    'x = 3'
    >>> read_cell(2, "def f(:").note
    'code cell 2 is no Python (line 1: invalid syntax)'
    >>> read_cell(3, "%%bash\ndef").note
    'code cell 3 is %%bash: it was not read'
    """
    text = text.encode("utf-8", "replace").decode()  # no halves of characters, which no file can hold
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # so that lines are the ones that Python counts
    first, _, below = text.strip().partition("\n")
    if first.startswith("%%"):
        magic = re.match(r"%%\w*", first)
        assert magic is not None, "the line begins with %%"
        if magic[0][2:] not in TIMERS:
            return Cell(number, text, ast.Module([], []), f"code cell {number} is {magic[0]}: it was not read")
        text = below
    tree, problem = _parsed(text)
    if tree is None:
        timed = TIMED_LINE.sub(r"\1", text)
        for plainer in (timed, _by_ipython(timed), MAGIC_LINE.sub(r"\1\2pass", timed)):
            tree, _ = _parsed(plainer)
            if tree is not None:
                return Cell(number, plainer, tree)
    return Cell(number, text, tree, f"code cell {number} is no Python ({problem})" if problem else "")


def _parsed(text: str) -> tuple[ast.Module | None, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about "\d" and the like
            return ast.parse(text), ""
    except SyntaxError as error:
        return None, f"line {error.lineno}: {error.msg}"
    except MemoryError:  # ten thousand signs; Python 3.12 speaks of its parser's stack
        return None, "nested too deeply"
    except (ValueError, RecursionError) as error:  # a null byte, lone surrogates, ten thousand brackets
        return None, str(error) or "nested too deeply"


def _by_ipython(text: str) -> str:
    """The cell as IPython would turn it into Python; the text itself where IPython is not installed or gives up."""
    try:
        from IPython.core.inputtransformer2 import TransformerManager
    except ImportError:
        return text
    try:
        return TransformerManager().transform_cell(text)
    except Exception:  # it raises whatever its tokenizer meets; then the lines are taken out one by one
        return text
