"""``lplab autograder`` and ``lplab release``: what a school gives to its system and to its students."""

import argparse
import os
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lplab.cli.command import add_command, bad_values, check_output, once
from lplab.cli.grade import needed_packages


def add_autograder(commands: Any) -> None:
    """Add ``lplab autograder``."""
    text = "write the zip of a Gradescope autograder for some labs"
    parser = add_command(commands, run_autograder, "autograder", text, "lplab autograder --lab 01 --out autograder.zip")
    parser.add_argument("--lab", nargs="+", action="extend", default=[], required=True, help="such as 01")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="TOML with points, as for `lplab grade`")
    parser.add_argument("--all-or-nothing", action="store_true", help="points for a pass only")
    parser.add_argument("--out", type=Path, default=Path("autograder.zip"), help="file (default: autograder.zip)")


def run_autograder(args: argparse.Namespace) -> int:
    """Write the zip and say where it is."""
    with needed_packages():
        from lplab.exercises.grading.autograder import write_autograder
    check_output(args.out)
    with bad_values():
        write_autograder(args.out, args.lab, args.weights, args.all_or_nothing)
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.1f} MB; upload it at Gradescope under “Configure Autograder”")
    return 0


def add_release(commands: Any) -> None:
    """Add ``lplab release``."""
    text = "write an edition for students: some labs, without solutions and known mistakes"
    example = 'lplab release --lab 01 02 --instructor "Ada Lovelace" --due 01=2026-10-05 --out students'
    parser = add_command(commands, run_release, "release", text, example)
    parser.add_argument("--lab", nargs="+", action="extend", default=[], required=True, help="such as 01 02")
    parser.add_argument("--instructor", default="", help="the name, shown in each lab")
    parser.add_argument(
        "--due", nargs="+", action="extend", default=[], metavar="LAB=DAY", help="such as 01=2026-10-05"
    )
    text = "a folder that runs on a computer (default), or single files for a notebook service, with solutions"
    parser.add_argument("--for", dest="place", choices=("folder", "colab", "kaggle"), default="folder", help=text)
    parser.add_argument(
        "--site", default=os.environ.get("LPLAB_SITE", ""), metavar="URL", help="of the course's site (or LPLAB_SITE)"
    )
    parser.add_argument(
        "--package", metavar="WHAT", help="what pip installs there, or a wheel's URL (default: lplab of this version)"
    )
    parser.add_argument("--out", type=Path, default=Path("student-edition"), help="a new folder")


def run_release(args: argparse.Namespace) -> int:
    """Write the edition and say what stays in it."""
    with needed_packages():
        from lplab.exercises.grading.release import write_edition
    if args.place != "folder":
        return _release_single_files(args)
    with bad_values():
        if args.package:
            raise ValueError("--package is for --for colab and --for kaggle; a folder brings its own lplab")
        due = once("--due", [_due(text) for text in args.due])
        stays = write_edition(args.out, args.lab, args.instructor, due)
    print(args.out)
    if stays:
        print(f"the solutions of {', '.join(stays)} stay in it: figures or other checks of these labs call them")
    return 0


def _release_single_files(args: argparse.Namespace) -> int:
    with needed_packages():
        from lplab.exercises.grading.single_files import write_single_files
    with bad_values():
        due = once("--due", [_due(text) for text in args.due])
        package = args.package or f"lplab[colab]=={version('lplab')}"
        for file in write_single_files(args.out, args.lab, args.place, args.site, package, args.instructor, due):
            print(file)
    return 0


def _due(text: str) -> tuple[str, date]:
    """Lab and day of a text such as "01=2026-10-05"."""
    lab, _, day = text.partition("=")
    try:
        return lab, date.fromisoformat(day)
    except ValueError:
        raise ValueError(f"--due needs a lab and a day, such as 01=2026-10-05, not {text!r}") from None
