"""``python -m benchmarks gpu`` on a machine without a GPU, and its rows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import gpu


def test_without_a_gpu_it_says_so_in_one_line():
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks", "gpu"],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2 and not run.stdout
    assert run.stderr.startswith("benchmarks gpu: ") and run.stderr.count("\n") == 1


def test_every_bar_has_a_row():
    rows = [row for part in (gpu.rounding, gpu.products, gpu.training, gpu.compression) for row in part()]
    assert len({row.work for row in rows}) == len(rows)
    assert {row.bar for row in rows} == {1.0, 1.15, 1.3, 1.5, 2.0, 4.0, 60.0}


def test_other_bits_end_it():
    torch = pytest.importorskip("torch")
    gpu.check("same", torch.tensor([1.0, torch.nan, -0.0]), torch.tensor([1.0, torch.nan, -0.0]))
    for other in ([1.0, 2.0, -0.0], [1.0, torch.nan, 0.0]):
        with pytest.raises(RuntimeError, match="the GPU gives other bits than the CPU"):
            gpu.check("other", torch.tensor([1.0, torch.nan, -0.0]), torch.tensor(other))


@pytest.mark.cuda
def test_a_row_is_measured(monkeypatch):
    monkeypatch.setattr(gpu, "ELEMENTS", 2**20)
    result = gpu.measure(next(gpu.rounding()), gpu.QUICK)
    assert 0 < result.low <= result.ratio <= result.high and result.yardstick_ms > 0
