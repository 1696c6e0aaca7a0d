"""What a large class costs: minutes, and the memory of the process that grades, for classes of several sizes.

``python -m benchmarks grading --students 100 1000 10000`` counts among the parts only when it is asked for by name: a
thousand submissions of all labs take minutes. Each class is made by ``tests.exercises.big_class`` and graded by
``lplab grade`` in a process of its own, whose largest memory is taken, without that of the processes in which answers
run. Most students' answers have equal texts, which are judged once, so the seconds for a different answer stand beside.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lplab.exercises.model.exercise_catalogue import LABS
from tests.exercises.big_class import write_class

GRADE = """
import json, re, resource, sys, time
from pathlib import Path
from lplab.exercises.grading.grading import grade
from lplab.exercises.grading.journal import Journal
from lplab.exercises.grading.marks_files import write_marks
folder, out, jobs, *labs = sys.argv[1:]
begun = time.perf_counter()
journal = Journal(Path(out) / "journal")
marks = grade(folder, labs, jobs=int(jobs), journal=journal)
write_marks(marks, Path(out))
journal.remove()
own, children = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
found = {"seconds": time.perf_counter() - begun, "cpu": cpu, "judged": marks.judged, "judging": marks.judging_seconds}
status = Path("/proc/self/status").read_text()  # ru_maxrss would hold that of the process that started this one, too
kilobytes = dict(re.findall(r"(Vm\\w+):\\s+(\\d+) kB", status))
memory = {key: int(kilobytes[name]) * 1024 / 1e6 for key, name in (("peak", "VmHWM"), ("end", "VmRSS"))}
print(json.dumps({**found, **memory}))
"""


def graded(folder: Path, out: Path, jobs: int = 1, labs: Sequence[str] = ()) -> dict[str, float]:
    """Grade a class in a process of its own.

    Returns:
        seconds of all; CPU seconds of the process and of the answers; seconds of judging; how many different answers
        were judged; the resident set of the process in MB: the largest as "peak", the one after the marks as "end".
    """
    command = [sys.executable, "-c", GRADE, str(folder), str(out), str(jobs), *labs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the grading ended with code {done.returncode}: {done.stderr[-500:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks grading", description=main.__doc__)
    parser.add_argument("--students", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--lab", nargs="+", default=[], help="such as 00 01 (default: all)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--own", type=float, default=0.0, help="share of answers in words of their own")
    parser.add_argument("--whole-labs", action="store_true", help="a notebook a lab for each student")
    parser.add_argument("--folder", type=Path, help="keep the classes and their marks here (default: a temporary one)")
    args = parser.parse_args()
    if sys.platform != "linux":
        print("benchmarks grading: memory is read from /proc, which Linux alone has", file=sys.stderr)
        return 2
    print(
        "| students | minutes | CPU minutes | … a thousand | different answers | MB at most | MB at the end |",
        flush=True,
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        for students in args.students:
            place = (args.folder or Path(temporary)) / f"class_of_{students}"
            if not (place / "class").exists():
                write_class(place / "class", students, 0, args.own, args.whole_labs, args.lab or LABS)
            found = graded(place / "class", place / "marks", args.jobs, args.lab)
            minutes = (
                f"{found['seconds'] / 60:.1f} | {found['cpu'] / 60:.2f} | {1000 / 60 * found['cpu'] / students:.2f}"
            )
            print(
                f"| {students:,} | {minutes} | {found['judged']:,} | {found['peak']:.0f} | {found['end']:.0f} |",
                flush=True,
            )
    print(f"{args.jobs} answers at a time, {os.cpu_count()} processors, Python {sys.version.split()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
