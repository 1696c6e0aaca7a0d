"""``lplab grade --in-container``: the same command in Docker or Podman, which closes the rest of this machine.

The container has no network, no rights, a file system that cannot be written to, and sees of this machine the files
that the command names and nothing else. Its image is made by the repository's ``Dockerfile``.
"""

import argparse
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lplab.cli.command import BadInputError, bad_values

IMAGE = "lplab"
ENGINES = ("docker", "podman")
OPTION = "--in-container"
PARENT_MB, ANSWER_MB = 2000, 1500  # memory of the grading itself, and of each answer that is judged
PROCESSES = 300  # and threads, for each answer that is judged
CANNOT_RUN = 125  # exit code of both engines: no such image, no such option


def run(args: argparse.Namespace) -> int:
    """Run the command of ``args.argv`` in a container, and return its exit code.

    Raises:
        BadInputError: there is neither Docker nor Podman, the image was not built, or the marks cannot be written.
    """
    engine = next(filter(None, map(shutil.which, ENGINES)), None)
    if engine is None:
        raise BadInputError(f"{OPTION} needs docker or podman, and neither is installed")
    if (podman := shutil.which("podman")) and "podman" in _version(engine):  # the package podman-docker
        engine = podman
    with bad_values():
        args.out.mkdir(parents=True, exist_ok=True)
    read = [path for name, path in vars(args).items() if isinstance(path, Path) and name != "out"]
    for path in read:
        if not path.exists():
            raise BadInputError(f"there is no {path}")
    code = _finish(command(engine, args.argv, read, args.out, args.jobs or os.cpu_count() or 1))
    if code == CANNOT_RUN:
        name = Path(engine).stem
        raise BadInputError(
            f"{name} could not start the image {IMAGE}; in lplab's repository: {name} build -t {IMAGE} ."
        )
    return code


def _version(engine: str) -> str:
    """What it says that it is."""
    return subprocess.run([engine, "--version"], capture_output=True, text=True, check=False).stdout.lower()


def _finish(line: Sequence[str]) -> int:
    """Run it to its end. Ctrl-C reaches the engine, too, and the container still has the marks so far to write."""
    with subprocess.Popen(line) as process:
        while True:
            with suppress(KeyboardInterrupt):
                return process.wait()


def command(engine: str, argv: Sequence[str], read: Sequence[Path], out: Path, jobs: int) -> list[str]:
    """The command line of the container.

    Args:
        engine: docker or podman.
        argv: the arguments of lplab. Paths in them mean the same in the container, since they are mounted as they are.
        read: files and folders that can be read in it.
        out: the folder that can be written to.
        jobs: answers judged at the same time, which need memory and processes.

    >>> line = command("docker", ["grade", "class", "--in-container"], [Path("/x/class")], Path("/x/marks"), 2)
    >>> line[:6], line[-3:]
    (['docker', 'run', '--rm', '--pull', 'never', '--network'], ['lplab', 'grade', 'class'])
    """
    here = Path.cwd()
    *inputs, marks = [Path(os.path.abspath(path)) for path in (*read, out)]
    mounts = [*(f"{path}:{path}:ro" for path in inputs), f"{marks}:{marks}"]
    overlaps = any(here.is_relative_to(path) or path.is_relative_to(here) for path in (*inputs, marks))
    # Docker makes a working directory that the image lacks, Podman stops.
    in_memory = ["/tmp"] if overlaps or Path("/tmp").is_relative_to(here) else ["/tmp", str(here)]
    user = [f"--user={os.getuid()}:{os.getgid()}"] if hasattr(os, "getuid") else []
    if "podman" in engine and not (user and os.getuid() == 0):  # Podman until 4.3 refuses it to root
        user.append("--userns=keep-id")
    return [
        engine, "run", "--rm", "--pull", "never", "--network", "none", "--read-only",
        *[option for path in in_memory for option in ("--tmpfs", path)],
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges", *user,
        "--memory", f"{PARENT_MB + ANSWER_MB * jobs}m", "--pids-limit", str(PROCESSES * (jobs + 1)),
        *[f"--volume={mount}" for mount in mounts], f"--workdir={here}",
        f"--env=SQLITE_TMPDIR={marks}",  # /tmp is memory there
        IMAGE, "lplab", *[argument for argument in argv if len(argument) < 4 or not OPTION.startswith(argument)],
    ]  # fmt: skip
