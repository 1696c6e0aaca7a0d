"""``lplab autograder``: what a school's own system needs of lplab."""

import argparse
from pathlib import Path
from typing import Any

from lplab.cli.command import add_command, bad_values, check_output
from lplab.cli.course import needed_packages


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
