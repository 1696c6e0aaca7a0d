"""``lplab doctor``: what is installed, what is missing, what it is for."""

import argparse
import json
import os
import platform
import shutil
import sys
from importlib import metadata
from typing import Any

import lplab
from lplab.cli.command import add_command

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
