"""Claims are measured with instructions that every x86-64 processor has: who chooses them, and what they change."""

import json
import os
import platform
import shutil
import subprocess
import sys
import textwrap

import pytest

from lplab import claims, cli
from lplab.claims.framework import portable
from lplab.claims.framework.store import Session

X86 = platform.machine() in ("x86_64", "AMD64")
pytestmark = pytest.mark.skipif(not X86, reason="the settings are for x86-64 processors")

TOLD = """
    import json, torch
    from numpy._core._multiarray_umath import __cpu_dispatch__ as loops, __cpu_features__ as features
    from lplab.claims.framework import portable

    before = torch.backends.mkldnn.enabled
    with portable.portable_arithmetic():
        within = torch.backends.mkldnn.enabled
    wide = [name for name in loops if features[name] and ("512" in name or name.endswith("V4"))]
    told = [torch.backends.cpu.get_cpu_capability(), before, within, torch.backends.mkldnn.enabled, wide]
    print(json.dumps([*told, portable.instructions()]))
"""

# float32 forward and backward passes of what the claims train, whose sums depend on the order of the terms, and a step
# of Adam
NETWORKS = """
    import hashlib, sys
    import numpy as np, torch
    from torch import nn
    from lplab.claims.framework import portable

    torch.manual_seed(0)
    torch.set_num_threads(1)
    found = []
    with portable.portable_arithmetic():
        nets = {
            "linear": (nn.Sequential(nn.Linear(64, 300), nn.GELU(), nn.Linear(300, 10)), torch.randn(32, 64)),
            "convolutions": (
                nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3)),
                torch.randn(8, 3, 16, 16),
            ),
            "attention": (nn.TransformerEncoderLayer(32, 4, 64, 0.0), torch.randn(12, 4, 32)),
            "LSTM": (nn.LSTM(16, 32, 2), torch.randn(10, 4, 16)),
        }
        for name, (net, x) in nets.items():
            y = net(x)
            y = y[0] if isinstance(y, tuple) else y
            torch.log_softmax(y, -1).square().mean().backward()
            torch.optim.Adam(net.parameters(), foreach=name == "linear").step()
            parts = [y.detach(), *(each for p in net.parameters() for each in (p.grad, p.detach()))]
            found.append(hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()[:12])
    x = np.random.default_rng(0).standard_normal((64, 100))
    found.append(hashlib.sha256((np.exp(x) @ np.tanh(x).T).tobytes()).hexdigest()[:12])
    print(" ".join(found))
"""


def answer(code, *before, settings=True):
    """What a process prints that starts with the settings, or without them; ``before`` stands before Python."""
    environment = os.environ | (portable.settings() if settings else {})
    command = [*before, os.path.realpath(sys.executable) if before else sys.executable, "-c", textwrap.dedent(code)]
    if before:
        environment |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "TF32" not in done.stderr, "a warning about hardware that is not there"
    return done.stdout.splitlines()[-1]


def test_a_process_with_the_settings_takes_them():
    assert json.loads(answer(TOLD)) == ["AVX2", True, False, True, [], "AVX2"]


def test_without_them_nothing_changes(monkeypatch):
    monkeypatch.delenv(portable.ACTIVE, raising=False)
    torch = pytest.importorskip("torch")
    with portable.portable_arithmetic():
        assert torch.backends.mkldnn.enabled
    assert portable.instructions() == "of the processor"


ROOTS = """
    import numpy as np, torch
    from lplab.claims.framework import portable

    x = np.concatenate([np.geomspace(1e-45, 3e38, 100_000, dtype=np.float32), np.float32([0, np.inf, 1, 4])])
    before = torch._foreach_sqrt, torch.Tensor.sqrt
    with portable.portable_arithmetic():
        (one, two), three = torch._foreach_sqrt([torch.from_numpy(x), torch.tensor(2.0)]), torch.from_numpy(x).sqrt()
    exact = [np.array_equal(each.numpy(), np.sqrt(x)) for each in (one, three)]
    print(*exact, two.numpy() == np.sqrt(np.float32(2)), one.dtype, (torch._foreach_sqrt, torch.Tensor.sqrt) == before)
"""


def test_square_roots_are_rounded_right_within_the_block():
    """Numpy's are those of the processor, which IEEE 754 makes round correctly."""
    assert answer(ROOTS) == "True True True torch.float32 True"


@pytest.mark.slow
def test_an_emulated_processor_of_another_maker_gives_the_same_bits():
    """With the settings alone; without them, this processor with AVX-512 and an Intel one of 2013 differ."""
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("no qemu-x86_64, which emulates another processor")
    other = emulator, "-cpu", "Haswell"
    assert answer(NETWORKS) == answer(NETWORKS, *other)
    if "512" in answer(TOLD, settings=False):
        assert answer(NETWORKS, settings=False) != answer(NETWORKS, *other, settings=False)


@pytest.fixture
def started(monkeypatch):
    """What `run_again` would start: commands and their environments."""
    found = []

    class Replaced(BaseException):
        """As this process would end."""

    def replace(path, command, environment):
        found.append((command, environment))
        raise Replaced

    monkeypatch.setattr(portable.os, "execve", replace)
    yield found, Replaced


@pytest.mark.skipif(os.name == "nt", reason="there the new process is a child")
def test_the_command_measures_in_another_process(started, monkeypatch, tmp_path):
    monkeypatch.delenv(portable.ACTIVE, raising=False)
    found, replaced = started
    with pytest.raises(replaced):
        cli.main(["claims", "run", "wang_2018", "--fresh", "--jobs", "2", "--folder", str(tmp_path)])
    ((command, environment),) = found
    assert command[1:] == [
        "-m",
        "lplab",
        "claims",
        "run",
        "wang_2018",
        "--fresh",
        "--jobs=2",
        f"--folder={tmp_path}",
    ]
    assert environment.items() >= portable.settings().items() and environment["PATH"] == os.environ["PATH"]
    assert not any(tmp_path.iterdir())


def test_bad_input_is_said_before(started):
    with pytest.raises(SystemExit):
        cli.main(["claims", "run", "gupta_2051"])
    assert started[0] == []


def test_the_provenance_says_so(monkeypatch):
    monkeypatch.setenv(portable.ACTIVE, portable.NAME)
    session = Session.now("lplab claims run", 1, 1.0, 1)
    assert session.versions["instructions"] == "AVX2"
    stored = claims.framework.store.Stored({}, (session,))
    assert f"{platform.machine()}, AVX2, " in stored.provenance


def test_the_settings_are_printed_for_workers_elsewhere(capsys):
    assert cli.main(["claims", "settings"]) == 0
    printed = dict(pair.split("=", 1) for pair in capsys.readouterr().out.split())
    assert printed == portable.settings() and printed["LPLAB_PORTABLE"] == "AVX2"


@pytest.mark.parametrize("name", claims.experiments())
def test_every_stored_number_was_measured_with_them(name):
    sessions = claims.stored(claims.get(name)).sessions
    if claims.get(name).larger_than and not sessions:
        pytest.skip("the larger experiment was not run yet")
    assert sessions and {session.versions.get("instructions") for session in sessions} == {portable.NAME}
