"""An edition for students: some labs, with the instructor's name and dates, without solutions and known mistakes.

Checks compare with results that were computed beforehand (`checks.withheld`), so that they say the same as before, but
for the name of a known mistake. Grading uses the full edition. Whoever wants the solutions can fetch the full edition,
which is public: this keeps them from being read in passing, no more.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

import lplab
from lplab.datasets.bundled import data_folder
from lplab.exercises.checks.variants import answers, function_of
from lplab.exercises.checks.withheld import write_results
from lplab.exercises.grading.autograder import LEFT_OUT, package_files
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.model.exercise import Exercise

OPEN = (  # their solutions stay: figures, reasons or other checks call them with arguments that nobody knows before
    "01.2", "03.4", "04.4", "05.1", "05.2", "06.1", "08.2", "10.2", "14.3",
)  # fmt: skip
PAGES = (
    "glossary",
    "capstone",
    "claims",
    "clusters",
    "compress_training",
    "learners",
    "measure_claims",
    "numbers",
)  # labs lead to these, or they to one another
BESIDE = ("start.py", "pyproject.toml", "constraints.txt", "LICENSE", *(f"docs/{name}.md" for name in PAGES))
ROOT = Path(lplab.__file__).parents[1]  # of a checkout
README = """# {title}

{who}

{labs}

Start with `python3 start.py`, in a terminal in this folder. Solutions are with your instructor, not in this edition.
"""


def write_edition(
    folder: Path, labs: Sequence[str], instructor: str = "", due: Mapping[str, date] | None = None
) -> list[str]:
    """Write an edition for students into a new folder; returns the ids of exercises whose solutions stay in it.

    Args:
        folder: must not be there yet, or be empty.
        labs: such as ["01", "02"].
        instructor: the name, shown in each lab.
        due: the day by which each lab is to be handed in.

    Raises:
        ValueError: there is no such lab, the folder holds something, or this is no checkout with the labs in it.
        OSError: a file cannot be read or written.
    """
    due = due or {}
    notebooks = lab_files(folder, labs, due)
    exercises = [exercise_catalogue.get(name) for name in exercise_catalogue.names() if name not in OPEN]
    changed = _without_solutions(exercises)
    _copy(ROOT, folder, changed)
    (folder / "lplab" / "exercises" / "withheld").mkdir()
    for exercise in exercises:
        _write_results(folder / "lplab" / "exercises" / "withheld", exercise)
    (folder / "labs").mkdir()
    lines = []
    for path in notebooks:
        notebook = json.loads(path.read_text("utf-8"))
        day = due.get(path.name[:2])
        title = sign(notebook, instructor, day)
        write_notebook(folder / "labs" / path.name, notebook)
        lines.append(f"- [{title}](labs/{path.name})" + (f", to be handed in by {day.isoformat()}" if day else ""))
    text = README.format(
        title="Labs on low-precision deep learning", who=instructor or "From your instructor", labs="\n".join(lines)
    )
    (folder / "README.md").write_text(text, encoding="utf-8", newline="")
    return [name for name in OPEN if name[:2] in labs]


def _copy(root: Path, folder: Path, changed: Mapping[Path, str]) -> None:
    """The package, its data, and what stands beside it in a checkout."""
    for name, source in package_files():
        if name.startswith("lplab/data/"):
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(changed[source].encode() if source in changed else source.read_bytes())
    data = data_folder()
    beside = [
        (f"data/{path.relative_to(data)}", path) for path in data.rglob("*") if path.suffix not in (*LEFT_OUT, ".py")
    ]
    for name, source in [*beside, *((name, root / name) for name in BESIDE)]:
        if source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(source.read_bytes())


def _write_results(folder: Path, exercise: Exercise) -> None:
    calls = [*[example.args for example in exercise.examples], *exercise.boundary()]
    ways = {"": None, **{way.name: way for way in exercise.conventions}}
    table = {name: answers(function_of(exercise, way), calls) for name, way in ways.items()}
    write_results(folder, exercise.id, {name: list(zip(calls, values, strict=True)) for name, values in table.items()})


def lab_files(folder: Path, labs: Sequence[str], due: Mapping[str, date]) -> list[Path]:
    """The notebooks of an edition that can be written into ``folder``; the errors of :func:`write_edition`."""
    if not labs:
        raise ValueError("an edition needs its labs, such as --lab 01")
    for lab in (*labs, *due):
        exercise_catalogue.of_lab(lab)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already; name a new folder")
    notebooks = [path for lab in sorted(set(labs)) for path in sorted((ROOT / "labs").glob(f"{lab}_*.ipynb"))]
    if not notebooks:
        raise ValueError("an edition is made from a checkout of lplab, with its folder labs")
    return notebooks


def write_notebook(path: Path, notebook: dict) -> None:
    """Write a notebook as Jupyter does."""
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="")


def sign(notebook: dict, instructor: str, day: date | None) -> str:
    """Write name and date below the title of a notebook, in place; returns the title."""
    cell = notebook["cells"][0]
    title, _, rest = "".join(cell["source"]).partition("\n")
    parts = [instructor] * bool(instructor) + [f"to be handed in by {day.isoformat()}" if day else ""]
    line = " · ".join(filter(None, parts))
    cell["source"] = f"{title}\n\n**{line}**\n{rest}" if line else f"{title}\n{rest}"
    return title.lstrip("# ")


# ---- sources without solutions ---------------------------------------------------------------------------------------


def _without_solutions(exercises: Iterable[Exercise]) -> dict[Path, str]:
    """The new text of each module in which one of these exercises stands."""
    by_file: dict[Path, list[Exercise]] = {}
    for exercise in exercises:
        by_file.setdefault(Path(str(inspect.getsourcefile(exercise.reference))), []).append(exercise)
    return {path: rewritten(path.read_text("utf-8"), some) for path, some in by_file.items()}


def rewritten(text: str, exercises: Sequence[Exercise]) -> str:
    """The source of a module without the bodies of solutions, the known mistakes, and the texts that these share.

    >>> from lplab.exercises import get
    >>> exercise = get("00.1")
    >>> text = rewritten(Path(inspect.getsourcefile(exercise.reference)).read_text("utf-8"), [exercise])
    >>> "(low + high) / 2" in text, 'withheld.result("00.1", (low, high, ))' in text
    (False, True)
    """
    tree = ast.parse(text)
    edits: list[tuple[ast.AST, str]] = []
    for exercise in exercises:
        function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == exercise.name)
        names = [arg.arg for arg in function.args.args]
        call = f'return withheld.result("{exercise.id}", ({"".join(f"{name}, " for name in names)}))'
        docstring = isinstance(function.body[0], ast.Expr) and isinstance(function.body[0].value, ast.Constant)
        edits.append((function.body[docstring], call))
        edits += [(node, "") for node in function.body[docstring + 1 :]]
        made = next(node for node in ast.walk(tree) if _makes(node, exercise.id))
        assert isinstance(made, ast.Call), "see _makes"
        for word in made.keywords:
            if word.arg == "mistakes":
                edits.append((word.value, f"(), withheld={exercise.known_mistakes}"))
            elif word.arg == "conventions":
                edits.append((word.value, f"tuple(map(Variant, {[way.name for way in exercise.conventions]!r}))"))
    text = _edited(text, edits)
    text = _without_unused_texts(text)
    place = text.index("from lplab.exercises.model.exercise import")
    imports = "from lplab.exercises.checks import withheld\nfrom lplab.exercises.model.exercise import Variant\n"
    return text[:place] + imports + text[place:]


def _makes(node: ast.AST, exercise_id: str) -> bool:
    """Whether this is the call ``Exercise(id=…)``."""
    return isinstance(node, ast.Call) and any(
        word.arg == "id" and isinstance(word.value, ast.Constant) and word.value.value == exercise_id
        for word in node.keywords
    )


def _edited(text: str, edits: Iterable[tuple[ast.AST, str]]) -> str:
    """The text with some nodes replaced, from the last to the first; what they held is gone with its comments."""
    lines = text.encode().splitlines(keepends=True)  # columns of a tree count bytes
    starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
    raw = text.encode()
    for node, new in sorted(edits, key=lambda edit: (edit[0].lineno, edit[0].col_offset), reverse=True):  # type: ignore[attr-defined]
        begin = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        raw = raw[:begin] + new.encode() + raw[end:]
    return raw.decode()


def _without_unused_texts(text: str) -> str:
    """Without constants that nothing uses any more: pieces of solutions, from which mistakes were made."""
    while True:
        tree = ast.parse(text)
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        gone = [
            node
            for node in tree.body
            if isinstance(node, ast.Assign)
            and {
                name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)
            }.isdisjoint(used)
            and _is_text(node.value)
        ]
        if not gone:
            return re.sub(r"\n{4,}", "\n\n\n", re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE))
        text = _edited(text, [(node, "") for node in gone])


def _is_text(node: ast.expr) -> bool:
    """Whether this is text, or a tuple of texts."""
    if isinstance(node, ast.Tuple):
        return all(map(_is_text, node.elts))
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
