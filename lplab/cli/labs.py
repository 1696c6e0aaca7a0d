"""``lplab lab``: open JupyterLab at the labs."""

import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lplab.cli.command import BadInputError, add_command, bad_values, check_port


def add_lab(commands: Any) -> None:
    """Add ``lplab lab``."""
    parser = add_command(commands, run_lab, "lab", "open JupyterLab at the labs", "lplab lab --no-browser --port 9000")
    parser.add_argument("folder", nargs="?", type=Path, help="folder of the labs (default: that of this checkout)")
    parser.add_argument("--port", type=int, default=8888, help="default: 8888, or the next free one")
    parser.add_argument("--no-browser", action="store_true", help="open no browser, only print the address")


def run_lab(args: argparse.Namespace) -> int:
    """Start JupyterLab in ``args.folder`` and wait for its end."""
    beside = Path(__file__).resolve().parents[2] / "labs"
    folder = args.folder or (beside if beside.is_dir() else Path("labs"))
    port = check_port(args.port)
    with bad_values():
        is_there = folder.is_dir()
    if not is_there:
        raise BadInputError(f"there is no folder {folder}: give the labs folder of a clone of the repository")
    if importlib.util.find_spec("jupyterlab") is None:
        raise BadInputError("JupyterLab is not installed: pip install 'lplab[lab]'")
    command = [sys.executable, "-m", "jupyterlab", *jupyter_arguments(folder), f"--port={port}"]
    command += ["--no-browser"] * args.no_browser
    command += ["--allow-root"] * (os.name == "posix" and os.geteuid() == 0)
    return subprocess.call(command)


def jupyter_arguments(folder: Path) -> list[str]:
    """Arguments of JupyterLab: the folder; in a checkout its parent, opened at the labs.

    Labs link to ``../docs``, and JupyterLab follows no link out of the folder that it was started in.
    """
    above = folder.resolve().parent
    if not (above / "docs" / "glossary.md").is_file():
        return [str(folder)]
    return [str(above), f"--LabApp.default_url=/lab/tree/{quote(folder.resolve().name)}"]
