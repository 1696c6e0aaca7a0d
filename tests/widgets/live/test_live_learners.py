"""Many learners live, simulated and as processes: what is drawn, how they end, and that no process is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("torch")

from lplab.parallel import RunSettings, SimulatedRun
from lplab.parallel.launch import DistributedRun
from lplab.widgets import LiveLearners, live_learners
from lplab.widgets.live.live_learners import interleave_runs
from tests.parallel.ranks import light_command

SECONDS = 120  # patience with a loaded machine
ENDLESS = 10**6
PROJECT = Path(__file__).parents[3]

slow = pytest.mark.slow


@pytest.fixture
def light(monkeypatch):
    """Processes whose ranks report steps and train nothing: how a run is shown and ends is the same."""
    monkeypatch.setattr(DistributedRun, "_command", staticmethod(light_command))


@pytest.fixture(params=["light", pytest.param("real", marks=slow)])
def kind(request):
    """What the processes of a test are; see :func:`light`."""
    if request.param == "light":
        request.getfixturevalue("light")
    return request.param


def simulated(steps=4, compressor="scalecom:chunk=100", **options):
    return SimulatedRun(RunSettings("mlp", compressor, steps=steps, **options), "stacked")


def finished(run):
    run.start()
    run.wait(SECONDS)
    return run


def until(condition, what):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def gone(processes):
    _, living = psutil.wait_procs(processes, SECONDS)
    return not living


def test_simulated_runs_are_drawn_with_losses_and_bytes():
    runs = {"dense": simulated(compressor="dense", learners=8, batch=4), "ScaleCom": simulated(learners=8, batch=4)}
    run = finished(live_learners(runs, name="two ways"))
    assert isinstance(run, LiveLearners) and run.state == "finished"
    expected = [r for r in runs["ScaleCom"] if "loss" in r]
    assert run.losses["ScaleCom"] == [r["loss"] for r in expected] and len(run.losses["dense"]) == 4
    lines = {trace.name: trace.y for trace in run.figure.data}
    assert run.figure.layout.yaxis2.ticksuffix == " MB"
    assert lines["ScaleCom: sent"][-1] == sum(r["sent_bytes"] for r in expected) / 1e6
    assert lines["dense: sent"][-1] == pytest.approx(4 * 2 * 7 * 4 * 26_122 / 1e6), "a ring"
    assert "Training loss after 4 of 4 steps: dense" in run.figure.alt and "Sent by all learners" in run.figure.alt


def test_two_runs_that_end_are_compared():
    pair = {"one": simulated(learners=2), "the same": simulated(learners=2)}
    run = finished(live_learners(pair, name="pair"))
    assert run.status.value == "Finished: 4 of 4 steps. one and the same: 0 of 26,122 weights differ."
    other = finished(live_learners(pair | {"the same": simulated(learners=2, seed=1)}, name="pair"))
    differ = int(other.status.value.split("the same: ")[1].split(" of")[0].replace(",", ""))
    assert 20_000 < differ <= 26_122


def test_one_run_or_three_are_not_compared():
    run = finished(live_learners({"one": simulated(learners=2)}, name="alone"))
    assert run.status.value == "Finished: 4 of 4 steps."


def test_processes_stream_what_they_report(light):
    real = DistributedRun(RunSettings("mlp", "dense", learners=2, steps=5))
    run = live_learners({"2 processes": real}, name="streamed")
    messages = []
    run.status.observe(lambda change: messages.append(change["new"]), "value")
    run.start()
    assert run.status.value == "Running. 2 processes are starting; that takes some seconds."
    run.wait(SECONDS)
    assert messages[-2:] == ["Running.", "Finished: 5 of 5 steps."]
    assert run.losses == {"2 processes": [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]} and list(real.weights) == ["w"]


@slow
def test_processes_stream_and_equal_the_simulator():
    settings = RunSettings("mlp", "scalecom:chunk=112", learners=2, steps=5)
    run = live_learners({"2 processes": DistributedRun(settings), "simulator": SimulatedRun(settings)}, name="real")
    messages = []
    run.status.observe(lambda change: messages.append(change["new"]), "value")
    run.start()
    assert run.status.value == "Running. 2 processes are starting; that takes some seconds."
    run.wait(SECONDS)
    assert messages[-2] == "Running.", "what was said of the start is gone with the first step"
    assert run.state == "finished" and run.losses["2 processes"] == run.losses["simulator"]
    assert run.status.value == "Finished: 5 of 5 steps. 2 processes and simulator: 0 of 26,122 weights differ."


def test_stop_ends_all_processes_while_they_run(kind):
    real = DistributedRun(RunSettings("mlp", "dense", learners=2, steps=ENDLESS))
    run = live_learners({"2 processes": real}, name="stopped")
    run.start()
    until(lambda: len(run.losses["2 processes"]) > 1, "no step was reported")
    processes = real.processes
    assert len(processes) >= 3
    run.stop_button.click()
    run.wait(SECONDS)
    assert run.state == "stopped" and run.status.value.startswith("Stopped after") and run.error_line.value == ""
    assert gone(processes)


def test_stop_works_before_the_first_step(light):
    real = DistributedRun(RunSettings("mlp", "dense", learners=2, steps=ENDLESS))
    run = live_learners({"2 processes": real}, name="stopped early")
    run.start()
    until(lambda: len(real.processes) >= 1, "nothing was started")
    processes = real.processes
    run.stop()
    run.wait(SECONDS)
    assert run.state == "stopped" and run.losses["2 processes"] == [] and gone(processes)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_process_that_dies_is_named_and_the_others_end(kind):
    real = DistributedRun(RunSettings("mlp", "scalecom:chunk=100", learners=2, steps=ENDLESS))
    run = live_learners({"2 processes": real}, name="killed")
    run.start()
    until(lambda: len(run.losses["2 processes"]) > 1, "no step was reported")
    processes = real.processes
    workers = [p for p in processes if "torch.distributed.run" not in p.cmdline()]
    os.kill(workers[-1].pid, signal.SIGKILL)
    run.wait(SECONDS)
    assert run.state == "failed" and gone(processes)
    assert "was ended by signal 9; all other ranks have been stopped (after" in run.error_line.value
    assert not run.run_button.disabled


@slow
def test_starting_the_cell_again_ends_the_earlier_processes(light):
    first = DistributedRun(RunSettings("mlp", "dense", learners=2, steps=ENDLESS))
    run = live_learners({"2 processes": first}, name="same cell again")
    run.start()
    until(lambda: len(run.losses["2 processes"]) > 0, "no step was reported")
    processes = first.processes
    again = finished(live_learners({"simulator": simulated(learners=2)}, name="same cell again"))
    run.wait(SECONDS)
    assert run.state == "stopped" and again.state == "finished" and gone(processes)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_no_process_outlives_a_kernel_that_dies(tmp_path, kind):
    lighter = (
        f"sys.path.insert(0, {str(PROJECT)!r})\n"
        "from tests.parallel.ranks import light_command\n"
        "DistributedRun._command = staticmethod(light_command)\n"
    )
    script = (
        "import sys\n"
        "from lplab.parallel import RunSettings\n"
        "from lplab.parallel.launch import DistributedRun\n"
        f"{lighter if kind == 'light' else ''}"
        f"run = DistributedRun(RunSettings('mlp', 'dense', learners=2, steps={ENDLESS}))\n"
        "for report in run:\n"
        "    print(*[p.pid for p in run.processes], flush=True)\n"
    )
    kernel = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    processes = [psutil.Process(int(pid)) for pid in kernel.stdout.readline().split()]
    assert len(processes) >= 3
    kernel.kill()
    kernel.wait()
    kernel.stdout.close()
    assert gone(processes)


def test_what_cannot_be_drawn_together_is_refused():
    with pytest.raises(ValueError, match="one to four runs"):
        live_learners({})
    with pytest.raises(ValueError, match="same number of steps, got 3, 4"):
        live_learners({"a": simulated(3), "b": simulated(4)})
    with pytest.raises(TypeError, match=r"runs\['a'\] must be a DistributedRun or a SimulatedRun, got list"):
        live_learners({"a": [1]})


def test_runs_side_by_side_are_closed_together():
    closed = []

    def run(name, count):
        try:
            yield from ({"step": k, "name": name} for k in range(count))
        finally:
            closed.append(name)

    both = interleave_runs([run("a", 3), run("b", 2)], steps=3)
    assert next(both) == ({"step": 0, "name": "a"}, {"step": 0, "name": "b"})
    both.close()
    assert closed == ["a", "b"]
    assert [r[1] for r in interleave_runs([run("a", 3), run("b", 2)], steps=3)][2] is None
