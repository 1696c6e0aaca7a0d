"""Scaled dot-product attention as two separate products, so that both can be rounded.

This module needs PyTorch.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lplab.training.emulation.contraction_gemms import product
from lplab.training.emulation.model_state import Emulation
from lplab.training.emulation.observed_ops import call_observed
from lplab.training.emulation.quantized_op import PRODUCT


def attention(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``functional.scaled_dot_product_attention``; scores and probabilities stay float32 between the products."""
    return _attention(emulation, func, args, kwargs, *args, **kwargs)


def _attention(
    emulation: Emulation,
    func: Any,
    args: tuple,
    kwargs: dict,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    scores_op = emulation.op("scores", PRODUCT, own=False)
    mix_op = emulation.op("mix", PRODUCT, own=False)
    if scores_op.rules.is_identity and mix_op.rules.is_identity:
        return call_observed(scores_op, func, args, kwargs, ("activation", query), is_product=False)
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    q, k = emulation.clipped(query, scores_op), emulation.clipped(key, scores_op)
    scores = product(q, k.transpose(-1, -2), scores_op, False)
    scores = scores * (1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale)
    weights = probabilities(masked(scores, attn_mask, is_causal), attn_mask is not None)
    weights = functional.dropout(weights, dropout_p) if dropout_p else weights
    left, right = emulation.clipped(weights, mix_op), emulation.clipped(value, mix_op)
    return product(left, right, mix_op, False)


def masked(scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """The scores with minus infinity at masked positions; a float mask is added.

    >>> masked(torch.zeros(2, 2), None, is_causal=True)
    tensor([[0., -inf],
            [0., 0.]])
    """
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else (scores + mask).to(scores.dtype)


def probabilities(scores: Tensor, has_mask: bool) -> Tensor:
    """The softmax of the scores; zeros for a query whose positions are all masked, as in PyTorch's attention.

    >>> probabilities(torch.tensor([[0.0, 0.0], [-math.inf, -math.inf]]), has_mask=True)
    tensor([[0.5000, 0.5000],
            [0.0000, 0.0000]])
    """
    if not has_mask:
        return scores.softmax(-1)
    all_masked = (scores == -math.inf).all(-1, keepdim=True)
    if not bool(all_masked.any()):
        return scores.softmax(-1)
    return scores.masked_fill(all_masked, 0.0).softmax(-1).masked_fill(all_masked, 0.0)
