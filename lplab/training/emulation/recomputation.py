"""Activation checkpointing: what is computed again in the backward pass is computed as it was in the forward pass.

``torch.utils.checkpoint`` runs a part of a model, forgets its activations and runs the part again in the backward pass.
It restores PyTorch's random state, but not the counts of a recipe's random bits, nor which module is running. So the
first quantized module or function inside such a part replaces the function that PyTorch will call again by a
:class:`Recomputation`, which restores both. Parts may be nested, with ``use_reentrant`` or without.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import FrameType
from typing import Any

from torch import Tensor

from lplab.formats.torch_privates import recomputed_function
from lplab.training.emulation.model_state import Emulation
from lplab.training.emulation.quantized_op import Draws


class Recomputation:
    """The function of one checkpoint, called again in the backward pass.

    Args:
        function: what PyTorch would call.
        emulation: of the model; the calls that are open now are those in which the checkpoint was met.
        args: of the function; a reentrant checkpoint will pass copies of them.

    Attributes:
        seeds: of the random bits of the first computation.
    """

    def __init__(self, function: Callable[..., Any], emulation: Emulation, args: tuple) -> None:
        self.function, self.emulation, self.enabled = function, emulation, emulation.enabled
        thread = emulation.thread
        self.calls = [replace(call, counts=dict(call.counts), frame=None) for call in thread.calls]
        self.mode: Any = thread.modes[-1].nested() if thread.modes else nullcontext()
        lineage = thread.modes[-1].lineage if thread.modes else None
        self.weights_at = [i for i, x in enumerate(args) if lineage and isinstance(x, Tensor) and lineage.is_weight(x)]
        self.seeds: dict[tuple[str, str], list[int]] = {}

    def __call__(self, *args: Any) -> Any:
        """Compute again."""
        thread, emulation = self.emulation.thread, self.emulation
        before, enabled = dict(thread.__dict__), emulation.enabled
        again = Draws((), {key: iter(seeds) for key, seeds in self.seeds.items()})
        thread.calls = [replace(call, counts=dict(call.counts), draws=again) for call in self.calls]
        thread.modes, thread.shared, thread.draws, thread.again = [self.mode] if self.calls else [], [], again, again
        emulation.enabled = self.enabled
        for i in self.weights_at:
            self.mode.lineage.add(args[i])
        try:
            with self.mode:
                return self.function(*args)
        finally:  # PyTorch stops a recomputation by an exception, as soon as it has all it needs
            thread.__dict__.update(before)
            emulation.enabled = enabled


_AGAIN = Recomputation.__call__.__code__


def draws_of(emulation: Emulation, frame: FrameType | None) -> Draws | None:
    """Where the random bits of a quantized function come from; None where they are drawn and not needed again.

    Args:
        emulation: of the model.
        frame: from here to the module call around it, checkpoints are looked for.
    """
    calls = emulation.thread.calls
    draws, stop = emulation.thread.inherited_draws, calls[-1].frame if calls else None
    while frame is not None and frame is not stop and frame.f_code is not _AGAIN:
        checkpointed = recomputed_function(frame)
        draws = draws if checkpointed is None else _recorded(draws, *checkpointed, emulation)
        frame = frame.f_back
    return draws


def _recorded(draws: Draws | None, owner: Any, attribute: str, args: tuple, emulation: Emulation) -> Draws:
    """The draws that the checkpoint with this owner records; the checkpoint is prepared when it is met first."""
    function = getattr(owner, attribute)
    while isinstance(function, Recomputation) and function.emulation is not emulation:
        function = function.function
    if not isinstance(function, Recomputation):
        function = Recomputation(getattr(owner, attribute), emulation, args)
        setattr(owner, attribute, function)
    draws = draws or Draws()
    if any(record is function.seeds for record in draws.records):
        return draws  # found by a call further out
    return Draws((*draws.records, function.seeds), draws.again)
