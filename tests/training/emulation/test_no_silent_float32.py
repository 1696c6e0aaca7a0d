"""No product stays in float32 without a word: each is rounded, refused with a cure, or listed as not seen.

The spy sits where PyTorch carries the products out, and knows nothing of lplab.
"""

import copy
import re
import warnings

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves

from lplab import formats
from lplab.training.emulation.conversion import emulation_of, float32, quantize_model
from lplab.training.emulation.recipe_report import recipe_report
from lplab.training.emulation.unseen_products import UnseenProductWarning, unseen_products
from lplab.training.recipe.recipe import Recipe
from tests.training.emulation.product_cases import (
    CASES,
    LISTED,
    NO_PRODUCT,
    REFUSED,
    ROUNDED,
    Applied,
    OwnLinear,
    Wrapped,
)

GRID = formats.get("int2")
INT2 = Recipe(activation=GRID, weight=GRID, output_gradient_dx=GRID, output_gradient_dw=GRID)
FACTORS = {
    "mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "dot": (0, 1), "vdot": (0, 1), "addmm": (1, 2), "addmv": (1, 2),
    "baddbmm": (1, 2), "addbmm": (1, 2), "addr": (1, 2), "_addmm_activation": (1, 2), "convolution": (0, 1),
    "convolution_backward": (0, 1, 2), "conv_tbc": (0, 1), "conv_tbc_backward": (0, 1, 2), "_trilinear": (0, 1, 2),
    "_euclidean_dist": (0, 1), "linalg_matrix_exp": (0,), "linalg_householder_product": (0, 1), "ormqr": (0, 1, 2),
    "_native_multi_head_attention": (0, 1, 2, 5, 7), "mkldnn_rnn_layer": (0, 1, 2),
}  # fmt: skip
"""The operands of each operator with products; of any other operator that sounds like one, all tensors."""
SOUNDS_LIKE_A_PRODUCT = re.compile(
    r"mm|mv|dot|conv|linear|attention|rnn|lstm|gru|euclidean|matrix_exp|householder|^orm"
)
OTHERS = {"upsample_bilinear2d", "upsample_bilinear2d_backward", "_linalg_check_errors"}


def lies_on_grid(x):
    return torch.equal(GRID.quantize(x.detach()), x)


class Spy(TorchDispatchMode):
    """The names of the operators with products, and of those whose operands do not lie on the grid."""

    def __init__(self):
        super().__init__()
        self.products, self.off_grid = [], set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._opname.removesuffix("_")
        if SOUNDS_LIKE_A_PRODUCT.search(name) and name not in OTHERS:
            operands = [args[i] for i in FACTORS[name]] if name in FACTORS else tree_leaves(args)
            self.products.append(name)
            if any(isinstance(t, torch.Tensor) and t.numel() and not lies_on_grid(t) for t in operands):
                self.off_grid.add(name)
        return func(*args, **(kwargs or {}))


def spied(name):
    """The model after a forward and a backward pass, and the spies of both."""
    _, make, shape = CASES[name]
    torch.manual_seed(0)
    module = make()
    for parameter in module.parameters():
        nn.init.normal_(parameter)  # not so small that all is rounded to zero
    model = quantize_model(module, INT2, first=None, last=None)
    x = (1.5 * torch.randn(shape)).requires_grad_()
    forward, backward = Spy(), Spy()
    with forward:
        outputs = [y for y in tree_leaves(model(x)) if isinstance(y, torch.Tensor) and y.requires_grad]
    with backward:
        torch.autograd.backward(outputs, [torch.randn_like(y) for y in outputs])
    return model, forward, backward


def names_with(outcome):
    return [name for name, case in CASES.items() if case[0] == outcome]


def test_there_are_more_than_100_cases():
    assert len(CASES) >= 100 and all(len(names_with(outcome)) >= 10 for outcome in (ROUNDED, REFUSED, LISTED))


@pytest.mark.parametrize("name", names_with(ROUNDED))
def test_products_are_rounded(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnseenProductWarning)
        model, forward, backward = spied(name)
    assert forward.products and backward.products
    assert not forward.off_grid and not backward.off_grid
    assert not unseen_products(emulation_of(model))


@pytest.mark.parametrize("name", names_with(NO_PRODUCT))
def test_what_is_no_product_is_not_listed(name):
    model, forward, backward = spied(name)
    assert not forward.products and not backward.products and not unseen_products(emulation_of(model))


@pytest.mark.parametrize("name", names_with(REFUSED))
def test_products_without_a_quantized_form_are_refused_with_a_cure(name):
    with pytest.raises((NotImplementedError, ValueError), match=r"has no quantized form; \w+ .*\w"):
        spied(name)


@pytest.mark.parametrize("name", names_with(LISTED))
def test_products_that_are_not_seen_are_listed_and_warned_of(name):
    with pytest.warns(UnseenProductWarning, match="computed in float32, the recipe does not see it"):
        model, forward, backward = spied(name)
    listed = unseen_products(emulation_of(model))
    in_forward = {f"aten.{name}" for name in forward.off_grid}
    assert in_forward == {product.operator for product in listed if product.where == "forward"}
    if not in_forward:
        in_backward = {f"aten.{name}" for name in backward.off_grid}
        assert in_backward == {product.operator for product in listed if product.where.startswith("backward of ")}
    rows = [row for row in recipe_report(model).rows if row.because.startswith("it is not seen: ")]
    assert [(row.product, row.role, row.format) for row in rows] == [(p.where, p.operator, "float32") for p in listed]


# ---- what else is watched, and when ----------------------------------------------------------------------------------


def scripted_model(layers=None):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), CASES["torch.jit.script"][1](), *(layers or []))


def test_later_calls_are_not_watched_and_compute_the_same():
    model = quantize_model(scripted_model(), INT2)
    x = torch.randn(3, 4)
    with pytest.warns(UnseenProductWarning):
        first = model(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnseenProductWarning)
        assert torch.equal(model(x), first)
    assert emulation_of(model).thread.product_watch is None


def test_a_warning_that_is_an_error_leaves_nothing_behind():
    model = quantize_model(nn.Sequential(nn.Linear(4, 4), Applied(lambda x, w: x @ torch.matrix_exp(w), (4, 4))), INT2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnseenProductWarning)
        with pytest.raises(
            UnseenProductWarning, match=r"^1 \(Applied\): aten.linalg_matrix_exp .*; compute it by torch.matmul"
        ):
            model(torch.randn(3, 4))
    assert emulation_of(model).thread.product_watch is None and _get_current_dispatch_mode() is None
    assert [product.layer for product in unseen_products(emulation_of(model))] == ["1"]


def test_float32_layers_are_not_listed():
    for model in (quantize_model(scripted_model(), INT2, skip="1"), quantize_model(scripted_model(), "fp32")):
        model(torch.randn(3, 4)).sum().backward()
        assert not unseen_products(emulation_of(model))
    model = quantize_model(scripted_model(), INT2)
    with float32(model):
        model(torch.randn(3, 4))
    assert not unseen_products(emulation_of(model))
    own = quantize_model(nn.Sequential(nn.Linear(4, 4), Applied(OwnLinear.apply, (4, 4))), INT2, skip="1")
    own(torch.randn(3, 4)).sum().backward()
    assert not unseen_products(emulation_of(own))


def test_what_runs_outside_of_the_model_is_not_listed():
    model = quantize_model(nn.Linear(4, 4), INT2, last=None)
    before = OwnLinear.apply(torch.randn(3, 4), torch.randn(4, 4, requires_grad=True))
    OwnLinear.apply(model(before), torch.randn(4, 4, requires_grad=True)).sum().backward()
    assert not unseen_products(emulation_of(model))


def test_evaluation_and_parts_of_a_model_are_watched_too():
    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scripted = nn.Linear(4, 4), scripted_model()

        def forward(self, x):
            return self.layer(x) if self.training else self.scripted(x)

    model = quantize_model(Other(), INT2)
    model(torch.randn(3, 4))
    assert not unseen_products(emulation_of(model))
    with pytest.warns(UnseenProductWarning):
        model.eval()(torch.randn(3, 4))
    again = copy.deepcopy(model)
    emulation_of(again).unseen.clear()
    with pytest.warns(UnseenProductWarning), torch.no_grad():
        again.scripted(torch.randn(3, 4))


def test_a_backward_pass_that_runs_the_model_again():
    """As in reversible nets: what the model computes in a user's backward pass is rounded, and not listed."""
    layer = nn.Linear(4, 4)

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return layer(x)

        @staticmethod
        def backward(ctx, dy):
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                y = layer(x)
            torch.autograd.backward(y, dy)
            return x.grad

    module = Wrapped(layer, lambda m, x: Again.apply(x))
    model = quantize_model(module, INT2, last=None, inplace=True)
    x = torch.randn(3, 4, requires_grad=True)
    model(x).sum().backward()
    assert x.grad is not None and layer.weight.grad is not None and not unseen_products(emulation_of(model))


def test_an_error_in_a_backward_pass_ends_the_watch():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, dy):
            raise ArithmeticError("own")

    model = quantize_model(nn.Sequential(nn.Linear(4, 4), Applied(Fails.apply)), INT2)
    with pytest.raises(ArithmeticError, match="own"):
        model(torch.randn(3, 4)).sum().backward()
    assert _get_current_dispatch_mode() is None
    with pytest.warns(UnseenProductWarning):
        quantized = quantize_model(scripted_model(), INT2)
        quantized(torch.randn(3, 4))
    model.eval()(torch.randn(3, 4))
    assert emulation_of(model).thread.product_watch is None


@pytest.mark.parametrize("how", ["grad", "backward"])
def test_a_gradient_penalty_is_refused_and_not_lost(how):
    """PyTorch's once_differentiable took a gradient for a constant, where the loss is linear in the output."""
    model = quantize_model(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)), INT2, first=None, last=None)
    x = torch.randn(3, 4, requires_grad=True)
    y = model(x).sum()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    total = y + gradient.square().sum()
    with pytest.raises(RuntimeError, match="^second derivatives are not defined under a recipe; compute"):
        total.backward() if how == "backward" else torch.autograd.grad(total, list(model.parameters()))
    model.zero_grad()
    with float32(model):
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        gradient.square().sum().backward()
    assert model[0].weight.grad.abs().sum() > 0


def test_a_gradient_of_one_product_is_no_constant():
    model = quantize_model(nn.Linear(4, 1), INT2, first=None, last=None)
    x = torch.randn(3, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="^second derivatives are not defined under a recipe; compute"):
        torch.autograd.grad(model(x).sum() + gradient.sum(), model.weight)
