"""Every command writes what it has to say to any stream, or ends in one line where the machine fails."""

import errno
import io
import json
import os
import sys

import pytest

from lplab import cli
from lplab.cli.command import BadInputError, bad_values
from lplab.exercises.progress import Progress

CELL = "def midpoint(low, high):\n    return 7 * low\n\ncheck('00.1', midpoint)"
COMMANDS = [  # each form of output of each command, as cheap as it can be
    "--help", "--version", "lab --help", "formats", "formats e4m3fn --json", "quantize e4m3fn 0.1 nan",
    "quantize mxfp4 1 2 --json", "train --list", "train --list --json",
    "train --model mlp --steps 1", "train --model mlp --steps 1 --report --json",
    "train --model mlp --steps 1 --learners 2 --compressor topk", "simulate resnet18", "simulate --list",
    "simulate resnet18 --devices 8 --json", "claims list", "claims table wang_2018 --html",
    "claims table wang_2018 --json", "claims numbers T36", "claims settings", "exercises", "exercises 00.2", "capstone",
    "capstone --json", "report --name Größe→ --out {new}", "grade {folder} --jobs 1 --out {new}",
    "grade {folder} --jobs 1 --json --out {new}", "doctor", "doctor --json", "compile --help", "fetch --help",
    "autograder --lab 00 --out {new}", "release --lab 00 --out {new}",
]  # fmt: skip
posix = pytest.mark.skipif(os.name == "nt", reason="pipes and devices of POSIX")


def test_every_command_is_among_them(capsys):
    with pytest.raises(SystemExit):
        cli.main(["nothing"])
    known = capsys.readouterr().err
    names = {command.split()[0] for command in COMMANDS} - {"--help", "--version"}
    assert len(names) == len(cli.COMMANDS) and all(f"'{name}'" in known for name in names)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command with a stream as its standard output; its exit code, and what it says on standard error."""
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(
        "lplab.cli.exercises.catching_stages", lambda chosen: {one.id: ["form"] * len(one.mistakes) for one in chosen}
    )
    Progress(tmp_path / "progress.json").open_hint("00.1")
    cells = [{"cell_type": "code", "source": CELL}]
    (tmp_path / "größe →").mkdir()
    text = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
    (tmp_path / "größe →" / "ä→.ipynb").write_text(text)
    made = iter(range(99))

    def running(command, stream, errors=None):
        if command.startswith("train"):
            pytest.importorskip("torch")
        told = errors or io.TextIOWrapper(io.BytesIO(), "ascii", "backslashreplace")
        places = {"folder": tmp_path / "größe →", "new": tmp_path / f"new{next(made)}"}
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            patch.setattr(sys, "stderr", told)
            try:
                code = cli.main([part.format(**places) for part in command.split()])
            except SystemExit as stop:
                code = stop.code
        if errors is not None:
            return code, ""
        told.flush()
        return code, told.buffer.getvalue().decode()

    return running


def of_encoding(encoding):
    return io.TextIOWrapper(io.BytesIO(), encoding, "strict")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_writes_to_streams_of_any_encoding(run, command):
    for encoding in ("ascii", "cp1252") if "release" not in command and "train" not in command else ("ascii",):
        stream = of_encoding(encoding)
        code, told = run(command, stream)
        stream.flush()
        written = stream.buffer.getvalue().decode(encoding)
        assert (code, "Traceback" in told) == (0, False) and written
        assert stream.errors == "strict", "the stream is as it was"
        if "--json" in command:
            json.loads(written)


@posix
@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_goes_away_ends_a_command_quietly(run, command):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        code, told = run(command, io.TextIOWrapper(pipe, "utf-8", write_through=True))
    assert code == 0 and "roken" not in told and "Traceback" not in told


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_no_bad_input(run, command):
    with open("/dev/full", "wb", buffering=0) as full:
        code, told = run(command, io.TextIOWrapper(full, "utf-8", write_through=len(command) % 2))
    assert code == cli.FAILED_OUTPUT and told.endswith(f"lplab: {os.strerror(errno.ENOSPC)}\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_disk_under_both_streams_or_under_a_file(run, capsys):
    with open("/dev/full", "wb", buffering=0) as full:
        streams = [io.TextIOWrapper(full, "utf-8", write_through=True) for _ in range(2)]
        assert run("formats", *streams)[0] == cli.FAILED_OUTPUT
    code, told = run("claims table wang_2018 -o /dev/full", of_encoding("utf-8"))
    assert code == cli.FAILED_OUTPUT and told.count("\n") == 1


def test_without_streams_nothing_is_written(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(["formats"]) == 0 and sys.stdout is None
    with pytest.raises(SystemExit, match="2"):
        cli.main(["formats", "nothing"])


@pytest.mark.parametrize("columns", ["1", "20", "nothing"])
def test_every_help_fits_a_narrow_terminal(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in dict.fromkeys(command.split()[0] for command in COMMANDS if command[0] != "-"):
        stream = of_encoding("ascii")
        assert run(f"{name} --help", stream) == (0, "")
        stream.flush()
        assert b"\x1b" not in stream.buffer.getvalue() and b"example" in stream.buffer.getvalue()


def test_characters_that_are_lacking_have_plain_ones_in_their_place(run):
    stream = of_encoding("ascii")
    assert run("train --list", stream)[0] == 0
    stream.flush()
    assert b"32 x 32" in stream.buffer.getvalue()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_errors_of_the_machine_are_not_called_bad_input(number):
    with pytest.raises(OSError, match=os.strerror(number)), bad_values():
        raise OSError(number, os.strerror(number), "marks.csv")
    with pytest.raises(BadInputError, match="no.csv: No such"), bad_values():
        raise FileNotFoundError(errno.ENOENT, "No such file", "no.csv")
