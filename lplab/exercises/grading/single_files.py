"""Labs as single files for a notebook service: each installs lplab in its first cell, and its links lead to the site.

Solutions are in the package that is installed: this is the full edition. :mod:`lplab.exercises.grading.release` writes
one without them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from lplab.exercises.grading.release import lab_files, sign, write_notebook

RUN_ALL = "Run → Run All Cells"  # JupyterLab's words, which the first cell of each lab has
MENUS = {"colab": "Runtime → Run all", "kaggle": "Run → Run All"}
INSTALL = """\
# Installs lplab on this machine, which takes about a minute, and prepares the controls.
%pip install --quiet "{package}"
from lplab.labs import front_end

print(front_end.prepare())"""
COMMAND = re.compile(r"python3 start\.py (?:lplab )?(?=[a-z])")  # in a service, a cell is the terminal


def write_single_files(
    folder: Path,
    labs: Sequence[str],
    service: str,
    site: str,
    package: str,
    instructor: str = "",
    due: Mapping[str, date] | None = None,
) -> list[Path]:
    """Write labs for a service into a new folder, one file each.

    Args:
        folder: must not be there yet, or be empty.
        labs: such as ["01", "02"].
        service: "colab" or "kaggle".
        site: the address of the course's site, to which links to the glossary, to other labs and to pages lead.
        package: what pip installs: a requirement such as ``lplab[colab]==0.1.0``, or the address of a wheel.
        instructor: the name, shown in each lab.
        due: the day by which each lab is to be handed in.

    Returns:
        The files.

    Raises:
        ValueError: no such lab or service, the folder holds something, this is no checkout, or the site or the package
            is no address or requirement.
    """
    if service not in MENUS:
        raise ValueError(f"service must be one of {', '.join(MENUS)}, got {service!r}")
    if not re.fullmatch(r"https?://[^\s()\"]+", site):
        raise ValueError(
            f"--site must be the address of the course's site, such as https://example.org/lplab, got {site!r}"
        )
    if not re.fullmatch(r"[^\s\"'{}$]+(?: @ [^\s\"'{}$]+)?", package):
        raise ValueError(f"--package must be what pip installs, such as lplab[colab]==0.1.0, got {package!r}")
    requirement = f"lplab[colab] @ {package}" if re.match(r"https?://", package) else package
    notebooks = lab_files(folder, labs, due or {})
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for path in notebooks:
        notebook = alone(json.loads(path.read_text("utf-8")), service, site.rstrip("/"), requirement)
        sign(notebook, instructor, (due or {}).get(path.name[:2]))
        target = folder / path.name
        write_notebook(target, notebook)
        written.append(target)
    return written


def alone(notebook: dict[str, Any], service: str, site: str, requirement: str) -> dict[str, Any]:
    """A lab that needs no folder around it, in the words of a service."""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            source = source.replace(RUN_ALL, MENUS[service])
            source = source.replace(RUN_ALL.split(" → ")[1], MENUS[service].split(" → ")[1])
            source = re.sub(r"\]\((?:\.\./)?([\w/]+)\.(?:md|ipynb)(#[^)]*)?\)", lambda m: _to_site(m, site), source)
            source = COMMAND.sub("!lplab ", source)
            source = re.sub(
                r"open a terminal in the folder that holds `start\.py` \([^)]*\) and type",
                "type into a new cell",
                source,
            )
        cell["source"] = source.splitlines(keepends=True)
    install: dict[str, Any] = {"cell_type": "code", "execution_count": None, "id": "install", "metadata": {}}
    lines = INSTALL.format(package=requirement).splitlines(keepends=True)
    notebook["cells"].insert(1, install | {"outputs": [], "source": lines})
    return notebook


def _to_site(link: re.Match[str], site: str) -> str:
    """The place of a page or lab on the site."""
    page = link[1] if "/" in link[1] else f"labs/{link[1]}"
    return f"]({site}/{page}.html{link[2] or ''})"
