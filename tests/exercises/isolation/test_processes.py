"""The child ends with its caller: with the call, with an interruption, with a killed kernel."""

import _thread
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from lplab.exercises.isolation import Limits, processes, run_isolated
from lplab.exercises.isolation.answers import Answer

LONG = Limits(cpu_seconds=300, wall_seconds=300)
PATIENCE = 60  # seconds, for a slow machine

ENDLESS = {
    "computing": "def f():\n    while True: pass",
    "waiting": "import threading\ndef f(): threading.Event().wait()",
}


def run(source: str, *calls: tuple, limits: Limits = LONG):
    return run_isolated(Answer(source, "f"), calls or [()], limits=limits, allowed=["threading"])


def at_work(folder: Path) -> list[psutil.Process]:
    """The children that work inside ``folder`` and have read their request."""
    inside = [process for process in psutil.process_iter(["cwd"]) if str(process.info["cwd"]).startswith(str(folder))]
    return [process for process in inside if process.num_threads() > 1]


def until(condition):
    """The value of ``condition`` as soon as it is true."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
def test_an_interruption_kills_the_child_and_goes_on(source, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = []

    def interrupt():
        found.extend(until(lambda: at_work(tmp_path)))
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run(source)
    assert len(found) == 1 and not found[0].is_running()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
def test_a_killed_kernel_takes_the_child_along(source, tmp_path):
    script = f"""
from lplab.exercises.isolation import *
from lplab.exercises.isolation.answers import Answer
run_isolated(Answer({source!r}, "f"), [()], limits=Limits(300, 300), allowed=["threading"])
"""
    kernel = subprocess.Popen([sys.executable, "-c", script], env=os.environ | {"TMPDIR": str(tmp_path)})
    (child,) = until(lambda: at_work(tmp_path))
    assert child.ppid() == kernel.pid
    kernel.send_signal(signal.SIGKILL)
    kernel.wait()
    assert psutil.wait_procs([child], timeout=PATIENCE)[1] == []


def test_a_child_that_cannot_start_is_no_fault_of_the_student(tmp_path, monkeypatch):
    broken = tmp_path / "child.py"
    broken.write_text("import no_such_numpy")
    monkeypatch.setattr(processes, "CHILD", broken)
    with pytest.raises(
        RuntimeError, match="did not start; it says: ModuleNotFoundError: No module named 'no_such_numpy'"
    ):
        run("def f(): return 1")


def test_a_child_that_never_gets_ready_is_no_fault_of_the_student(tmp_path, monkeypatch):
    slow = tmp_path / "child.py"
    slow.write_text("import time\ntime.sleep(100)")
    monkeypatch.setattr(processes, "CHILD", slow)
    with pytest.raises(RuntimeError, match="did not start within 0.5 s"):
        run("def f(): return 1", limits=Limits(wall_seconds=0.05))


@pytest.fixture(params=[False, True], ids=["as it is", "as on Windows"])
def _limits_of_the_system(request, tmp_path, monkeypatch):
    """With, and without, the means by which the child limits itself."""
    if request.param:
        for name in ("child.py", "guards.py", "landlock.py", "seccomp.py", "wire.py"):
            source = processes.CHILD.with_name(name).read_text("utf-8")
            (tmp_path / name).write_text(source.replace("    import resource\n", "    raise ImportError\n"), "utf-8")
        monkeypatch.setattr(processes, "CHILD", tmp_path / "child.py")


@pytest.mark.usefixtures("_limits_of_the_system")
@pytest.mark.parametrize(("body", "reason"), [
    ("while True: pass", "time"),
    ("threading.Event().wait()", "time"),
    ("x = []\n    while True: x.append(b'x' * len(x) * 1000)", "memory"),
    ("while True: print('hello')", "printing"),
    ("exit()", "exit"),
])  # fmt: skip
def test_the_limits_hold_on_every_system(body, reason):
    """On Linux, test_limits.py checks more than the reason."""
    limits = Limits(cpu_seconds=1, wall_seconds=1, memory_mb=200)
    assert run(f"import threading\ndef f():\n    {body}", limits=limits).stopped.reason == reason


def test_many_at_once_do_not_meet():
    sources = [f"state = []\ndef f(x):\n    state.append(x)\n    return {number}, len(state)" for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda source: run(source, (1,), (2,)), sources))
    assert [outcome.values for outcome in outcomes] == [((number, 1), (number, 2)) for number in range(8)]


def test_nothing_is_left_open():
    run("def f(): return 1")
    us = psutil.Process()
    before = len(us.open_files()), us.num_fds() if hasattr(us, "num_fds") else 0, threading.active_count()
    for _ in range(3):
        run("def f(): return 1")
    assert (len(us.open_files()), us.num_fds() if hasattr(us, "num_fds") else 0, threading.active_count()) == before
