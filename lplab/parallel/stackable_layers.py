"""Layers of which many learners' passes can be one: batch norm that takes its statistics learner by learner, an LSTM.

PyTorch's own batch norm would mix the learners, and its LSTM keeps to itself what the gradients of its weights are made
of. This module needs PyTorch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class GroupBatchNorm2d(nn.Module):
    """Batch norm over each group of ``examples`` consecutive examples of a batch, as if each were a batch of its own.

    With as many examples as a learner has, a pass over the batches of all learners is that of each learner alone, as in
    DistributedDataParallel. Running statistics take the mean over the groups.

    Args:
        channels: of the input.
        examples: in a group.
        eps: added to the variance.
        momentum: share of a new batch in the running statistics.

    Attributes:
        tape: after a backward pass, the gradients of weight and bias by each group alone [groups, channels].

    >>> norm = GroupBatchNorm2d(1, examples=2)
    >>> norm(torch.tensor([1.0, 3.0, 10.0, 30.0]).view(4, 1, 1, 1)).flatten().detach().round(decimals=3)
    tensor([-1.,  1., -1.,  1.])
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, examples: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.examples, self.eps, self.momentum = examples, eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.tape: tuple[Tensor, Tensor] | None = None
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, h, w] → the same shape.

        Raises:
            ValueError: in training, a batch that is no multiple of the group.
        """
        if not self.training:
            statistics = self.running_mean, self.running_var
            return functional.batch_norm(x, *statistics, self.weight, self.bias, False, self.momentum, self.eps)
        if len(x) % self.examples:
            raise ValueError(f"a batch of {len(x)} has no whole groups of {self.examples} examples")
        y: Tensor = _Normalization.apply(x, self.weight, self.bias, self)
        return y


class _Normalization(torch.autograd.Function):
    """The normalization of a layer in training, which keeps the gradients of weight and bias group by group."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, layer: GroupBatchNorm2d) -> Tensor:
        flat = x.flatten(2).contiguous()
        y, size = torch.empty_like(flat), (len(x) // layer.examples, len(weight))
        means, variances, factors = (x.new_empty(size) for _ in range(3))
        arrays = [each.detach().numpy() for each in (flat, weight, bias)]
        from lplab.parallel import group_norm_loops  # loads numba, which learners without batch norm do without

        group_norm_loops.normalize(
            *arrays, layer.eps, layer.examples, y.numpy(), means.numpy(), variances.numpy(), factors.numpy()
        )
        count = layer.examples * flat.shape[2]
        layer.running_mean.lerp_(means.mean(0), layer.momentum)
        layer.running_var.lerp_(variances.mean(0) * (count / max(count - 1, 1)), layer.momentum)
        ctx.save_for_backward(flat, weight, means, factors)
        ctx.layer = layer
        return y.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        flat, weight, means, factors = ctx.saved_tensors
        of_x, of_weight, of_bias = (torch.empty_like(each) for each in (flat, means, means))
        arrays = [
            each.detach().numpy() for each in (gradients[0].flatten(2).contiguous(), flat, weight, means, factors)
        ]
        results = (each.numpy() for each in (of_x, of_weight, of_bias))
        from lplab.parallel import group_norm_loops

        group_norm_loops.gradients(*arrays, ctx.layer.examples, *results)
        ctx.layer.tape = of_weight, of_bias
        return of_x.view_as(gradients[0]), of_weight.sum(0), of_bias.sum(0), None


class RecurrentLayer(nn.Module):
    """One LSTM layer, with zero as its first state, which keeps the gradients of its gates.

    The equations are those of ``torch.nn.LSTM`` with one bias. The four gates stand in the order cell, input, forget,
    output.

    Args:
        inputs: width of the input.
        width: of the state.

    Attributes:
        tape: after a backward pass, the gradients of the gates [batch, time, 4 · width] and the states before each
            step [batch, time, width].

    >>> RecurrentLayer(3, 5)(torch.zeros(2, 4, 3)).shape
    torch.Size([2, 4, 5])
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.weight_in = nn.Parameter(torch.empty(4 * width, inputs))
        self.weight_state = nn.Parameter(torch.empty(4 * width, width))
        self.bias = nn.Parameter(torch.empty(4 * width))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(width**-0.5), width**-0.5)
        self.tape: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[batch, time, inputs] → states [batch, time, width]."""
        states: Tensor = _Recurrence.apply(x, self.weight_in, self.weight_state, self.bias, self)
        return states


class _Recurrence(torch.autograd.Function):
    """The steps of a layer and their gradients by hand: some ten operations a step in place of some forty."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight_in: Tensor, weight_state: Tensor, bias: Tensor, layer: RecurrentLayer
    ) -> Tensor:
        width = weight_state.shape[1]
        gates = functional.linear(x.transpose(0, 1), weight_in, bias)  # [time, batch, 4 · width]
        states, cells = (x.new_zeros(len(gates) + 1, len(x), width) for _ in range(2))
        folded, transposed = x.new_empty(len(gates), len(x), width), weight_state.t()
        for now, before, after, cell, cell_after, tanh in zip(
            gates.unbind(), states[:-1].unbind(), states[1:].unbind(), cells[:-1].unbind(), cells[1:].unbind(),
            folded.unbind(), strict=True,
        ):  # fmt: skip
            now.addmm_(before, transposed)
            now[:, :width].tanh_()
            now[:, width:].sigmoid_()
            new, enters, stays, leaves = now.split(width, 1)
            torch.addcmul(torch.mul(stays, cell), enters, new, out=cell_after)
            torch.mul(leaves, torch.tanh(cell_after, out=tanh), out=after)
        ctx.save_for_backward(x, weight_in, weight_state, gates, states, cells, folded)
        ctx.layer = layer
        return states[1:].transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight_in, weight_state, gates, states, cells, folded = ctx.saved_tensors
        of_states = gradients[0].transpose(0, 1)
        new, enters, stays, leaves = gates.split(weight_state.shape[1], 2)
        # What the gradients of the cell and of the state are multiplied by, for all steps at once.
        of_cell = torch.stack(
            (enters * (1 - new * new), new * enters * (1 - enters), cells[:-1] * stays * (1 - stays)), 2
        )
        of_leaves, to_cell = folded * leaves * (1 - leaves), leaves * (1 - folded * folded)
        of_gates = torch.empty_like(gates)
        state, cell = torch.zeros_like(states[0]), torch.zeros_like(states[0])
        for t in range(len(gates) - 1, -1, -1):
            state = of_states[t] + state
            cell = torch.addcmul(cell, state, to_cell[t])
            now = of_gates[t].unflatten(1, (4, -1))
            torch.mul(cell[:, None], of_cell[t], out=now[:, :3])
            torch.mul(state, of_leaves[t], out=now[:, 3])
            cell = cell * stays[t]
            state = of_gates[t] @ weight_state
        rows, before = of_gates.transpose(0, 1), states[:-1].transpose(0, 1)
        ctx.layer.tape = rows, before
        flat = rows.flatten(0, 1)
        products = (lambda: rows @ weight_in, lambda: flat.t() @ x.flatten(0, 1),
                    lambda: flat.t() @ before.flatten(0, 1), lambda: flat.sum(0))  # fmt: skip
        wanted = zip(products, ctx.needs_input_grad, strict=False)
        return (*(product() if needed else None for product, needed in wanted), None)
