"""Which factors of a product are weights.

A function that has a place for its weight says it itself: ``functional.linear``, convolutions, lookups and recurrent
layers. What stands at this place is the weight, whatever it is, and what comes out is an activation. In any other
product (``@``, ``einsum``, ``addmm``, …) a factor is a weight if it was computed from parameters of the model without
any activation: a parameter, its transpose, ``w * mask``, what a parametrization, pruning or a weight norm makes of it.
Buffers, and tensors that ``forward`` makes itself, may take part in that; alone they are no
weights. A product of two factors of which neither is a weight is one of two activations, as in attention.

Only functions of PyTorch are followed. What a user's ``autograd.Function`` makes of a parameter is an activation.

This module needs PyTorch.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor, nn

from lplab.formats.torch_privates import cached_parametrizations

_SETITEM = Tensor.__setitem__
_RECOMPUTED = ("_orig", "_v")
"""Ends of the names of parameters from which pruning and the old weight and spectral norms compute an attribute."""


class Lineage:
    """What was computed from parameters alone, in one call of a model.

    Args:
        model: the module that is called.

    Attributes:
        known: by identity: parameters (which ``functional_call`` or a replica may have replaced) and buffers, and
            references to what was computed from them.
        constants: the identities of those that no parameter is in: buffers, and tensors that were made from nothing.
    """

    def __init__(self, model: nn.Module) -> None:
        self.known: dict[int, Any] = {id(x): x for x in cached_parametrizations()}
        self.constants: set[int] = set()
        known, constants, waiting, seen = self.known, self.constants, [model], set()
        while waiting:  # faster than model.modules(): this is done in each call
            held = waiting.pop().__dict__
            if id(held) in seen:
                continue
            seen.add(id(held))
            for x in held["_parameters"].values():
                known[id(x)] = x
            for x in held["_buffers"].values():
                known[id(x)] = x
                constants.add(id(x))
            for module in held["_modules"].values():
                if module is not None:
                    waiting.append(module)
            if "_former_parameters" in held:  # of a replica
                known.update((id(x), x) for x in held["_former_parameters"].values())
            if len(held["_forward_pre_hooks"]) > 1:  # more than ours
                made = (held.get(name.removesuffix(end)) for name in held["_parameters"] for end in _RECOMPUTED)
                known.update((id(x), x) for x in made if isinstance(x, Tensor))
        known.pop(id(None), None)  # parameters and buffers that are left out

    def is_weight(self, x: Tensor) -> bool:
        """Whether a tensor is a weight or a view of one."""
        base = x if x._base is None else x._base
        return isinstance(base, nn.Parameter) or any(self._holds(y) and id(y) not in self.constants for y in (x, base))

    def is_static(self, x: Tensor) -> bool:
        """Whether a tensor is a weight, or a constant that may take part in computing one."""
        return self._holds(x) or self.is_weight(x)

    def add(self, x: Tensor, is_weight: bool = True) -> None:
        """Take note of a weight or a constant."""
        self.known[id(x)] = weakref.ref(x)
        (self.constants.discard if is_weight else self.constants.add)(id(x))

    def follow(self, func: Any, args: tuple, kwargs: dict, result: Any) -> None:
        """Take note of a function that was called, and of what it returned."""
        known = self.known
        for x in args:
            if id(x) in known:
                break
            if type(x) in (list, tuple) and any(id(each) in known for each in x):
                break
        else:
            if (args and type(args[0]) is Tensor) or not isinstance(result, Tensor):
                return  # the most frequent case: no weight takes part
        is_weight = False
        for x in _flat((*args, *kwargs.values())):
            if not isinstance(x, Tensor):
                continue
            if self._holds(x):
                is_weight = is_weight or id(x) not in self.constants
            elif x._base is not None and self.is_weight(x):
                is_weight = True
            else:
                for y in (result, args[0]) if func is _SETITEM else (result,):  # it may have been changed in place
                    known.pop(id(y), None)
                return
        name = getattr(func, "__name__", "").partition(".")[0]
        takes_shape_alone = name.startswith("new_") or name.endswith("_like")
        for x in result if isinstance(result, list | tuple) else (result,):
            if isinstance(x, Tensor) and not self._holds(x):
                self.add(x, is_weight and not takes_shape_alone)

    def _holds(self, x: Tensor) -> bool:
        """Whether it is this tensor that is known; another one may have had its identity before."""
        found = self.known.get(id(x))
        return found is x or (isinstance(found, weakref.ref) and found() is x)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """Values, and those in lists and tuples among them."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value
