"""``lplab doctor``: what is installed, what is missing, what it is for."""

import argparse
import json
import os
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import lplab
from lplab.cli.command import add_command, bad_values

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
    "Landlock": "files closed to student code; Linux 5.13 and 'lplab[course]', or lplab grade --in-container",
    "seccomp": "calls closed to student code; Linux and 'lplab[course]', or lplab grade --in-container",
}
NO_PACKAGES = ("browser", "data", "Landlock", "seccomp")
EXAMPLE = "`lplab simulate resnet18 --chip mine --recipe fp32`"
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
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure this machine's rates of products and its memory (half a minute), for lab 11 and `lplab simulate`",
    )


def run_doctor(args: argparse.Namespace) -> int:
    """Print the findings, or what was measured; exit code 1 if data files are missing or nothing can be measured."""
    if args.measure:
        return _measure(args.json)
    answers = findings()
    if args.json:
        print(json.dumps(answers, indent=1))
    else:
        width = max(map(len, answers))
        for key, value in answers.items():
            print(f"  {key:<{width}}  {value or f'missing, needed for {PURPOSES[key]}'}")
    return 0 if answers["data"] else 1


def measure_machine(*, sizes: tuple[int, ...] = (1024, 2048), repeats: int = 7) -> tuple[dict[str, Any], Path]:
    """Measure this machine, and keep the result where ``accelerators.local_machine()`` finds it.

    Args:
        sizes: n of the square matrices that are multiplied.
        repeats: measurements of each, 3 or more.

    Returns:
        What was measured, and the file.

    Raises:
        OSError: the file cannot be written.
    """
    from lplab.hardware import local_machine, matmul_benchmark

    path = local_machine.measurement_path()
    path.parent.mkdir(parents=True, exist_ok=True)  # before half a minute of measuring, in case it cannot be
    table = matmul_benchmark.measure("cpu", sizes=sizes, repeats=repeats, progress=True)
    path.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return table, path


def _measure(as_json: bool) -> int:
    if version("torch") is None:
        print(f"nothing can be measured without torch, needed for {PURPOSES['torch']}", file=sys.stderr)
        return 1
    with bad_values():
        table, path = measure_machine()
    if as_json:
        print(json.dumps(table, indent=1, ensure_ascii=False))
        return 0
    from lplab.hardware import accelerators

    mine = accelerators.local_machine()
    print(f"  {mine.label}, {table['threads']} threads")
    for name, value in mine.peaks.items():
        print(f"  {name:<7} {value / 1e9:8.1f} billion operations a second in products")
    print(f"  memory  {table['memory']['bytes_per_second'] / 1e9:8.1f} GB a second")
    for name, reason in table["left_out"].items():
        print(f"  {name:<7} not measured: {reason}")
    if (table["load_before"] or 0) > 0.5:
        print("  (the machine was busy with other work, so these are too low; close it and measure again)")
    print(f"  kept in {path}; from now on it is the chip `mine`, as in {EXAMPLE}")
    return 0


def findings() -> dict[str, str | None]:
    """What there is, by name: versions, whether compiled kernels are on, a browser's path, the data folder."""
    from lplab import datasets
    from lplab.formats.paths import kernel_selection

    try:
        data = str(datasets.data_folder())
    except FileNotFoundError:
        data = None
    browsers = filter(None, (os.environ.get("LPLAB_BROWSER"), *map(shutil.which, BROWSERS)))
    return {
        "lplab": lplab.__version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        **{name: version(name) for name in PURPOSES if name not in NO_PACKAGES},
        "kernels": "compiled (numba)"
        if kernel_selection.available()
        else "array operations (no numba, or LPLAB_NO_NUMBA is set)",
        "browser": next(browsers, None),
        "data": data,
        **_fences(),
    }


def _fences() -> dict[str, str | None]:
    """What the kernel offers to fence student code; nothing where the packages of the exercises are missing."""
    try:
        from lplab.exercises.isolation import fences
    except ModuleNotFoundError:
        return dict.fromkeys(("Landlock", "seccomp"))
    return fences.offered()


def version(package: str) -> str | None:
    """Version of an installed package, without importing it; None if it is not there.

    >>> version("numpy") is None, version("no-such-package")
    (False, None)
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
