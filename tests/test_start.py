"""start.py decides rightly: what to install, when to leave things alone, what to say when it cannot go on."""

import _thread
import ast
import importlib.util
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

PROJECT = Path(__file__).parents[1]
posix = pytest.mark.skipif(os.name == "nt", reason="the fake programs are shell scripts")


@pytest.fixture
def start(tmp_path: Path) -> ModuleType:
    """A copy of start.py in a folder of its own, with spaces and a letter beyond ASCII in its name."""
    folder = tmp_path / "a földer with spaces"
    folder.mkdir()
    for name in ("start.py", "pyproject.toml", "constraints.txt"):
        shutil.copy(PROJECT / name, folder)
    spec = importlib.util.spec_from_file_location("start", folder / "start.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fake_python(start: ModuleType, script: str = "exit 0") -> None:
    """Put a shell script where .venv's Python belongs."""
    start.PYTHON.parent.mkdir(parents=True, exist_ok=True)
    start.PYTHON.write_text(f"#!/bin/sh\n{script}\n")
    start.PYTHON.chmod(0o755)


def complete(start: ModuleType, *extras: str) -> None:
    """Make .venv look as a finished run leaves it."""
    fake_python(start)
    start.STAMP.write_text(json.dumps(start.wanted(set(extras))))


@pytest.fixture
def commands(start: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What start.py would run, instead of running it; the first command "makes" the virtual environment."""
    seen: list[list[str]] = []

    def record(command: list[str], what: str, changes: tuple[str, ...] = ()) -> list[str]:
        seen.append(command)
        fake_python(start)
        return []

    monkeypatch.setattr(start, "run", record)
    monkeypatch.setattr(start, "has_no_gpu", lambda: False)
    return seen


# ---- an old Python ---------------------------------------------------------------------------------------------------


def test_an_old_python_can_read_the_file_as_far_as_its_message():
    tree = ast.parse((PROJECT / "start.py").read_text("utf-8"), feature_version=(3, 7))
    first = [node for node in tree.body if not isinstance(node, ast.Expr)][:2]
    assert [type(node) for node in first] == [ast.Import, ast.If]
    assert "sys.exit" in ast.unparse(first[1])
    assert not any(isinstance(node, ast.NamedExpr | ast.Match) for node in ast.walk(tree))


def test_an_old_python_is_told_what_to_do_in_one_line():
    script = f"import sys; sys.version_info = (3, 8); exec(open({str(PROJECT / 'start.py')!r}).read())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("lplab needs Python 3.11 or newer") and done.stderr.count("\n") == 1


def test_it_needs_nothing_but_the_standard_library():
    tree = ast.parse((PROJECT / "start.py").read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    names = {alias.name.split(".")[0] for node in imports for alias in node.names}
    names |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert names <= sys.stdlib_module_names


# ---- when to install, and what ---------------------------------------------------------------------------------------


def test_the_first_run_makes_an_environment_and_installs_into_it(start, commands):
    start.prepare({"lab"})
    venv, pip, uv, loops = commands
    assert venv == [sys.executable, "-m", "venv", str(start.ROOT / ".venv")]
    assert pip[:4] == [str(start.PYTHON), "-m", "pip", "install"] and pip[-1] == "uv"
    assert uv[:3] == [str(start.UV), "pip", "install"] and uv[uv.index("--python") + 1] == str(start.PYTHON)
    assert uv[-2:] == ["--editable", f"{start.ROOT}[lab]"]
    for command in (pip, uv):
        assert command[command.index("--constraint") + 1] == str(start.ROOT / "constraints.txt")
    assert loops == [str(start.PYTHON), "-m", "lplab", "compile"]
    assert start.installed() == start.wanted({"lab"})


def test_loops_that_cannot_be_compiled_end_nothing(start, commands, monkeypatch, capsys):
    record = start.run

    def failing(command, what, changes=()):
        if command[-1] == "compile":
            raise start.Problem("no space left")
        return record(command, what)

    monkeypatch.setattr(start, "run", failing)
    start.prepare({"lab"})
    assert "no space left\nGoing on: each loop is compiled when it is first needed." in capsys.readouterr().out
    assert start.installed() == start.wanted({"lab"})


def test_the_second_run_does_nothing(start, commands):
    start.prepare({"lab"})
    commands.clear()
    start.prepare({"lab"})
    assert commands == []


def test_more_extras_are_added_to_the_ones_that_are_there_and_stay(start, commands):
    complete(start, "lab")
    start.prepare({"lab", "test"})
    assert [command[-1] for command in commands] == ["uv", f"{start.ROOT}[lab,test]", "compile", "tests.loops"]
    commands.clear()
    start.prepare({"lab"})
    assert commands == []


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_changed_dependencies_are_installed_into_the_same_environment(start, commands, name):
    complete(start, "lab", "test")
    path = start.ROOT / name
    path.write_text(path.read_text("utf-8").replace("plotly", "plotly2"), "utf-8")
    start.prepare({"lab"})
    assert [command[-1] for command in commands] == ["uv", f"{start.ROOT}[lab,test]", "compile", "tests.loops"]


def test_a_changed_lint_rule_installs_nothing(start, commands):
    complete(start, "lab")
    path = start.ROOT / "pyproject.toml"
    path.write_text(path.read_text("utf-8").replace("line-length = 120", "line-length = 99"), "utf-8")
    start.prepare({"lab"})
    assert commands == []


@pytest.mark.parametrize("key", ["python", "folder"])
def test_another_python_or_a_moved_folder_makes_a_new_environment(start, commands, key):
    complete(start, "lab")
    start.STAMP.write_text(json.dumps({**start.installed(), key: "elsewhere"}))
    start.prepare({"lab"})
    assert commands[0][1:3] == ["-m", "venv"]


@pytest.mark.parametrize("stamp", ["unfinished", "", "{}"])
def test_an_interrupted_installation_is_made_anew(start, commands, stamp):
    fake_python(start)
    (start.VENV / "half a package").touch()
    start.STAMP.write_text(stamp)
    start.prepare({"lab"})
    assert commands[0][1:3] == ["-m", "venv"] and not (start.VENV / "half a package").exists()
    assert start.installed() == start.wanted({"lab"})


def test_an_environment_without_its_python_is_made_anew(start, commands):
    complete(start, "lab")
    start.PYTHON.unlink()
    start.prepare({"lab"})
    assert commands[0][1:3] == ["-m", "venv"]


def test_somebody_elses_environment_is_left_alone(start, commands):
    fake_python(start)
    with pytest.raises(start.Problem, match="was not made by start.py"):
        start.prepare({"lab"})
    assert start.PYTHON.exists() and commands == []


def test_two_at_a_time_are_kept_apart(start):
    with start.only_one():
        with pytest.raises(start.Problem, match="Another start.py"):
            start.prepare({"lab"})
        assert not start.VENV.exists()


@pytest.fixture
def failing(start: ModuleType, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Those of start.py's steps that fail."""
    steps: set[str] = set()
    record = start.run

    def run(command: list[str], what: str, changes: tuple[str, ...] = ()) -> list[str]:
        record(command, what)
        if what in steps and "pip" in command[1:2]:
            raise start.Problem("error: no such wheel\nmore lines")
        return [" + torch==2.13.0", " + nvidia-cudnn-cu13==9.1"] if "CUDA" in steps and "--dry-run" in command else []

    monkeypatch.setattr(start, "run", run)
    return steps


def test_the_cpu_build_of_torch_is_installed_first_and_alone(start, commands, monkeypatch):
    monkeypatch.setattr(start, "cpu_torch_is_offered", lambda: True)
    monkeypatch.setattr(start, "answers", lambda command: "global.index-url='https://mirror/simple'")
    complete(start)
    start.prepare({"lab"})
    _, torch, lplab, _ = commands
    assert torch[-2:] == ["--no-deps", "torch"] and torch[torch.index("--default-index") + 1] == start.CPU_INDEX
    assert start.CPU_INDEX not in lplab and lplab[lplab.index("--default-index") + 1] == "https://mirror/simple"


@pytest.mark.parametrize("cpu_torch", [True, False])
@pytest.mark.parametrize(("fails", "said"), [
    ("Installing lplab and JupyterLab", "uv cannot install here. error: no such wheel\npip goes on."),
    ("CUDA", "It would install CUDA.\npip goes on."),
    ("only-binary", "It does not know the option only-binary of pip's configuration.\npip goes on."),
], ids=["fails", "CUDA", "option"])  # fmt: skip
def test_pip_goes_on_where_uv_cannot(start, commands, failing, monkeypatch, capsys, fails, said, cpu_torch):
    failing.add(fails)
    monkeypatch.setattr(start, "has_no_gpu", lambda: True)
    monkeypatch.setattr(start, "cpu_torch_is_offered", lambda: cpu_torch)
    monkeypatch.setattr(start, "answers", lambda command: "global.only-binary=':all:'" * (fails == "only-binary"))
    complete(start)
    start.prepare({"lab"})
    lplab, compiled = commands[-2:]
    assert lplab[1:4] == ["-m", "pip", "install"] and lplab[-2:] == ["--editable", f"{start.ROOT}[lab]"]
    assert compiled[-1] == "compile" and start.installed() == start.wanted({"lab"})
    assert said in capsys.readouterr().out
    torch = ["--no-deps", "--index-url", start.CPU_INDEX, "torch"]
    assert [command[-4:] == torch for command in commands[:-2]].count(True) == cpu_torch


def test_pip_goes_on_where_uv_cannot_be_had(start, commands, monkeypatch, capsys):
    record = start.run

    def without_uv(command, what, changes=()):
        if command[-1] == "uv":
            raise start.Problem("No matching distribution found for uv")
        return record(command, what)

    monkeypatch.setattr(start, "run", without_uv)
    complete(start)
    start.prepare({"lab"})
    assert [command[-1] for command in commands] == [f"{start.ROOT}[lab]", "compile"]
    assert "No matching distribution found for uv\npip goes on." in capsys.readouterr().out


def test_uv_is_told_what_pips_configuration_says(start, monkeypatch, tmp_path):
    """Files and variables, as pip itself reads them."""
    fake_python(start, f'exec "{sys.executable}" "$@"')
    settings = tmp_path / "pip.conf"
    settings.write_text(
        "[global]\nindex-url = https://mirror/simple\nextra-index-url = https://one/simple\n  https://two/simple\n"
        "cert = /a folder/bundle.pem\ntimeout = 60\n[install]\nfind-links = /wheels ~/more\n[download]\npre = true\n"
    )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    monkeypatch.setenv("PIP_INDEX_URL", "https://variable/simple")
    monkeypatch.setenv("PIP_TRUSTED_HOST", "one two")
    told = start.uv(start.pip_options())
    pairs = set(itertools.pairwise(told))
    assert pairs >= {
        ("--default-index", "https://variable/simple"),  # a variable before a file, as with pip
        ("--index", "https://one/simple"),
        ("--index", "https://two/simple"),
        ("--find-links", "/wheels"),
        ("--find-links", os.path.expanduser("~/more")),
        ("--cert", "/a folder/bundle.pem"),
        ("--allow-insecure-host", "one"),
        ("--allow-insecure-host", "two"),
    }
    assert "https://mirror/simple" not in told and "--no-index" not in told and "--system-certs" not in told


@pytest.mark.parametrize(("value", "told"), [("1", True), ("true", True), ("0", False), ("no", False)])
def test_uv_asks_no_index_where_pip_asks_none(start, value, told):
    assert ("--no-index" in start.uv({"no-index": value})) is told
    assert "--system-certs" in start.uv({"no-index": value}), "as pip does without a certificate of its own"


@pytest.mark.parametrize(("platform", "gpu", "answer", "offered"), [
    ("linux", None, 200, True), ("linux", "/usr/bin/nvidia-smi", 200, False), ("linux", None, OSError(), False),
    ("darwin", None, 200, False), ("win32", None, 200, False),
])  # fmt: skip
def test_the_cpu_index_is_asked_once_on_linux_without_a_gpu(start, monkeypatch, platform, gpu, answer, offered):
    limits = []

    def urlopen(url, timeout):
        limits.append(timeout)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(status=answer)

    monkeypatch.setattr(start.sys, "platform", platform)
    monkeypatch.setattr(start.shutil, "which", lambda name: gpu)
    monkeypatch.setattr(start.urllib.request, "urlopen", urlopen)
    assert start.cpu_torch_is_offered() is offered
    assert limits == ([3] if platform == "linux" and not gpu else [])


def test_an_address_that_says_nothing_is_given_up(start, monkeypatch):
    over = threading.Event()

    def urlopen(url, timeout):
        over.wait(60)
        raise OSError

    monkeypatch.setattr(start.urllib.request, "urlopen", urlopen)
    assert start.is_offered("https://nowhere", within=0.05) is False
    over.set()


# ---- what can go wrong -----------------------------------------------------------------------------------------------


def test_a_missing_venv_module_names_the_package_to_install(start, monkeypatch):
    monkeypatch.setattr(start.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else name)
    with pytest.raises(start.Problem, match=r"sudo apt install python3\.\d+-venv$"):
        start.prepare({"lab"})


def test_a_full_disk_is_noticed_before_anything_is_made(start, monkeypatch):
    monkeypatch.setattr(start.shutil, "disk_usage", lambda path: SimpleNamespace(free=1e9))
    with pytest.raises(start.Problem, match=r"needs about 3 GB, .* has 1\.0 GB left"):
        start.prepare({"lab"})
    assert not start.VENV.exists()


@posix
@pytest.mark.parametrize(("said", "told"), [
    ("ERROR: [Errno 28] No space left on device", "The disk is full"),
    ("Retrying after Temporary failure in name resolution; ERROR: No matching distribution found", "No network"),
    ("Retrying after Temporary failure in name resolution; ERROR: something else", "ERROR: something else"),
    ("ERROR: something else", "ERROR: something else"),
])  # fmt: skip
def test_a_failed_installation_is_explained(start, said, told):
    fake_python(start, f"echo '{said}'; exit 1")
    with pytest.raises(start.Problem, match=f"(?s){told}".replace("[", r"\[")) as problem:
        start.run([str(start.PYTHON)], "Trying")
    assert said in start.LOG.read_text()
    assert told.startswith("ERROR") or "\n" not in str(problem.value)


@posix
def test_offline_with_old_packages_the_lab_still_opens(start, monkeypatch, capsys):
    complete(start, "lab")
    fake_python(start, "echo Temporary failure in name resolution, No matching distribution; exit 1")
    stamp = {**start.installed(), "needs": "older"}
    start.STAMP.write_text(json.dumps(stamp))
    monkeypatch.setattr(start, "cpu_torch_is_offered", lambda: False)
    start.prepare({"lab"})
    assert "Going on with what was installed before" in capsys.readouterr().out
    with pytest.raises(start.Problem, match="No network"):
        start.prepare({"lab", "test"})
    assert start.installed() == stamp


@posix
@pytest.mark.parametrize(("tool", "line", "spoiled"), [
    ("pip", "Collecting numpy", False), ("pip", "Installing collected packages: x", True),
    ("uv", "Resolved 120 packages in 1s", False), ("uv", "Prepared 9 packages in 1s", True),
])  # fmt: skip
def test_an_interruption_spoils_the_environment_only_while_it_changes(start, monkeypatch, tool, line, spoiled):
    complete(start, "lab")
    work = f"echo '{line}'; exec sleep 60"
    fake_python(start, f'case "$*" in *" uv") exit {int(tool == "pip")};; *editable*) {work};; esac')
    start.UV.write_text(f"#!/bin/sh\n{work}\n")
    start.UV.chmod(0o755)
    monkeypatch.setattr(start, "has_no_gpu", lambda: False)
    threading.Timer(1.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        start.prepare({"lab", "test"})
    assert line in start.LOG.read_text()
    assert (start.installed() == {}) is spoiled


def test_main_turns_problems_and_interruptions_into_one_line(start, monkeypatch, capsys):
    def fail(error):
        def prepare(extras):
            raise error

        monkeypatch.setattr(start, "prepare", prepare)
        return start.main(["lab"])

    assert fail(start.Problem("Do this.")) == 1
    assert capsys.readouterr().err == "Do this.\n"
    assert fail(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err.strip().count("\n") == 0


@posix
def test_progress_moves_on_a_terminal(start, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(start.sys, "stdout", screen)
    fake_python(start, "echo Collecting numpy '(from x)'; sleep 0.5")
    start.run([str(start.PYTHON)], "Installing")
    shown = screen.getvalue()
    assert shown.count("\r") >= 2 and "Collecting numpy" in shown and "(from" not in shown
    assert shown.count("\n") == 1 and shown.endswith("\n")


def test_of_many_downloads_the_one_that_is_not_over_is_shown(start):
    lines = ["Resolved 9 packages in 1s\n", "Downloading torch (182.9MiB)\n", "Downloading numba (3.7MiB)\n"]
    assert start.latest(lines) == "Downloading numba"
    assert start.latest([*lines, " Downloaded numba\n"]) == "Downloading torch"
    assert start.latest([*lines, " Downloaded numba\n", " Downloaded torch\n"]) == "Resolved 9 packages in 1s"


# ---- handing over ----------------------------------------------------------------------------------------------------


@pytest.fixture
def handed(start: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list:
    """What start.py would become."""
    seen: list = []
    monkeypatch.setattr(start, "prepare", lambda extras: seen.append(extras))
    monkeypatch.setattr(start, "find_browser", lambda: "/some/browser")
    monkeypatch.setattr(start, "hand_over", lambda command, env, *folder: seen.extend((command, env, *folder)) or 7)
    return seen


def test_the_lab_opens_at_the_labs(start, handed):
    assert start.main([]) == 7
    extras, command, env = handed
    assert extras == {"lab"}
    assert command[:3] == [str(start.PYTHON), "-m", "jupyterlab"] and "--LabApp.default_url=/lab/tree/labs" in command
    assert "--no-browser" not in command
    assert env["PATH"].split(os.pathsep)[0] == str(start.PYTHON.parent)


def test_the_labs_options_reach_jupyterlab(start, handed):
    start.main(["--no-browser", "--port", "9001", "--ServerApp.ip=0.0.0.0"])
    assert {"--no-browser", "--port=9001", "--ServerApp.ip=0.0.0.0"} <= set(handed[1])


@pytest.mark.parametrize("port", ["99999", "-1"])
def test_a_port_that_there_is_not_is_refused_in_one_line(start, handed, capsys, port):
    with pytest.raises(SystemExit, match="2"):
        start.main(["--port", port])
    assert capsys.readouterr().err == f"start.py: --port must be from 0 (any free one) to 65535, got {port}\n"
    assert handed == []


def test_what_follows_test_goes_to_pytest_in_order(start, handed):
    assert start.main(["test", "-m", "browser", "tests/test_cli.py", "-q", "--lf"]) == 7
    extras, command, env = handed
    assert extras == {"lab", "test"} and env["LPLAB_BROWSER"] == "/some/browser"
    assert command[1:3] == ["-m", "pytest"]
    assert command[-5:] == ["-m", "browser", "tests/test_cli.py", "-q", "--lf"]


def test_what_ci_runs_again_reaches_pytest(start, handed):
    """The options with which .ci/run starts the second run, of what failed alone."""
    [again] = re.findall(
        r"^ +python3 start.py (test --all -n0 .*) < /dev/null$", (PROJECT / ".ci/run").read_text(), re.M
    )
    start.main(again.split())
    assert handed[1][-6:] == ["-p", "randomly", "-n0", "-v", "--last-failed", "--last-failed-no-failures=none"]


def test_the_default_tier_leaves_the_slow_tests_to_the_settings_and_all_runs_them_in_any_order(start, handed):
    start.main(["test", "-x"])
    start.main(["test", "--all", "-x"])
    default, everything = handed[1], handed[4]
    assert handed[3] == {
        "lab",
        "test",
        "gpu",
        "outside",
        "package",
        "site",
    }  # Triton's interpreter, models of other libraries, wheel and sdist, and the site are tested, too
    assert "-m" not in default[3:] and default[-1] == "-x"
    assert everything[len(default) - 1 :] == ["-m", "slow or not slow", "-p", "randomly", "-x"]
    assert everything[: len(default) - 1] == default[:-1]


@pytest.mark.parametrize(("cores", "workers"), [(1, "-n0"), (2, "-n3"), (64, "-n8")])
def test_each_core_has_a_worker_with_one_more_and_one_core_has_none(start, monkeypatch, cores, workers):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert start.pytest_options([])[0] == workers
    assert start.pytest_options(["-n0"])[-1] == "-n0", "what the reader says comes last, and holds"


@pytest.mark.parametrize(("argv", "given"), [
    (["report", "--name", "Ada L.", "--help"], ["report", "--name", "Ada L.", "--help"]),
    (["grade", "subs", "--out", "marks"], ["grade", "subs", "--out", "marks"]),
    (["lplab", "formats", "e4m3fn"], ["formats", "e4m3fn"]), (["lplab"], []),
])  # fmt: skip
def test_commands_of_lplab_run_through_the_environment_in_the_readers_folder(start, handed, argv, given):
    assert start.main(argv) == 7
    extras, command, _env, folder = handed
    assert extras == {"lab"} and folder == Path.cwd() != start.ROOT
    assert command == [str(start.PYTHON), "-Pm", "lplab", *given]


def test_the_site_is_made_by_its_own_script_which_reads_its_options(start, handed):
    assert start.main(["site", "--build-only", "--port", "0"]) == 7
    extras, command, _env, _folder = handed
    assert extras == {"lab", "site"}
    assert command == [str(start.PYTHON), str(start.ROOT / "docs/_ext/build_site.py"), "--build-only", "--port", "0"]
    assert (PROJECT / "docs/_ext/build_site.py").exists()


def test_python_m_lplab_is_the_command(tmp_path):
    (tmp_path / "lplab").mkdir()  # as a student's own folder may be called
    command = [sys.executable, "-Pm", "lplab", "formats", "e2m1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("e2m1: 4 bits"), done.stderr


def test_an_unknown_command_is_refused_with_the_known_ones(start, capsys):
    with pytest.raises(SystemExit, match="2"):
        start.main(["tset"])
    assert "'lab', 'test'" in capsys.readouterr().err


@posix
def test_the_exit_code_and_the_last_line_are_the_other_programs(start):
    complete(start, "lab", "test")
    fake_python(start, 'echo "browser $LPLAB_BROWSER$PYTHONPATH$PYTHONDONTWRITEBYTECODE"; printf "<%s>" "$@"; exit 5')
    env = {**os.environ, "LPLAB_BROWSER": "/bin/echo", "PYTHONPATH": "/elsewhere", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(start.ROOT / "start.py"), "test", "-k", "a b"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd="/")
    setup, browser, given = done.stdout.splitlines()
    assert re.fullmatch(r"Set up in \d+ s; the tests begin\.", setup)
    assert (done.returncode, browser) == (5, "browser /bin/echo"), done.stderr
    assert given.startswith("<-m><pytest>") and given.endswith("<-k><a b>")


@posix
def test_a_browser_that_does_not_start_is_passed_over(start, monkeypatch, tmp_path):
    for name, script in [("chromium", "exit 1"), ("google-chrome", "echo Chrome 1")]:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    monkeypatch.setattr(start, "BROWSERS", ("chromium", "google-chrome"))
    monkeypatch.delenv("LPLAB_BROWSER", raising=False)
    assert start.find_browser() == str(tmp_path / "google-chrome")


@posix
@pytest.mark.parametrize("offered", [True, False])
def test_without_a_browser_playwrights_is_downloaded_where_it_is_offered(start, monkeypatch, capsys, offered):
    there = start.ROOT / "downloaded chromium"
    asked = []
    chromium = f'printf "#!/bin/sh\necho Chromium 1\n" > "{there}"; chmod +x "{there}"'
    fake_python(
        start,
        f"""case "$*" in
        *--dry-run*) echo "  Download url:    https://somewhere/chrome.zip";;
        *"playwright install"*) {chromium};;
        *) echo "{there}";;
    esac""",
    )
    monkeypatch.setattr(start, "is_offered", lambda url: asked.append(url) or offered)
    monkeypatch.setattr(start, "BROWSERS", ())
    monkeypatch.delenv("LPLAB_BROWSER", raising=False)
    assert start.find_browser() == (str(there) if offered else "")
    assert asked == ["https://somewhere/chrome.zip"]
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and ("browser tests are skipped" in said) is not offered
    if offered:
        assert start.find_browser() == str(there) and len(asked) == 1, "it is there now, and nobody is asked"
