"""How the labs read, in numbers: what a newcomer stumbles over can be counted; how it reads, only a reader can tell.

    python -m tests.labs.prose [labs/*.ipynb]     prints the table; exit code 1 if a lab is outside the ranges

The core of a lab is what stands before the heading "Going deeper"; folded text (``<details>``), references and the
boxes of exercises beyond it do not count.
"""

import importlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from lplab import exercises
from tests.labs.notebooks import exercise_part, source

PROJECT = Path(__file__).parents[2]
GOING_DEEPER = re.compile(r"^#+ .*going deeper.*$", re.I | re.M)
REFERENCES = re.compile(r"^#+ References.*", re.M | re.S)
FOLDED = re.compile(r"<details.*?</details>", re.S)
MINUTES = re.compile(r"About (\d+) minutes: ([^*\n]+?)\.?\*")  # *About 50 minutes: text 8, explorer 8, exercises 34.*
MINUTES_A_QUESTION = 2  # one that is answered by moving a control
WORDS_A_MINUTE = 150


@dataclass(frozen=True)
class Prose:
    """What is counted of a lab.

    Attributes:
        core: words of Markdown in the core.
        deeper: words of what is optional.
        mean: words of a sentence.
        long: sentences of more than 25 words.
        marks: colons and semicolons in 100 words.
        tall: code cells of more than 8 lines in the core, exercises and folded cells left out.
        printed: words of stored text outputs in the core.
        early: terms of the glossary that the core uses before the paragraph with their link.
        minutes: what the title cell promises.
    """

    core: int
    deeper: int
    mean: float
    long: int
    marks: float
    tall: int
    printed: int
    early: int
    minutes: int


LIMITS: dict[str, tuple[float, float]] = {
    "core": (900, 1300),
    "mean": (0, 19),
    "long": (0, 12),
    "marks": (0, 2),
    "tall": (0, 2),
    "printed": (0, 150),
    "early": (0, 0),
    "minutes": (20, 60),
}
SHORT = {"00": {"core": (500, 1300), "minutes": (5, 60)}}  # lab 00 only says how to work


def cells_of(path: Path) -> list[dict[str, Any]]:
    """The cells of a notebook."""
    return json.loads(path.read_text("utf-8"))["cells"]


def parts(cells: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The cells of the core, and those from "Going deeper" on; the cell with that heading is cut in two."""
    for number, cell in enumerate(cells):
        found = GOING_DEEPER.search(source(cell)) if cell["cell_type"] == "markdown" else None
        if found:
            head, rest = source(cell)[: found.start()], source(cell)[found.start() :]
            return [*cells[:number], {**cell, "source": head}], [{**cell, "source": rest}, *cells[number + 1 :]]
    return list(cells), []


def text_of(cells: Sequence[dict[str, Any]]) -> str:
    """The Markdown that is read, without what is folded and without references."""
    texts = (source(cell) for cell in cells if cell["cell_type"] == "markdown")
    return "\n\n".join(FOLDED.sub(" ", REFERENCES.sub("", text)) for text in texts)


def sentence_lengths(text: str) -> list[int]:
    """Words of each sentence of at least four words; code and formulas count as one word.

    >>> sentence_lengths("A sum of numbers stops. It *stops* at $2^{12}$, which is far too early.")
    [5, 9]
    """
    text = re.sub(r"```.*?```|\$\$.*?\$\$|<[^>]+>", " ", text, flags=re.S)
    text = re.sub(r"\$[^$]*\$|`[^`]*`", "x", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    blocks = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s|\n#+ |^#+ |\|", text)
    sentences = (sentence for block in blocks for sentence in re.split(r"(?<=[.?!])\s+", " ".join(block.split())))
    return [count for count in (len(re.findall(r"[\w’'−–+-]+", sentence)) for sentence in sentences) if count > 3]


def is_folded(cell: dict[str, Any]) -> bool:
    """Whether the reader does not see a cell's code."""
    return bool(cell["metadata"].get("jupyter", {}).get("source_hidden")) or "hide-input" in cell["metadata"].get(
        "tags", []
    )


def early_terms(core: Sequence[dict[str, Any]], lab: str) -> list[str]:
    """Terms of the glossary that belong to a lab, and are used in a paragraph before the one that links them.

    The title, the goals and headings do not count, nor do the boxes of exercises, which stand for themselves.
    """
    from tests.test_glossary import ENTRIES, uses

    texts = [source(cell) for cell in core[1:] if cell["cell_type"] == "markdown" and exercise_part(cell) is None]
    joined = FOLDED.sub(" ", "\n\n".join(text for text in texts if not text.startswith("## After this lab")))
    paragraphs = [part for part in re.split(r"\n\s*\n", joined) if not part.lstrip().startswith("#") or "\n" in part]
    early = []
    for entry in ENTRIES:
        first = next((part for part in paragraphs if uses(part, entry.names[0])), "")
        if lab in entry.labs and first and f"#{entry.anchor})" not in first:
            early.append(entry.names[0])
    return early


def minutes_of(first: str) -> tuple[int, dict[str, int]]:
    r"""The minutes that a title cell promises, and what they are made of; (0, {}) if it does not say.

    >>> minutes_of("# Lab\n\n*About 20 minutes: text 8, explorer 2, two exercises 10.*")
    (20, {'text': 8, 'explorer': 2, 'two exercises': 10})
    """
    found = MINUTES.search(first)
    if not found:
        return 0, {}
    named = re.findall(r"([a-z][a-z ]*?) (\d+)(?:, |$)", found[2])
    return int(found[1]), {name: int(count) for name, count in named}


def measure(path: Path) -> Prose:
    """What is counted of one notebook."""
    cells = cells_of(path)
    core, deeper = parts(cells)
    text, lengths = text_of(core), sentence_lengths(text_of(core))
    words = len(text.split())
    shown = [cell for cell in core if cell["cell_type"] == "code"]
    tall = [cell for cell in shown if "check(" not in source(cell) and not is_folded(cell)]
    outputs = [output for cell in shown for output in cell["outputs"]]
    printed = ["".join(out.get("text", out.get("data", {}).get("text/plain", ""))) for out in outputs]
    folded = " ".join(FOLDED.findall("\n".join(source(cell) for cell in core if cell["cell_type"] == "markdown")))
    return Prose(
        core=words,
        deeper=len(text_of(deeper).split()) + len(folded.split()),
        mean=round(sum(lengths) / max(1, len(lengths)), 1),
        long=sum(length > 25 for length in lengths),
        marks=round(100 * len(re.findall(r"[:;](?=\s)", text)) / max(1, words), 1),
        tall=sum(len([line for line in source(cell).split("\n") if line.strip()]) > 8 for cell in tall),
        printed=sum(len(text.split()) for text in printed),
        early=len(early_terms(core, path.name[:2])),
        minutes=minutes_of(source(cells[0]))[0],
    )


def outside(path: Path, prose: Prose) -> Iterator[str]:
    """What is outside its range, in words."""
    for name, (low, high) in {**LIMITS, **SHORT.get(path.name[:2], {})}.items():
        value = getattr(prose, name)
        if not low <= value <= high:
            more = f" ({', '.join(early_terms(parts(cells_of(path))[0], path.name[:2]))})" if name == "early" else ""
            yield f"{name} is {value}, not {low} to {high}{more}"


def wrong_minutes(path: Path) -> Iterator[str]:
    """Where the promised time is not the sum of its parts, or not that of the lab."""
    cells = cells_of(path)
    core, _ = parts(cells)
    promised, made_of = minutes_of(source(cells[0]))
    if not made_of:
        yield "the title cell does not say what the minutes are made of"
        return
    if promised != sum(made_of.values()):
        yield f"the parts add up to {sum(made_of.values())} minutes, not to {promised}"
    in_core = [found[1] for cell in core if (found := exercise_part(cell)) and found[0] == "exercise"]
    needed = sum(exercises.get(name).minutes for name in in_core)
    if (said := sum(count for name, count in made_of.items() if "exercise" in name)) != needed:
        yield f"the exercises of the core take {needed} minutes, not {said}"
    reading = len(text_of(core).split()) / WORDS_A_MINUTE
    if made_of.get("text", 0) < round(reading) - 1:
        yield f"the text takes {reading:.0f} minutes, not {made_of.get('text', 0)}"
    guided = getattr(importlib.import_module(f"lplab.labs.lab{path.name[:2]}"), "GUIDED", ())
    at_explorer = MINUTES_A_QUESTION * sum(
        len(questions) for _, questions in guided[:1]
    )  # the others come after the core
    other = ("text", "exercise", "live")
    said = sum(count for name, count in made_of.items() if not any(word in name for word in other))
    if said < at_explorer:
        yield f"the questions above the explorer take {at_explorer} minutes, not {said}"


def as_table(measured: dict[str, Prose]) -> str:
    """One line a lab."""
    names = [field.name for field in fields(Prose)]
    lines = [" " * 36 + "".join(f"{name:>9}" for name in names)]
    lines += [
        f"{lab:36}" + "".join(f"{value:>9}" for value in asdict(prose).values()) for lab, prose in measured.items()
    ]
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """Print the table and what is outside; exit code 1 if anything is."""
    paths = [Path(name) for name in argv] or sorted((PROJECT / "labs").glob("*.ipynb"))
    measured = {path: measure(path) for path in paths}
    print(as_table({path.stem: prose for path, prose in measured.items()}))
    wrong = [
        f"{path.stem}: {text}" for path in paths for text in (*outside(path, measured[path]), *wrong_minutes(path))
    ]
    print("\n".join(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
