"""The three products of a layer where each rounds its own operands, along the axis that it sums over.

Formats whose numbers share a scale lie along the axis of the sum, and that axis is another one in each product::

    y  = x · Wᵀ     sums over the inputs of the layer
    dx = dy · W     sums over the outputs of the layer
    dW = dyᵀ · x    sums over the tokens: all rows of the batch, one after the other

So a tensor that two products use is rounded twice, each time from the unrounded one, unless the rules say that the
operand of the forward product is used again. Blocks and tiles are counted from the first number of the axis; the last
one may be shorter. All products are brought to the form of matrices: a convolution to that of its patches, whose axis
of the sum is channel by channel, each kernel row by row.

This module needs PyTorch.
"""

from __future__ import annotations

import math
from string import ascii_letters, ascii_uppercase
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lplab.formats.recorded import has_numbers
from lplab.training.emulation.gemms import Product, as_rows, factor_roles, leaves
from lplab.training.emulation.im2col_conv import ConvolutionGeometry
from lplab.training.emulation.quantized_op import QuantizedOp, detach_view, first_derivative

UNSUPPORTED = (
    "{name}: a product whose operands are rounded along the axis of its sum must be written as matmul, linear, conv or "
    "an einsum of two tensors without diagonals and sums of one tensor alone; got {got}"
)


class ContractionProduct(torch.autograd.Function):
    """y = a · b + bias for matrices or stacks of them, which broadcast; each product rounds its operands.

    The gradient of the left operand is the backward product (dx), that of the right one the update product (dW); with
    ``weight_left`` the two are exchanged.
    """

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, bias: Tensor | None, op: QuantizedOp, weight_left: bool = False
    ) -> Tensor:
        """Round both operands along the axis of the sum, multiply, add the bias, round the output.

        For the backward pass an operand is saved as it is where the rules round it again, else as it was rounded.
        """
        ctx.leaves = leaves(a, b)
        ctx.op, ctx.roles = op, factor_roles(op, weight_left)
        ctx.bias_shape = None if bias is None else bias.shape
        left, right = ctx.roles
        x, w = _operand(op, left.forward, a, -1), _operand(op, right.forward, b, -2)
        again = [getattr(op.rules, roles.again) is not None for roles in ctx.roles]
        ctx.save_for_backward(a if again[0] else x, b if again[1] else w)
        y = op.matmul(x, w)
        return op.round("output", detach_view(y if bias is None else y + bias))

    @staticmethod
    @first_derivative
    def backward(ctx: Any, dy: Tensor) -> Any:
        """da = dy · bᵀ sums over the columns of y, db = aᵀ · dy over its rows; the bias gets the sum of dy."""
        (a, b), op = ctx.saved_tensors, ctx.op
        left, right = ctx.roles
        if op.scale is not None and has_numbers(dy):
            op.scale.vote(dy)
        da = db = dbias = None
        if ctx.needs_input_grad[0]:
            _check_pair(op, left.output_gradient, right.again)
            da = op.matmul(_operand(op, left.output_gradient, dy, -1), _operand(op, right.again, b.mT, -2))
            da = op.round(left.gradient, da.sum_to_size(a.shape))
        if ctx.needs_input_grad[1]:
            _check_pair(op, right.output_gradient, left.again)
            db = op.matmul(_operand(op, left.again, a.mT, -1), _operand(op, right.output_gradient, dy, -2))
            db = op.round(right.gradient, db.sum_to_size(b.shape))
        if ctx.needs_input_grad[2]:
            dbias = dy.sum_to_size(ctx.bias_shape)
        return da, db, dbias, None, None


def _check_pair(op: QuantizedOp, left: str, right: str) -> None:
    """Both operands of a product of two activations have one transform; rules of a layer were checked when made."""
    transforms = [getattr(getattr(op.rules, role), "transform", None) for role in (left, right)]
    if transforms[0] != transforms[1]:
        raise ValueError(
            f"{op.name}: a transform cancels only on both operands of a product; "
            f"{left} has {transforms[0]!r} and {right} has {transforms[1]!r}"
        )


def _operand(op: QuantizedOp, role: str, x: Tensor, axis: int) -> Tensor:
    """An operand, transformed and rounded along its axis −1 or −2; as it is where its role has no rule."""
    rule = getattr(op.rules, role)
    if rule is None or rule.learned:  # rounded in the forward pass, or under a trained clip before
        return x
    if rule.axis != "contraction":
        return op.round(role, x)
    last = x if axis == -1 else x.mT
    rounded = op.round(role, last) if rule.transform is None else op.round_transformed(role, last)
    return rounded if axis == -1 else rounded.mT


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, op: QuantizedOp) -> Tensor:
    """x · Wᵀ + b for x [..., in] and W [out, in]; the rows of all batches are tokens of one product."""
    return ContractionProduct.apply(as_rows(x), weight.t(), bias, op).reshape(*x.shape[:-1], weight.shape[0])


def product(a: Tensor, b: Tensor, op: QuantizedOp, weight_left: bool) -> Tensor:
    """a · b, its operands rounded once for all products or, by the rules, for each one.

    For each one, a stack that is multiplied by one weight becomes one product, whose tokens are those of all
    matrices.
    """
    if not op.rules.rounds_each_product:
        return Product.apply(a, b, op, weight_left)
    if "product" not in op.kinds and not weight_left and b.ndim == 2 and a.ndim > 2:
        return linear(a, b.t(), None, op)
    if "product" not in op.kinds and weight_left and a.ndim == 2 and b.ndim > 2:
        return linear(b.mT, a, None, op).mT.contiguous()
    return ContractionProduct.apply(a, b, None, op, weight_left)


def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, op: QuantizedOp, geometry: ConvolutionGeometry
) -> Tensor:
    """conv(x, weight) + bias as the product of the patches of x, in any number of dimensions, with groups.

    A transposed convolution is an ordinary one of its input with zeros between the numbers.
    """
    stride, padding, dilation, transposed, output_padding, groups = geometry
    dims = x.ndim - 2
    if transposed:
        x, weight, padding = _as_ordinary(x, weight, stride, padding, dilation, output_padding, groups)
        stride = [1] * dims
    else:
        padding = [side for size in reversed(padding) for side in (size, size)]
    patches = functional.pad(x, padding)
    for axis, (size, step, gap) in enumerate(zip(weight.shape[2:], stride, dilation, strict=True), 2):
        patches = patches.unfold(axis, gap * (size - 1) + 1, step)[..., ::gap]
    positions = patches.shape[2 : 2 + dims]
    order = (1, *range(2 + dims, 2 + 2 * dims), 0, *range(2, 2 + dims))  # channel, kernel, image, position
    columns = patches.permute(order).reshape(groups, weight.shape[1:].numel(), x.shape[0] * positions.numel())
    rows = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1:].numel())
    bias = None if bias is None else bias.reshape(groups, weight.shape[0] // groups, 1)
    y = ContractionProduct.apply(rows, columns, bias, op, True)
    return y.reshape(weight.shape[0], x.shape[0], *positions).transpose(0, 1).contiguous()


def _as_ordinary(
    x: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any, output_padding: Any, groups: int
) -> tuple[Tensor, Tensor, list[int]]:
    """Input, weight and padding of the ordinary convolution that a transposed one is."""
    sizes = [(size - 1) * step + 1 for size, step in zip(x.shape[2:], stride, strict=True)]
    wide = x.new_zeros(*x.shape[:2], *sizes)
    wide[(..., *(slice(None, None, step) for step in stride))] = x
    split = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:]).transpose(1, 2)
    flipped = split.flip(list(range(3, split.ndim))).reshape(
        groups * weight.shape[1], weight.shape[0] // groups, *weight.shape[2:]
    )
    sides: list[int] = []
    for size, pad, gap, more in zip(weight.shape[2:], padding, dilation, output_padding, strict=True):
        both = gap * (size - 1) - pad
        sides = [both, both + more, *sides]
    return wide, flipped, sides


def einsum(equation: str, a: Tensor, b: Tensor, op: QuantizedOp, weight_left: bool) -> Tensor:
    """An einsum of two tensors as a product of stacks of matrices.

    Raises:
        NotImplementedError: no product of matrices.
    """
    left, right, result = _axes(equation, a, b)
    alone = (set(left) ^ set(right)) - set(result)
    if alone or any(len(set(axes)) < len(axes) for axes in (left, right, result)):
        raise NotImplementedError(UNSUPPORTED.format(name=op.name, got=f"the einsum {equation!r}"))
    stack = [name for name in left if name in right and name in result]
    inner = [name for name in left if name in right and name not in result]
    rows, columns = ([name for name in axes if name not in stack + inner] for axes in (left, right))
    sizes = dict(zip(left + right, (*a.shape, *b.shape), strict=True))

    def volume(group: list[str]) -> int:
        return math.prod(sizes[name] for name in group)

    batch = [volume(stack)] if stack else []
    a = a.permute([left.index(name) for name in stack + rows + inner]).reshape(*batch, volume(rows), volume(inner))
    b = b.permute([right.index(name) for name in stack + inner + columns])
    y = product(a, b.reshape(*batch, volume(inner), volume(columns)), op, weight_left)
    order = stack + rows + columns
    return y.reshape([sizes[name] for name in order]).permute([order.index(name) for name in result])


def _axes(equation: str, a: Tensor, b: Tensor) -> tuple[str, str, str]:
    """Names of the axes of both tensors and of the result, where dots stand for letters and the result may be missing.

    >>> _axes("...i,oi->...o", torch.zeros(2, 3, 4), torch.zeros(5, 4))
    ('BAi', 'oi', 'BAo')
    >>> _axes("ij,jk", torch.ones(1, 1), torch.ones(1, 1))
    ('ij', 'jk', 'ik')
    """
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    left, _, right = inputs.partition(",")
    spare = [letter for letter in ascii_uppercase if letter not in equation]
    dots = [x.ndim - len(names.replace("...", "")) for names, x in ((left, a), (right, b)) if "..." in names]
    if not arrow:
        once = (name for name in sorted(set(left + right) - {".", ","}) if (left + right).count(name) == 1)
        result = ("..." if dots else "") + "".join(once)
    left, right = (
        names.replace("...", "".join(reversed(spare[: x.ndim - len(names.replace("...", ""))])))
        for names, x in ((left, a), (right, b))
    )
    return left, right, result.replace("...", "".join(reversed(spare[: max(dots, default=0)])))


def tensordot_equation(a: Tensor, b: Tensor, dims: Any) -> str:
    """A tensordot as the equation of an einsum.

    >>> tensordot_equation(torch.zeros(2, 3, 4), torch.zeros(4, 3), ([1, 2], [1, 0]))
    'abc,cb->a'
    """
    if isinstance(dims, int):
        dims = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    left = list(ascii_letters[: a.ndim])
    right = list(ascii_letters[a.ndim : a.ndim + b.ndim])
    for of_a, of_b in zip(*dims, strict=True):
        right[of_b] = left[of_a]
    result = [name for name in left if name not in right] + [name for name in right if name not in left]
    return f"{''.join(left)},{''.join(right)}->{''.join(result)}"
