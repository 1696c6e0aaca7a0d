"""lplab.hardware needs numpy alone, and computes thousands of design points at once."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lplab import hardware
from lplab.hardware import Cluster, Link, simulate, sweep, sweeps

PROJECT = Path(__file__).parents[2]
OTHERS = ("torch", "numba", "pandas", "scipy", "plotly", "ipywidgets", "anywidget", "IPython")
USE = """
from lplab.hardware import accelerators, compute, footprint, precisions, workloads, simulate, Cluster
run = simulate("resnet50", Cluster("h100", 8, "ethernet_10g"), precision="hfp8_2019", compressor="scalecom")
assert run.step_seconds > compute.layer_times("resnet50", "h100", "hfp8_2019", 32).step_seconds * 0.9
assert footprint.bill(watts=700, hours=1).kwh > 0.7 and len(run.timeline()) > 4
print("done")
"""


def python(script):
    return subprocess.run([sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True)


def test_numpy_alone_will_do():
    """All else is forbidden: an import of it fails."""
    absent = "import sys\n" + "".join(f"sys.modules[{name!r}] = None\n" for name in OTHERS)
    done = python(absent + USE)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr[-2000:]


@pytest.mark.parametrize(
    "module", ["lplab.hardware", "lplab.hardware.footprint", "lplab.claims.published_numbers", "lplab.claims"]
)
def test_importing_loads_nothing_else(module):
    done = python(f"import sys, {module}; print([name for name in {OTHERS} if name in sys.modules])")
    assert done.stdout == "[]\n", done.stderr[-2000:]


@pytest.fixture
def counted(monkeypatch):
    """How often a step is computed, and for how many points each time."""
    calls, real = [], sweeps.step

    def step(design, fabric, devices, batch, **rest):
        calls.append(np.broadcast(devices, batch).size)
        return real(design, fabric, devices, batch, **rest)

    monkeypatch.setattr(sweeps, "step", step)
    return calls


def test_ten_thousand_points_are_one_call(counted):
    frame = sweep(
        "resnet18", devices=2.0 ** np.arange(10), batch=[8, 32], overlap=np.linspace(0, 1, 5),
        bytes_per_second=np.geomspace(1e8, 1e12, 100),
    )  # fmt: skip
    assert counted == [10_000] and len(frame) == 10_000
    row = frame.iloc[7654]
    link = Link(row["latency_seconds"], row["bytes_per_second"])
    cluster = Cluster("h100", int(row["devices"]), link)
    one = simulate("resnet18", cluster, batch=int(row["batch"]), overlap=float(row["overlap"]))
    assert one.step_seconds == pytest.approx(row["step_seconds"], rel=1e-12)


def test_names_are_taken_one_after_the_other(counted):
    sweep("resnet18", devices=[1, 2, 4], precision=["fp32", "bf16"], compressor=["none", "scalecom"])
    assert counted == [3] * 4


def test_what_everybody_needs_is_there():
    assert {"simulate", "sweep", "Cluster", "Link"} <= set(hardware.__all__)
