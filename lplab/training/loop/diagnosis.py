"""Where a training diverged: in which layer and tensor, and in what share of its numbers.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lplab.training.emulation.conversion import emulation_of
from lplab.training.emulation.quantized_op import QuantizedOp
from lplab.training.emulation.rounders import Rounded
from lplab.training.loop.recorder import Record, describe

ROLE_NAMES = {
    "weight": "the weights",
    "activation": "the input",
    "output_gradient_dx": "the output gradient",
    "output_gradient_dw": "the output gradient",
    "weight_gradient": "the weight gradient",
    "output": "the output",
    "input_gradient": "the input gradient",
}
MIN_SATURATED_SHARE = 0.001  # of a tensor beyond the largest value, from which saturation is reported


@dataclass(frozen=True)
class Diagnosis:
    """Why a step diverged.

    Attributes:
        step: its number.
        layer, role: the first tensor, in the order of computation, with numbers that are not finite; else the one of
            which the largest share saturated. "" where rounding shows no cause.
        not_finite, saturated, underflowed: shares of that tensor.
        reason: the same in one sentence.
    """

    step: int
    layer: str
    role: str
    not_finite: float
    saturated: float
    underflowed: float
    reason: str


class DivergedError(RuntimeError):
    """A training diverged; ``diagnosis`` says where."""

    def __init__(self, message: str, diagnosis: Diagnosis) -> None:
        super().__init__(f"step {diagnosis.step}: {message}; {diagnosis.reason}")
        self.diagnosis = diagnosis


def diagnose(model: nn.Module, step: int, recompute: Callable[[], None]) -> Diagnosis:
    """Compute a step again and check every tensor.

    Args:
        model: a quantized model, its weights as they were in that step.
        step: its number.
        recompute: computes loss and gradients.
    """
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            share = float((~torch.isfinite(parameter)).float().mean())
            layer, _, tensor = name.rpartition(".")
            reason = f"{tensor} of {layer or 'the model'} holds numbers that are not finite: {share:.1%} of it"
            return Diagnosis(step, layer, tensor, share, 0.0, 0.0, reason)
    roundings: list[tuple[Record, float]] = []

    def watch(op: QuantizedOp, role: str, before: Tensor, rounded: Rounded) -> None:
        not_finite_share = float((~torch.isfinite(rounded.values)).float().mean()) if rounded.values.numel() else 0.0
        roundings.append((describe(step, op.name, role, before, rounded, 2**24), not_finite_share))

    emulation = emulation_of(model)
    emulation.watch = watch
    try:
        recompute()
    finally:
        emulation.watch = None
    return _conclude(step, roundings)


def _conclude(step: int, roundings: list[tuple[Record, float]]) -> Diagnosis:
    for record, share in roundings:
        if share:
            where = f"{ROLE_NAMES.get(record.role, record.role)} of {record.layer or 'the model'}"
            if record.not_finite:
                reason = f"{where} came in with {record.not_finite:.1%} of its numbers not finite"
            else:
                reason = f"{share:.1%} of {where} overflowed: up to {record.largest:.3g}, more than the format holds"
            return _diagnosis_of(record, share, reason)
    if not roundings:
        return Diagnosis(step, "", "", 0.0, 0.0, 0.0, "no tensor was rounded")
    worst, _ = max(roundings, key=lambda pair: pair[0].saturated)
    if worst.saturated >= MIN_SATURATED_SHARE:
        where = f"{ROLE_NAMES.get(worst.role, worst.role)} of {worst.layer or 'the model'}"
        return _diagnosis_of(worst, 0.0, f"most saturated: {worst.saturated:.1%} of {where}, up to {worst.largest:.3g}")
    flushed, _ = max(roundings, key=lambda pair: pair[0].underflowed)
    where = f"{ROLE_NAMES.get(flushed.role, flushed.role)} of {flushed.layer or 'the model'}"
    if flushed.underflowed > 0.5:
        return _diagnosis_of(flushed, 0.0, f"nothing saturated, but {flushed.underflowed:.1%} of {where} became zero")
    return _diagnosis_of(
        worst, 0.0, "no tensor overflowed: the learning rate is too large, or the data hold bad numbers"
    )


def _diagnosis_of(record: Record, share: float, reason: str) -> Diagnosis:
    share = max(share, record.not_finite)
    return Diagnosis(record.step, record.layer, record.role, share, record.saturated, record.underflowed, reason)
