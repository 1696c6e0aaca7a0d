"""What a run says at its end: what was left out, and for each failure the one command that repeats it alone."""

import shlex
import sys
from collections import Counter
from typing import Any

import pytest

COMMAND = "python start.py test" if sys.platform == "win32" else "python3 start.py test"
slow_left_out = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.stash[slow_left_out] = 0


class Counting:
    """Counts the slow tests that ``-m "not slow"`` leaves out."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        if self.config.option.markexpr == "not slow" and not self.config.option.keyword:
            self.config.stash[slow_left_out] += sum(item.get_closest_marker("slow") is not None for item in items)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Count from now on."""
    session.config.pluginmanager.register(Counting(session.config))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist tells the main process what it has counted."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["slow_left_out"] = session.config.stash[slow_left_out]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Each worker has collected all tests: any one's number is the number."""
    told = getattr(node, "workeroutput", {}).get("slow_left_out", 0)
    node.config.stash[slow_left_out] = max(node.config.stash[slow_left_out], told)


def alone(report: Any) -> str:
    """What to run in order to run a test alone; a cell of a notebook needs the cells before it."""
    path = report.nodeid.partition("::")[0]
    return path if path.endswith(".ipynb") else report.nodeid


def repeat(report: Any) -> str:
    """The command that runs a failed test alone."""
    everything = ["--all"] if "slow" in getattr(report, "keywords", {}) else []
    return " ".join([COMMAND, *everything, "-n0", shlex.quote(alone(report))])


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Print it."""
    stats = terminalreporter.stats
    skipped = Counter(reason(report) for report in stats.get("skipped", []))
    left_out = config.stash[slow_left_out]
    if left_out or skipped:
        terminalreporter.section("left out")
        if left_out:
            terminalreporter.line(f"{left_out} slow tests. To run everything: {COMMAND} --all")
        for text, number in skipped.most_common():
            terminalreporter.line(f"{number} skipped: {text}")
    commands = dict.fromkeys(repeat(report) for report in [*stats.get("failed", []), *stats.get("error", [])])
    if commands:
        terminalreporter.section("to repeat each failure alone")
        for command in commands:
            terminalreporter.line(command)


def reason(report: Any) -> str:
    """Why a test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(text).removeprefix("Skipped: ")
