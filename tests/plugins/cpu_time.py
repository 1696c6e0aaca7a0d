"""CPU time of a run by block of tests, kept in pytest's cache for ``python -m tests.durations``.

What counts is the CPU time of the test process and of all that it starts: kernels, ranks, a browser. The machine's
speed is measured beside it with a fixed piece of work, so that a slow machine is not taken for a slow test.
"""

import statistics
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

KEY = "lplab/cpu_time"
COLLECTING = "collecting"


def block_of(nodeid: str) -> str:
    """The block that a test belongs to: its folder in tests/, the labs, or the doctests."""
    first, _, rest = nodeid.partition("::")[0].partition("/")
    if first != "tests":
        return {"lplab": "doctests"}.get(first, first)
    folder, inside, _ = rest.partition("/")
    return folder if inside else "top level"


def yardstick() -> float:
    """CPU seconds of a fixed piece of work, some 30 ms."""
    start = time.process_time()
    sorted((k * 7919) % 100_003 for k in range(100_000))
    return time.process_time() - start


def family_seconds() -> float:
    """CPU seconds of this process and of everything that it has started, so far."""
    total = 0.0
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        try:
            spent = process.cpu_times()
        except psutil.Error:  # it has just ended: its parent's children_* have it
            continue
        total += spent.user + spent.system + getattr(spent, "children_user", 0) + getattr(spent, "children_system", 0)
    return total


class Clock:
    """Gives what was spent since the last reading to the block that ran, in the main process and in each worker."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.block, self.read = COLLECTING, 0.0
        self.seconds: Counter[str] = Counter()
        self.yardsticks: list[float] = []
        self.began = time.time()

    def change(self, block: str) -> None:
        """What comes next belongs to ``block``."""
        self.seconds[self.block] += max(0.0, family_seconds() - self.read)
        self.yardsticks.append(yardstick())
        self.block, self.read = block, family_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        block = block_of(item.nodeid)
        if block != self.block:
            self.change(block)
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if not self.config.pluginmanager.hasplugin("dsession"):  # else the workers have counted, and are our children
            self.change("end")
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["cpu_time"] = [dict(self.seconds), self.yardsticks]
        elif cache := getattr(self.config, "cache", None):
            cache.set(KEY, self.result())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        seconds, yardsticks = getattr(node, "workeroutput", {}).get("cpu_time", [{}, []])
        self.seconds.update(seconds)
        self.yardsticks += yardsticks

    def result(self) -> dict[str, Any]:
        """What is kept: which tests ran, CPU seconds by block, the yardstick, wall time."""
        option, slow = self.config.option, self.config.option.markexpr
        whole = self.config.args_source == pytest.Config.ArgsSource.TESTPATHS and not option.keyword
        tiers = {"not slow": "default", "slow or not slow": "everything"}
        return {
            "tier": tiers.get(slow, "") if whole else "",
            "seconds": dict(self.seconds),
            "yardstick": statistics.median(self.yardsticks or [yardstick()]),
            "wall_seconds": time.time() - self.began,
        }


def pytest_configure(config: pytest.Config) -> None:
    """One clock for a run."""
    config.pluginmanager.register(Clock(config))
