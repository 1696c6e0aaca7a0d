"""Shared by all commands: a parser that reports bad input in one line, and a function that adds a command."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from lplab.cli.streams import MACHINE

INTERRUPTED = 130  # exit code of shells for Ctrl-C
DIVERGED = 1  # exit code of a training


class BadInputError(Exception):
    """Bad input of the user; the message says in one line what is allowed."""


@contextmanager
def bad_values() -> Iterator[None]:
    """Turn ValueError, ImportError and OSError into a :class:`BadInputError` with a message of one line.

    An OSError that other input would not change, as of a full disk, stays what it is.

    >>> with bad_values():
    ...     int("seven")
    Traceback (most recent call last):
    lplab.cli.command.BadInputError: invalid literal for int() with base 10: 'seven'
    """
    try:
        yield
    except (ValueError, ImportError) as problem:  # ImportError: an extra is missing, and the message names it
        raise BadInputError(str(problem)) from None
    except OSError as problem:
        if problem.errno in MACHINE:
            raise
        raise BadInputError(in_words(problem)) from None


def in_words(problem: OSError) -> str:
    """The error with the file that it is about, in one line.

    >>> in_words(FileNotFoundError(2, "No such file or directory", "no.csv"))
    'no.csv: No such file or directory'
    """
    if problem.filename:
        return f"{problem.filename}: {problem.strerror}"
    return problem.strerror or str(problem)


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written later, before the work begins.

    Raises:
        BadInputError: its folder is not there, it is a folder, or the system allows no such name.
    """
    with bad_values():
        if not path.resolve().parent.is_dir():
            raise BadInputError(f"there is no folder {path.resolve().parent}")
        with suppress(FileNotFoundError):  # a checkpoint has a longer name until it is whole
            (path.parent / f"{path.name}.part").stat()
        if path.is_dir():
            raise BadInputError(f"{path} is a folder; name a file in it")


def check_port(port: int) -> int:
    """The number of a port, 0 for any free one; others are bad input.

    >>> check_port(99999)
    Traceback (most recent call last):
    lplab.cli.command.BadInputError: --port must be from 0 (any free one) to 65535, got 99999
    """
    if not 0 <= port <= 65535:
        raise BadInputError(f"--port must be from 0 (any free one) to 65535, got {port}")
    return port


def once(option: str, settings: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The settings as a dictionary; ValueError if one is given twice.

    >>> once("--set", [("bits", 2), ("bits", 4)])
    Traceback (most recent call last):
    ValueError: --set gives bits twice: 2 and 4
    """
    found: dict[str, Any] = {}
    for name, value in settings:
        if name in found:
            raise ValueError(f"{option} gives {name} twice: {found[name]} and {value}")
        found[name] = value
    return found


class Parser(argparse.ArgumentParser):
    """An argument parser that reports bad input in one line instead of the whole usage.

    Attributes:
        given: the words that it was to parse last.
        hint: of a group of commands, what a word that is no command of it is answered with, besides the list.
    """

    given: Sequence[str] = ()
    hint: Callable[[str], str] | None = None

    def error(self, message: str) -> NoReturn:
        """Print ``message`` to stderr and exit with code 2."""
        if message.endswith("expected one argument") and self._is_followed_by_a_minus(message):
            message += "; a value that begins with a minus is written behind =, as in --option=-1"
        wrong = re.search(r"invalid choice: '([^']*)'", message)
        if self.hint and wrong:
            message += f"; {self.hint(wrong[1])}"
        self.exit(2, f"{self.prog}: {' '.join(message.split())} ({self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words as argparse does, and keep them: an error tells a value with a minus from a missing one."""
        self.given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def _is_followed_by_a_minus(self, message: str) -> bool:
        """Whether the option that a message names has a value that argparse takes for another option."""
        options = message.removeprefix("argument ").partition(":")[0].split("/")
        pairs = zip(self.given, self.given[1:], strict=False)
        return any(word in options and value.startswith("-") for word, value in pairs)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write help and version as any output: argparse itself passes over errors of the stream."""
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)


def add_command(commands: Any, run: Any, name: str, text: str, example: str) -> Parser:
    """Add the parser of one command, with its example, and note which function runs it."""
    raw = argparse.RawDescriptionHelpFormatter
    parser: Parser = commands.add_parser(
        name, help=text, description=text, epilog=f"example:\n  {example}", formatter_class=raw
    )
    parser.set_defaults(run=run, parser=parser)
    return parser
