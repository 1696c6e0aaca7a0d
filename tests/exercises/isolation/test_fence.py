"""The kernel's fence around student code: what stands, on which kernels, and that no attack gets through it."""

import itertools
import os
import re
import sqlite3
import struct
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import psutil
import pytest

import lplab
from lplab.exercises.checks.judge import judge
from lplab.exercises.isolation import Limits, landlock, processes, run_isolated, seccomp
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue
from tests.exercises.hostile import CLASS, FORGE, OVERLOAD
from tests.kinds import tiered

ROUND, QUICK = exercise_catalogue.get("01.2"), exercise_catalogue.get("00.1")  # of QUICK the check takes no time
LPLAB = Path(str(lplab.__file__)).parent
SHORT = Limits(cpu_seconds=1, wall_seconds=2)
needs_the_fence = pytest.mark.skipif(
    not (landlock.abi() and seccomp.available()), reason="this kernel lacks Landlock or seccomp"
)
needs_seccomp = pytest.mark.skipif(not seccomp.available(), reason="this kernel lacks seccomp")
needs_landlock = pytest.mark.skipif(not landlock.abi(), reason="this kernel lacks Landlock")
FIRST = {attack.kind: attack.name for attack in reversed(CLASS)}
FAST = {
    *FIRST.values(),
    "the_solution_by_import",
    "a_daemon",
    "from_the_thread_outside",
    "the_environment_of_the_parent",
}


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A home folder, a class, and what an attack may look for there."""
    for name in ("home", "class", "out", "temp"):
        (tmp_path / name).mkdir()
    (tmp_path / "home" / "exam.txt").write_text("SECRET of home")
    (tmp_path / "class" / "mate.ipynb").write_text("SECRET of a classmate")
    with zipfile.ZipFile(tmp_path / "home" / "exam.zip", "w") as archive:
        archive.writestr("exam.txt", "SECRET of home")
    with sqlite3.connect(tmp_path / "home" / "exam.db") as base:
        base.execute("create table t (x)")
    base.close()
    monkeypatch.setenv("LPLAB_TOKEN", "SECRET of the environment")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    return {
        "HOME": str(tmp_path / "home"),
        "MATE": str(tmp_path / "class" / "mate.ipynb"),
        "OUT": str(tmp_path / "out"),
        "TEMP": str(tmp_path / "temp"),
        "LPLAB": str(LPLAB),
    }


@pytest.fixture
def unharmed(places, tmp_path):
    """The same; after the test all of it is as it was, and no process is left."""
    before, children = snapshot(tmp_path), set(psutil.Process().children(recursive=True))
    yield places
    assert snapshot(tmp_path) == before
    assert set(psutil.Process().children(recursive=True)) <= children
    assert not Path("/dev/shm/lplab-hostile").exists()


def snapshot(folder: Path) -> dict:
    """Content, rights, owner and date of all files in a folder; folders lose and gain their dates."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        found[path] = content, state.st_mode, state.st_uid, None if path.is_dir() else state.st_mtime_ns
    return found


def judged(attack, places, exercise=QUICK):
    return judge(exercise, Answer(attack.source(exercise.name, "*x", **places), exercise.name), SHORT)


# ---- attacks ---------------------------------------------------------------------------------------------------------


@needs_the_fence
@pytest.mark.parametrize("attack", tiered(
    [one for one in CLASS if one not in FORGE + OVERLOAD], lambda one: one.name in FAST), ids=lambda one: one.name
)  # fmt: skip
def test_an_attack_brings_nothing_home(attack, unharmed):
    verdict = judged(attack, unharmed)
    told = " ".join(verdict.lines) + verdict.printed
    assert not verdict.passed and verdict.points == 0
    assert "raises" in verdict.lines[1], "it ran, and its first forbidden step failed"
    assert "loot:" not in told.replace("'loot: {attack()}'", "")
    assert "SECRET of" not in told


@needs_the_fence
@pytest.mark.parametrize("attack", tiered(OVERLOAD, lambda one: one.name in FAST), ids=lambda one: one.name)
def test_an_overload_ends_soon(attack, unharmed):
    verdict = judged(attack, unharmed)
    assert not verdict.passed and verdict.points == 0
    assert verdict.seconds < 30, "the machine may be busy"


@needs_the_fence
@pytest.mark.parametrize("attack", tiered(FORGE, lambda one: one.name in FAST), ids=lambda one: one.name)
def test_a_forgery_is_worth_no_more_than_a_constant(attack, unharmed):
    constant = judge(ROUND, Answer(f"def {ROUND.name}(x): return 448.0", ROUND.name))
    verdict = judged(attack, unharmed, ROUND)
    assert not verdict.passed and verdict.points <= constant.points < ROUND.points


def test_the_class_is_large_enough():
    assert len(CLASS) >= 100 and len({(attack.kind, attack.name) for attack in CLASS}) == len(CLASS)


@pytest.mark.skipif(sys.platform != "linux", reason="attacks are written for Linux")
@pytest.mark.parametrize("name", ["a_classmates_answer", "into_the_home_folder", "a_fork_behind_pythons_back"])
def test_without_the_fence_the_attacks_succeed(name, places, tmp_path, monkeypatch):
    """So they test the fence, and are not stopped by their own mistakes."""
    monkeypatch.setattr(processes, "CHILD", changed_child(tmp_path, abi="0", seccomp="False"))
    attack = next(one for one in CLASS if one.name == name)
    tries = (" ".join(judged(attack, places, ROUND).lines) for _ in range(5))  # a fork races with its parent
    assert any("loot:" in told.replace("'loot: {attack()}'", "") for told in tries)


# ---- kernels that have a part of it ----------------------------------------------------------------------------------


def changed_child(folder: Path, abi: str = "version", seccomp: str = "True") -> Path:
    """The child's files, below ``folder``, on a kernel with another version of Landlock, with or without seccomp."""
    folder = folder / "exercises" / "isolation"  # guards.py refuses to open files of the exercises
    folder.mkdir(parents=True)
    for file in ("child", "guards", "landlock", "seccomp", "wire"):
        text = processes.CHILD.with_name(f"{file}.py").read_text("utf-8")
        if file == "landlock":
            assert text.count("version = abi()") == 1
            text = text.replace("version = abi()", f"version = abi()\n    version = {abi}")
        if file == "seccomp":
            assert text.count("if not available():") == 1
            text = text.replace("if not available():", f"if not (available() and {seccomp}):")
        (folder / f"{file}.py").write_text(text, "utf-8")
    return folder / "child.py"


def run(source: str, *calls: tuple, **options):
    return run_isolated(Answer(source, "f"), calls or [()], allowed=["os", "numpy", "threading", "signal"], **options)


@needs_the_fence
def test_both_fences_stand():
    assert run("def f(): return 1").fences == (f"Landlock {landlock.abi()}", "seccomp")


@needs_landlock
@pytest.mark.parametrize("version", tiered(range(1, landlock.abi() + 1), lambda version: version in (1, 3)))
def test_older_kernels_close_the_files_too(version, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "CHILD", changed_child(tmp_path, abi=str(version), seccomp="False"))
    (tmp_path / "secret").write_text("SECRET")
    source = "import numpy as np\ndef f(path):\n    open('mine', 'w').write('x')\n    open(path)"
    outcome = run(source, (str(tmp_path / "secret"),))
    assert outcome.fences == (f"Landlock {version}",)
    assert outcome.values[0].type == "PermissionError" and outcome.values[0].line == 4
    assert run("import numpy as np\ndef f(): return float(np.random.rand(3).sum() > 9)").values == (0.0,)


@needs_seccomp
def test_a_kernel_without_landlock_lets_nothing_be_written_and_nothing_be_started(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "CHILD", changed_child(tmp_path, abi="0"))
    outcome = run("def f(path): open(path, 'w')", (str(tmp_path / "new"),))
    assert outcome.fences == ("seccomp",) and outcome.values[0].type == "PermissionError"
    assert run("import os\ndef f(path): return os.unlink(path)", (str(tmp_path / "note"),)).values[0].type == (
        "PermissionError"
    )
    (tmp_path / "note").write_text("read")
    assert run("def f(path): return open(path).read()", (str(tmp_path / "note"),)).values == ("read",)


def test_a_system_without_either_runs_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "CHILD", changed_child(tmp_path, abi="0", seccomp="False"))
    outcome = run("def f(): return 1")
    assert outcome.values == (1,) and outcome.fences == ()


@needs_landlock
def test_a_fence_that_is_offered_and_refused_runs_nothing(tmp_path, monkeypatch):
    """Never does an answer run with less than the machine promises."""
    child = changed_child(tmp_path)
    text = child.with_name("landlock.py").read_text()
    assert text.count("ctypes.c_int(ruleset))\n    os.close") == 1
    child.with_name("landlock.py").write_text(
        text.replace("ctypes.c_int(ruleset))\n    os.close", "ctypes.c_int(999))\n    os.close")
    )
    monkeypatch.setattr(processes, "CHILD", child)
    with pytest.raises(RuntimeError, match="did not start; it says: OSError: .*landlock_restrict_self"):
        run("def f(): return 1")


# ---- what is left open -----------------------------------------------------------------------------------------------


@needs_the_fence
def test_threads_and_the_folder_of_the_answer_stay_open():
    source = """
import os, signal, threading
def f():
    found = []
    thread = threading.Thread(target=found.append, args=(7,))
    thread.start()
    thread.join()
    with open("note", "w") as file:
        file.write("mine")
    signal.signal(signal.SIGUSR1, lambda *_: found.append(8))
    signal.raise_signal(signal.SIGUSR1)
    print("to nowhere", file=open("/dev/null", "w"))
    return found, open("note").read(), os.listdir()
"""
    assert run(source).values == (([7, 8], "mine", ["note"]),)


@needs_the_fence
def test_modules_that_are_not_loaded_yet_can_be_imported():
    names = "decimal, statistics, fractions, random, textwrap, dataclasses, heapq"
    source = f"import {names}\nimport numpy as np\ndef f(): return [np.fft.__name__, np.testing.__name__]"
    assert run(source + "\nimport numpy.ma, numpy.polynomial.chebyshev").values == (["numpy.fft", "numpy.testing"],)


@pytest.mark.skipif(sys.platform != "linux", reason="where Landlock is")
def test_the_readable_paths_hold_no_solution_and_no_installed_package():
    paths = [Path(path) for path in landlock.libraries([str(LPLAB), str(Path(np.__file__).parent)])]
    assert LPLAB / "formats" in paths and Path(np.__file__).parent in paths
    closed = [LPLAB / "exercises" / "lab01", LPLAB, Path(tempfile.gettempdir()), Path.home(), Path("/proc/self")]
    closed += [Path(path) for path in sys.path if path.endswith("-packages")]
    for path, secret in itertools.product(paths, closed):
        assert path != secret and path not in secret.parents, f"{path} holds {secret}"


# ---- the filter, run by hand -----------------------------------------------------------------------------------------


def decision(machine: str, number: int, *arguments: int, writing: bool = True, arch: int | None = None) -> int:
    """What the filter of a machine returns for a system call: a classic BPF machine of six instructions."""
    words = [number, seccomp.AUDIT[machine] if arch is None else arch, 0, 0]
    for argument in (*arguments, 0, 0, 0, 0, 0, 0)[:6]:
        words += [argument & 0xFFFFFFFF, argument >> 32 & 0xFFFFFFFF]
    code = list(struct.iter_unpack("=HBBI", seccomp.program(machine, 77, writing)))
    place = accumulator = 0
    while True:
        opcode, true, false, constant = code[place]
        place += 1
        match opcode:
            case 0x20:
                accumulator = words[constant // 4]
            case 0x54:
                accumulator &= constant
            case 0x05:
                place += constant
            case 0x15:
                place += true if accumulator == constant else false
            case 0x35:
                place += true if accumulator >= constant else false
            case 0x06:
                return constant
            case _:
                raise AssertionError(f"no instruction {opcode:#x}")


MACHINES = {"x86_64": 0, "aarch64": 1}
PERMITTED, REFUSED, UNKNOWN = 0x7FFF0000, 0x00050001, 0x00050026
THREAD_FLAGS = 0x3D0F00  # what glibc passes to clone for a thread


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_decides_on_both_machines(machine):
    number = MACHINES[machine]

    def of(*pair, arguments=(), **options):
        return decision(machine, pair[number], *arguments, **options)

    assert all(of(*pair) == PERMITTED for pair in seccomp.PLAIN.values() if pair[number] is not None)
    assert of(56, 220, arguments=(THREAD_FLAGS,)) == PERMITTED
    for flags in (17, 0x4111, THREAD_FLAGS | 0x20000, THREAD_FLAGS | 0x10000000, THREAD_FLAGS | 0x02000000):
        assert of(56, 220, arguments=(flags,)) == REFUSED
    for pair in ((62, 129), (234, 131)):  # kill, tgkill
        assert of(*pair, arguments=(77, 9)) == PERMITTED
        assert {of(*pair, arguments=(pid, 9)) for pid in (1, 76, 0, 2**32 - 1, 2**32 - 77)} == {REFUSED}
    assert of(302, 261, arguments=(0, 9, 0, 5)) == PERMITTED
    assert {of(302, 261, arguments=(0, 9, new, 0)) for new in (1, 2**32, 2**47)} == {REFUSED}  # a limit that is set
    assert of(257, 56, arguments=(0, 0, 0o1101)) == PERMITTED
    assert of(257, 56, arguments=(0, 0, 0o20200002)) == REFUSED  # O_TMPFILE
    assert {of(257, 56, arguments=(0, 0, flags), writing=False) for flags in (1, 2, 0o100, 0o1000)} == {REFUSED}
    assert of(257, 56, arguments=(0, 0, 0o2000000), writing=False) == PERMITTED
    assert of(72, 25, arguments=(3, 4, 0)) == PERMITTED and of(72, 25, arguments=(3, 8, 1)) == REFUSED
    assert of(16, 29, arguments=(1, 0x5401)) == PERMITTED and of(16, 29, arguments=(1, 0x5412)) == REFUSED
    assert of(157, 167, arguments=(15,)) == PERMITTED and of(157, 167, arguments=(4, 1)) == REFUSED
    processes, sockets, memory = [(57, None), (58, None), (59, 221), (322, 281)], [(41, 198), (53, 199)], [(319, 279)]
    others, files = [(101, 117), (310, 270)], [(90, None), (268, 53), (87, None), (263, 35), (76, 45)]
    system = [(165, 40), (161, 51), (248, 217), (321, 280)]
    for pair in processes + sockets + memory + others + files + system:
        if pair[number] is not None:
            assert of(*pair) == REFUSED
    assert {of(new, new) for new in (434, 435, 437, 444, 425 + 20, 5000, 0x40000000, 2**32 - 1)} == {UNKNOWN}
    assert of(0, 63, arch=0x40000003) == 0x80000000, "calls of 32 bits have other numbers"


HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(machine):
    if not Path(HEADERS[machine]).exists():
        pytest.skip("the kernel's headers are not installed")
    text = Path(HEADERS[machine]).read_text()
    numbers = {
        name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)$", text, re.MULTILINE)
    }
    numbers |= {"newfstatat": numbers["fstatat"]} if "fstatat" in numbers else {}
    for name, pair in seccomp.PLAIN.items():
        assert numbers.get(name) == pair[MACHINES[machine]], name
    conditional = [pair[MACHINES[machine]] for pair in seccomp.conditional(1, True)]
    names = ("kill", "tgkill", "clone", "prlimit64", "fcntl", "ioctl", "prctl", "open", "openat")
    assert conditional == [numbers.get(name) for name in names]


def test_the_filter_is_short_enough_for_its_jumps():
    assert max(len(seccomp.program(machine, os.getpid(), False)) for machine in MACHINES) < 8 * 255
