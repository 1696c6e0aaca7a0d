"""Shared by all commands: a parser that reports bad input in one line, and a function that adds a command."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

INTERRUPTED = 130  # exit code of shells for Ctrl-C
DIVERGED = 1  # exit code of a training


class BadInputError(Exception):
    """Bad input of the user; the message says in one line what is allowed."""


@contextmanager
def bad_values() -> Iterator[None]:
    """Turn ValueError and OSError into a :class:`BadInputError` with a message of one line.

    >>> with bad_values():
    ...     int("seven")
    Traceback (most recent call last):
    lplab.cli.command.BadInputError: invalid literal for int() with base 10: 'seven'
    """
    try:
        yield
    except ValueError as problem:
        raise BadInputError(str(problem)) from None
    except OSError as problem:
        raise BadInputError(f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem)) from None


class Parser(argparse.ArgumentParser):
    """An argument parser that reports bad input in one line instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Print ``message`` to stderr and exit with code 2."""
        if message.endswith("expected one argument"):  # so argparse says of a value that looks like an option
            message += "; a value that begins with a minus is written behind =, as in --option=-1"
        self.exit(2, f"{self.prog}: {' '.join(message.split())} ({self.prog} --help)\n")


def add_command(commands: Any, run: Any, name: str, text: str, example: str) -> argparse.ArgumentParser:
    """Add the parser of one command, with its example, and note which function runs it."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(
        name, help=text, description=text, epilog=f"example:\n  {example}", formatter_class=raw
    )
    parser.set_defaults(run=run, parser=parser)
    return parser
