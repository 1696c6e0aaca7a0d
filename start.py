#!/usr/bin/env python3
"""Set up lplab and open the labs, with nothing but Python 3.11 or newer.

    python3 start.py                 open JupyterLab at the labs
    python3 start.py --no-browser    the same on a remote machine: only prints the address
    python3 start.py test            run the tests, some minutes; what else follows `test` goes to pytest
    python3 start.py test --all      run every test, the slow ones too, in an order drawn anew
    python3 start.py site            make the web site of the project, labs executed, and show it; --build-only, --lite
    python3 start.py report          write what you hand in; `grade` and `lplab`: any other command of lplab

The first run makes a virtual environment in .venv and installs into it: with uv, from where pip's configuration says,
and with pip where uv cannot. Later runs start at once and need no network.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - old Pythons must get as far as this line: no newer syntax in this file
    sys.exit(f"lplab needs Python 3.11 or newer, this is {sys.version.split()[0]}: get it from your package manager"
             " or from https://www.python.org/downloads, then type: python3.11 start.py")  # fmt: skip

import argparse
import ast
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import tomllib
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
UV = PYTHON.with_name("uv.exe" if os.name == "nt" else "uv")
STAMP = VENV / "lplab.json"  # what .venv holds; "unfinished" while that changes, so an interruption shows
LOG = VENV / "install.log"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
NEEDED_GB = 3
MAX_WORKERS = 8  # of pytest: each loads torch, about 1 GB
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "%ProgramFiles%/Google/Chrome/Application/chrome.exe",
    "%LocalAppData%/Google/Chrome/Application/chrome.exe",
    "%ProgramFiles(x86)%/Microsoft/Edge/Application/msedge.exe",
)
# Options of pip that uv must know, since it does not read pip's configuration, and what uv calls them.
UV_OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "no-index": "--no-index",
    "find-links": "--find-links",
    "constraint": "--constraint",
    "cert": "--cert",
    "trusted-host": "--allow-insecure-host",
}
# Options of pip that change nothing in what is installed. With any other, pip installs.
UV_NEEDS_NOT = {
    *("break-system-packages", "cache-dir", "config-file", "default-timeout", "disable-pip-version-check", "log"),
    *("no-cache-dir", "no-color", "no-input", "no-python-version-warning", "no-warn-script-location", "progress-bar"),
    *("quiet", "require-virtualenv", "retries", "root-user-action", "timeout", "use-feature", "verbose"),
}
LPLAB = {"report": ["-Pm", "lplab", "report"], "grade": ["-Pm", "lplab", "grade"], "lplab": ["-Pm", "lplab"]}
SITE = str(ROOT / "docs/_ext/build_site.py")
HANDED_ON = {**LPLAB, "site": [SITE]}  # commands that read the rest of the line themselves


class Problem(Exception):
    """Something that the reader can put right; the message says how."""


# ---- is .venv complete? ----------------------------------------------------------------------------------------------


def wanted(extras: set[str]) -> dict:
    """The stamp of a complete .venv: it changes with our dependencies, with Python, and when the folder moves."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    needs = json.dumps([project["build-system"], project["project"]]) + (ROOT / "constraints.txt").read_text("utf-8")
    digest = hashlib.sha256(needs.encode()).hexdigest()
    return {"python": VERSION, "folder": str(ROOT), "needs": digest, "extras": sorted(extras)}


def installed() -> dict:
    """The stamp found in .venv; empty if there is none, or if an installation was cut short."""
    try:
        return json.loads(STAMP.read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def prepare(extras: set[str]) -> None:
    """Make .venv hold lplab with its ``extras``; do nothing if it does already."""
    found = installed()
    goal = wanted(extras | set(found.get("extras", [])))
    if PYTHON.exists() and found == goal:
        return
    usable = PYTHON.exists() and all(found.get(key) == goal[key] for key in ("python", "folder"))
    with only_one():
        if not usable:
            make_venv()
        try:
            install(goal["extras"])
        except Problem as problem:  # offline, say: pip says so before it changes anything
            if not (usable and installed() == found and found["extras"] == goal["extras"]):
                raise
            print(problem, "Going on with what was installed before.", sep="\n")
        else:
            STAMP.write_text(json.dumps(goal, indent=1), "utf-8")


@contextlib.contextmanager
def only_one():
    """Let one start.py at a time change .venv; the system takes the lock back even after a crash."""
    with open(__file__, "r+b") as handle:
        try:
            if sys.platform == "win32":
                import msvcrt

                handle.seek(2**30)  # Windows hides locked bytes from readers: lock one beyond the end
                msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Problem("Another start.py is setting up this folder: wait until it is done.") from None
        yield


# ---- installing ------------------------------------------------------------------------------------------------------


def make_venv() -> None:
    """Make .venv anew; leave one alone that somebody else made."""
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        raise Problem(f"Python's venv module is missing; on Debian and Ubuntu: sudo apt install python{VERSION}-venv")
    if VENV.exists() and any(VENV.iterdir()) and not STAMP.exists():
        raise Problem(f"{VENV} was not made by start.py: rename or delete it, then run this again.")
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < NEEDED_GB:
        raise Problem(f"The disk is too full: lplab needs about {NEEDED_GB} GB, and {ROOT} has {free:.1f} GB left.")
    try:
        if VENV.exists():
            shutil.rmtree(VENV)
        VENV.mkdir()
        STAMP.write_text("unfinished", "utf-8")
    except OSError as error:
        raise Problem(f"Cannot write {VENV} ({error.strerror}): end what still uses it, or mend its rights.") from None
    run([sys.executable, "-m", "venv", str(VENV)], "Making .venv")


def install(extras: list[str]) -> None:
    """Install lplab (editable) with ``extras``, in the versions of constraints.txt: by uv, else by pip."""
    pip = [str(PYTHON), "-m", "pip", "install", "--progress-bar=off", "--no-input", "--disable-pip-version-check"]
    pip += ["--constraint", str(ROOT / "constraints.txt")]
    lplab = ["--editable", f"{ROOT}[{','.join(extras)}]"]
    cpu_torch = cpu_torch_is_offered()
    try:
        install_by_uv(pip, lplab, cpu_torch)
    except Problem as problem:
        print(f"uv cannot install here. {str(problem).splitlines()[0]}", "pip goes on.", sep="\n")
        if cpu_torch:
            with contextlib.suppress(Problem):  # it has no build for this machine: the next line finds one elsewhere
                run([*pip, "--no-deps", "--index-url", CPU_INDEX, "torch"], "Installing PyTorch for the CPU")
        run([*pip, *lplab], "Installing lplab and JupyterLab")
    # JupyterLab's question about news would be the first thing that a newcomer sees, and would ask the network.
    settings = VENV / "share/jupyter/lab/settings/overrides.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    settings.write_text(json.dumps({"@jupyterlab/apputils-extension:notification": quiet}), "utf-8")
    try:
        run([str(PYTHON), "-m", "lplab", "compile"], "Compiling the inner loops")
        if "test" in extras:
            run([str(PYTHON), "-m", "tests.loops"], "Compiling those of the tests")
    except Problem as problem:
        print(problem, "Going on: each loop is compiled when it is first needed.", sep="\n")


def install_by_uv(pip: list[str], lplab: list[str], cpu_torch: bool) -> None:
    """Do with uv, in a fraction of the time, what ``pip`` would do; raise Problem where uv cannot."""
    options = pip_options()
    run([*pip, "--only-binary=:all:", "uv"], "Getting uv", changes=())
    if cpu_torch:
        torch = [*uv(options | {"index-url": CPU_INDEX}), "--no-deps", "torch"]
        with contextlib.suppress(Problem):  # as with pip
            run(torch, "Installing PyTorch for the CPU", changes=("Resolved",))
    if has_no_gpu():
        plan = run([*uv(options), "--dry-run", *lplab], "Choosing packages", changes=())
        if any("+ nvidia-" in line for line in plan):  # pip may know of another build, in a folder of wheels, say
            raise Problem("It would install CUDA.")
    run([*uv(options), *lplab], "Installing lplab and JupyterLab", changes=("Prepared",))


def pip_options() -> dict[str, str]:
    """What pip's files and variables of configuration say; raise Problem if there is more than uv can be told."""
    told: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}  # the last one holds
    for line in answers([str(PYTHON), "-m", "pip", "config", "list"]).splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in told:
            told[section][option] = ast.literal_eval(value)
    options = told["global"] | told["install"] | told[":env:"]
    unknown = sorted(options.keys() - UV_OPTIONS.keys() - UV_NEEDS_NOT)
    if unknown:
        raise Problem(f"It does not know the option {unknown[0]} of pip's configuration.")
    return options


def uv(options: dict[str, str]) -> list[str]:
    """The command with which uv installs as pip does with these options."""
    command = [str(UV), "pip", "install", "--no-config", "--python", str(PYTHON), "--index-strategy=unsafe-best-match"]
    command += ["--constraint", str(ROOT / "constraints.txt")] + ["--system-certs"] * ("cert" not in options)
    for option, name in UV_OPTIONS.items():
        value = options.get(option, "")
        if option == "no-index":
            command += [name] * (value.lower() in ("1", "on", "true", "yes"))
        else:
            for each in [value] * bool(value) if option in ("cert", "index-url") else value.split():
                command += [name, os.path.expanduser(each)]
    return command


def has_no_gpu() -> bool:
    """Whether PyTorch's builds for CUDA, gigabytes that come by default on Linux, are of no use here."""
    return sys.platform.startswith("linux") and not shutil.which("nvidia-smi")


def cpu_torch_is_offered() -> bool:
    """Whether to take torch from PyTorch's CPU index: from elsewhere, gigabytes of CUDA come with it on Linux."""
    return has_no_gpu() and is_offered(f"{CPU_INDEX}/torch/")


def is_offered(url: str, within: float = 5) -> bool:
    """Whether an address answers, within some seconds: a name server alone may take longer to say no."""
    found: list[bool] = []

    def ask() -> None:
        with contextlib.suppress(OSError, ValueError):
            found.append(urllib.request.urlopen(url, timeout=3).status == 200)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(within)
    return found == [True]


def run(command: list[str], what: str, changes: tuple[str, ...] = ("Installing collected packages",)) -> list[str]:
    """Run ``command`` with one moving line on the screen and its output in the log; return it, or raise Problem.

    From an output line on that begins with one of ``changes``, .venv is no longer what it was.
    """
    lines: list[str] = []
    env = environment(PIP_RETRIES="2", UV_HTTP_RETRIES="2")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                               errors="replace", env=env, cwd=ROOT)  # fmt: skip
    reader = threading.Thread(target=collect, args=(process.stdout, lines, changes), daemon=True)
    reader.start()
    start, moving = time.monotonic(), sys.stdout.isatty()
    print(f"{what} ...", end="" if moving else "\n", flush=True)
    try:
        while process.poll() is None:
            time.sleep(0.2)
            if moving:
                show(f"{what} ... {time.monotonic() - start:.0f} s  {latest(lines)}")
    finally:
        process.terminate()
        reader.join(5)
        if moving:
            show(f"{what} ... {time.monotonic() - start:.0f} s")
            print()
    if process.returncode:
        raise Problem(explain(lines))
    return lines


def show(text: str) -> None:
    """Write ``text`` over the line that the cursor is in."""
    width = shutil.get_terminal_size().columns - 1
    print("\r" + text[:width].ljust(width), end="", flush=True)


def latest(lines: list[str]) -> str:
    """What pip or uv was doing when it said ``lines``, without its details."""
    steps = ("Collecting", "Processing", "Downloading", "Preparing", "Installing", "Resolved", "Building", "Prepared")
    over = {line.split()[-1] for line in lines if line.lstrip().startswith("Downloaded")}  # uv fetches many at once
    for line in reversed(lines):
        if line.lstrip().startswith(steps) and over.isdisjoint(line.split()):
            return line.strip().split(" (")[0].split(": ")[0]
    return ""


def collect(stream, lines: list[str], changes: tuple[str, ...]) -> None:
    """Copy ``stream`` to the log and to ``lines``; say so in .venv's stamp when a line begins with ``changes``."""
    with open(LOG, "a", encoding="utf-8", buffering=1) as log:
        for line in stream:
            log.write(line)
            lines.append(line)
            if changes and line.startswith(changes):
                STAMP.write_text("unfinished", "utf-8")


def explain(lines: list[str]) -> str:
    """Why an installation failed, in one line where its output tells; else the end of its output."""
    output = "".join(lines)
    if "No space left on device" in output or "[Errno 28]" in output:
        return f"The disk is full: lplab needs about {NEEDED_GB} GB in {ROOT}, and some room for temporary files."
    offline = ("name resolution", "getaddrinfo failed", "nodename nor servname", "Name or service not known",
               "NewConnectionError", "ConnectTimeout", "ProxyError", "Network is unreachable")  # fmt: skip
    unfound = ("No matching distribution", "Max retries exceeded")  # a lost connection that came back does no harm
    if any(sign in output for sign in offline) and any(sign in output for sign in unfound):
        return "No network, which an installation needs: check the connection (and pip's proxy), then run this again."
    return f"The installation failed. The end of its log, {LOG}:\n    {'    '.join(lines[-15:])}"


# ---- handing over ----------------------------------------------------------------------------------------------------


NOT_OURS = (
    *("PYTHONHOME", "PYTHONPATH"),  # of another Python
    "PYTHONDONTWRITEBYTECODE",  # with it every process compiles lplab anew, and each of pytest's workers all tests
)


def environment(**more: str) -> dict[str, str]:
    """The environment of our processes: .venv first, and no other Python's settings."""
    env = {key: value for key, value in os.environ.items() if key not in NOT_OURS}
    path = str(PYTHON.parent) + os.pathsep + env.get("PATH", "")
    return {**env, "VIRTUAL_ENV": str(VENV), "PATH": path, "PYTHONUTF8": "1", **more}


def find_browser() -> str:
    """Path of an installed Chromium, Chrome or Edge, else of the one that playwright can download, else ''."""
    for name in (os.environ.get("LPLAB_BROWSER", ""), *BROWSERS):
        path = shutil.which(os.path.expandvars(name))
        if path and (os.name == "nt" or answers([path, "--version"])):  # Ubuntu's chromium may be a mere advice
            return path
    where = "import playwright.sync_api as p\nwith p.sync_playwright() as play: print(play.chromium.executable_path)"
    path = answers([str(PYTHON), "-c", where]).strip()
    if answers([path, "--version"]):
        return path
    playwright = [str(PYTHON), "-m", "playwright", "install"]
    address = re.search(r"Download url: +(\S+)", answers([*playwright, "--dry-run", "chromium"]))
    if address and is_offered(address[1]):
        with contextlib.suppress(Problem):  # what came of it shows in the next line
            run([*playwright, "chromium"], "Downloading Chromium for the browser tests", changes=())
        if answers([path, "--version"]):
            return path
    print("No Chromium, Chrome or Edge is found or can be downloaded: the browser tests are skipped.", flush=True)
    return ""


def answers(command: list[str]) -> str:
    """What ``command`` prints, or '' where it fails."""
    try:
        return subprocess.check_output(command, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
                                       timeout=600, env=environment())  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""


def pytest_options(more: list[str]) -> list[str]:
    """Options of pytest for ``start.py test``: a worker for each core, and one that waits for browsers and networks.

    ``--all`` adds the slow tests, and shuffles.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options = [f"-n{min(cores + 1, MAX_WORKERS) if cores > 1 else 0}", "--durations=10"]
    if "--all" in more:
        options += ["-m", "slow or not slow", "-p", "randomly"]
    return options + [option for option in more if option != "--all"]


def hand_over(command: list[str], env: dict[str, str], folder: Path = ROOT) -> int:
    """Become ``command``, so that its signals, its last line and its exit code are ours."""
    os.chdir(folder)
    sys.stdout.flush()
    if os.name == "posix":
        os.execve(command[0], command, env)
    process = subprocess.Popen(command, env=env)
    while True:
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C reaches the other process by itself
            return process.wait()


def main(argv: list[str]) -> int:
    """Run one command; the exit code is JupyterLab's, pytest's or lplab's, or 1 for a Problem."""
    parser = argparse.ArgumentParser("start.py", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("command", nargs="?", choices=["lab", "test", *HANDED_ON], default="lab", help="default: lab")
    parser.add_argument("--port", type=int, default=8888, help="JupyterLab's port (default: 8888 or the next free)")
    parser.add_argument("--no-browser", action="store_true", help="open no browser, only print the address")
    ours = 1 if argv[:1] and argv[0] in HANDED_ON else len(argv)  # --help after these is lplab's
    args, more = parser.parse_known_args(argv[:ours])
    if not 0 <= args.port <= 65535:
        parser.exit(2, f"start.py: --port must be from 0 (any free one) to 65535, got {args.port}\n")
    try:
        if args.command == "test":
            began = time.monotonic()
            prepare({"lab", "test", "gpu", "outside", "package", "site"} if "--all" in more else {"lab", "test"})
            browser = find_browser()
            print(f"Set up in {time.monotonic() - began:.0f} s; the tests begin.", flush=True)
            return hand_over([str(PYTHON), "-m", "pytest", *pytest_options(more)], environment(LPLAB_BROWSER=browser))
        for_site = {"site", "lite"} if "--lite" in argv else {"site"}
        prepare({"lab", *for_site} if args.command == "site" else {"lab"})
        if args.command in HANDED_ON:  # -P: a folder named lplab beside the student's files is not the package
            return hand_over([str(PYTHON), *HANDED_ON[args.command], *more, *argv[ours:]], environment(), Path.cwd())
        lab = [str(PYTHON), "-m", "jupyterlab", "--LabApp.default_url=/lab/tree/labs", "--Application.log_level=WARN"]
        lab += [f"--port={args.port}"] + ["--no-browser"] * args.no_browser
        lab += ["--allow-root"] if os.name == "posix" and os.geteuid() == 0 else []
        print("Starting JupyterLab; its address follows. Ctrl-C ends it.")
        return hand_over(lab + more, environment())
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. The next run takes care of what is half done.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # end pip too
    sys.exit(main(sys.argv[1:]))
