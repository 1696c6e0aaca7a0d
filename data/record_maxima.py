"""Train the character Transformer and record the largest output gradient of every layer in every step.

    python data/record_maxima.py            (needs PyTorch; half a minute on two cores)

writes data/gradient_maxima/transformer.npz: the input of GradScale of Sun et al. (2020), 400 steps of all layers in
float32, seed 0. Layers stand in the order of the forward pass. Other processors add in another order: the first step
agrees up to rounding errors, later ones qualitatively.
"""

from pathlib import Path

import numpy as np
import torch

from lplab.training import Recorder, tasks

STEPS = 400
FILE = Path(__file__).parent / "gradient_maxima" / "transformer.npz"
ROLE = "output_gradient_dx"  # in float32 it is the same tensor as the one for dW


def record(steps: int = STEPS) -> tuple[list[str], np.ndarray]:
    """Names of the layers, and max|dy| of each: float32 [steps, layers]."""
    recorder = Recorder(every=1, sample=2**24, roles=(ROLE,))  # all elements: a sample could miss the largest
    trainer = tasks.get("transformer").trainer("fp32", seed=0, recorder=recorder)
    for _ in range(steps):
        trainer.one_step()
    layers = [layer for layer, _ in reversed(recorder.names())]
    return layers, np.stack([recorder.series(layer, ROLE)["largest"] for layer in layers], axis=1).astype(np.float32)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    names, largest = record()
    np.savez_compressed(FILE, layers=np.array(names), largest=largest)
    print(f"{FILE}: {largest.shape[0]} steps of {largest.shape[1]} layers")
