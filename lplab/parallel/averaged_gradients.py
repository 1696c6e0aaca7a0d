"""Which gradients still hold an average of an earlier backward pass, so that they must not be compressed again.

PyTorch adds the gradients of a pass to those that are there. If these are averages already, the sum of an average and
of a gradient would be compressed, and errors would add up. So an average must be cleared (``optimizer.zero_grad()``)
before the next backward pass.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from torch import Tensor
from torch.utils.weak import TensorWeakRef


class AveragedGradients:
    """Watches the gradients of parameters, which it does not keep alive.

    Args:
        parameters: by name.

    >>> import torch
    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> watched = AveragedGradients({"weight": weight})
    >>> weight.sum().backward()
    >>> watched.note()  # as if this gradient were an average
    >>> weight.sum().backward()
    >>> watched.still_there(["weight"])
    ['weight']
    >>> weight.grad = None
    >>> weight.sum().backward()
    >>> watched.still_there(["weight"])
    []
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._parameters = {name: TensorWeakRef(p) for name, p in parameters.items()}
        self._noted: dict[str, tuple[TensorWeakRef, int]] = {}
        self._handles = [p.register_hook(partial(self._before, name)) for name, p in parameters.items()]

    def note(self) -> None:
        """All gradients are averages now."""
        self._noted = {}
        for name, parameter in self._parameters.items():
            grad = getattr(parameter(), "grad", None)
            if grad is not None:
                self._noted[name] = (TensorWeakRef(grad), grad._version)

    def forget(self) -> None:
        """No gradient is an average."""
        self._noted = {}

    def still_there(self, names: Iterable[str]) -> list[str]:
        """The parameters, of some, to whose averages this pass has added gradients, or which it leaves as they are."""
        return [name for name in names if self._is_average(name)]

    def remove(self) -> None:
        """Watch no longer."""
        for handle in self._handles:
            handle.remove()
        self.forget()

    def _before(self, name: str, _: Tensor) -> None:
        """Called in a backward pass before the new gradient is added to the one that is there."""
        self._is_average(name)

    def _is_average(self, name: str) -> bool:
        """Whether the average is still in the parameter's gradient: not set to None, replaced, or zero since."""
        if name not in self._noted:
            return False
        average, version = self._noted[name]
        grad = getattr(self._parameters[name](), "grad", None)
        is_average = grad is not None and grad is average() and (grad._version == version or bool(grad.any()))
        if not is_average:
            del self._noted[name]
        return is_average
