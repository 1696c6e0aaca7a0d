"""What PyTorch takes, a recipe takes; what PyTorch refuses, it refuses with PyTorch's own error."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from lplab.formats import FloatFormat
from lplab.training.emulation import op_handlers
from lplab.training.emulation.conversion import emulation_of, quantize_model
from lplab.training.emulation.recipe_report import recipe_report
from lplab.training.recipe.recipe import Recipe
from tests.training.emulation.product_cases import CASES

NEARLY_EXACT = FloatFormat(8, 22, bias=127)
OPERANDS = {role: NEARLY_EXACT for role in ("weight", "activation", "output_gradient_dx", "output_gradient_dw")}
RECIPES = {
    "fp32": "fp32",
    "each tensor": Recipe(**OPERANDS),
    "each product": Recipe(**OPERANDS, weight_dx=NEARLY_EXACT, activation_dw=NEARLY_EXACT),
}
ATEN = torch.ops.aten
F64, BF16, I64, C64 = torch.float64, torch.bfloat16, torch.int64, torch.complex64
M, V, B, SEQUENCE, IMAGE = (3, 4), (4,), (2, 3, 4), (2, 4, 9), (2, 4, 6, 5)


def with_arguments(function, **arguments):
    return lambda *tensors: function(*tensors, **arguments)


def into(function, shape, dtype=torch.float32):
    """The function with an ``out=``, which it must return."""

    def computed(*tensors):
        out = torch.ones(shape, dtype=dtype)
        assert function(*(x.detach() if isinstance(x, torch.Tensor) else x for x in tensors), out=out) is out
        return out

    return computed


def old_order(*sum_arguments):
    return torch.addmm(2, *sum_arguments)


CALLS = [
    (torch.dot, V, V), (torch.dot, M, M), (torch.dot, V, (3,)), (lambda a, b: torch.dot(a, tensor=b), V, V),
    (torch.vdot, (3, 4), (4, 2)), (torch.mv, M, V), (torch.mv, M, (4, 2)), (torch.mm, B, (4, 3)), (torch.mm, M, V),
    (torch.mm, M, ((4, 2), F64)), (torch.mm, (M, I64), ((4, 2), I64)), (torch.mm, (M, C64), ((4, 2), C64)),
    (torch.mm, (M, BF16), ((4, 2), BF16)), (torch.mm, M), (lambda a: a @ 2.0, M), (lambda a: 2.0 @ a, M),
    (with_arguments(torch.mm, out_dtype=F64), M, (4, 2)), (torch.bmm, M, (4, 2)), (torch.bmm, (5, 3, 4), (1, 4, 2)),
    (torch.bmm, B, (2, 4, 0)), (torch.matmul, (), V), (torch.matmul, (2, 1, 3, 4), (5, 4, 2)), (torch.inner, B, V),
    (torch.inner, M, (2, 3)), (torch.inner, (), V), (ATEN.mm.default, M, V), (torch.linalg.matmul, M, (3, 4)),
    (into(torch.mm, (3, 2)), M, (4, 2)), (into(torch.mm, 0), M, (4, 2)), (into(torch.mm, (3, 2), I64), M, (4, 2)),
    (into(torch.matmul, (2, 3)), V, (4, 2)), (into(torch.addmm, (3, 2)), (2,), M, (4, 2)),
    (lambda a: into(torch.matrix_power, (3, 3))(a, 3), (3, 3)),
    (lambda a, b: torch.mm(a, b, out=torch.zeros(3, 2)), M, (4, 2)), (into(torch.tensordot, 0), B, (3, 4, 2)),
    (torch.addmm, (3, 1), M, (4, 2)), (torch.addmm, B, M, (4, 2)), (torch.addmm, (), B, (4, 2)),
    (old_order, (2,), M, (4, 2)),
    (with_arguments(torch.addmm, beta=0, alpha=2), (2,), M, (4, 2)),
    (with_arguments(torch.addmm, beta=1j), (2,), M, (4, 2)),
    (with_arguments(torch.addmm, beta=1.5), ((2,), I64), (M, I64), ((4, 2), I64)),
    (lambda c, a, b: ATEN.addmm.default(self=c, mat2=b, mat1=a, alpha=2), (2,), M, (4, 2)),
    (torch.addmv, (3,), M, V), (torch.addmv, (1, 3), M, V), (torch.baddbmm, (), M, (4, 2)),
    (torch.baddbmm, (2,), B, (2, 4, 2)),
    (torch.addr, (4,), (3,), V), (torch.addr, (4,), M, V), (with_arguments(torch.addr, beta=0.5), (3, 1), (3,), V),
    (torch.matrix_power, M), (with_arguments(torch.matrix_power, n=3), M), (with_arguments(torch.matrix_power, n=2), V),
    (lambda *t: torch.einsum("ij,jk->ik", *t), M, M), (lambda *t: torch.einsum("ij,jk->iki", *t), M, (4, 2)),
    (lambda *t: torch.einsum("...i,i", *t), B, V), (lambda *t: torch.einsum("ij,jk", *t), M, ((4, 2), C64)),
    (with_arguments(torch.tensordot, dims=1), M, M), (with_arguments(torch.tensordot, dims=([2], [0])), B, (4, 2)),
    (with_arguments(torch.tensordot, dims=([0], [0, 1])), M, M),
    (F.linear, M, V), (F.linear, V, V), (F.linear, B, V, ()), (F.linear, M, V, (3,)), (F.linear, B, (2, 3)),
    (F.linear, M, (2, 4), ()), (F.linear, M, (2, 4), (1,)), (F.linear, M, (2, 4), (1, 2)),
    (F.linear, M, (2, 4), (3, 1)),
    (F.linear, B, (5, 4), (2, 3, 5)), (F.linear, B, (5, 4), (6, 5)), (F.linear, M, (2, 4), (3,)),
    (F.linear, B, (1, 4), (3, 1)),
    (F.linear, (M, I64), ((2, 4), I64)), (F.linear, M, ((2, 4), C64)), (F.linear, (0, 4), (2, 4), (1, 2)),
    (lambda x, w, b: F.linear(x.transpose(0, 1), w, b), B, V, (2,)), (F.linear, M, (2, 4), (2,), (2,)),
    (with_arguments(F.conv1d, padding="same", stride=2), SEQUENCE, (3, 4, 3)),
    (with_arguments(F.conv1d, padding="same"), SEQUENCE, (3, 4, 2)),
    (with_arguments(F.conv1d, padding="circular"), SEQUENCE, (3, 4, 3)),
    (with_arguments(F.conv1d, padding=-1), SEQUENCE, (3, 4, 3)),
    (with_arguments(F.conv1d, stride=0), SEQUENCE, (3, 4, 3)),
    (with_arguments(F.conv1d, stride=(1, 2)), SEQUENCE, (3, 4, 3)),
    (with_arguments(F.conv1d, stride=1.5), SEQUENCE, (3, 4, 3)),
    (with_arguments(F.conv1d, groups=3), SEQUENCE, (3, 4, 3)),
    (F.conv1d, SEQUENCE, (3, 4, 10)), (F.conv1d, SEQUENCE, (3, 4, 3), (1,)), (F.conv1d, (2, 0, 9), (3, 0, 3)),
    (F.conv2d, IMAGE, (3, 4, 3)), (F.conv2d, (IMAGE, C64), ((3, 4, 2, 2), C64)), (F.conv2d, (1, *IMAGE), (3, 4, 2, 2)),
    (with_arguments(F.conv2d, dilation=2, stride=2), IMAGE[1:], (3, 4, 2, 2), (3,)),
    (F.conv2d, IMAGE, ((3, 4, 2, 2), F64)),
    (with_arguments(F.conv_transpose2d, output_padding=1), IMAGE, (4, 3, 2, 2)),
    (F.conv_transpose1d, SEQUENCE, (3, 4, 3)),
    (with_arguments(F.conv_transpose1d, groups=2, stride=3, output_padding=1), SEQUENCE, (4, 3, 2), (6,)),
    (with_arguments(torch.conv_tbc, pad=-1), (7, 2, 4), (3, 4, 5), (5,)), (torch.conv_tbc, (2, 2, 4), (3, 4, 5), (5,)),
    (torch.conv_tbc, (7, 2, 4), (3, 4, 5), (4,)),
    (lambda w: F.embedding(torch.tensor([1, 0]), w), ((4, 3), I64)),
    (lambda w: F.embedding(torch.tensor([4]), w), (4, 3)),

    (lambda x, h, c, *w: torch.lstm_cell(x, (h, c), b_ih=w[2], w_hh=w[1], w_ih=w[0]),
     (2, 4), (2, 3), (2, 3), (12, 4), (12, 3), (12,)),
    (torch.gru_cell, (2, 4), (2, 3), (9, 4), (9, 3), (9,)), (torch.gru_cell, (2, 4), (2, 4), (9, 4), (9, 3)),
    (lambda x, h, c, *w: torch.lstm(x, (h, c), w, False, 1, dropout=0.0, train=False, bidirectional=False,
                                    batch_first=True), (2, 5, 4), (1, 2, 3), (1, 2, 3), (12, 4), (12, 3)),
    (lambda x, h, *w: torch.gru(x, h, w, False, 1, 0.0, False, False, False), (5, 2, 4), (1, 2, 4), (9, 4), (9, 3)),
]  # fmt: skip


class Called(nn.Module):
    """Calls a function with the arguments that it is given."""

    def __init__(self, function):
        super().__init__()
        self.function, self.layer = function, nn.Linear(1, 1)

    def forward(self, *tensors):
        return self.function(*tensors)


def tensors_of(shapes):
    generator = torch.Generator().manual_seed(0)
    for shape in shapes:
        shape, dtype = shape if isinstance(shape[-1:] and shape[-1], torch.dtype) else (shape, torch.float32)
        x = torch.randn(shape, generator=generator)
        yield (4 * x).to(dtype) if dtype == I64 else x.to(dtype).requires_grad_()


def outcome(model, shapes):
    """The error, or results and gradients; the second tensor is given as a parameter, as weights are."""
    tensors = [x if index != 1 or not x.requires_grad else nn.Parameter(x.detach())
               for index, x in enumerate(tensors_of(shapes))]  # fmt: skip
    try:
        y = model(*tensors)
    except Exception as error:
        return type(error), str(error)
    results = list(y) if isinstance(y, tuple) else [y]
    if any(y.requires_grad for y in results):
        torch.autograd.backward(results, [torch.ones_like(y) for y in results])
    return [*results, *(x.grad for x in tensors)]


def assert_same(found, expected, rtol):
    if isinstance(expected, tuple):
        assert found == expected
        return
    assert not isinstance(found, tuple), found
    assert [x is None for x in found] == [x is None for x in expected]
    for x, y in zip(found, expected, strict=True):
        assert x is None or (x.shape, x.dtype) == (y.shape, y.dtype)
        assert x is None or (torch.equal(x, y) if rtol == 0 else torch.allclose(x, y, rtol, 10 * rtol, equal_nan=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recipe", RECIPES)
def test_calls_are_taken_and_refused_as_by_pytorch(recipe):
    refused = 0
    for function, *shapes in CALLS:
        expected = outcome(Called(function), shapes)
        model = quantize_model(Called(function), RECIPES[recipe], first=None, last=None)
        for _ in range(2):  # the second call of the same shapes is not checked anew
            rtol = 0 if recipe == "fp32" else 2e-2 if any(BF16 in shape for shape in shapes) else 1e-5
            assert_same(outcome(model, shapes), expected, rtol)
        refused += isinstance(expected, tuple)
    assert refused > 40 and len(CALLS) - refused > 40


def test_an_out_that_is_an_argument_is_read_before_it_is_written():
    c, a, b = (torch.randn(4, 4) for _ in range(3))
    model = quantize_model(Called(lambda c, a, b, out: torch.addmm(c, a, b, out=out)), RECIPES["each tensor"])
    expected = model(c, a, b, None)
    for name, out in {"c": c.clone(), "a": a.clone()}.items():
        arguments = {"c": c, "a": a, "b": b} | {name: out}
        assert model(*arguments.values(), out) is out and torch.equal(out, expected)


def test_a_product_in_another_dtype(monkeypatch):
    """PyTorch has ``out_dtype`` on GPUs only."""
    monkeypatch.setattr(op_handlers, "check_arguments", lambda *_: "")
    monkeypatch.setattr(op_handlers, "_known_calls", {})
    model = quantize_model(Called(with_arguments(torch.mm, out_dtype=torch.float32)), RECIPES["each tensor"])
    a, b = torch.randn(3, 4).bfloat16(), torch.randn(4, 2).bfloat16()
    assert torch.allclose(model(a, b), a.float() @ b.float(), rtol=1e-5) and model(a, b).dtype == torch.float32
    model.function = with_arguments(torch.addmm, out_dtype=torch.float32, alpha=2)
    c = torch.ones(2).bfloat16()
    assert torch.allclose(model(c, a, b), 1 + 2 * (a.float() @ b.float()), rtol=1e-5)


def test_a_call_is_checked_once_and_leaves_no_trace(monkeypatch):
    """Random numbers, modes and PyTorch's own trace see nothing of the check."""

    class Count(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.calls += function is F.linear
            return function(*args, **(kwargs or {}))

    monkeypatch.setattr(op_handlers, "_known_calls", {})
    model = quantize_model(nn.Linear(4, 2, bias=False), RECIPES["each tensor"], last=None)
    x, before, counts = torch.randn(3, 4), torch.get_rng_state(), []
    for _ in range(2):
        with Count() as count:
            model(x)
        counts.append(count.calls)
        assert len(op_handlers._known_calls) == 1
    assert counts[0] == counts[1] and torch.equal(torch.get_rng_state(), before)
    monkeypatch.setattr(op_handlers, "MAX_CALLS", 1)
    model(x[:2])
    assert len(op_handlers._known_calls) == 1
    op_handlers._known_calls.clear()
    with torch.no_grad():
        nodes = [len(list(torch.jit.trace(model.eval(), (x,), check_trace=False).graph.nodes())) for _ in range(2)]
    assert nodes[0] == nodes[1] and len(op_handlers._known_calls) == 1
    dropping = quantize_model(
        Called(lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)), RECIPES["each tensor"]
    )
    results = []
    for _ in range(2):
        torch.manual_seed(0)
        results.append(dropping(x))
    assert torch.equal(*results)


# ---- subclasses, and tensors without numbers of their own ------------------------------------------------------------


class Named(torch.Tensor):
    pass


class Unwrapping(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("function", [
    lambda x, w: x @ w, lambda x, w: x.mm(w), lambda x, w: w @ x, lambda x, w: torch.einsum("ij,jk", x, w), F.linear,
    lambda x, w: F.conv1d(x[None], w[..., None]), lambda x, w: F.scaled_dot_product_attention(x, w, w), torch.tensordot,
    lambda x, w: F.embedding(torch.tensor([1]), x), lambda x, w: F.layer_norm(x, (4,)),
])  # fmt: skip
def test_subclasses_of_tensors_stay_what_they_are(function):
    model = quantize_model(Called(function), "hfp8_2019", first=None, last=None)
    x, w = torch.randn(4, 4), nn.Parameter(torch.randn(4, 4))
    expected = model(x, w)
    for kind in (Named, Unwrapping):
        y = model(x.as_subclass(kind).requires_grad_(), w)
        assert type(y) is type(function(x.as_subclass(kind), w)) and torch.equal(y.as_subclass(torch.Tensor), expected)
        y.sum().backward()
    assert recipe_report(model).rows


def nested(**options):
    return torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("make", "what"), [
    (nested, "a nested tensor"), (lambda: nested(layout=torch.jagged), "a NestedTensor"),
    (lambda: torch.eye(4).to_sparse(), "a sparse matrix"), (lambda: torch.eye(4).to_sparse_csr(), "a sparse matrix"),
    (lambda: torch.eye(4).to_mkldnn(), "a tensor with layout torch._mkldnn"),
])  # fmt: skip
def test_tensors_that_do_not_hold_their_numbers_are_refused(make, what):
    weight = torch.ones(3, 4)
    model = quantize_model(Called(lambda x: F.linear(x, weight)), "hfp8_2019", first=None, last=None)
    for _ in range(2):
        with pytest.raises(
            NotImplementedError, match=f"a product with {re.escape(what)} has no quantized form; pass a"
        ):
            model(make())
    attention = Called(lambda x: F.scaled_dot_product_attention(x, x, x))
    if make is nested:
        with pytest.raises(NotImplementedError, match=f"a product with {what}"):
            quantize_model(attention, "hfp8_2019")(make())
    assert quantize_model(Called(lambda x: F.linear(x, weight)), "fp32")(make()).dtype == torch.float32


# ---- float32 is PyTorch's --------------------------------------------------------------------------------------------


def results_of(model, x):
    torch.manual_seed(1)
    y = model(x)
    results = [y for y in (y if isinstance(y, tuple) else (y,)) if isinstance(y, torch.Tensor)]
    differentiable = [y for y in results if y.requires_grad]
    if not differentiable:
        return results
    inputs = [x, *model.parameters()]
    for each in inputs:
        each.grad = None
    torch.autograd.backward(differentiable, [torch.ones_like(y) for y in differentiable])
    return [*results, *(each.grad for each in inputs if each.grad is not None)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("train", [True, False])
def test_every_operator_has_pytorchs_bits_under_fp32(train):
    compared, seen = 0, set()
    for name, (_outcome, make, shape) in CASES.items():
        torch.manual_seed(0)
        plain = make().train(train)
        if isinstance(plain, nn.Bilinear | nn.EmbeddingBag):
            continue  # modules that take other inputs
        model, x = quantize_model(plain, "fp32"), torch.randn(shape, requires_grad=True)
        with torch.no_grad():
            expected, found = results_of(plain, x), results_of(model, x)
        expected, found = expected + results_of(plain, x), found + results_of(model, x)
        assert len(expected) == len(found), name
        assert all(torch.equal(a.nan_to_num(7), b.nan_to_num(7)) for a, b in zip(expected, found, strict=True)), name
        compared += len(found)
        seen |= {op.partition("/")[2].rstrip("0123456789") for op in emulation_of(model).ops}
    assert compared > 500 and {"", "matmul", "einsum", "conv", "linear", "scores", "mix"} <= seen
