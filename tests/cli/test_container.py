"""The command line of ``lplab grade --in-container``. No container is started: that needs Docker and the image."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lplab import cli
from lplab.cli import container

ROOT = Path(__file__).parents[2]


def test_an_interrupted_command_is_waited_for(monkeypatch):
    """Ctrl-C reaches the engine by itself; the container then writes the marks so far."""
    waits = [KeyboardInterrupt, KeyboardInterrupt, 130]

    def wait(process, timeout=None):
        if (now := waits.pop(0)) is KeyboardInterrupt:
            raise now
        return now

    monkeypatch.setattr(subprocess.Popen, "wait", wait)
    monkeypatch.setattr(subprocess.Popen, "__exit__", lambda *_: None)
    assert container._finish([sys.executable, "-c", ""]) == 130 and not waits


def test_an_abbreviated_option_stays_outside(tmp_path):
    argv = ["grade", "class", "--in-cont", "--jobs", "2"]
    assert container.command("docker", argv, [], tmp_path, 2)[-5:] == ["lplab", "grade", "class", "--jobs", "2"]


@pytest.fixture
def started(monkeypatch):
    """The commands that would have been started, and the exit code that they give."""
    commands = []
    monkeypatch.setattr(container.shutil, "which", lambda name: f"/usr/bin/{name}" if name == "docker" else None)
    monkeypatch.setattr(container, "_finish", lambda command: commands.append(command) or 0)
    return commands


def test_the_same_command_runs_inside_with_nothing_but_its_files(started, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "class").mkdir()
    assert cli.main(["grade", "class", "--lab", "01", "--jobs", "2", "--in-container", "--out", "marks"]) == 0
    ((engine, *arguments),) = started
    assert engine == "/usr/bin/docker" and arguments[:2] == ["run", "--rm"]
    place = arguments.index(container.IMAGE)
    assert arguments[place + 1 :] == ["lplab", "grade", "class", "--lab", "01", "--jobs", "2", "--out", "marks"]
    options = " ".join(arguments[:place])
    for wanted in ("--pull never", "--network none", "--read-only", "--tmpfs /tmp", "--cap-drop ALL",
                   "--security-opt no-new-privileges", f"--workdir={tmp_path}", "--memory 5000m",
                   "--pids-limit 900", f"--volume={tmp_path}/class:{tmp_path}/class:ro"):  # fmt: skip
        assert wanted in options
    assert [option for option in arguments if option.startswith("--volume") and not option.endswith(":ro")] == [
        f"--volume={tmp_path}/marks:{tmp_path}/marks"
    ]
    assert (tmp_path / "marks").is_dir(), "Docker would make it, and root would own it"
    if hasattr(os, "getuid"):
        assert f"--user={os.getuid()}:{os.getgid()}" in arguments
    assert "--privileged" not in options and "docker.sock" not in options


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="users have no numbers here")
@pytest.mark.parametrize(
    ("engine", "user", "kept"), [("podman", 1000, True), ("podman", 0, False), ("docker", 1000, False)]
)
def test_podman_keeps_the_user_unless_it_is_root(engine, user, kept, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: user)
    line = container.command(f"/usr/bin/{engine}", ["grade", "class"], [Path("class")], Path("marks"), 1)
    assert ("--userns=keep-id" in line) == kept


def test_the_working_directory_is_there_where_nothing_in_it_is_named(tmp_path, monkeypatch):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    far, near = tmp_path / "there", Path("class")
    for read, out, made in [(far, far / "marks", True), (near, far / "marks", False), (Path(".."), far, False)]:
        line = container.command("/usr/bin/podman", ["grade"], [read], out, 1)
        assert (str(tmp_path / "here") in line) == made and f"--workdir={tmp_path / 'here'}" in line


def test_docker_that_is_podman_is_called_by_its_name(started, tmp_path, monkeypatch):
    """Debian's package podman-docker: its `docker` hands all on to Podman, which needs other options."""
    (tmp_path / "class").mkdir()
    monkeypatch.setattr(container.shutil, "which", lambda name: f"/usr/bin/{name}")
    for said, engine in (("podman version 4.3.1", "podman"), ("Docker version 28.2.2, build e6534b4", "docker")):
        done = subprocess.CompletedProcess([], 0, stdout=said)
        monkeypatch.setattr(container.subprocess, "run", lambda *_, done=done, **__: done)
        assert cli.main(["grade", str(tmp_path / "class"), "--in-container", "--out", str(tmp_path / "marks")]) == 0
        assert started.pop()[0] == f"/usr/bin/{engine}"


@pytest.mark.parametrize(("missing", "told"), [
    ("engine", "--in-container needs docker or podman, and neither is installed"),
    ("class", "there is no class"),
    ("image", "docker could not start the image lplab; in lplab's repository: docker build -t lplab ."),
])  # fmt: skip
def test_what_is_missing_is_said_in_one_line(missing, told, started, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if missing != "class":
        (tmp_path / "class").mkdir()
    if missing == "engine":
        monkeypatch.setattr(container.shutil, "which", lambda name: None)
    if missing == "image":
        monkeypatch.setattr(container, "_finish", lambda command: container.CANNOT_RUN)
    with pytest.raises(SystemExit) as stop:
        cli.main(["grade", "class", "--in-container"])
    assert stop.value.code == 2 and told in capsys.readouterr().err


def stages() -> dict[str, str]:
    """The stages of the Dockerfile by name, in their order."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    found = re.split(r"^FROM \S+ AS (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def test_the_dockerfile_makes_what_the_command_needs():
    assert list(stages()) == ["wheel", "hub", "grading"], "the last stage is what is built without a target"
    assert f"docker build -t {container.IMAGE} ." in (ROOT / "Dockerfile").read_text("utf-8")
    assert "[course]" in stages()["grading"] and "jupyter" not in stages()["grading"]


def test_the_image_of_a_hub_holds_what_binder_holds_and_the_hubs_own():
    hub = stages()["hub"]
    assert "pip install --no-cache-dir --requirement /wheels/requirements.txt" in hub
    assert re.search(r"jupyterhub==\$JUPYTERHUB nbgitpuller==[\d.]+$", hub, re.MULTILINE) and "install -y" in hub
    assert re.search(r"^ARG JUPYTERHUB=\d+\.\d+\.\d+$", hub, re.MULTILINE), "pinned, to match the hub's"
    assert 'CMD ["jupyterhub-singleuser"' in hub and "OMP_NUM_THREADS=1" in hub


@pytest.mark.parametrize("stage", ["hub", "grading"])
def test_an_image_copies_what_there_is_and_does_not_run_as_root(stage):
    copied = re.findall(r"^COPY (?!--from)(\S+)", stages()["wheel"] + stages()[stage], re.MULTILINE)
    assert "." in copied and "constraints.txt" in copied and all((ROOT / name).exists() for name in copied)
    assert re.search(r"^USER (?!0)\d+(:0)?$", stages()[stage], re.MULTILINE)


def test_an_image_does_not_hold_its_own_history_or_caches():
    assert {".git", "**/__pycache__", ".venv"} <= set((ROOT / ".dockerignore").read_text("utf-8").split())
