"""A quantized op: one product (or lookup, or normalization) of a model, with its rules and quantizer state.

This module needs PyTorch.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lplab.formats.gradients import StraightThrough
from lplab.formats.recorded import has_numbers, is_recorded, is_recording, is_tracing
from lplab.formats.torch_privates import (
    count_dispatch_modes,
    is_autocast_on,
    is_batched_gradient,
    set_eval_frame,
    tracing_state,
)
from lplab.quantizers import GradScale
from lplab.training.emulation.autocast import autocast_off
from lplab.training.emulation.prepared_rounding import is_plain
from lplab.training.emulation.rounders import Rounded, TensorRounder, dual_rounding, rounder_of
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import LayerRules

_SEED = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: multiples of it are spread evenly over 64 bits
PRODUCT = frozenset({"product"})
"""The kinds of a product of two activations."""
Watcher = Callable[["QuantizedOp", str, Tensor, Rounded], None]

FORWARD_ROLES = frozenset({"weight", "activation", "output", "accumulator"})
"""The roles that are rounded in the forward pass. Accumulators are also those of the backward pass."""


@dataclass(eq=False)
class Draws:
    """Where the seeds of a forward pass inside activation checkpoints come from, and where they are kept.

    Attributes:
        records: the seeds of each open checkpoint by op and role, in the order in which they were drawn.
        again: in a recomputation, the seeds of the first computation; else None.
    """

    records: tuple[dict[tuple[str, str], list[int]], ...] = ()
    again: dict[tuple[str, str], Iterator[int]] | None = None

    def seed(self, op: QuantizedOp, role: str, reused: int | None = None) -> int:
        """The seed of a forward rounding. ``reused``: that of another op which has rounded the same tensor."""
        key = op.name, role
        if self.again is None:
            seed = op.new_seed(role) if reused is None else reused
        elif (drawn := next(self.again.get(key, iter(())), None)) is not None:
            seed = drawn
        else:
            raise RuntimeError(
                f"{op.name}: the recomputation of an activation checkpoint takes another path than the "
                "forward pass did, so its random bits are not known"
            )
        for record in self.records:
            record.setdefault(key, []).append(seed)
        return seed


@dataclass(frozen=True, eq=False)
class SharedActivation:
    """The activation that a model has rounded last: the next layer may take the same one.

    Attributes:
        tensor: before rounding. It is held, so that no other tensor can get the same identity.
        version: PyTorch's count of its changes in place.
        rule, rounded, seed: how it was rounded, the result, and the seed of the random bits.
    """

    tensor: Tensor
    version: int
    rule: QuantSpec
    rounded: Tensor
    seed: int

    def is_of(self, x: Tensor, rule: QuantSpec) -> bool:
        """Whether x was rounded by this rule, and has not been changed since."""
        return self.tensor is x and self.version == x._version and self.rule == rule


@dataclass(eq=False, repr=False)
class QuantizedOp:
    """One product (or lookup, or normalization) of a model, computed under a recipe.

    Args:
        name: of the module, with the product's number where a module computes several: "attention/matmul2".
        kinds: what the layer is (see ``lplab.training.recipe.recipe.KINDS``).
        rules: how its tensors are rounded.
        seed: of its random bits, together with the name, the role and the number of the call.

    Attributes:
        calls: random roundings so far, by role.
        scale: the gradient scale of the layer, where a rule needs one.
        clip_signed: whether a trained clip is for signed inputs; None before the first input.
        watch: None, or a function (op, role, tensor before, :class:`Rounded`) that is called with every rounding.
    """

    name: str
    kinds: frozenset[str] = frozenset()
    rules: LayerRules = field(default_factory=LayerRules)
    seed: int = 0

    def __post_init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.watch: Watcher | None = None
        self.clip_signed: bool | None = None
        self.shared: list[SharedActivation] = []  # of the whole model: one entry at most
        self.thread: Any = None  # the ThreadState of the model
        self.last_seed = 0
        self._rounders: dict[str, TensorRounder] = {}  # by role
        self._both: dict[float, Any] = {}
        per_layer = self.rules.output_gradient_dx.per_layer or self.rules.output_gradient_dw.per_layer
        self.scale = GradScale(per_layer.scale, maximum=per_layer.maximum) if per_layer else None

    def take_rules(self, rules: LayerRules) -> None:
        """Compute under other rules from now on; the numbers of random roundings go on."""
        self.rules = rules
        self._rounders.clear()
        self._both.clear()

    def __repr__(self) -> str:
        kinds = f", {'/'.join(sorted(self.kinds))}" if self.kinds else ""
        return f"QuantizedOp({self.name!r}{kinds})"

    # -- rounding ---------------------------------------------------------------------------------------------

    def round(self, role: str, x: Tensor) -> Tensor:
        """The tensor rounded by the rule of this role; x itself where nothing is rounded."""
        rule = getattr(self.rules, role)
        if rule.is_identity:
            if self.watch is not None:
                self.watch(self, role, x, Rounded(x, 1.0))
            return x
        seed = self.seed_of(role) if rule.is_random and has_numbers(x) else 0
        return self.round_by(self._rounder(role), role, x, seed, self.scale.scale if self.scale else 1.0)

    def round_transformed(self, role: str, x: Tensor) -> Tensor:
        """The tensor transformed along its last axis and rounded, by a rule that has a transform."""
        rule, x = getattr(self.rules, role), x.detach()
        if self.watch is not None or is_recorded(x):  # these see the transformed tensor
            return self.round(role, rule.transform.apply(x))
        seed = self.seed_of(role) if rule.is_random else 0
        return detach_view(self._rounder(role).transformed(rule.transform, x, seed))

    def _rounder(self, role: str) -> TensorRounder:
        if role not in self._rounders:
            self._rounders[role] = rounder_of(getattr(self.rules, role))
        return self._rounders[role]

    def round_by(self, rounder: TensorRounder, role: str, x: Tensor, seed: int = 0, scale: float = 1.0) -> Tensor:
        """The tensor rounded by a rounder, which may be another one than that of the role's rule.

        Every rounding of a model passes here. So the watcher sees each one, and here alone it is asked whether a tool
        of PyTorch records it.
        """
        x = x.detach()
        is_plain_tensor = type(x) is Tensor and not x.is_meta
        if not (is_plain_tensor and tracing_state() is None and count_dispatch_modes() == 0) and is_recorded(x):
            if rounder.is_random and is_recording():
                raise NotImplementedError(
                    f"{self.name}: a trace would repeat the random bits of one call in all; trace the model "
                    "under a recipe without stochastic rounding, or within `with lplab.training.float32(model):`"
                )
            rounded = Rounded(rounder.recorded(x, scale))
        elif self.watch is None:
            return detach_view(rounder.values(x, seed, scale))
        else:
            rounded = rounder(x, seed, scale)
        if self.watch is not None:
            self.watch(self, role, x, rounded)
        return detach_view(rounded.values)

    def round_into(self, role: str, x: Tensor, out: Tensor, rounder: TensorRounder | None = None) -> Tensor:
        """The tensor rounded by the rule of this role, faster than :meth:`round` for small tensors.

        ``out`` is returned where the result could be written there; else a new tensor.

        Args:
            role: of the tensor.
            x: the tensor.
            out: contiguous float32 of the size of x on the CPU, not in the same memory.
            rounder: without random bits, where it is not that of the role's rule.
        """
        rule = getattr(self.rules, role)
        if rounder is None and rule.is_identity:
            return self.round(role, x)
        seed = self.seed_of(role) if rounder is None and rule.is_random and has_numbers(x) else 0
        rounder = self._rounder(role) if rounder is None else rounder
        is_plain_memory = self.watch is None and is_plain(x) and not is_recorded(x)
        if is_plain_memory and rounder.round_at(x.data_ptr(), out.data_ptr(), x.numel(), seed):
            return out
        return self.round_by(rounder, role, x, seed, self.scale.scale if self.scale else 1.0)

    def activation(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """The input of a layer, rounded; an input that several layers take one after the other is rounded once.

        With ``out``, memory that may be used (see :meth:`round_into`), no other layer takes x: it is rounded, and
        ``shared`` is left empty.
        """
        rule = self.rules.activation
        if rule.is_identity or self.watch is not None or x.is_inference():
            return self.round("activation", x)
        if out is not None:
            self.shared.clear()
            return self.round_into("activation", x, out)
        last = next(iter(self.shared), None)  # read once: another thread may write it
        if last is not None and last.is_of(x, rule):
            if rule.is_random and self._draws is not None:
                self._draws.seed(self, "activation", reused=last.seed)
            return last.rounded
        rounded = self.round("activation", x)
        self.shared[:] = [SharedActivation(x, x._version, rule, rounded, self.last_seed)]
        return rounded

    def gradients(
        self, dy: Tensor, for_dx: bool, for_dw: bool, into: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor | None, Tensor | None]:
        """An output gradient rounded for dx and for dW; the same tensor where both have the same rule.

        ``into``: two tensors whose memory may be used for the results, see :meth:`round_into`.
        """
        in_one_pass = self._both_gradients(dy, into) if for_dx or for_dw else None
        if in_one_pass is not None:
            return in_one_pass[0] if for_dx else None, in_one_pass[1] if for_dw else None
        if self.scale is not None and (for_dx or for_dw) and has_numbers(dy):
            self.scale.vote(dy)
        rules = self.rules
        same = rules.output_gradient_dx == rules.output_gradient_dw and not rules.output_gradient_dx.is_random
        dx, dw = into or (None, None)
        dx = self._new_or_into("output_gradient_dx", dy, dx) if for_dx else None
        if not for_dw:
            return dx, None
        return dx, dx if same and dx is not None else self._new_or_into("output_gradient_dw", dy, dw)

    def _new_or_into(self, role: str, x: Tensor, out: Tensor | None) -> Tensor:
        return self.round(role, x) if out is None else self.round_into(role, x, out)

    def _both_gradients(self, dy: Tensor, into: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor] | None:
        """An output gradient rounded for dx and for dW in one pass over it; None where that is not possible."""
        if self.scale is None or not self.scale.is_set or self.watch is not None or not has_numbers(dy):
            return None
        scale = self.scale.scale
        if scale not in self._both:
            self._both[scale] = dual_rounding(self.rules.output_gradient_dx, self.rules.output_gradient_dw, scale)
        rounded = self._both[scale] and self._both[scale](dy.detach(), into)
        if rounded is None:
            return None
        self.scale.vote_for(rounded[2])
        return detach_view(rounded[0]), detach_view(rounded[1])

    def end_step(self) -> None:
        """Update the gradient scale by the gradients since the last call."""
        if self.scale is not None and self.scale.votes:
            self.scale.update()

    @property
    def _draws(self) -> Draws | None:
        return None if self.thread is None else self.thread.draws

    def seed_of(self, role: str) -> int:
        """The seed of the next rounding: no other op, role or call has it, but the recomputation of a checkpoint."""
        draws = self._draws if role in FORWARD_ROLES else None
        self.last_seed = self.new_seed(role) if draws is None else draws.seed(self, role)
        return self.last_seed

    def new_seed(self, role: str) -> int:
        """A seed that no other op, role or call has."""
        count = self.calls.get(role, 0)
        self.calls[role] = count + 1
        location = zlib.crc32(f"{self.name}/{role}".encode())
        return ((self.seed << 32 | location) * _SEED + count * 0xD1B54A32D192ED03) % 2**63

    # -- products ---------------------------------------------------------------------------------------------

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """``a @ b``, summed by the accumulator of the rules."""
        accumulator = self.rules.accumulator
        if accumulator is None:
            return torch.mm(a, b) if a.ndim == b.ndim == 2 else torch.matmul(a, b)  # mm checks no shapes, and is faster
        from lplab.arithmetic import matmul

        if is_tracing():
            raise NotImplementedError(f"{self.name}: a trace cannot record an accumulator; pass accumulator=None")
        seed = self.seed_of("accumulator") if accumulator.rounding.is_stochastic else None
        return matmul(a, b, accumulator, seed=seed)

    # -- state ------------------------------------------------------------------------------------------------

    @property
    def has_state(self) -> bool:
        """Whether there is anything that a checkpoint must hold."""
        is_scaled = self.scale is not None and (self.scale.is_set or bool(self.scale.votes))
        return bool(self.calls) or is_scaled or self.clip_signed is not None

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold."""
        scale = self.scale.state_dict() if self.scale else None
        counts = {"calls": dict(self.calls), "kinds": sorted(self.kinds)}
        return counts | {"scale": scale, "clip_signed": self.clip_signed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        self.calls, self.clip_signed = dict(state["calls"]), state["clip_signed"]
        if self.scale is not None and state["scale"] is not None:
            self.scale.load_state_dict(state["scale"])

    def __getstate__(self) -> dict[str, Any]:
        """Copies and files have no watcher, and hold no tensors."""
        return {**self.__dict__, "watch": None, "shared": [], "thread": None, "_rounders": {}, "_both": {}}


def detach_view(x: Tensor) -> Tensor:
    """``x`` without being a view: the result of a Function may then be changed in place, as by ``relu_``."""
    return x.data if x._is_view() else x


_SECOND = (
    "second derivatives are not defined under a recipe; compute a gradient penalty in float32: "
    "call the model within `with lplab.training.float32(model):`"
)
_BATCHED = (
    "a backward pass under a recipe takes one gradient at a time: call torch.autograd.grad without is_grads_batched, "
    "or call the model within `with lplab.training.float32(model):`"
)


NOT_COMPILED = (
    "torch.compile leaves a model under a recipe as it is: it runs without being compiled, with the same bits"
)


def not_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that ``torch.compile`` does not look into, nor into what it calls.

    It is ``torch.compiler.disable`` without importing the compiler, which takes seconds.
    """

    @functools.wraps(function)
    def run(*args: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            torch._dynamo.skip_frame(msg=NOT_COMPILED)
        compiler = set_eval_frame(None)
        try:
            return function(*args)
        finally:
            if compiler is not None:
                set_eval_frame(compiler)

    return run


def first_derivative(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Declare that the gradients of a ``backward`` have no derivatives: asking for one says what to do.

    PyTorch's ``once_differentiable`` does so only where the incoming gradient has a graph itself. The result of a
    product depends on its factors as well, so without this a part of a gradient penalty would be lost in silence.
    ``ctx.leaves``, if it is there, holds those of the factors that collect gradients.
    """

    @not_compiled
    @functools.wraps(backward)
    def checked(ctx: Any, *gradients: Any) -> Any:
        if any(isinstance(dy, Tensor) and is_batched_gradient(dy) for dy in gradients):
            raise NotImplementedError(_BATCHED)
        if is_autocast_on():
            with autocast_off():
                return checked(ctx, *gradients)
        with torch.no_grad():
            results = backward(ctx, *gradients)
        if not torch.is_grad_enabled():
            return results
        return without_derivative(*results, sources=(*gradients, *getattr(ctx, "leaves", ())))

    return checked


class NoSecondDerivative(torch.autograd.Function):
    """Gradients as they are; to differentiate them again is an error, whichever way it leads."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The first ``count`` tensors are the gradients, the others what they depend on."""
        return tuple(gradient.clone() for gradient in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """An error that says what to do."""
        raise RuntimeError(_SECOND)


def without_derivative(*gradients: Tensor | None, sources: Sequence[Tensor] = ()) -> tuple[Tensor | None, ...]:
    """Gradients whose derivatives raise an error.

    ``sources``: what the gradients depend on. ``torch.autograd.grad`` takes only the ways that lead to its inputs, so
    without them it would find none, and take the gradients for constants.
    """
    present = [gradient.detach().requires_grad_() for gradient in gradients if gradient is not None]
    results = iter(NoSecondDerivative.apply(len(present), *present, *sources))
    return tuple(None if gradient is None else next(results) for gradient in gradients)


def rounded_gradient(x: Tensor, op: QuantizedOp, role: str) -> Tensor:
    """The tensor itself, whose gradient will be rounded. It is no view, so that activations may work in place."""
    if not x.requires_grad:
        return x

    @not_compiled
    def hook(gradient: Tensor) -> Tensor | None:
        if op.scale is not None and role.startswith("output_gradient") and has_numbers(gradient):
            op.scale.vote(gradient)  # no product uses this gradient, so it is counted here
        rounded = op.round(role, gradient)
        return without_derivative(rounded)[0] if torch.is_grad_enabled() else rounded

    x.register_hook(hook)
    return x


def round_with_ste(x: Tensor, op: QuantizedOp, role: str) -> Tensor:
    """An operand rounded by the rule of its role, with a straight-through gradient."""
    if getattr(op.rules, role).is_identity and op.watch is None:
        return x
    if x.requires_grad and torch.is_grad_enabled():
        return StraightThrough.apply(x, lambda values: op.round(role, values))
    return op.round(role, x)
