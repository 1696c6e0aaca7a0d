"""Where the time of the last whole run of the tests went: CPU minutes by block, beside the budget in budget.toml.

    python3 start.py test                  the default tier; or `test --all`
    python -m tests.durations              print the table; exit code 1 if a block needs more than 1.5 times its budget

Minutes are those of the machine for which the budget was written: the run measures its own machine with a fixed piece
of work, the yardstick.
"""

import json
import statistics
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.plugins.cpu_time import yardstick

PROJECT = Path(__file__).parents[1]
LAST_RUN = PROJECT / ".pytest_cache/v/lplab/cpu_time"
TOLERANCE = 1.5


def table(run: dict[str, Any], budget: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The lines to print, and the blocks that need more than 1.5 times their budget."""
    minutes = {block: s / 60 * budget["yardstick"] / run["yardstick"] for block, s in run["seconds"].items()}
    allowed: dict[str, float] = budget[run["tier"]]
    over = [b for b, spent in minutes.items() if spent > TOLERANCE * allowed.get(b, 0) and spent > 0.1]
    lines = [f"{'block':<14}{'CPU min':>9}{'budget':>9}"]
    for block in sorted(minutes.keys() | allowed.keys(), key=lambda b: -minutes.get(b, 0)):
        sign = "  too much" if block in over else ""
        lines.append(f"{block:<14}{minutes.get(block, 0):>9.2f}{allowed.get(block, 0):>9.2f}{sign}")
    lines.append(f"{'sum':<14}{sum(minutes.values()):>9.2f}{sum(allowed.values()):>9.2f}")
    slower = run["yardstick"] / budget["yardstick"]
    lines.append(
        f"{run['wall_seconds'] / 60:.1f} minutes by the clock, on a machine {slower:.2f} times as slow as the budget's"
    )
    return lines, over


def slowness() -> float:
    """How many times as slow as the budget's machine this one is, at least 1: bounds on waiting times grow by it."""
    now = statistics.median(yardstick() for _ in range(5))
    return max(1.0, now / read_budget()["yardstick"])


def read_budget() -> dict[str, Any]:
    """What stands in budget.toml."""
    return tomllib.loads((PROJECT / "tests/budget.toml").read_text("utf-8"))


def main() -> int:
    """Print the table of the last whole run."""
    try:
        run = json.loads(LAST_RUN.read_text("utf-8"))
    except OSError:
        print("No run is kept: type python3 start.py test", file=sys.stderr)
        return 2
    if not run["tier"]:
        print("The last run was not a whole one: type python3 start.py test, or test --all", file=sys.stderr)
        return 2
    lines, over = table(run, read_budget())
    print(f"Tier: {run['tier']}", *lines, sep="\n")
    if over:
        print(f"More than {TOLERANCE} times the budget in tests/budget.toml: {', '.join(over)}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
