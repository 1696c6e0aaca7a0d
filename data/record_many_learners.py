"""Train a small network with 1 to 64 learners and record how much they agree: local top-k, ScaleCom, dense.

    python data/record_many_learners.py            (needs PyTorch; ten minutes on one core)

writes data/many_learners/mlp.npz, the source of lab 10's main figure: for each run what share of the elements all
learners together send, the distance between their residuals, what the leader's choice misses, the loss, the bytes on
the wire and the test error. Seeded, one thread. Other processors add in another order and agree qualitatively.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lplab.compression import Compressor, Dense, ScaleCom, TopK
from lplab.compression.ratios import wire_bytes
from lplab.parallel import Learners, shards
from lplab.parallel.agreement import InstrumentedLearners
from lplab.parallel.worker import final_report
from lplab.recordings import BETAS, CHUNKS, LEARNERS, LEARNING_RATES, LearnerSetting
from lplab.training import tasks
from lplab.training.loop.trainer import default_loss

FIELDS = {"union": "union", "density": "density", "cosine": "cosine", "missed": "hamming_distance"}  # of Agreement
FILE = Path(__file__).parent / "many_learners" / "mlp.npz"
TASK, EACH, STEPS, EVERY = "mlp", 8, 120, 6  # examples of each learner in a step; every so many-th step is measured


def settings() -> list[LearnerSetting]:
    """All runs."""
    found = [LearnerSetting("dense", n, learning_rate=rate) for n, rate in product(LEARNERS, LEARNING_RATES)]
    found += [
        LearnerSetting("topk", n, chunk, learning_rate=rate)
        for n, chunk, rate in product(LEARNERS, CHUNKS, LEARNING_RATES)
    ]
    every = product(LEARNERS, CHUNKS, BETAS, LEARNING_RATES)
    return found + [LearnerSetting("scalecom", n, chunk, beta, rate) for n, chunk, beta, rate in every]


def compressor_of(setting: LearnerSetting) -> Compressor:
    """The compressor."""
    kinds = {
        "dense": Dense(),
        "topk": TopK(1 / setting.chunk),
        "scalecom": ScaleCom(chunk=setting.chunk, beta=setting.beta),
    }
    return kinds[setting.compressor]


def measured(setting: LearnerSetting) -> dict[str, Any]:
    """One run."""
    task, n = tasks.get(TASK), setting.learners
    make: Callable[..., Learners] = (
        Learners if setting.compressor == "dense" else partial(InstrumentedLearners, every=EVERY)
    )
    model = task.model(0)
    run = make(
        model,
        default_loss,
        shards(task.data(EACH * n, 0), n),
        compressor_of(setting),
        n,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=setting.learning_rate),
        engine="stacked",
    )
    losses = np.array([one.loss for one in run.steps(STEPS)]).reshape(-1, EVERY).mean(axis=1)
    seen = [*getattr(run, "agreements", [])]
    nothing = np.full(STEPS // EVERY, np.nan)
    series = {name: np.array([getattr(a, field) for a in seen]) if seen else nothing for name, field in FIELDS.items()}
    assert run.ledger is not None  # it is kept unless told otherwise
    last = [entry for entry in run.ledger.entries if entry.step == STEPS - 1]
    largest: dict[tuple[str, str], int] = {}
    for entry in last:  # one learner's part of each collective: the largest, where they differ
        key = (entry.layer, entry.kind)
        largest[key] = max(largest.get(key, 0), entry.payload_bytes)
    sent = sum(wire_bytes(kind, nbytes, n) for (_, kind), nbytes in largest.items())
    error = final_report(model, *task.test())["test_error"]
    return {**series, "loss": losses, "sent_bytes": sent, "test_error": error}


def main() -> None:
    """Run all, and write the file."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    every, rows = settings(), []
    for number, setting in enumerate(every, 1):
        rows.append(measured(setting))
        print(f"{number} of {len(every)}: {setting}", flush=True)
    names = [setting.name for setting in every]
    columns: dict[str, np.ndarray] = {key: np.array([row[key] for row in rows], np.float32) for key in rows[0]}
    FILE.parent.mkdir(exist_ok=True)
    columns |= {"names": np.array(names), "steps": np.arange(EVERY, STEPS + 1, EVERY)}
    np.savez_compressed(FILE, **columns)  # type: ignore[arg-type]  # numpy's own stub
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
