"""What ``python -m benchmarks compression parallel --write`` puts into docs/exactness.md and the README."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path

PROJECT = Path(__file__).parents[1]
README, SPEEDS = PROJECT / "README.md", PROJECT / "docs" / "exactness.md"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(table(["work", "measured"], [["a copy", "1.0"]]))
    | work | measured |
    |---|---|
    | a copy | 1.0 |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("|" + "|".join(f" {cell} " if cell != "---" else cell for cell in line) + "|" for line in lines)


def replaced(text: str, name: str, block: str) -> str:
    """A page with what stands between its marks ``<!-- measured: NAME -->`` and ``<!-- end: NAME -->`` replaced.

    Raises:
        ValueError: the page has no such marks.

    >>> replaced("<!-- measured: x -->old<!-- end: x -->", "x", "new")
    '<!-- measured: x -->new<!-- end: x -->'
    """
    begin, end = f"<!-- measured: {name} -->", f"<!-- end: {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no marks {begin} and {end}")
    return pattern.sub(lambda _: f"{begin}{block}{end}", text)


def write(name: str, caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], page: Path = SPEEDS) -> None:
    """Put a measured table into a page, with its date and machine."""
    today = date.today()
    when = f"{today.day} {today:%B %Y}, {processor()}, {os.cpu_count()} processors"
    say(name, f"\n{caption} (`python -m benchmarks {name}`, {when}):\n\n{table(header, rows)}\n", page)


def say(name: str, block: str, page: Path = README) -> None:
    """Put measured text into a page."""
    page.write_text(replaced(page.read_text("utf-8"), name, block), "utf-8")


def processor() -> str:
    """The name of the machine's processor, as far as the system tells it."""
    file = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", file.read_text(), re.M) if file.exists() else []
    return names[0] if names else platform.processor() or platform.machine()
