"""The ``lplab`` command: labs, formats, rounding, training, downloads, clusters, claims, exercises, grading, doctor.

A command is a module of this package: one function adds its parser (help, example, arguments) and one runs it;
``COMMANDS`` lists them. Bad input ends with exit code 2 and one line that says what is allowed. An error of the
machine, such as a full disk, ends with code 74 and one line. A reader that goes away, as in ``lplab formats | head``,
ends a command quietly.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress

import lplab
from lplab.cli import (
    capstone,
    claims,
    compile,
    doctor,
    exercises,
    fetch,
    formats,
    grade,
    labs,
    quantize,
    school,
    simulate,
    train,
)
from lplab.cli.command import INTERRUPTED, BadInputError, Parser, in_words
from lplab.cli.streams import FAILED_OUTPUT, MACHINE, drop_output, print_json, usable_streams

COMMANDS = (
    labs.add_lab,
    formats.add_formats,
    quantize.add_quantize,
    train.add_train,
    fetch.add_fetch,
    simulate.add_simulate,
    claims.add_claims,
    exercises.add_exercises,
    capstone.add_capstone,
    grade.add_report,
    grade.add_grade,
    doctor.add_doctor,
    compile.add_compile,
    school.add_autograder,
    school.add_release,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, or 1 for a bad finding of ``doctor``; bad input exits with 2.

    >>> main(["formats", "e2m1"])  # doctest: +ELLIPSIS
    e2m1: 4 bits, ...
    """
    with usable_streams():
        try:
            try:
                return _run(argv)
            finally:
                sys.stdout.flush()  # here an error can still be told
        except BrokenPipeError:
            drop_output()
            return 0
        except OSError as problem:
            if problem.errno not in MACHINE:
                raise
            drop_output()
            with suppress(OSError):  # standard error may be full, too
                print(f"lplab: {in_words(problem)}", file=sys.stderr, flush=True)
            return FAILED_OUTPUT


def _run(argv: Sequence[str] | None) -> int:
    parser = Parser("lplab", description=(lplab.__doc__ or "").splitlines()[0])
    parser.add_argument("--version", action="version", version=f"lplab {lplab.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in COMMANDS:
        add(commands)
    args, others = parser.parse_known_args(argv)
    if others:  # argparse itself would name the program alone, whose help does not have the options of the command
        args.parser.error(f"unrecognized arguments: {' '.join(others)}")
    args.argv = list(sys.argv[1:] if argv is None else argv)
    if getattr(args, "json", False) or getattr(args, "start_from", None):
        print_json()
    try:
        return args.run(args)
    except BadInputError as problem:
        command: Parser = args.parser
        command.error(str(problem))
    except KeyboardInterrupt:
        print(f"lplab {args.parser.prog.split()[-1]}: stopped by Ctrl-C", file=sys.stderr)
        return INTERRUPTED
