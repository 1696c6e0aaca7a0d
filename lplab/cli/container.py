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
    mounts = [f"{os.path.abspath(path)}:{os.path.abspath(path)}:ro" for path in read]
    mounts.append(f"{os.path.abspath(out)}:{os.path.abspath(out)}")
    user = [f"--user={os.getuid()}:{os.getgid()}"] if hasattr(os, "getuid") else []
    return [
        engine, "run", "--rm", "--pull", "never", "--network", "none", "--read-only", "--tmpfs", "/tmp",
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges", *user, *["--userns=keep-id"] * ("podman" in engine),
        "--memory", f"{PARENT_MB + ANSWER_MB * jobs}m", "--pids-limit", str(PROCESSES * (jobs + 1)),
        *[f"--volume={mount}" for mount in mounts], f"--workdir={Path.cwd()}",
        f"--env=SQLITE_TMPDIR={os.path.abspath(out)}",  # /tmp is memory there
        IMAGE, "lplab", *[argument for argument in argv if len(argument) < 4 or not OPTION.startswith(argument)],
    ]  # fmt: skip
