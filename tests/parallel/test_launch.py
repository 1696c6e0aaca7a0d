"""Runs started from a notebook: what they report, how they end."""

import os
import signal
import sys
from types import SimpleNamespace

import psutil
import pytest

torch = pytest.importorskip("torch")

from lplab.parallel import launch, worker  # noqa: E402
from lplab.parallel.launch import DistributedError, DistributedRun  # noqa: E402
from lplab.parallel.learners import Learners  # noqa: E402
from lplab.parallel.run_settings import RunSettings  # noqa: E402
from lplab.parallel.worker import fingerprint  # noqa: E402
from lplab.training.loop.trainer import default_loss  # noqa: E402
from tests.parallel.ranks import light_command  # noqa: E402


def equals_the_simulator(run, reports):
    settings = run.settings
    model = settings.task().model(settings.seed)
    learners = Learners(
        model, default_loss, settings.batches(), settings.make_compressor(), 2, optimizer=settings.optimizer
    )
    rounds = list(learners.steps(4))
    assert [r["step"] for r in reports[:-1]] == [0, 1, 2, 3]
    assert [r["payload_bytes"] for r in reports[:-1]] == [r.payload_bytes for r in rounds]
    assert [r["loss"] for r in reports[:-1]] == pytest.approx([r.loss for r in rounds])
    assert reports[-1]["weights"] == fingerprint(model)
    assert 0 <= reports[-1]["test_error"] <= 1
    return True


def test_a_run_reports_its_steps_and_ends_with_the_simulators_weights(real_run):
    assert equals_the_simulator(*real_run)


def test_a_report_is_one_write(monkeypatch):
    """In two, a line of torchrun may come between the report and the end of its line: then it cannot be read."""
    written = []
    monkeypatch.setattr(worker.dist, "get_rank", lambda: 0)
    monkeypatch.setattr(worker.sys, "stdout", SimpleNamespace(write=written.append, flush=lambda: None))
    worker._print_report({"step": 0, "loss": 0.5})
    assert written == ['lplab {"step": 0, "loss": 0.5}\n']


@pytest.mark.slow
def test_so_does_a_run_with_another_compressor_and_no_file_for_the_weights():
    run = DistributedRun(RunSettings("mlp", "adacomp:bin=50", learners=2, steps=4))
    assert equals_the_simulator(run, list(run)) and run.weights


@pytest.fixture(params=["light", pytest.param("real", marks=pytest.mark.slow)])
def run_of(request, monkeypatch):
    """A run without an end, by the name of its compressor; how it ends depends little on what its ranks do."""
    if request.param == "light":
        monkeypatch.setattr(DistributedRun, "_command", staticmethod(light_command))
    return lambda compressor: DistributedRun(RunSettings("mlp", compressor, learners=2, steps=10**6))


def ranks_of(run):
    return [p for p in run.processes if "torch.distributed.run" not in p.cmdline()]


def gone(processes):
    _, living = psutil.wait_procs(processes, 30)
    return not living


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_rank_that_is_killed_ends_the_run_with_a_clear_message_and_no_orphan(run_of):
    run = run_of("scalecom:chunk=100")
    started = []
    with pytest.raises(DistributedError, match=r"rank \d was ended by signal 9; all other ranks have been stopped"):
        for report in run:
            if report["step"] == 1:
                started = run.processes
                os.kill(ranks_of(run)[-1].pid, signal.SIGKILL)
    assert len(started) >= 3 and gone(started)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("stopped", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_ranks_do_not_outlive_a_torchrun_that_is_killed(stopped, run_of):
    run = run_of("dense")
    started = []
    try:
        for report in run:
            if report["step"] == 1:
                started = run.processes
                os.kill(started[0].pid, signal.SIGKILL)
                if stopped:
                    run.stop()
    except DistributedError as error:
        assert not stopped and str(error) == "torchrun was ended by signal 9; all ranks have been stopped"
    else:
        assert stopped
    assert len(started) >= 3 and gone(started)


def test_a_stop_ends_all_processes(run_of):
    run = run_of("dense")
    for report in run:
        if report["step"] == 1:
            started = run.processes
            run.stop()
    assert len(started) >= 3 and gone(started)


@pytest.mark.parametrize(("settings", "message"), [
    ({"model": "mpl"}, "there is no model 'mpl'"),
    ({"compressor": "zip"}, "unknown compressor 'zip'"),
    ({"compressor": "topk:k=3"}, "TopK has no setting 'k=3'; it has density"),
    ({"compressor": "topk:density=3"}, "density must be"),
    ({"learners": 0}, "learners"),
    ({"steps": 0}, "steps"),
    ({"batch": 0}, "batch"),
    ({"backend": "mpi"}, "allowed: gloo, nccl"),
    ({"momentum": 1.0}, "momentum must be from 0 to below 1"),
    ({"momentum": "x"}, "momentum must be a number, got 'x'"),
    ({"compressor": "dgc", "momentum": 0.9}, "DGC has a momentum of its own"),
    ({"compressor": "signsgd", "momentum": 0.9}, "SignSGD has a momentum of its own"),
    ({"lr": -1.0}, "lr must be a positive finite number, got -1.0"),
    ({"lr": "x"}, "lr must be a number, got 'x'"),
    ({"seed": -1}, "seed must be an integer from 0"),
    ({"model": "transformer", "momentum": 0.5}, "is for SGD alone"),
])  # fmt: skip
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        RunSettings(**settings)


def test_settings_survive_a_command_line():
    settings = RunSettings("mlp", "scalecom:chunk=50,beta=0.3", 3, 10, batch=4, lr=0.1, seed=7, ordered=False)
    assert RunSettings.from_json(settings.to_json()) == settings


def test_momentum_is_the_tasks_own_unless_told_otherwise():
    parameters = [torch.nn.Parameter(torch.zeros(2))]
    own, none = (RunSettings("mlp", momentum=m).optimizer(parameters).defaults["momentum"] for m in (None, 0.0))
    assert (own, none) == (0.9, 0.0)
    assert RunSettings("mlp", "dgc").optimizer(parameters).defaults["momentum"] == 0, "DGC has one of its own"
    assert RunSettings("mlp", "signsgd").optimizer(parameters).defaults["momentum"] == 0, "SignSGD has one of its own"


ABORTED = """
import os, sys
print("terminate called after throwing an instance of 'gloo::EnforceNotMet'", file=sys.stderr)
print("  what():  [enforce fail at pair.cc:446] 8 <= 4", *range(99), sep="\\nframe #", file=sys.stderr)
os.abort()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGABRT")
def test_a_rank_that_a_cpp_exception_aborts_ends_the_run_with_its_text(tmp_path, monkeypatch):
    script = tmp_path / "aborted.py"
    script.write_text(ABORTED)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1", str(script)]
    monkeypatch.setattr(DistributedRun, "_command", staticmethod(lambda settings: torchrun))
    message = r"^rank 0 was ended by signal 6 \(\[enforce fail at pair.cc:446\] 8 <= 4\); all other ranks"
    with pytest.raises(DistributedError, match=message):
        list(DistributedRun(RunSettings("mlp", learners=1)))


def test_of_several_aborted_ranks_the_first_exception_is_the_reason():
    last = ["  what():  no memory", "  what():  Connection closed by peer", "  rank : 1", "  exitcode : -6 (pid: 9)"]
    assert launch.reason(last, 1) == "rank 1 was ended by signal 6 (no memory); all other ranks have been stopped"


SUMMARY = """\
terminate called after throwing an instance of 'gloo::IoException'
  what():  Connection closed by peer
Failures:
[1]:
  time      : 2026-01-01_00:00:00
  host      : here
  rank      : 1 (local_rank: 1)
  exitcode  : {} (pid: 78)
  error_file: <N/A>
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_00:00:00
  host      : here
  rank      : 0 (local_rank: 0)
  exitcode  : -6 (pid: 77)
  error_file: <N/A>
"""


@pytest.mark.parametrize(("exit_code", "reason"), [
    ("-9", "rank 1 was ended by signal 9; all other ranks have been stopped"),
    ("1", "the run ended with code 1: ValueError: no such thing"),
    ("-6", "rank 0 was ended by signal 6 (Connection closed by peer); all other ranks have been stopped"),
])  # fmt: skip
def test_a_rank_that_lost_its_peer_is_not_the_reason(exit_code, reason):
    errors = ["ValueError: no such thing"] if exit_code == "1" else []
    assert launch.reason([*errors, *SUMMARY.format(exit_code).splitlines()], 1) == reason


def test_of_several_errors_the_first_is_the_reason():
    last = ["Traceback (most recent call last):", "ValueError: no such thing", "ChildFailedError: a rank failed"]
    assert launch.reason(last, 1) == "the run ended with code 1: ValueError: no such thing"
