"""Train a small net with four learners under AdaComp, and record what every layer sends and its residual.

    python data/record_adacomp.py            (needs PyTorch; four minutes on two cores)

writes data/residues/row_reader.npz: 240 steps for each length of the bins and each factor of the soft threshold, seed
0. Every third step: elements sent, empty bins, the norms of residual and gradient, the scale. At four moments the
first 500 elements of learner 0: residual and gradient in half precision, and exactly which are sent. Other processors
add in another order: the first steps agree up to rounding errors, later ones qualitatively.

The fields of the file call the residual "residue", as the paper does.
"""

from pathlib import Path

import numpy as np
import torch

from lplab.compression import AdaComp, Compressor, Context, Dense, TopK
from lplab.compression.arrays import bin_maxima
from lplab.parallel.instrumented_adacomp import LAYERS, AdaCompRun, LayerRecord, LayerSample

STEPS, EVERY, WINDOW = 240, 3, 500
MOMENTS = (3, 30, 120, 237)
RUNS = tuple((bin, factor) for factor in (2.0, 1.0) for bin in (None, 1, 5, 20, 50, 100, 200, 500, 1000, 5000))
OTHERS = {
    "dense": Dense(),
    "top 1 %": TopK(0.01),
    "top 1 %, no residue": TopK(0.01, error_feedback=False),
}
FIELDS = tuple(LayerRecord.__dataclass_fields__)
FILE = Path(__file__).parent / "residues" / "row_reader.npz"


def window(sample: LayerSample, bin: int) -> dict[str, np.ndarray]:
    """The first elements of a layer before the step, what is sent of them, the last one's bin's maximum."""
    r, g = sample.residual[:WINDOW], sample.gradient[:WINDOW]
    unit = np.float32(max(np.abs(r).max(), np.abs(g).max()) or 1)
    sent = np.zeros(WINDOW, bool)
    sent[sample.selection.indices[sample.selection.indices < WINDOW]] = True
    last = bin_maxima(sample.residual + sample.gradient, bin)[(WINDOW - 1) // bin]
    halves = {"residue": r / unit, "gradient": g / unit}
    return {name: x.astype(np.float16) for name, x in halves.items()} | {
        "unit": unit,
        "sent": np.packbits(sent),
        "last": last,
        "window_scale": sample.selection.scale,
    }


def record(bin: int | None, factor: float, steps: int = STEPS) -> dict[str, np.ndarray]:
    """One run: losses, the test error, ``points`` float32 [points, layers, fields], and the windows of all moments."""
    compressor = AdaComp(bin, scale_factor=factor)
    seen: dict[tuple[int, str], dict[str, np.ndarray]] = {}

    def watch(context: Context, sample: LayerSample) -> None:
        if context.rank == 0 and context.step in MOMENTS:
            length = bin or (50 if context.layer.startswith("convolution") else 500)
            seen[context.step, context.layer] = window(sample, length)

    run = AdaCompRun(compressor, observer=watch)
    moments = list(run.steps(steps))
    points = [[[getattr(m.layers[name], f) for f in FIELDS] for name in LAYERS] for m in moments[::EVERY]]
    there = [moment for moment in MOMENTS if moment < steps]
    parts = {
        part: np.array([[seen[moment, name][part] for name in LAYERS] for moment in there])
        for part in ("residue", "gradient", "unit", "sent", "last", "window_scale")
    }
    losses = np.array([m.loss for m in moments], np.float32)
    return {"losses": losses, "error": np.float32(run.test_error()), "points": np.array(points, np.float32), **parts}


def other(compressor: Compressor, steps: int = STEPS) -> tuple[np.ndarray, float]:
    """Losses and test error of the same training with another compressor."""
    run = AdaCompRun(compressor)
    return np.array([moment.loss for moment in run.steps(steps)], np.float32), run.test_error()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    parameters = dict(AdaCompRun().learners.model.named_parameters())
    each = [record(*settings) for settings in RUNS]
    losses, errors = zip(*map(other, OTHERS.values()), strict=True)
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(
        FILE,
        bins=np.array([bin or 0 for bin, _ in RUNS]),
        factors=np.array([factor for _, factor in RUNS]),
        steps=np.arange(0, STEPS, EVERY),
        moments=np.array(MOMENTS),
        layers=np.array(list(LAYERS.values())),
        sizes=np.array([parameters[name].numel() for name in LAYERS]),
        total=sum(p.numel() for p in parameters.values()),
        **{part: np.array([run[part] for run in each]) for part in each[0]},
        others=np.array(list(OTHERS)),
        other_losses=np.array(losses),
        other_errors=np.array(errors, np.float32),
    )
    print(f"{FILE}: {len(RUNS)} runs, {FILE.stat().st_size / 1e3:.0f} kB")
