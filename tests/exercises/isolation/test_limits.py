"""Whatever student code does: a one-line message, this process lives, and no process or file is left over."""

import contextlib
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from lplab.exercises.isolation import Limits, Outcome, Stopped, run_isolated
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.isolation.run import ChildRun

ALLOWED = ("math", "numpy", "ctypes", "os", "signal", "socket", "subprocess", "sys", "threading", "time")
# Elsewhere the parent alone watches memory, or time too, and exit codes differ: see test_isolation_processes.py.
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="exact reasons as Linux gives them")

DEFAULT = Limits()
SHORT = Limits(cpu_seconds=0.3, wall_seconds=1)


@pytest.fixture(autouse=True)
def _nothing_stays(tmp_path, monkeypatch):
    """Every child works in a folder inside ``tmp_path``, by which it and its descendants are known."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = descendants()
    yield
    assert list(tmp_path.iterdir()) == []
    assert processes_in(tmp_path) == []
    assert descendants() <= before, "a child is left, or a zombie of it"


def descendants() -> set[psutil.Process]:
    """The processes below this one, but for the browser of other tests, which begins new ones at any time."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # gone meanwhile; a zombie still has its name
            if "chrom" not in process.name():
                found.add(process)
    return found


def processes_in(folder: Path) -> list[psutil.Process]:
    """The processes that work inside ``folder``; one that was just killed has a moment to go."""
    inside = [process for process in psutil.process_iter(["cwd"]) if str(process.info["cwd"]).startswith(str(folder))]
    return psutil.wait_procs(inside, timeout=5)[1]


def run(source: str, *calls: tuple, limits: Limits = DEFAULT) -> Outcome:
    return run_isolated(Answer(source, "f"), calls or [()], limits=limits, allowed=ALLOWED)


# ---- time ------------------------------------------------------------------------------------------------------------

IN_CALL_1 = "stopped after 0.3 s of computing, in call 1 of 1: a loop that never ends, or far too much work"
BEFORE = "stopped after 0.3 s of computing, before the first call: a loop that never ends, or far too much work"
WAITS = "stopped after 1 s of waiting, in call 1 of 1: your code waits for something that never comes"


@pytest.mark.parametrize(("source", "sentence"), [
    ("def f():\n    while True: pass", IN_CALL_1),
    ("def f():\n    while True:\n        try: [].sort(key=1 / 0)\n        except BaseException: pass", IN_CALL_1),
    ("def f(): return 10 ** 10 ** 10", IN_CALL_1),  # one long instruction, in which Python handles no signal
    ("while True: pass", BEFORE),
    ("import threading\ndef f():\n    for _ in '12':\n        threading.Thread(target=g).start()\n    g()\n"
     "def g():\n    while True: pass", IN_CALL_1),
    ("import time\ndef f(): time.sleep(100)", WAITS),
    ("import threading\ndef f(): threading.Lock().acquire() and threading.Event().wait()", WAITS),
    ("import signal\ndef f(): signal.pause()", WAITS),
])  # fmt: skip
def test_time_without_end(source, sentence):
    assert run(source, limits=SHORT).stopped == Stopped("time", sentence)


def test_what_was_finished_before_the_time_was_up_counts():
    outcome = run(
        "def f(x):\n    while x == 3: pass\n    return x", *[(x,) for x in range(6)], limits=Limits(cpu_seconds=0.3)
    )
    assert outcome.values == (0, 1, 2)
    assert outcome.stopped.sentence.startswith("stopped after 0.3 s of computing, in call 4 of 6")


def test_waiting_is_not_computing():
    """So a busy machine, on which a process waits for the CPU, changes no mark."""
    assert run("import time\ndef f(): time.sleep(0.6); return 1", limits=Limits(cpu_seconds=0.3)).values == (1,)


def test_the_parent_watches_too_where_the_system_has_no_timer():
    watcher = ChildRun(calls=1, limits=SHORT)
    watcher.on_message(b'["ready", 0.2]')
    watcher.on_message(b'["defined"]')
    watcher.check_time(computing=0.5, waiting=0, all_in_all=9)
    assert watcher.stopped is None
    watcher.check_time(computing=0.51, waiting=0, all_in_all=9)
    assert watcher.stopped == Stopped("time", IN_CALL_1)


def test_code_that_computes_a_little_now_and_then_ends_too():
    watcher = ChildRun(calls=1, limits=SHORT)
    watcher.on_message(b'["ready", 0.2]')
    watcher.check_time(computing=0.3, waiting=0.2, all_in_all=10.1)
    assert watcher.stopped == Stopped(
        "time", "stopped after 10 s, before the first call: your code waits again and again"
    )


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [
    "return np.ones(20 << 27)",
    "return bytearray(20 << 30)",
    "return [0] * (20 << 27)",
    "return 'x' * (20 << 30)",
    "x = [np.ones(1 << 20) for _ in range(2000)]",
    "x = list(range(10 ** 7))",
])  # fmt: skip
def test_too_much_memory(line):
    outcome = run(f"import numpy as np\ndef f():\n    {line}", limits=Limits(memory_mb=100))
    assert outcome.stopped == Stopped("memory", f"at `{line}`: this needs more than the 100 MB of memory allowed")


def test_the_memory_that_is_allowed_can_be_used():
    assert run("import numpy as np\ndef f(): return int(np.ones(80_000_000, np.int8).sum())").values == (80_000_000,)


def test_the_parent_watches_the_memory_too():
    watcher = ChildRun(calls=1, limits=Limits(memory_mb=100))
    watcher.check_memory(300_000_000)
    assert watcher.stopped is None
    watcher.check_memory(300_000_001)
    assert watcher.stopped == Stopped("memory", "stopped before the first call: more than the 100 MB of memory allowed")


def test_results_that_are_too_much_together(monkeypatch):
    monkeypatch.setattr("lplab.exercises.isolation.run.MAX_RESULT_BYTES", 5_000_000)
    outcome = run("import numpy as np\ndef f(): return np.ones(100_000)", *[()] * 10)
    assert outcome.stopped == Stopped("memory", "the results together are more than 5 MB")


# ---- printing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [
    "def f():\n    while True: print('hello')",
    "def f():\n    for _ in range(1000): print('x' * 10 ** 6)",
    "import os\ndef f():\n    while True: os.write(1, b'x' * 10 ** 6)",
    "import sys\ndef f(): sys.stderr.write('x' * 300_000)",  # all is over when the parent notices
])  # fmt: skip
def test_printing_without_end(source):
    outcome = run(source)
    assert outcome.stopped == Stopped("printing", "your code printed more than 256 kB: remove print from loops")
    assert len(outcome.printed) == 2000


# ---- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "stopped"), [
    ("import sys\ndef f(): sys.exit(0)",
     Stopped("exit", "at `def f(): sys.exit(0)`: this ends Python; use return to end a function")),
    ("def f(): exit()", Stopped("exit", "at `def f(): exit()`: this ends Python; use return to end a function")),
    ("raise SystemExit", Stopped("exit", "at `raise SystemExit`: this ends Python; use return to end a function")),
    ("import os\ndef f(): os._exit(0)",
     Stopped("exit", "your code ended Python at once, in call 1 of 1; use return to end a function")),
    ("import os\ndef f(): os.closerange(0, 100)",
     Stopped("exit", "your code ended Python at once, in call 1 of 1; use return to end a function")),
    ("import os, time\ndef f(): os.closerange(3, 100); time.sleep(100)",
     Stopped("tampering", "your code closed the pipe that carries its results, in call 1 of 1")),
    ("import os\ndef f(): os.kill(os.getpid(), 9)",
     Stopped("tampering", "your code uses other processes (os.kill); an answer only computes")),
    ("import signal\ndef f(): signal.raise_signal(signal.SIGKILL)",
     Stopped("crash", "Python itself crashed or was killed (exit code -9), in call 1 of 1")),
    ("import ctypes\ndef f(): ctypes.string_at(0)",
     Stopped("crash", "Python itself crashed or was killed (exit code -11), in call 1 of 1: recursion without end?")),
])  # fmt: skip
def test_the_end_of_python(source, stopped):
    assert run(source).stopped == stopped


def test_deep_recursion_on_purpose():
    outcome = run("import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): return f()", limits=Limits(cpu_seconds=1))
    assert outcome.stopped.reason in ("time", "memory", "crash")  # what gives first depends on Python's version


# ---- threads and processes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("daemon", [True, False])
def test_a_thread_that_never_ends_ends_with_the_calls(daemon):
    source = f"""
import threading, time
def f():
    threading.Thread(target=g, daemon={daemon}).start()
    return 1
def g():
    while True: time.sleep(0.01)
"""
    outcome = run(source)
    assert outcome.values == (1,) and outcome.stopped is None


@pytest.mark.parametrize(("source", "event"), [
    ("import os\ndef f(): os.fork()", "os.fork"),
    ("import os\ndef f(): os.system('sleep 100 &')", "os.system"),
    ("import subprocess\ndef f(): subprocess.Popen(['sleep', '100'], start_new_session=True)", "subprocess.Popen"),
    ("import os\ndef f(): os.posix_spawn('/bin/sleep', ['sleep', '100'], {})", "os.posix_spawn"),
    ("import os\ndef f(): os.execv('/bin/sleep', ['sleep', '100'])", "os.exec"),
])  # fmt: skip
def test_other_processes_are_refused(source, event):
    assert run(source).stopped == Stopped(
        "tampering", f"your code uses other processes ({event}); an answer only computes"
    )


def test_the_network_is_refused():
    stopped = run("import socket\ndef f(): socket.create_connection(('127.0.0.1', 9))").stopped
    assert stopped.reason == "tampering" and "uses the network" in stopped.sentence


@pytest.mark.parametrize("after", ["return 1", "while True: pass", "os._exit(0)"])
def test_a_process_started_behind_pythons_back_is_killed(after):
    """It also holds the pipes open; nothing may wait for them."""
    source = f"""
import os, ctypes
def f():
    if ctypes.CDLL(None).fork() == 0:
        while True: ctypes.CDLL(None).sleep(1)
    {after}
"""
    outcome = run(source, limits=SHORT)
    assert outcome.values == (1,) or outcome.stopped.reason in ("time", "exit")


# ---- tampering -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("line", "name"), [
    ("import numpy as np; np.round = abs", "numpy.round"),
    ("import numpy; del numpy.rint", "numpy.rint"),
    ("import math; math.floor = round", "math.floor"),
    ("import math; math.__builtins__ = {}; math.__loader__ = None", "math.__loader__"),
    ("import numpy; numpy.__builtins__['abs'] = round", "builtins.abs"),
    ("import numpy; numpy.generic = 3", "numpy.generic"),
])  # fmt: skip
@pytest.mark.parametrize("place", ["{line}\ndef f(): return 1", "def f():\n    {line}"])
def test_replacing_what_was_imported_is_told(line, name, place):
    stopped = Stopped("tampering", f"your code replaced {name}; leave what you import as it is")
    assert run(place.format(line=line)).stopped == stopped


@pytest.mark.parametrize("line", [
    rb'["value", 448.0, false]',
    rb'["value", {"array": "|O", "shape": [1], "data": "AAAAAAAAAAA="}, false]',
    rb'{"values": [1]}',
    rb"nonsense",
    b"[" * 100_000,
])  # fmt: skip
def test_writing_into_the_pipe_of_results_is_told(line):
    source = f"import os\ndef f():\n    for number in range(3, 20):\n        try: os.write(number, {line!r} + b'\\n')\n"
    outcome = run(source + "        except OSError: pass")
    assert outcome.stopped == Stopped("tampering", "your code wrote into the pipe that carries its results")


@pytest.mark.parametrize("line", ["sys.stdout.close()", "sys.stdout = sys.stderr = None", "os.close(1); os.close(2)"])
def test_closing_what_one_prints_to_hurts_nobody(line):
    assert run(f"import os, sys\ndef f():\n    {line}\n    return 1").values == (1,)
