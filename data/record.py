"""Train two small networks in float32 and record the magnitudes of all tensors, every layer, over the steps.

    python data/record.py            (needs PyTorch; two minutes on two cores)

writes data/recordings/transformer.npz and digits_resnet.npz: histograms of log2 of the magnitudes of weights,
activations and gradients. Lab 03 lays the windows of formats over them. Seeded, one thread, torch's deterministic
algorithms. Other processors add in another order: step 0 agrees up to rounding errors, later ones in kind.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from lplab.recordings.magnitudes import Recording
from lplab.training import Recorder, tasks

FOLDER = Path(__file__).parent / "recordings"
ROLES = ("weight", "activation", "output_gradient_dx", "weight_gradient")


@dataclass(frozen=True)
class Run:
    """What to record: a task of lplab.training.tasks, every so many steps, so often."""

    task: str
    about: str
    every: int
    times: int = 21


RUNS = (
    Run("transformer", "character Transformer in float32, Adam, 16 × 64 characters a step", every=50),
    Run("digits_resnet", "residual net on 8 × 8 digits in float32, momentum, 50 digits a step", every=20),
)


def record(run: Run) -> Recording:
    """Train and record; the last step is recorded as well."""
    recorder = Recorder(every=run.every, sample=2**24, roles=ROLES)  # all elements
    trainer = tasks.get(run.task).trainer("fp32", seed=0, recorder=recorder)
    for _ in range(run.every * (run.times - 1) + 1):
        trainer.one_step()
    return Recording.of(recorder, run.about)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    FOLDER.mkdir(exist_ok=True)
    for run in RUNS:
        path = record(run).save(FOLDER / f"{run.task}.npz")
        print(f"{path.name}: {path.stat().st_size:,} bytes")
