"""Sun et al. 2019: weights travel in 8 bits and nothing is lost, because each owner keeps the residual of rounding."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import clearly_above, median_and_range, within_noise
from lplab.claims.framework.trainings import evaluate, one_thread
from lplab.compression.sharded_weights import (
    EIGHT_BIT,
    LEARNING_RATE,
    MOMENTUM,
    SIXTEEN_BIT,
    ShardedUpdateFormats,
    ShardedWeights,
    round_to_format,
)

FLOAT, MASTER, RESIDUAL = "float32", "16-bit master, one owner", "residual"
SHORT_RESIDUAL, NO_RESIDUAL = "residual in 8 bits", "no residual"

SCHEMES = {
    FLOAT: ShardedUpdateFormats("fp32", "fp32", "fp32", "fp32"),
    RESIDUAL: ShardedUpdateFormats(),
    SHORT_RESIDUAL: ShardedUpdateFormats(residual="fp8_152"),
    NO_RESIDUAL: ShardedUpdateFormats(residual=None),
}

STEPS, BATCH = 160, 16  # steps; examples a learner and step
LEARNERS = 4

POINTS: tuple[Point, ...] = (
    *({"scheme": scheme, "learners": LEARNERS} for scheme in (FLOAT, MASTER, RESIDUAL, SHORT_RESIDUAL, NO_RESIDUAL)),
    {"scheme": MASTER, "learners": 2},
    {"scheme": RESIDUAL, "learners": 2},
)

claim = ClaimBuilder(
    id="hfp8_2019_distributed",
    title="Weights travel in 8 bits without loss if their owner keeps the residual",
    paper=cite("hfp8_2019"),
    where="distributed training; the reviews of the paper",
    statement="Learners exchange gradients by a reduce-scatter in 16 bits and get the new weights by an all-gather in "
    "8 bits, without loss of quality.",
    published="reduce-scatter in FP16, all-gather in 8 bits (second-hand, from the reviews); the residual that the "
    "owner keeps (recalled, not checked)",
    experiment=f"{LEARNERS} learners in one process train three linear layers on the digits for {STEPS} steps; "
    "gradients and weights pass through their codes as bytes, and learners compute in float32 with the 8-bit weights. "
    "The run to compare with is other code: SGD with 16-bit master weights.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=20,
    limits="Payload alone, without headers and latency. A small network of three layers; that the residual is exact in "
    "16 bits holds as long as weights stay below 30. All weights travel in 8 bits, those of the first and last layer "
    "too.",
)


class MasterWeightRun:
    """The run to compare with, by other code: the library's SGD with 16-bit master weights on one owner."""

    def __init__(self, weights: np.ndarray) -> None:
        import torch

        from lplab.training import SGD, QuantSpec, Update

        state = QuantSpec(SIXTEEN_BIT, "nearest_away")
        update = Update(weight=EIGHT_BIT, momentum=state, gradient=state, master_weight=state)
        first = round_to_format(weights, SIXTEEN_BIT)
        self.parameter = torch.nn.Parameter(torch.from_numpy(first.copy()))
        self.optimizer = SGD([self.parameter], lr=LEARNING_RATE, momentum=MOMENTUM, update=update)
        self.optimizer.state[self.parameter]["master"] = torch.from_numpy(first.copy())
        self.parameter.data = torch.from_numpy(round_to_format(first, EIGHT_BIT))

    def broadcast_weights(self) -> np.ndarray:
        """The 8-bit weights of the forward pass."""
        return np.asarray(self.parameter.detach().numpy())

    def weights(self) -> np.ndarray:
        """The master weights."""
        return np.asarray(self.optimizer.state[self.parameter]["master"].numpy())

    def step(self, gradients: list[np.ndarray]) -> None:
        """The mean of the gradients, each rounded to 16 bits, as one gradient."""
        import torch

        total = np.sum([round_to_format(g, SIXTEEN_BIT) for g in gradients], axis=0, dtype=np.float32)
        self.parameter.grad = torch.from_numpy(total / np.float32(len(gradients)))
        self.optimizer.step()


def run(scheme: str, learners: int, seed: int, steps: int = STEPS) -> dict[str, float]:
    """Train the three linear layers on the digits with several learners; the numbers that are stored.

    >>> result = run("residual", learners=2, seed=0, steps=3)
    >>> result["bytes"], result["digest"] == run("16-bit master, one owner", 2, 0, 3)["digest"]
    (3.0, True)
    """
    from torch.nn.utils import parameters_to_vector

    from lplab.training import tasks

    task = tasks.get("mlp")
    model = task.model(seed)
    first = parameters_to_vector(model.parameters()).detach().numpy()
    side: Any = MasterWeightRun(first) if scheme == MASTER else ShardedWeights(first, learners, SCHEMES[scheme])
    data = [task.data(BATCH, 1000 * seed + rank) for rank in range(learners)]
    digest, moved, last = 0, 0.0, []
    for step in range(steps):
        before = side.broadcast_weights().copy()
        values = [_gradient(model, before, *batches(step)) for batches in data]
        side.step([gradient for gradient, _ in values])
        digest = zlib.crc32(np.ascontiguousarray(side.weights()).tobytes(), digest)
        moved += float(np.mean(side.broadcast_weights() != before)) / steps
        last.append(float(np.mean([loss for _, loss in values])))
    sent = getattr(side, "sent_bytes", 0) / steps / len(first) / max(learners - 1, 1)
    _put(model, side.broadcast_weights())
    return {
        **evaluate(model, *task.test()),
        "train_loss": round(float(np.mean(last[-16:])) / float(np.log(2)), 6),
        "moved": round(moved, 6),
        "bytes": round(sent, 6),
        "digest": float(digest),
    }


def _put(model: Any, weights: np.ndarray) -> None:
    import torch
    from torch.nn.utils import vector_to_parameters

    vector_to_parameters(torch.from_numpy(weights.astype(np.float32)), model.parameters())


def _gradient(model: Any, weights: np.ndarray, inputs: Any, targets: Any) -> tuple[np.ndarray, float]:
    """The gradient of a learner's batch and its loss, at these weights."""
    import torch
    from torch.nn import functional

    _put(model, weights)
    model.zero_grad(set_to_none=True)
    loss = functional.cross_entropy(model.train()(inputs), targets)
    loss.backward()
    parts = [p.grad.flatten() for p in model.parameters()]
    return torch.cat(parts).numpy(), float(loss.detach())


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once with four learners, on one thread."""
    with one_thread():
        return run(point["scheme"], point["learners"], seed)


def _numbers(results: Results, scheme: str, number: str = "loss", learners: int = LEARNERS) -> np.ndarray:
    return results.values(number, scheme=scheme, learners=learners)


@claim.criterion("Equal to 16-bit master weights, bit by bit")
def equal_to_the_bit(results: Results) -> CheckResult:
    """All weights of all steps are those of one owner with 16-bit master weights (one checksum over all of them)."""
    pairs = [[_numbers(results, scheme, "digest", n) for scheme in (RESIDUAL, MASTER)] for n in (2, LEARNERS)]
    same = np.array([protocol == master for protocol, master in pairs])
    text = "the same" if same.all() else "not the same"
    return CheckResult(
        bool(same.all()),
        f"With 2 and with {LEARNERS} learners the weights of all {STEPS} steps are {text}, to the last bit, as those "
        "of one owner with 16-bit master weights.",
    )


@claim.criterion("As good as float32")
def as_good_as_float(results: Results) -> CheckResult:
    """The protocol trains as well as float32, within the spread of its seeds."""
    residual, base = _numbers(results, RESIDUAL), _numbers(results, FLOAT)
    return CheckResult(
        within_noise(residual, base),
        f"Test loss with the residual {median_and_range(residual)} bits, in float32 {median_and_range(base)}.",
    )


@claim.criterion("Without the residual training stalls")
def without_it_stalls(results: Results) -> CheckResult:
    """Without the residual training is clearly worse on every seed."""
    none, residual = _numbers(results, NO_RESIDUAL), _numbers(results, RESIDUAL)
    errors = [float(np.median(_numbers(results, scheme, "error"))) for scheme in (NO_RESIDUAL, RESIDUAL)]
    return CheckResult(
        clearly_above(none, residual),
        f"Without the residual {median_and_range(none)} bits ({errors[0]:.1f} % wrong), with it "
        f"{median_and_range(residual)} ({errors[1]:.1f} % wrong).",
    )


@claim.criterion("3/8 of the bytes of a float32 all-reduce")
def three_bytes_instead_of_eight(results: Results) -> CheckResult:
    """What travels, counted: 3/8 of a float32 all-reduce."""
    sent, base = _numbers(results, RESIDUAL, "bytes"), _numbers(results, FLOAT, "bytes")
    return CheckResult(
        bool((sent * 8 == base * 3).all()),
        f"For each weight, step and further learner {sent[0]:.0f} bytes travel, in float32 {base[0]:.0f} (counted, not "
        "computed).",
    )


@claim.explanation("Without it updates are lost")
def updates_are_lost(results: Results) -> CheckResult:
    """Why it stalls: an update below half a step of 1-4-3 is lost without a residual."""
    moved = {scheme: float(np.median(_numbers(results, scheme, "moved"))) for scheme in (RESIDUAL, NO_RESIDUAL, FLOAT)}
    return CheckResult(
        moved[NO_RESIDUAL] < moved[RESIDUAL] / 2,
        f"Of the 8-bit weights {100 * moved[RESIDUAL]:.1f} % change in a step with the residual, "
        f"{100 * moved[NO_RESIDUAL]:.2f} % without it (in float32 {100 * moved[FLOAT]:.0f} %).",
    )


@claim.explanation("Eight bits of residual suffice")
def eight_bit_residual_suffices(results: Results) -> CheckResult:
    """The residual itself may be short: in 1-5-2 training is as good."""
    short, residual = _numbers(results, SHORT_RESIDUAL), _numbers(results, RESIDUAL)
    base = _numbers(results, FLOAT)
    return CheckResult(
        within_noise(short, base) or within_noise(short, residual),
        f"With a residual of 8 bits (1-5-2) {median_and_range(short)} bits: no longer the same weights, but as good.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Test loss of each scheme, and bytes."""
    parts = [f"{scheme} {median_and_range(_numbers(results, scheme))}" for scheme in (FLOAT, RESIDUAL, NO_RESIDUAL)]
    sent, base = (float(_numbers(results, scheme, "bytes")[0]) for scheme in (RESIDUAL, FLOAT))
    equal = "equal" if equal_to_the_bit(results).holds else "not equal"
    text = f"{sent:.0f} bytes a weight instead of {base:.0f}; {equal} to master weights bit by bit"
    return f"{'; '.join(parts)} bits; {text}"


claim.draw(
    "test loss, bits",
    lambda results: {scheme: _numbers(results, scheme) for scheme in (FLOAT, RESIDUAL, NO_RESIDUAL)},
)
claim.draw(
    "bytes sent for a weight",
    lambda results: {scheme: _numbers(results, scheme, "bytes") for scheme in (FLOAT, RESIDUAL)},
    axis=(0, 10),
)

claim.compared(
    theirs_on="not named in our source",
    ours_on="8 × 8 digits, three linear layers, 4 learners",
    rows=(
        {"float32": "float32", "residual": "8-bit weights, residual kept", "no residual": "8-bit weights, no residual"},
    ),
)
claim.found(
    equal_to_the_bit,
    as_good_as_float,
    holds="the same bits as 16-bit master weights, as good as float32",
    fails="not the same as 16-bit master weights, or worse than float32",
)
claim.found(without_it_stalls, holds="without the residual it stalls", fails="without the residual it does not stall")
claim.found(
    three_bytes_instead_of_eight, holds="3 bytes a weight instead of 8", fails="not 3 bytes a weight instead of 8"
)

HFP8_2019_DISTRIBUTED = claim.build()
