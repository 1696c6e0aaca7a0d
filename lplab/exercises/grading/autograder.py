"""A Gradescope autograder: the zip that an instructor uploads, and what runs in it for each submission.

Gradescope unpacks the zip into ``/autograder/source``, runs ``setup.sh`` once when it builds the image, puts
``run_autograder`` into ``/autograder`` and runs it for each submission: the files lie in ``/autograder/submission``,
and the results belong into ``/autograder/results/results.json``. Source: "Autograder Specifications",
gradescope-autograders.readthedocs.io. Both scripts find these folders from where they lie themselves.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import lplab
from lplab.datasets.bundled import data_folder
from lplab.exercises.grading.grading import grade
from lplab.exercises.grading.marks_files import as_json, gradescope_object
from lplab.exercises.grading.weights import Weights, read_weights
from lplab.exercises.model import exercise_catalogue

EXECUTABLE, PLAIN = 0o755, 0o644
LEFT_OUT = (".nbi", ".nbc", ".pyc")  # caches of this machine
SETUP = """#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

find_python() {
    for python in python3.14 python3.13 python3.12 python3.11 python3; do
        if command -v "$python" && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            return 0
        fi
    done
    return 1
}

apt-get update
find_python || { apt-get install -y python3.11; find_python; }
apt-get install -y "$python-venv"
"$python" -m venv "$here/../venv"
"$here/../venv/bin/python" -m pip install --no-cache-dir -r "$here/requirements.txt"
"""
RUN = """#!/usr/bin/env bash
# Gradescope runs this for each submission.
set -euo pipefail
root="$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)"
export PYTHONPATH="$root/source"
exec "$root/venv/bin/python" -m lplab.exercises.grading.autograder \\
    "$root/submission" "$root/results/results.json" {options}
"""


def write_autograder(
    path: Path, labs: Sequence[str], weights: Path | None = None, all_or_nothing: bool = False
) -> None:
    """Write the zip for some labs; the same bytes each time.

    Args:
        path: of the zip.
        labs: such as ["01"], at least one.
        weights: a file with points; deadlines are Gradescope's own.
        all_or_nothing: only a pass gives points.

    Raises:
        ValueError: there is no such lab, or the weights make no sense.
        OSError: a file cannot be read or written.
    """
    if not labs:
        raise ValueError("an autograder needs its labs, such as --lab 01")
    for lab in labs:
        exercise_catalogue.of_lab(lab)
    options = [f"--lab {' '.join(labs)}"]
    if weights:
        read_weights(weights)
        options.append('--weights "$root/source/weights.toml"')
    if all_or_nothing:
        options.append("--all-or-nothing")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "setup.sh", SETUP.encode(), EXECUTABLE)
        _add(archive, "run_autograder", RUN.format(options=" ".join(options)).encode(), EXECUTABLE)
        _add(archive, "requirements.txt", "".join(f"{line}\n" for line in requirements()).encode())
        if weights:
            _add(archive, "weights.toml", weights.read_bytes())
        for name, file in package_files():
            _add(archive, name, file.read_bytes())


def _add(archive: zipfile.ZipFile, name: str, content: bytes, mode: int = PLAIN) -> None:
    entry = zipfile.ZipInfo(name)  # its time is always 1980-01-01
    entry.external_attr = mode << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def package_files() -> Iterator[tuple[str, Path]]:
    """The files of this package and its data, each with its path as it would be installed."""
    package, data = Path(lplab.__file__).parent, data_folder()
    for file in sorted(package.rglob("*")):
        if file.is_file() and file.suffix not in LEFT_OUT and not file.is_relative_to(data):
            yield file.relative_to(package.parent).as_posix(), file
    for file in sorted(data.rglob("*")):
        if file.is_file() and file.suffix not in (*LEFT_OUT, ".py"):
            yield f"lplab/data/{file.relative_to(data).as_posix()}", file


def requirements() -> list[str]:
    """What grading needs beside Python: the requirements of ``lplab[course]``, from pyproject.toml in a checkout."""
    project = Path(lplab.__file__).parents[1] / "pyproject.toml"
    if project.is_file():
        table = tomllib.loads(project.read_text("utf-8"))["project"]
        return [*table["dependencies"], *table["optional-dependencies"]["course"]]
    lines = [line.partition(";") for line in metadata.requires("lplab") or ()]
    return [
        name.strip()
        for name, _, extra in lines
        if not extra or extra.strip() in ('extra == "course"', "extra == 'course'")
    ]


def results_of(folder: Path, labs: Sequence[str], weights: Weights, all_or_nothing: bool = False) -> dict[str, Any]:
    """The results of one submission in Gradescope's form, also where nothing can be graded."""
    try:
        marks = grade(folder, labs, weights=weights, all_or_nothing=all_or_nothing, one_student=True)
    except ValueError as problem:  # no notebook and no report in it
        text = f"Nothing was graded: {problem}".replace(str(folder), "the submission")
        return {"score": 0, "output": text, "output_format": "text", "visibility": "visible", "tests": []}
    return gradescope_object(marks.students[0], marks)


def main(argv: Sequence[str] | None = None) -> int:
    """Grade one submission: what ``run_autograder`` calls."""
    parser = argparse.ArgumentParser("python -m lplab.exercises.grading.autograder", description=main.__doc__)
    parser.add_argument("submission", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--lab", nargs="+", required=True)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--all-or-nothing", action="store_true")
    args = parser.parse_args(argv)
    weights = Weights(points=read_weights(args.weights).points) if args.weights else Weights()
    results = results_of(args.submission, args.lab, weights, args.all_or_nothing)
    args.results.parent.mkdir(parents=True, exist_ok=True)
    args.results.write_text(as_json(results), encoding="utf-8", newline="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
