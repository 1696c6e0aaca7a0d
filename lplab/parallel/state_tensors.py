"""Saved error-feedback states with tensors instead of arrays, so that ``torch.load`` reads checkpoints by default.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def as_tensors(saved: Mapping[str, Any]) -> dict[str, Any]:
    """:meth:`error_feedback.ErrorFeedbackState.state_dict` with tensors in place of arrays; they share memory.

    >>> as_tensors({"layers": {"w": {"residual": np.zeros(2, np.float32)}}})["layers"]["w"]["residual"]
    tensor([0., 0.])
    """
    return {**saved, "layers": {n: {k: torch.from_numpy(a) for k, a in of.items()} for n, of in _layers(saved)}}


def as_arrays(saved: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of :func:`as_tensors`; tensors may be on any device, and arrays are accepted.

    >>> as_arrays({"layers": {"w": {"residual": torch.ones(2)}}})["layers"]["w"]["residual"]
    array([1., 1.], dtype=float32)
    """
    return {**saved, "layers": {n: {k: _array(a) for k, a in of.items()} for n, of in _layers(saved)}}


def _array(values: Any) -> np.ndarray:
    return values.cpu().numpy() if isinstance(values, torch.Tensor) else values


def _layers(saved: Mapping[str, Any]) -> Any:
    return saved["layers"].items()
