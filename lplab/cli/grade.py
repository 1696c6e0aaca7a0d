"""``lplab report`` and ``lplab grade``: the report that a student hands in, and the marks of a class."""

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lplab.cli import container
from lplab.cli.command import BadInputError, add_command, bad_values

if TYPE_CHECKING:
    from lplab.exercises.grading.marks import Class

NEEDED = ("filelock", "jinja2", "platformdirs", "psutil", "tqdm", "yaml")  # packages of the extra "course"


def add_report(commands: Any) -> None:
    """Add ``lplab report``."""
    text = "write what you have done so far: one JSON file to hand in, one page to read"
    parser = add_command(commands, run_report, "report", text, 'lplab report --name "Ada Lovelace" --lab 01')
    parser.add_argument("--name", default="", help="yours, as the marks should show it")
    parser.add_argument("--lab", nargs="+", action="extend", default=[], help="such as 01 (default: all you worked on)")
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the two files (default: this one)")


def run_report(args: argparse.Namespace) -> int:
    """Write the report of the student's progress file and say where it is."""
    with needed_packages():
        from lplab.exercises import progress
        from lplab.exercises.grading.report import own_recipes_in, report_of, write_report
        from lplab.exercises.grading.submissions import clean
    trouble = progress.default_progress().problem()
    if trouble:
        raise BadInputError(trouble)
    with bad_values():
        report = report_of(progress.default_progress().state, args.lab, clean(args.name))
        files = write_report(report, args.out)
    print("\n".join(map(str, files)))
    for lab in report["labs"]:
        print(lab["text"])
    for capstone, costs, own in own_recipes_in(report):
        points = f", {own['points']:g} of {own['most_points']} points" if "points" in own else ""
        print(f"{capstone.exercise.title}: {costs.text}, a gap of {own['gap']:+.4f} {capstone.unit}{points}")
        print(f"The gap is the {capstone.compared}.")
    return 0


def add_grade(commands: Any) -> None:
    """Add ``lplab grade``."""
    text = "grade a folder of notebooks and reports: CSV, JSON, Gradescope results, and a page about the class"
    parser = add_command(commands, run_grade, "grade", text, "lplab grade submissions --lab 01 --out marks")
    parser.add_argument("folder", type=Path, help="with the files of the class, also in folders of their own")
    parser.add_argument("--lab", nargs="+", action="extend", default=[], help="such as 01 02 (default: all that occur)")
    parser.add_argument(
        "--out", "--output", type=Path, default=Path("marks"), help="folder for the marks (default: marks)"
    )
    parser.add_argument(
        "--jobs", type=int, help="answers judged at once (default: one a processor); marks are the same"
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="of a Dask scheduler whose workers judge, such as tcp://10.0.0.1:8786"
    )
    parser.add_argument("--all-or-nothing", action="store_true", help="points for a pass only")
    parser.add_argument(
        "--each-file",
        action="store_true",
        help="one row a file (default: the files in a folder of FOLDER are one student)",
    )
    parser.add_argument(
        "--roster", type=Path, metavar="FILE", help="CSV with the students: an export of Moodle or Canvas, or your own"
    )
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help="TOML with the exercises that count, their points, the deadlines"
    )
    parser.add_argument(
        "--names", default="", metavar="PATTERN", help="how paths name students, such as '(?P<id>s[0-9]+)'"
    )
    parser.add_argument(
        "--similar", action="store_true", help="also list answers that are alike (similar.csv): a hint, never a mark"
    )
    parser.add_argument(
        "--capstone-seeds",
        nargs="+",
        type=int,
        default=[],
        metavar="N",
        help="to score recipes with, three of your own",
    )
    parser.add_argument("--json", action="store_true", help="print the marks as JSON")
    parser.add_argument(
        "--in-container",
        action="store_true",
        help="in Docker or Podman, without network: where the system offers no fence (see lplab doctor)",
    )


def run_grade(args: argparse.Namespace) -> int:
    """Grade, write all files, and say in a few lines what came out; 0 also when submissions are broken."""
    if args.in_container:
        if args.dask:
            raise BadInputError("a container has no network to a cluster: leave --dask out")
        return container.run(args)
    with needed_packages():
        from lplab.exercises.grading.grading import grade
        from lplab.exercises.grading.journal import JOURNAL, Journal, not_reached
        from lplab.exercises.grading.marks_files import write_marks
        from lplab.exercises.grading.roster import read_roster
        from lplab.exercises.grading.weights import read_weights
    if args.jobs is not None and args.jobs < 1:
        raise BadInputError(f"--jobs must be at least 1, not {args.jobs}")
    if args.dask and find_spec("distributed") is None:
        raise BadInputError("distributed is not installed: pip install 'lplab[cluster]'")
    if args.dask and args.jobs:
        raise BadInputError("the cluster says how many answers are judged at once: leave --jobs out")
    begun = time.monotonic()
    with bad_values():
        with suppress(FileNotFoundError):
            args.out.stat()  # tells of a name that no folder can have, before hours of grading
        if args.out.exists() and not args.out.is_dir():
            raise BadInputError(f"{args.out} is a file; give --out a folder")
        nobodys = [path for path in (args.out, args.roster, args.weights) if path]
        some = {"jobs": args.jobs, "all_or_nothing": args.all_or_nothing, "leave_out": nobodys}
        roster = read_roster(args.roster) if args.roster else None
        weights = read_weights(args.weights) if args.weights else None
        rules = {"roster": roster, "weights": weights, "names": args.names, "similar": args.similar}
        inside = args.out.resolve().is_relative_to(args.folder.resolve())  # where a student could put a journal
        journal = Journal(None if inside else args.out / JOURNAL)
        graded = partial(
            grade, args.folder, args.lab, each_file=args.each_file, capstone_seeds=args.capstone_seeds, **some, **rules,
            journal=journal,
        )  # fmt: skip
        try:
            marks = graded(scheduler=args.dask or "")
        except KeyboardInterrupt:
            if not inside:
                write_marks(graded(judged_by=not_reached, capstone_judge=lambda *_: None), args.out)
            journal.close()
            raise
        files = write_marks(marks, args.out)
        journal.remove()
    if args.json:
        with (args.out / "marks.json").open(encoding="utf-8", newline="") as file:
            shutil.copyfileobj(file, sys.stdout)
    else:
        print(summary(marks))
        forms = [path for path in files if path.parent == args.out / "gradescope"]
        print("\n".join(map(str, files[: len(files) - len(forms)])))
        print(f"{args.out / 'gradescope'}: {len(forms)} files")
        minutes = (time.monotonic() - begun) / 60
        print(f"{marks.judged:,} different answers were judged, in {marks.judging_seconds / 60:.1f} minutes")
        print(f"{minutes:.1f} minutes in all, {1000 * minutes / max(len(forms), 1):.1f} for a thousand submissions")
        print(f"fence: {marks.fence}")
    return 0


def summary(marks: "Class") -> str:
    """The class in a few lines."""
    from lplab.exercises.grading.gradebooks import remarks

    how = "each file is one student" if marks.each_file else "files in a folder of their own are one student"
    absent = sum(student.absent for student in marks.students)
    lines = [f"{len(marks.students) - absent} submissions, of which {len(marks.broken)} could not be read"]
    lines += [f"{absent} of the roster handed in nothing"] * (marks.roster is not None)
    lines += [f"from {marks.files} files; {how}", *remarks(marks)]
    for exercise in marks.exercises:
        answers = [mark for mark in marks.marks_of(exercise.id) if mark.lines]
        lines.append(f"{exercise.id} {exercise.title}: {sum(mark.passed for mark in answers)} of {len(answers)} pass")
    return "\n".join(lines)


@contextmanager
def needed_packages() -> Iterator[None]:
    """Around imports: says how to get a package that is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        raise BadInputError(f"{error.name} is not installed: pip install 'lplab[course]'") from None
