"""Run the tests again that failed in the last whole run, each alone, and say which of them are flaky; .ci/run does.

    python3 start.py test --all
    python -m tests.failed_again          exit code 1 unless all of them pass alone

At most five tests get this second chance. A run that ended in another way than with failed tests gets none: a file
that cannot be imported, an error inside pytest, a run that was killed.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
START = (sys.executable, str(PROJECT / "start.py"), "test", "--all")
MOST = 5
AGAIN = ".pytest_cache/again"  # a cache of its own: the times of the whole run stay for tests.durations


def outcome(cache: Path) -> dict[str, Any]:
    """What tests/plugins/summary.py has kept of a run; nothing if it did not get as far as that."""
    try:
        return json.loads((cache / "v/lplab/outcome").read_text("utf-8"))
    except OSError:
        return {"only_tests_failed": False, "failed": [], "passed": 0}


def passes_alone(test: str, command: Sequence[str], folder: Path) -> bool:
    """Whether a test passes in a run of its own; a skipped one does not."""
    kept = folder / AGAIN / "v/lplab/outcome"
    kept.unlink(missing_ok=True)
    options = ["-n0", "-o", f"cache_dir={AGAIN}", test]
    code = subprocess.run([*command, *options], cwd=folder, stdin=subprocess.DEVNULL).returncode
    return code == 0 and outcome(folder / AGAIN)["passed"] > 0


def main(command: Sequence[str] = START, folder: Path = PROJECT) -> int:
    """Try again, and say loudly what came of it."""
    last = outcome(folder / ".pytest_cache")
    failed = last["failed"]
    if not last["only_tests_failed"] or not 1 <= len(failed) <= MOST:
        print(f"No second try: {len(failed)} tests failed; it takes 1 to {MOST}, and no other error", file=sys.stderr)
        return 1
    alone = {test: passes_alone(test, command, folder) for test in failed}
    print("=" * 120)
    for test, passes in alone.items():
        told = "FLAKY, failed in the whole run, passed alone" if passes else "FAILED TWICE, in the whole run and alone"
        print(f"{told}: {test}")
    print("=" * 120, flush=True)
    return int(not all(alone.values()))


if __name__ == "__main__":
    sys.exit(main())
