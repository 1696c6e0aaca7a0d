"""docs/compress_training.md: its scripts train, with and without the three lines, and survive the loss of a rank."""

import ast
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

if not dist.is_gloo_available():
    pytest.skip("gloo is not in this build", allow_module_level=True)

from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from lplab import claims  # noqa: E402
from lplab.parallel import ddp_hook  # noqa: E402

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "compress_training.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
SCRIPT = next(block for block in BLOCKS if "def main(folder)" in block)
FSDP = next(block for block in BLOCKS if "FSDPHook(" in block)
SAVE = next(block for block in BLOCKS if "portable_state_dict()" in block)
TRAINER = (PROJECT / "tests" / "parallel" / "trainer_script.py").read_text("utf-8")
SCRIPTS = {"the page's script": SCRIPT, "a script with a Trainer": TRAINER}
PATIENCE = 300  # seconds for a script of half a minute
EPOCHS = int(re.search(r"^EPOCHS, BATCH = (\d+)", SCRIPT, re.M)[1])


def without_the_three_lines(script=SCRIPT):
    return "".join(line for line in script.splitlines(keepends=True) if not re.search(r" # [123]$", line.rstrip()))


class Torchrun:
    """A script on some ranks; what it printed, line by line. It is killed if it has not ended after some minutes."""

    def __init__(self, folder, script, ranks):
        (folder / "train.py").write_text(script, "utf-8")
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        settings = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, *torchrun, "train.py", "checkpoints"], cwd=folder, env=os.environ | settings,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace",
        )  # fmt: skip
        self.lines = []
        self.watch = threading.Timer(PATIENCE, self.kill)  # else a rank that waits for ever would stop the whole run
        self.watch.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watch.cancel()
        self.kill()
        self.process.wait()

    def kill(self):
        for process in [*psutil.Process(self.process.pid).children(recursive=True)] if self.running() else []:
            process.kill()
        self.process.kill()

    def running(self):
        return self.process.poll() is None

    def losses(self, until=EPOCHS):
        """By epoch, up to one of them, or to the end of the run."""
        found = {}
        for line in self.process.stdout:
            self.lines.append(line)
            if match := re.match(r"epoch (\d+): loss ([\d.]+)", line):
                found[int(match[1])] = float(match[2])
                if int(match[1]) == until < EPOCHS:
                    break
        return found

    def output(self):
        return "".join(self.lines)


def test_three_lines_make_the_difference_and_the_page_is_python():
    for block in BLOCKS:
        ast.parse(block)
    for script in SCRIPTS.values():
        plain = without_the_three_lines(script)
        assert len(script.splitlines()) - len(plain.splitlines()) == 3
        assert "lplab.parallel" in script and "hook" not in plain
        ast.parse(plain)


def test_the_model_is_gone_before_its_process_group():
    """Else the destructor of PyTorch's reducer may wait for gloo's thread, which waits for Python's lock."""
    for script in (SCRIPT, FSDP):
        main = next(
            node for node in ast.parse(script).body if isinstance(node, ast.FunctionDef) and node.name == "main"
        )
        called = [ast.unparse(node.value.func) for node in main.body if isinstance(node, ast.Expr)]
        assert called[-3:] == ["train", "dist.barrier", "dist.destroy_process_group"]
        assert not any("model" in ast.unparse(node) for node in main.body)


def test_each_rank_has_its_own_gpu_and_batches_go_there(monkeypatch, tmp_path):
    """With two GPUs, rank 1 of the machine sets the second one before it joins NCCL, and moves the model there."""
    calls = []

    class Stop(Exception):
        pass

    def moved(net, device):
        calls.append(("moved", device))
        raise Stop

    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: calls.append(("set", device)))
    monkeypatch.setattr(dist, "init_process_group", lambda backend: calls.append(("joined", backend)))
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.nn.Module, "to", moved)
    found = {"__name__": "train"}
    exec(SCRIPT, found)
    with pytest.raises(Stop):
        found["main"](str(tmp_path))
    device = torch.device("cuda", 1)
    assert calls == [("set", device), ("joined", "nccl"), ("moved", device)]
    assert "model(inputs.to(device)), targets.to(device)" in SCRIPT


def save_and_load(found, folder):
    """With models of its own, which must be gone when their process group is."""
    model, other = (DistributedDataParallel(torch.nn.Linear(64, 32)) for _ in range(2))
    hook, resumed = (ddp_hook(ddp, "scalecom:chunk=50") for ddp in (model, other))
    optimizer, restored = (torch.optim.SGD(ddp.parameters(), 0.1, momentum=0.9) for ddp in (model, other))
    model(torch.ones(2, 64)).pow(2).mean().backward()
    optimizer.step()
    found["save"](folder / "one.pt", model, optimizer, hook, 7)
    assert [path.name for path in folder.iterdir()] == ["one.pt"], "nothing is left of the writing"
    assert found["load"](folder / "one.pt", other, restored, resumed) == 7 and resumed.step == 1
    moments = [
        optim.state[ddp.module.weight]["momentum_buffer"]
        for optim, ddp in zip((optimizer, restored), (model, other), strict=True)
    ]
    assert torch.equal(*moments) and moments[0].any()
    assert torch.equal(model.module.weight, other.module.weight)
    residuals = [h.states.states["weight"]["residual"] for h in (hook, resumed)]
    assert (residuals[0] == residuals[1]).all() and residuals[0].any()


def test_one_file_of_rank_0_holds_the_hook(tmp_path):
    found = {"dist": dist, "os": os, "torch": torch}
    exec(SAVE, found)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        save_and_load(found, tmp_path)
    finally:
        dist.destroy_process_group()


@pytest.mark.slow
def test_the_script_for_fsdp_trains(tmp_path):
    short = FSDP.replace("STEPS, BATCH = 200", "STEPS, BATCH = 80").replace("% 50 == 0", "% 20 == 0")
    with Torchrun(tmp_path, short, 4) as run:
        run.losses()
        assert run.process.wait(120) == 0, run.output()
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.]+)", run.output(), re.M)]
    assert len(losses) == 4 and losses[-1] < 0.5 * losses[0]
    inside, between = re.search(r"bytes sent: ([\d,]+) within a replica, ([\d,]+) to the others", run.output()).groups()
    assert 0 < int(between.replace(",", "")) < int(inside.replace(",", "")) / 20


@pytest.mark.parametrize("claim", ["scalecom_2020", "adacomp_2018"])
def test_what_the_page_says_of_accuracy_is_what_the_claims_found(claim):
    (found,) = re.findall(rf"\[as good as dense\]\(claims.md#{claim}\) for (\w+) of (\w+) networks", PAGE)
    findings = claims.judge(claims.get(claim), claims.stored(claims.get(claim))).findings
    networks = [finding.holds for finding in findings if "test loss" in finding.sentence]
    words = {2: "two", 3: "three"}
    assert found == (words[sum(networks)], words[len(networks)])


@pytest.mark.slow
def test_the_script_trains_as_its_dense_twin_does(tmp_path):
    """One element of 50 in each step, against all: both come down, and end within a factor of two."""
    ends = {}
    for name, script in (("dense", without_the_three_lines()), ("compressed", SCRIPT)):
        folder = tmp_path / name
        folder.mkdir()
        with Torchrun(folder, script, 2) as run:
            losses = run.losses()
            assert run.process.wait(60) == 0 and list(losses) == list(range(1, EPOCHS + 1)), run.output()
        assert losses[EPOCHS] < 0.3 * losses[1]
        ends[name] = losses[EPOCHS]
    assert ends["compressed"] < 2 * ends["dense"] + 0.05, ends


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a killed rank of torchrun takes its own time to be noticed")
@pytest.mark.parametrize("script", SCRIPTS)
def test_after_the_loss_of_a_rank_the_script_goes_on_with_another_number(script, tmp_path):
    with Torchrun(tmp_path, SCRIPTS[script], 2) as run:
        before = run.losses(until=3)
        ranks = [p for p in psutil.Process(run.process.pid).children(recursive=True) if "train.py" in p.cmdline()]
        assert len(ranks) == 2
        next(p for p in ranks if p.environ()["RANK"] == "1").kill()
        before |= run.losses()
        assert run.process.wait(120) != 0
        said = re.search(r"the exchange of gradients failed in step \d+ on rank 0 of 2; if another", run.output())
        assert said or "Signal 9" in run.output() or "exitcode  : -9" in run.output(), run.output()
    assert EPOCHS not in before, "it was killed in time"
    done = len(list((tmp_path / "checkpoints").glob("*/.metadata")))
    assert 3 <= done < EPOCHS
    with Torchrun(tmp_path, SCRIPTS[script], 3) as run:
        after = run.losses()
        assert run.process.wait(120) == 0, run.output()
    assert list(after) == list(range(done + 1, EPOCHS + 1))
    assert after[done + 1] < before[1] and after[EPOCHS] < 0.3 * before[1]
