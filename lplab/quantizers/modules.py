"""Quantizers with a trained parameter, as torch modules: PACT's clip, LSQ's step. This module imports torch."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from lplab.checks import check_int, check_positive
from lplab.formats import inputs
from lplab.quantizers.autograd import TrainedScalar, clamped_value
from lplab.quantizers.lsq import MIN_STEP, lsq_backward, lsq_format, lsq_forward, lsq_step
from lplab.quantizers.pact import MIN_ALPHA, pact_backward, pact_forward, pact_penalty


class PACT(torch.nn.Module):
    """A clipped, quantized ReLU with a trained clip α; one α per layer, as published.

    Use it instead of the ReLU. α needs regularization: give it a parameter group of its own
    (:func:`parameter_groups`) or add :meth:`penalty` to the loss.

    Args:
        bits: 1 to 16, or None to clip without rounding.
        alpha: the initial clip. The paper's 10 is far above typical activations;
            :func:`~lplab.quantizers.pact_alpha` derives one from data.

    An α that training has brought below 0.001 counts as 0.001. Inputs may also be numpy arrays, numbers and lists; the
    result has the same kind.

    Raises:
        ValueError: bits or α out of range; or, when called, an α that training has made NaN or infinite.

    >>> pact = PACT(bits=2, alpha=10.0)
    >>> x = torch.tensor([-1.0, 4.9, 12.0], requires_grad=True)
    >>> pact(x).sum().backward()
    >>> x.grad, pact.alpha.grad
    (tensor([0., 1., 0.]), tensor(1.))
    """

    def __init__(self, bits: int | None = 4, alpha: float = 10.0) -> None:
        super().__init__()
        self.bits = None if bits is None else check_int("bits", bits, 1, 16)
        self.alpha = torch.nn.Parameter(torch.tensor(check_positive("alpha", alpha), dtype=torch.float32))

    @torch.compiler.disable
    def forward(self, x: Any) -> Any:
        """Clip at 0 and α, then round; see :func:`~lplab.quantizers.pact_forward`."""
        clip = partial(pact_forward, bits=self.bits)
        if not inputs.is_torch(x):
            return clip(x, clamped_value(self.alpha, MIN_ALPHA))
        return TrainedScalar.apply(x, self.alpha, MIN_ALPHA, clip, pact_backward)

    def penalty(self, weight_decay: float) -> torch.Tensor:
        """weight_decay/2 · α², to be added to the loss."""
        return pact_penalty(self.alpha, weight_decay)

    def extra_repr(self) -> str:
        """The arguments that ``print`` shows."""
        return f"bits={self.bits}, alpha={float(self.alpha.detach()):g}"


class LSQ(torch.nn.Module):
    """Integers with a trained step.

    Args:
        bits, signed: as :func:`~lplab.quantizers.lsq_format`.
        kind: the levels, a key of ``lplab.quantizers.lsq.KINDS``: "no_zero" and "ternary" are ParetoQ's. To train the
            weights of a layer on them, use ``torch.nn.utils.parametrize.register_parametrization(layer, "weight",
            LSQ(2, kind="no_zero"))``.
        step: the initial step; None takes it from the first tensor (2·E|x|/√highest). A step that training has
            brought below 1e-8 counts as 1e-8.

    Raises:
        ValueError: bits or step out of range; or, when called, a step that training has made NaN or infinite.

    >>> lsq = LSQ(bits=3, step=0.5)
    >>> lsq(torch.tensor([-9.0, 0.3, 0.8, 9.0])).tolist()
    [-2.0, 0.5, 1.0, 1.5]
    """

    def __init__(
        self, bits: int = 4, *, signed: bool = True, step: float | None = None, kind: str = "full_range"
    ) -> None:
        super().__init__()
        self.bits, self.signed, self.kind = lsq_format(bits, signed).bits, signed, kind
        lsq_forward(0.0, 1.0, bits, signed=signed, kind=kind)  # it checks them
        value = 1.0 if step is None else check_positive("step", step)
        self.step = torch.nn.Parameter(torch.tensor(value, dtype=torch.float32))
        self.register_buffer("started", torch.tensor(step is not None))

    @torch.compiler.disable
    def forward(self, x: Any) -> Any:
        """Round(clip(x/step))·step; see :func:`~lplab.quantizers.lsq_forward`."""
        if not bool(self.started):
            with torch.no_grad():
                self.step.fill_(lsq_step(x, self.bits, signed=self.signed, kind=self.kind))
                self.started.fill_(True)
        forward = partial(lsq_forward, bits=self.bits, signed=self.signed, kind=self.kind)
        if not inputs.is_torch(x):
            return forward(x, clamped_value(self.step, MIN_STEP))
        backward = partial(lsq_backward, bits=self.bits, signed=self.signed, kind=self.kind)
        return TrainedScalar.apply(x, self.step, MIN_STEP, forward, backward)

    def extra_repr(self) -> str:
        """The arguments that ``print`` shows."""
        kind = "" if self.kind == "full_range" else f", kind={self.kind!r}"
        return f"bits={self.bits}, signed={self.signed}, step={float(self.step.detach()):g}{kind}"


def parameter_groups(
    model: torch.nn.Module, weight_decay: float, alpha_decay: float | None = None
) -> list[dict[str, Any]]:
    """Parameters for a torch optimizer: everything with ``weight_decay``, the clips of PACT with ``alpha_decay``.

    The paper decays α with the coefficient of the weights (None), a little less for more bits; LSQ's steps are not
    decayed.

    >>> groups = parameter_groups(torch.nn.Sequential(torch.nn.Linear(2, 2), PACT()), 1e-4, 5e-5)
    >>> [(len(group["params"]), group["weight_decay"]) for group in groups]
    [(2, 0.0001), (1, 5e-05)]
    """
    alphas = [m.alpha for m in model.modules() if isinstance(m, PACT)]
    steps = [m.step for m in model.modules() if isinstance(m, LSQ)]
    special = {id(p) for p in alphas + steps}
    others = [p for p in model.parameters() if id(p) not in special]
    decay = weight_decay if alpha_decay is None else alpha_decay
    groups = [(others, weight_decay), (alphas, decay), (steps, 0.0)]
    return [{"params": params, "weight_decay": amount} for params, amount in groups if params]
