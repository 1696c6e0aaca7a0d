"""The ``lplab`` command: open the labs, look a format up, check the installation.

A command is one function that adds its parser (help, example, arguments) and one that runs; ``COMMANDS`` lists them.
Bad input ends with exit code 2 and one line that says what is allowed.
"""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import lplab

COLUMNS = {  # of `lplab formats`: heading, key of Format.describe()
    "format": "name",
    "bits": "bits",
    "max": "max",
    "min normal": "smallest_normal",
    "min subnormal": "smallest_subnormal",
    "epsilon": "epsilon",
    "octaves": "dynamic_range_octaves",
    "wasted codes": "wasted_codes",
}
PURPOSES = {  # of what `lplab doctor` looks for, and how to get it
    "numpy": "everything",
    "numba": "compiled kernels; pip install 'lplab[fast]'",
    "torch": "tensors that train; pip install 'lplab[torch]'",
    "plotly": "figures; pip install 'lplab[lab]'",
    "jupyterlab": "the labs; pip install 'lplab[lab]'",
    "ipywidgets": "the labs' controls; pip install 'lplab[lab]'",
    "anywidget": "live figures; pip install 'lplab[lab]'",
    "browser": "the browser tests; install Chromium, Chrome or Edge",
    "data": "the labs; install lplab again",
}
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "chrome",
    "msedge",
)


class BadInputError(Exception):
    """What the user typed cannot be done; the message says in one line what can."""


class Parser(argparse.ArgumentParser):
    """An argument parser that answers bad input with one line instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Print ``message`` to stderr and exit with code 2."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())} ({self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, or 1 for a bad finding of ``doctor``; bad input exits with 2.

    >>> main(["formats", "e2m1"])  # doctest: +ELLIPSIS
    e2m1: 4 bits, ...
    """
    parser = Parser("lplab", description=(lplab.__doc__ or "").splitlines()[0])
    parser.add_argument("--version", action="version", version=f"lplab {lplab.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in COMMANDS:
        add(commands)
    args = parser.parse_args(argv)
    try:
        return args.run(args)
    except BadInputError as problem:
        command: Parser = args.parser
        command.error(str(problem))
    except BrokenPipeError:  # `lplab formats | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def add_command(commands: Any, run: Any, name: str, text: str, example: str) -> argparse.ArgumentParser:
    """Add the parser of one command, with its example, and note which function runs it."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(
        name, help=text, description=text, epilog=f"example:\n  {example}", formatter_class=raw
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


# ---- lplab lab -------------------------------------------------------------------------------------------------------


def add_lab(commands: Any) -> None:
    """Add ``lplab lab``."""
    parser = add_command(commands, run_lab, "lab", "open JupyterLab at the labs", "lplab lab --no-browser --port 9000")
    parser.add_argument("folder", nargs="?", type=Path, help="folder of the labs (default: that of this checkout)")
    parser.add_argument("--port", type=int, default=8888, help="default: 8888, or the next free one")
    parser.add_argument("--no-browser", action="store_true", help="open no browser, only print the address")


def run_lab(args: argparse.Namespace) -> int:
    """Start JupyterLab in ``args.folder`` and wait for its end."""
    beside = Path(__file__).resolve().parents[1] / "labs"
    folder = args.folder or (beside if beside.is_dir() else Path("labs"))
    if not folder.is_dir():
        raise BadInputError(f"there is no folder {folder}: give the labs folder of a clone of the repository")
    if importlib.util.find_spec("jupyterlab") is None:
        raise BadInputError("JupyterLab is not installed: pip install 'lplab[lab]'")
    command = [sys.executable, "-m", "jupyterlab", str(folder), f"--port={args.port}"]
    command += ["--no-browser"] * args.no_browser
    command += ["--allow-root"] * (os.name == "posix" and os.geteuid() == 0)
    return subprocess.call(command)


# ---- lplab formats ---------------------------------------------------------------------------------------------------


def add_formats(commands: Any) -> None:
    """Add ``lplab formats``."""
    text = "list the number formats, or show the figures of one"
    parser = add_command(commands, run_formats, "formats", text, "lplab formats e4m3fn --json")
    parser.add_argument("name", nargs="?", help="a name of the list, or q4.12 and the like for any fixed point")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_formats(args: argparse.Namespace) -> int:
    """Print the catalogue as a table, or one format with all that is known of it."""
    from lplab import formats

    if args.name is None:
        everything = [numbers(formats.get(name)) for name in formats.names()]
        print(json.dumps(everything, indent=1) if args.json else table(everything))
        return 0
    try:
        found = formats.get(args.name)
    except ValueError as error:
        raise BadInputError(str(error)) from None
    if args.json:
        print(json.dumps(numbers(found), indent=1))
        return 0
    print(found)
    for key, value in numbers(found).items():
        print(f"  {key.replace('_', ' '):<22}{shown(value)}")
    print(f"  {'in Python':<22}formats.get({found.name!r})")
    return 0


def numbers(fmt: Any) -> dict[str, Any]:
    """``fmt.describe()`` with None instead of NaN, which JSON does not know."""
    return {key: None if value != value else value for key, value in fmt.describe().items()}


def shown(value: Any) -> str:
    """A number as people read it, and a dash for what does not apply.

    >>> shown(0.001953125), shown(448.0), shown(None)
    ('0.00195312', '448', '-')
    """
    return "-" if value is None else f"{value:.6g}" if isinstance(value, int | float) else str(value)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows under the headings of ``COLUMNS``: the name to the left, numbers to the right."""
    cells = [list(COLUMNS), *([shown(row.get(key)) for key in COLUMNS.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
    return "\n".join(lines)


# ---- lplab doctor ----------------------------------------------------------------------------------------------------


def add_doctor(commands: Any) -> None:
    """Add ``lplab doctor``."""
    text = "say what is installed, what is missing, and what it is for"
    parser = add_command(commands, run_doctor, "doctor", text, "lplab doctor --json")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_doctor(args: argparse.Namespace) -> int:
    """Print the findings; exit code 1 if the data files are missing."""
    found = findings()
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        width = max(map(len, found))
        for key, value in found.items():
            print(f"  {key:<{width}}  {value or f'missing, needed for {PURPOSES[key]}'}")
    return 0 if found["data"] else 1


def findings() -> dict[str, str | None]:
    """What there is, by name: versions, whether compiled kernels are on, a browser's path, the data folder."""
    from lplab import datasets
    from lplab.formats import kernels

    try:
        data = str(datasets.data_folder())
    except FileNotFoundError:
        data = None
    browsers = filter(None, (os.environ.get("LPLAB_BROWSER"), *map(shutil.which, BROWSERS)))
    return {
        "lplab": lplab.__version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        **{name: version(name) for name in PURPOSES if name not in ("browser", "data")},
        "kernels": "compiled (numba)"
        if kernels.available()
        else "array operations (no numba, or LPLAB_NO_NUMBA is set)",
        "browser": next(browsers, None),
        "data": data,
    }


def version(package: str) -> str | None:
    """Version of an installed package, without importing it; None if it is not there.

    >>> version("numpy") is None, version("no-such-package")
    (False, None)
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


COMMANDS = (add_lab, add_formats, add_doctor)
