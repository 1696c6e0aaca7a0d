"""The progress file: its contents, and its safety against crashes."""

import errno
import html.parser
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from lplab.exercises import progress
from lplab.exercises.checks.verdict import FAILED, NOT_YET, PASSED, Verdict
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.progress import Progress, safe_file
from lplab.exercises.progress.bar import ProgressBar

FIRST, SECOND = Answer("def f(x):\n    return 0\n", "f"), Answer("def f(x):\n    return x\n", "f")


def verdict(status=PASSED, points=6.0, exercise="01.2", ring="", version=1):
    return Verdict(exercise, version, "Round", status, ring, ("line",), points, 6, seconds=0.25)


@pytest.fixture
def messages():
    return []


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "progress.json"


@pytest.fixture
def mine(path, messages):
    return Progress(path, messages.append)


def in_another_process(script, path, **options):
    command = [
        sys.executable,
        "-c",
        f"from lplab.exercises.progress import Progress\np = Progress({str(path)!r})\n{script}",
    ]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3], **options)


# ---- what is kept ----------------------------------------------------------------------------------------------------


def test_a_first_failure_and_a_later_pass(mine, path):
    mine.record(verdict(FAILED, 2, ring="boundary set"), FIRST)
    record = Progress(path).of("01.2")
    assert (record.attempts, record.status, record.ring, record.points, record.passed) == (
        1,
        FAILED,
        "boundary set",
        2,
        False,
    )
    mine.record(verdict(), SECOND)
    mine.record(verdict(FAILED, 0, ring="form", version=2), FIRST)
    record = Progress(path).of("01.2")
    assert (record.attempts, record.status, record.ring, record.points) == (3, FAILED, "form", 6)
    assert record.passed and record.passed_version == 1 and record.passed_at.endswith("+00:00")
    assert (record.latest, record.passing, record.function) == (FIRST.source, SECOND.source, "f")


def test_a_later_check_of_another_function_leaves_the_passing_answer_its_name(mine, path):
    mine.record(verdict(), SECOND)
    mine.record(verdict(FAILED, 0, ring="form"), Answer("def g(x):\n    return x\n", "g"))
    record = Progress(path).of("01.2")
    assert (record.function, record.passing, record.passing_function) == ("g", SECOND.source, "f")


def test_the_same_answer_again_and_a_stub_are_no_attempts(mine):
    mine.record(verdict(NOT_YET, 0), FIRST)
    assert mine.of("01.2").attempts == 0
    for _ in range(3):  # Run All Cells
        mine.record(verdict(), SECOND)
    assert mine.of("01.2").attempts == 1


def test_hints_and_solution(mine, path):
    assert mine.hints_opened("01.2") == 0
    assert mine.open_hint("01.2") == 1 and mine.open_hint("01.2", 3) == 3 and mine.open_hint("01.2", 1) == 3
    mine.solution_seen("01.2")
    first = mine.of("01.2").solution_at
    mine.solution_seen("01.2")
    record = Progress(path).of("01.2")
    assert first and record.solution_at == first and record.hints == 3 and not record.passed


def test_a_guess_stays_until_the_question_changes(mine, path):
    mine.record_prediction("01.codes", "How many?", 12, 118, "codes")
    mine.record_prediction("01.codes", "How many?", 118, 118, "codes")
    kept = Progress(path).state.predictions["01.codes"]
    assert (kept.guess, kept.truth, kept.unit) == (12.0, 118.0, "codes") and mine.prediction("01.codes") == 12.0
    mine.record_prediction("01.codes", "How many codes are NaN?", float("inf"), 2)
    mine.record_prediction("02.word", "Which?", "the coin", "the coin")
    assert mine.prediction("01.codes") == "inf" and mine.prediction("02.word") == "the coin"
    assert mine.prediction("02.other") is None
    json.loads(path.read_text("utf-8"), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_a_skipped_question_is_remembered_in_its_wording(mine, path):
    mine.skip_prediction("01.codes", "How many?")
    assert Progress(path).has_skipped("01.codes", "How many?") and mine.prediction("01.codes") is None
    assert not mine.has_skipped("01.codes", "How many codes?") and not mine.has_skipped("02.codes", "How many?")


def test_the_module_uses_the_file_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "here.json"))
    progress.record(verdict(), SECOND)
    progress.record_prediction("01.codes", "How many?", 1, 2)
    assert (
        progress.has_passed("01.2") and progress.prediction("01.codes") == 1 and list(progress.of_lab("01")) == ["01.2"]
    )
    assert progress.open_hint("01.2") == progress.hints_opened("01.2") == 1
    assert (tmp_path / "here.json").exists() and progress.of_lab("02") == {}
    monkeypatch.delenv("LPLAB_PROGRESS", raising=False)
    assert progress.progress_path().name == "progress.json" and "lplab" in str(progress.progress_path())


# ---- accidents -------------------------------------------------------------------------------------------------------


def test_two_processes_at_once_lose_nothing(mine, path):
    script = "for i in range(25):\n    p.open_hint('{}', i + 1); p.record_prediction('{} ' + str(i), 'q', i, i)"
    root = Path(__file__).parents[3]
    start = f"from lplab.exercises.progress import Progress\np = Progress({str(path)!r})\n"
    commands = [[sys.executable, "-c", start + script.format(name, name)] for name in ("01.1", "01.2")]
    writers = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) for command in commands]
    assert [writer.communicate()[0] for writer in writers] == ["", ""]
    assert mine.hints_opened("01.1") == mine.hints_opened("01.2") == 25 and len(mine.state.predictions) == 50


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("where", ["os.fsync", "os.replace", "json.dump"])
def test_a_writer_killed_in_the_middle_spoils_nothing(mine, path, messages, where):
    mine.record(verdict(), SECOND)
    before = path.read_bytes()
    module = where.partition(".")[0]
    killed = f"{where} = lambda *a, **k: os.kill(os.getpid(), {int(signal.SIGKILL)})"
    script = f"import {module}, os\n{killed}\np.open_hint('01.2')"
    assert in_another_process(script, path).returncode == -signal.SIGKILL
    assert path.read_bytes() == before and list(path.parent.glob(".*.new"))
    assert mine.open_hint("01.2") == 1 and messages == []
    assert not list(path.parent.glob(".*.new")) and mine.has_passed("01.2")


@pytest.mark.parametrize("corrupt", [
    b"", b"\0" * 100, b"{", b"[1, 2]", b'{"exercises": {}}', b'{"schema": "1"}', b'{"schema": 1, "exercises": 3}',
    b'{"schema": 1, "exercises": {"01.2": {"attempts": "many"}}}', b'{"schema": 1, "predictions": {"01": [1]}}',
    b'{"schema": 1, "skipped": {"01.a": 1}}',
    b"[" * 100_000, b"\xff\xfe{\0}\0", b'{"schema": 0}',
    b'{"schema": 1, "exercises": {"01.2": {"points": NaN}}}', b'{"schema": 1, "exercises": {"01.2": {"points": true}}}',
    b'{"schema": 1, "exercises": {"01.2": {"points": 1%s}}}' % (b"0" * 400),
])  # fmt: skip
def test_a_corrupt_file_is_renamed_with_one_line(mine, path, messages, corrupt):
    path.parent.mkdir()
    path.write_bytes(corrupt)
    assert mine.hints_opened("01.2") == 0 and path.read_bytes() == corrupt
    mine.record(verdict(), SECOND)
    mine.open_hint("01.2")
    (aside,) = path.parent.glob("progress.unreadable-*.json")
    assert aside.read_bytes() == corrupt and Progress(path).has_passed("01.2")
    (line,) = messages
    assert str(aside) in line and "\n" not in line


def test_a_newer_file_is_never_touched(mine, path, messages):
    path.parent.mkdir()
    path.write_text('{"schema": 99, "treasure": 1}')
    mine.record(verdict(), SECOND)
    mine.open_hint("01.2")
    assert path.read_text() == '{"schema": 99, "treasure": 1}'
    assert mine.has_passed("01.2") and mine.hints_opened("01.2") == 1, "at least until the kernel stops"
    assert len(messages) == 1 and "newer lplab" in messages[0]


def test_an_older_file_is_upgraded(path, monkeypatch):
    Progress(path).record(verdict(), SECOND)
    monkeypatch.setattr(progress, "SCHEMA", 2)
    monkeypatch.setattr(progress, "UPGRADES", {1: lambda data: {**data, "predictions": {"01.new": {"guess": 1}}}})
    newer = Progress(path)
    assert newer.has_passed("01.2") and newer.prediction("01.new") == 1
    newer.open_hint("01.2")
    assert json.loads(path.read_text())["schema"] == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_full_or_read_only_disk_gives_one_line_and_is_made_up_for(mine, path, messages, monkeypatch, number):
    mine.record(verdict(FAILED, 0, ring="form"), FIRST)
    before = path.read_bytes()

    def no_room(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(safe_file.os, "fsync", no_room)
        mine.record(verdict(), SECOND)
        mine.open_hint("01.2")
        assert mine.has_passed("01.2") and mine.hints_opened("01.2") == 1 and path.read_bytes() == before
        assert not list(path.parent.glob(".*.new"))
    assert len(messages) == 1 and os.strerror(number).lower() in messages[0] and "\n" not in messages[0]
    in_another_process("p.solution_seen('01.1')", path, check=True)
    mine.open_hint("01.2")
    again = Progress(path)
    assert again.has_passed("01.2") and again.hints_opened("01.2") == 2 and again.of("01.1").solution_at


def test_a_read_only_file_is_respected(mine, path, messages):
    mine.open_hint("01.2")
    path.chmod(0o444)
    before = path.read_bytes()
    assert mine.open_hint("01.2") == 2 and path.read_bytes() == before
    assert "read-only" in messages[0]
    path.chmod(0o644)
    assert mine.open_hint("01.2") == 3 and Progress(path).hints_opened("01.2") == 3


def test_a_lock_that_nobody_gives_back_gives_one_line(mine, path, messages, monkeypatch):
    monkeypatch.setattr(safe_file, "LOCK_TIMEOUT", 0.05)
    mine.open_hint("01.2")
    with safe_file.SafeFile(path, 1).locked():
        assert mine.open_hint("01.2") == 2
    assert len(messages) == 1 and "another program" in messages[0]
    assert mine.open_hint("01.2") == 3 and len(messages) == 1


def test_a_folder_that_cannot_be_made_gives_one_line(tmp_path, messages):
    (tmp_path / "file").write_text("")
    mine = Progress(tmp_path / "file" / "progress.json", messages.append)
    mine.record(verdict(), SECOND)
    assert mine.has_passed("01.2") and len(messages) == 1


def test_a_link_to_the_file_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "progress.json"
    Progress(tmp_path / "real" / "p.json").open_hint("01.1")
    link.symlink_to(tmp_path / "real" / "p.json")
    Progress(link).open_hint("01.1")
    assert link.is_symlink() and Progress(tmp_path / "real" / "p.json").hints_opened("01.1") == 2


# ---- the bar ---------------------------------------------------------------------------------------------------------


def test_the_bar_of_a_lab_counts_passes_points_and_predictions(monkeypatch, tmp_path):
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "progress.json"))
    exercises = exercise_catalogue.of_lab("01")
    assert f"Lab 01: 0 of {len(exercises)} exercises passed, 0 of" in repr(progress.progress_of("01"))
    progress.record(verdict(), SECOND)
    progress.record(verdict(FAILED, 2, exercise="01.1", ring="boundary set"), FIRST)
    progress.record_prediction("01.codes", "How many?", 1, 2)
    bar = progress.progress_of("01")
    assert (bar.done, bar.of, bar.points, bar.predictions) == (1, len(exercises), 8, 1)
    assert bar.most_points == sum(exercise.points for exercise in exercises)
    assert repr(bar).endswith("8 of " + str(bar.most_points) + " points; 1 prediction made")


def test_the_bar_can_be_heard(monkeypatch, tmp_path):
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "progress.json"))

    class Reader(html.parser.HTMLParser):
        found: ClassVar[dict] = {}

        def handle_starttag(self, tag, attrs):
            if dict(attrs).get("role") == "progressbar":
                self.found.update(attrs)

    reader = Reader()
    bar = progress.progress_of("00")
    reader.feed(bar._repr_html_())
    assert reader.found["aria-valuenow"] == "0" and reader.found["aria-valuemax"] == str(bar.of)
    assert reader.found["aria-label"] and reader.found["aria-valuetext"] == bar.text


def test_a_bar_that_is_not_full_says_how_it_follows():
    half, full = (ProgressBar("01", done=done, of=4, points=12, most_points=24) for done in (2, 4))
    assert "Run this cell again" in half._repr_html_() and "Run this cell again" not in full._repr_html_()


def test_an_unknown_lab_has_no_bar():
    with pytest.raises(ValueError, match="lab '77'"):
        progress.progress_of("77")


@pytest.mark.skipif(os.name == "nt", reason="Windows has locks of another kind")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, 524])
def test_a_home_without_locks_keeps_progress(mine, path, messages, monkeypatch, recwarn, number):
    import fcntl

    def no_locks(file, how):
        raise OSError(number, "no locks here")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    for _ in range(2):
        mine.open_hint("01.2")
    assert Progress(path).hints_opened("01.2") == 2 and messages == [] and not recwarn.list


@pytest.mark.skipif(os.name == "nt", reason="Windows has locks of another kind")
def test_two_processes_without_locks_lose_nothing(mine, path):
    mine.open_hint("01.9")
    script = (
        "import fcntl\n"
        "def no_locks(file, how):\n"
        f"    raise OSError({errno.ENOLCK}, 'no locks here')\n"
        "fcntl.flock = no_locks\n"
        "for i in range(15):\n    p.open_hint('{}', i + 1)"
    )
    start = f"from lplab.exercises.progress import Progress\np = Progress({str(path)!r})\n"
    commands = [[sys.executable, "-c", start + script.format(name)] for name in ("01.1", "01.2")]
    root = Path(__file__).parents[3]
    writers = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) for command in commands]
    assert [writer.communicate()[0] for writer in writers] == ["", ""]
    assert mine.hints_opened("01.1") == mine.hints_opened("01.2") == 15
    assert not list(path.parent.glob("*.soft-lock"))


# ---- where there are no locks, or no packages for them ---------------------------------------------------------------


@pytest.fixture
def fresh_look():
    progress.missing_packages.cache_clear()
    yield
    progress.missing_packages.cache_clear()


def test_a_browser_keeps_a_file_beside_the_notebook_and_takes_no_lock(fresh_look, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "emscripten")
    monkeypatch.setitem(sys.modules, "filelock", None)
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.delenv("LPLAB_PROGRESS", raising=False)
    monkeypatch.chdir(tmp_path)
    assert progress.progress_path() == Path("progress.json") and progress.storage_place() == "in this browser"
    said = []
    kept = progress.Progress(progress.progress_path(), said.append)
    assert kept.open_hint("01.2") == 1 and said == []
    assert [path.name for path in tmp_path.iterdir()] == ["progress.json"]
    assert progress.Progress(tmp_path / "progress.json").hints_opened("01.2") == 1


def test_without_the_packages_of_a_safe_file_progress_is_in_memory(fresh_look, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "filelock", None)
    assert progress.progress_path() is None
    assert progress.storage_place() == "until this kernel ends, since filelock cannot be imported"
    kept, other = progress.Progress(None), progress.Progress(None)
    assert kept.open_hint("01.2") == 1 and kept.hints_opened("01.2") == 1 and other.hints_opened("01.2") == 0
    assert kept.problem() == "" and list(tmp_path.iterdir()) == []


@pytest.fixture
def homeless(monkeypatch):
    """A user without an entry among the machine's users and without HOME, as OpenShift starts containers."""
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    for name in ("HOME", "USERPROFILE", "XDG_DATA_HOME", "LPLAB_PROGRESS", "LPLAB_MACHINE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each user has a folder")
def test_without_a_home_folder_progress_is_in_memory_and_says_so(homeless, monkeypatch, tmp_path):
    assert progress.progress_path() is None
    assert progress.storage_place().startswith("until this kernel ends, since this user has no home folder")
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "mine.json"))
    assert progress.progress_path() == tmp_path / "mine.json" and progress.storage_place() == ""


def test_with_the_packages_nothing_is_said():
    assert progress.storage_place() == ""
