"""Plant faults in the library, one at a time, and see which tests find them (slow: minutes to hours).

    python -m tests.mutations                              all faults of tests/planted_faults.txt
    python -m tests.mutations kahan_sign time_left         some of them
    python -m tests.mutations --first-paths-only           a quick look: only the tests that are named with a fault

Each fault has a copy of the checkout. The tests named with it run first, then the rest of the default tier, then the
slow ones. A test that fails counts only if it passes in a copy without the fault. Ctrl-C prints what is finished.
Compiled loops are copied where the fault cannot have changed them: a checkout whose tests have run is faster.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from time import monotonic

import psutil

from tests.planted_faults import FAULTS, Fault

ROOT = Path(__file__).parents[1]
LEFT_OUT = (".git", ".venv", ".*_cache", ".hypothesis", "build", "dist", ".ipynb_checkpoints")
COMPILED = ("*.nbi", "*.nbc")  # machine code that numba keeps
DEFAULT, SLOW, SURVIVED, UNKNOWN = "default", "slow", "SURVIVED", "not by its own tests"
TIERS = {DEFAULT: "not slow", SLOW: "slow"}
NOTHING_RAN = 5  # pytest's exit code


@dataclass(frozen=True)
class Found:
    """What came of a fault: the tier that finds it, the test that fails first, whether it is one of those named."""

    name: str
    file: str
    meaning: str
    tier: str = SURVIVED
    test: str = ""
    own: bool = False
    seconds: float = 0.0


class Bench:
    """Copies of a checkout, with and without faults, and pytest in them.

    Args:
        checkout: whose tests and library are copied.
        folder: for the copies.
        timeout: seconds for one call of pytest; tests that take longer count as failed.
    """

    def __init__(self, checkout: Path, folder: Path, timeout: float) -> None:
        self.folder, self.timeout, self.stopped = folder, timeout, False
        self.running: set[subprocess.Popen[str]] = set()
        self.lock = threading.Lock()
        self.clean = copied(checkout, folder / "clean")
        self.passes: dict[str, bool] = {}  # tests, in the copy without a fault

    def find(self, fault: Fault, first_paths_only: bool = False) -> Found:
        """Plant a fault and run tests until one fails."""
        start, result = monotonic(), Found(fault.name, fault.file, fault.meaning)
        place = copied(self.clean, self.folder / fault.name)
        plant(fault, place)
        own = [path for path in (fault.file, *fault.tests) if (place / path).exists()]
        rest = [f"--ignore={path}" for path in own]
        stages = [(DEFAULT, own, True), (DEFAULT, rest, False), (SLOW, own, True), (SLOW, rest, False)]
        for tier, arguments, is_own in stages[:1] if first_paths_only else stages:
            test = self.first_failure(place, [*arguments, "-m", TIERS[tier]])
            if test:
                result = replace(result, tier=tier, test=test, own=is_own)
                break
        else:
            result = replace(result, tier=UNKNOWN) if first_paths_only else result
        shutil.rmtree(place, ignore_errors=True)
        return replace(result, seconds=round(monotonic() - start, 1))

    def first_failure(self, place: Path, arguments: list[str]) -> str:
        """The first test that fails here and passes without the fault; "" if there is none."""
        known: list[str] = []
        while True:
            test = self.pytest(place, [*arguments, *(f"--deselect={each}" for each in known)])
            if not test or test == self.too_long or self.passes_without(test):
                return test
            if test in known:
                raise RuntimeError(f"{test} fails without any fault and cannot be left out")
            known.append(test)

    def passes_without(self, test: str) -> bool:
        """Whether a test passes in the copy without a fault. The cells of a notebook need each other."""
        whole = test.partition("::")[0] if ".ipynb" in test else test
        if whole not in self.passes:
            self.passes[whole] = not self.pytest(self.clean, [whole, "-m", "slow or not slow"])
        return self.passes[whole]

    @property
    def too_long(self) -> str:
        """What stands in the place of a test where none has failed in time."""
        return f"tests took longer than {self.timeout:.0f} s"

    def pytest(self, place: Path, arguments: list[str]) -> str:
        """Run tests in a copy up to the first that fails; its name, "" if all pass."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-rfE", *arguments]
        command += ["-p", "no:cacheprovider", "-p", "no:randomly"]
        command += ["-n", "0"] if find_spec("xdist") else []
        environment = {**os.environ, "PYTHONPATH": str(place), "COLUMNS": "1000"}
        process = self._started(command, place, environment)
        try:
            output, _ = process.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            end(process)
            return self.too_long
        finally:
            self.running.discard(process)
        if self.stopped:
            raise KeyboardInterrupt
        if process.returncode in (0, NOTHING_RAN):
            return ""
        failed = next(failures(output), "")
        if not failed:
            raise RuntimeError(f"pytest ended with code {process.returncode} in {place}:\n{output[-3000:]}")
        return failed

    def _started(self, command: list[str], place: Path, environment: dict[str, str]) -> "subprocess.Popen[str]":
        with self.lock:
            if self.stopped:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                command,
                cwd=place,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that Ctrl-C does not make tests fail
            )
            self.running.add(process)
            return process

    def stop(self) -> None:
        """End all tests."""
        with self.lock:
            self.stopped = True
            for process in list(self.running):
                end(process)


def copied(checkout: Path, place: Path) -> Path:
    """A copy of a checkout; times stay, so that compiled files count as fresh."""
    return Path(shutil.copytree(checkout, place, ignore=shutil.ignore_patterns(*LEFT_OUT)))


def plant(fault: Fault, place: Path) -> None:
    """Write the wrong text into a copy, and delete the machine code that might hold the right one.

    Loops are compiled in four packages; they take in what they import from their own package and from formats.

    Raises:
        ValueError: the file does not hold the right text exactly once.
    """
    path = place / fault.file
    text = path.read_text("utf-8")
    if (times := text.count(fault.right)) != 1:
        raise ValueError(f"{fault.file} must hold the text of {fault.name} once, holds it {times} times")
    path.write_text(text.replace(fault.right, fault.wrong), "utf-8")
    stale = place / "lplab" if "formats" in Path(fault.file).parts else path.parent
    for pattern in COMPILED:
        for compiled in stale.rglob(pattern):
            compiled.unlink()


def failures(output: str) -> Iterator[str]:
    r"""The names of tests that failed, from pytest's summary.

    >>> list(failures("FAILED tests/test_a.py::test_b[1] - assert 1 == 2\nERROR tests/test_c.py\n1 failed"))
    ['tests/test_a.py::test_b[1]', 'tests/test_c.py']
    """
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("FAILED", "ERROR") and rest:
            yield rest.partition(" - ")[0].strip()


def end(process: subprocess.Popen) -> None:
    """Kill a process and all that it has started."""
    try:
        family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    except psutil.NoSuchProcess:
        return
    for each in family:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()


def chosen(names: Sequence[str]) -> list[Fault]:
    """The faults with these names; all of them without names.

    Raises:
        ValueError: a name that no fault has.
    """
    known = {fault.name: fault for fault in FAULTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no fault is named {', '.join(unknown)}; there are: {', '.join(known)}")
    return [known[name] for name in names] if names else list(FAULTS)


def as_table(results: Sequence[Found]) -> str:
    """Markdown: the faults, what they mean, who finds them and the first test that fails; then how many each finds.

    >>> print(as_table([]).splitlines()[0])
    | fault | file | what goes wrong | found by |
    """
    lines = ["| fault | file | what goes wrong | found by |", "|---|---|---|---|"]
    for found in results:
        meaning = found.meaning.replace("|", "\\|")
        lines.append(f"| {found.name} | `{found.file.removeprefix('lplab/')}` | {meaning} | {cell(found)} |")
    return "\n".join([*lines, "", summary(results)])


def cell(found: Found) -> str:
    """One result in a table."""
    return f"{found.tier}: `{found.test}`".replace("|", "\\|") if found.test else found.tier


def summary(results: Sequence[Found]) -> str:
    """How many faults each tier finds."""
    counts = {tier: sum(found.tier == tier for found in results) for tier in (DEFAULT, SLOW, SURVIVED, UNKNOWN)}
    told = ", ".join(f"{tier} {count}" for tier, count in counts.items() if count)
    return f"{len(results)} faults; {told or 'nothing run'}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 1 if a fault survives, or could not be tried."""
    parser = argparse.ArgumentParser("python -m tests.mutations", description="plant faults and see which tests fail")
    parser.add_argument("name", nargs="*", help="of faults (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="faults at the same time (default: 2)")
    parser.add_argument("--first-paths-only", action="store_true", help="only the tests that are named with a fault")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds for one call of pytest (default: 3600)")
    args = parser.parse_args(argv)
    try:
        faults = chosen(args.name)
    except ValueError as problem:
        parser.error(str(problem))
    results: dict[str, Found] = {}
    with tempfile.TemporaryDirectory(prefix="lplab-faults-", ignore_cleanup_errors=True) as folder:
        bench = Bench(ROOT, Path(folder), args.timeout)
        pool = ThreadPoolExecutor(args.jobs)
        work = {pool.submit(bench.find, f, args.first_paths_only): f for f in faults}
        try:
            for future in as_completed(work):
                try:
                    found = results[work[future].name] = future.result()
                except (RuntimeError, ValueError) as problem:  # of this fault; the others go on
                    print(f"{work[future].name}: {problem}", file=sys.stderr, flush=True)
                    continue
                print(f"{found.name}: {cell(found)} ({found.seconds:.0f} s)", flush=True)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
        finally:
            bench.stop()
            pool.shutdown(cancel_futures=True)
    mine = [results[fault.name] for fault in faults if fault.name in results]
    print(as_table(mine))
    return int(len(mine) < len(faults) or any(found.tier == SURVIVED for found in mine))


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # a job in the background is started deaf to Ctrl-C
        signal.signal(number, signal.default_int_handler)
    sys.exit(main())
