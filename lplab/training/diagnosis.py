"""When a training diverges: which layer, which tensor, what share of it.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lplab.training.conversion import emulation_of
from lplab.training.recorder import Record, describe
from lplab.training.rounding import Rounded
from lplab.training.site import Site

WORDS = {
    "weight": "the weights",
    "activation": "the input",
    "output_gradient_dx": "the output gradient",
    "output_gradient_dw": "the output gradient",
    "weight_gradient": "the weight gradient",
    "output": "the output",
    "input_gradient": "the input gradient",
}
SHARE = 0.001  # of a tensor beyond the largest value: worth telling


@dataclass(frozen=True)
class Diagnosis:
    """Why a step went wrong.

    Attributes:
        step: its number.
        layer, role: the first tensor, in the order of computation, with numbers that are not finite; else the one of
            which the largest share saturated. "" where rounding shows nothing.
        not_finite, saturated, underflowed: shares of that tensor.
        reason: all of it in a sentence.
    """

    step: int
    layer: str
    role: str
    not_finite: float
    saturated: float
    underflowed: float
    reason: str


class DivergedError(RuntimeError):
    """A training that went wrong; ``diagnosis`` says where."""

    def __init__(self, what: str, diagnosis: Diagnosis) -> None:
        super().__init__(f"step {diagnosis.step}: {what}; {diagnosis.reason}")
        self.diagnosis = diagnosis


def diagnose(model: nn.Module, step: int, again: Callable[[], None]) -> Diagnosis:
    """Compute a step once more and look at every tensor.

    Args:
        model: a quantized model, its weights as they were in that step.
        step: its number.
        again: computes loss and gradients.
    """
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            share = float((~torch.isfinite(parameter)).float().mean())
            layer, _, tensor = name.rpartition(".")
            reason = f"{tensor} of {layer or 'the model'} holds numbers that are not finite: {share:.1%} of it"
            return Diagnosis(step, layer, tensor, share, 0.0, 0.0, reason)
    found: list[tuple[Record, float]] = []

    def watch(site: Site, role: str, before: Tensor, rounded: Rounded) -> None:
        lost = float((~torch.isfinite(rounded.values)).float().mean()) if rounded.values.numel() else 0.0
        found.append((describe(step, site.name, role, before, rounded, 2**24), lost))

    emulation = emulation_of(model)
    emulation.watch = watch
    try:
        again()
    finally:
        emulation.watch = None
    return _verdict(step, found)


def _verdict(step: int, found: list[tuple[Record, float]]) -> Diagnosis:
    for record, lost in found:
        if lost:
            where = f"{WORDS.get(record.role, record.role)} of {record.layer or 'the model'}"
            if record.not_finite:
                reason = f"{where} came in with {record.not_finite:.1%} of its numbers not finite"
            else:
                reason = f"{lost:.1%} of {where} overflowed: up to {record.largest:.3g}, more than the format holds"
            return _of(record, lost, reason)
    if not found:
        return Diagnosis(step, "", "", 0.0, 0.0, 0.0, "no tensor was rounded")
    worst, _ = max(found, key=lambda pair: pair[0].saturated)
    if worst.saturated >= SHARE:
        where = f"{WORDS.get(worst.role, worst.role)} of {worst.layer or 'the model'}"
        return _of(worst, 0.0, f"most saturated: {worst.saturated:.1%} of {where}, up to {worst.largest:.3g}")
    flushed, _ = max(found, key=lambda pair: pair[0].underflowed)
    where = f"{WORDS.get(flushed.role, flushed.role)} of {flushed.layer or 'the model'}"
    if flushed.underflowed > 0.5:
        return _of(flushed, 0.0, f"nothing saturated, but {flushed.underflowed:.1%} of {where} became zero")
    return _of(worst, 0.0, "no tensor overflowed: the learning rate is too large, or the data hold bad numbers")


def _of(record: Record, lost: float, reason: str) -> Diagnosis:
    lost = max(lost, record.not_finite)
    return Diagnosis(record.step, record.layer, record.role, lost, record.saturated, record.underflowed, reason)
