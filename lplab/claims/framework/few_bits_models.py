"""Language models that were trained in float32 and are then rounded: what the claims on inference in few bits share.

A Llama of 116 thousand parameters learns the characters of a novel: first with a constant learning rate, then with one
that falls to zero along a cosine. Its linear layers but the last are rounded. What rounding costs is the rise of the
loss on 32,768 test characters, in 512 windows of 64.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.framework.branches import BranchPlan, branch
from lplab.claims.framework.models import branch_llama
from lplab.claims.framework.results import Numbers, Point, Results
from lplab.claims.framework.trainings import one_thread

if TYPE_CHECKING:
    from torch import Tensor, nn

    from lplab.models import KeyValueCache, Llama

PLAN = BranchPlan(before=1000, steps=250)
"""The training of most of these claims."""
SEEDS = (3, 4, 5, 6, 7)
"""Criteria were written after a look at other models of the seeds 0 to 2, so that these count for nothing here."""
WINDOWS = 128  # of 64 training characters each, to calibrate with
OUTLIER = 16
"""How many times as large as before a channel with outliers is: "up to 20 times" in LLM.int8(). A power of two."""
SOME_STEP = 10**6  # whose batch no training sees


@cache
def trained(seed: int, plan: BranchPlan = PLAN) -> Any:
    """The trained float32 model of a seed; do not change it."""
    from lplab.training import dequantize_model

    return dequantize_model(branch(branch_llama(), "fp32", seed, plan).trainer.model).eval()


def calibration(seed: int) -> Tensor:
    """Characters of the training part, int64 [128, 64], for the methods that look at the inputs of layers.

    >>> calibration(3).shape
    torch.Size([128, 64])
    """
    inputs, _ = branch_llama().data(WINDOWS, seed)(SOME_STEP)
    return inputs


def held_out_loss(model: Any, cache: KeyValueCache | None = None) -> float:
    """The loss on the test characters, in bits a character; of a Llama perhaps with a cache that rounds."""
    import torch

    from lplab.models import bits_a_token

    inputs, targets = branch_llama().test()
    with one_thread():
        return round(bits_a_token(model, torch.cat([inputs, targets[:, -1:]], 1), cache), 6)


def rounded_loss(model: nn.Module, rule: str, seed: int) -> float:
    """The loss of a model by a rule of :func:`~lplab.training.quantize_for_inference`, in bits a character."""
    from lplab.training import quantize_for_inference

    with one_thread():
        return held_out_loss(quantize_for_inference(model, rule, calibration=[calibration(seed)]))


def losses_by(rules: Mapping[str, str], point: Point, seed: int) -> Numbers:
    """The losses (bits) in float32 and by the rule of the point's way, perhaps with planted outliers."""
    model = with_outliers(trained(seed)) if point["outliers"] else trained(seed)
    return {"float": held_out_loss(model), "loss": rounded_loss(model, rules[point["way"]], seed)}


def rise(results: Results, **point: Any) -> np.ndarray:
    """What rounding costs at a point, bits above float32, seed by seed: float64 [seeds]."""
    return results.values("loss", **point) - results.values("float", **point)


def with_outliers(model: Llama) -> Llama:
    """A model that computes the same, bit by bit, and has an outlier channel behind each norm, as large models have.

    The weight of the norm is multiplied by a power of two in the channel where it is largest, and the weights of the
    layers that read this channel are divided by it.
    """
    import torch

    planted = copy.deepcopy(model)
    with torch.no_grad():
        for block in planted.blocks:
            attention, mlp = block.attention, block.mlp
            for norm, readers in (
                (block.norm1, (attention.q, attention.k, attention.v)),
                (block.norm2, (mlp.gate, mlp.up)),
            ):
                channel = norm.weight.abs().argmax()
                norm.weight[channel] *= OUTLIER
                for reader in readers:
                    reader.weight[:, channel] /= OUTLIER
    return planted
