"""The steps of an LSTM in one node of the graph compute the bits of the steps one by one."""

import pytest
import torch
from torch import nn

from lplab.formats.paths import kernel_selection
from lplab.quantizers import reductions
from lplab.training import Recipe, quantize_model
from lplab.training.emulation import recurrent
from lplab.training.emulation.conversion import emulation_of
from lplab.training.emulation.quantized_op import QuantizedOp
from lplab.training.emulation.recurrent import gates_backward, gates_forward
from lplab.training.thread_counts import torch_threads

RECIPES = ("hfp8_2019", "int4_fp4_2020", "luq_2022", "fp8_2018")
WEIGHTS_ALONE = Recipe(weight="e4m3fn", name="weights alone")  # no rounding hides the last bits of the other factors


def make(recipe, size=5, **options):
    torch.manual_seed(0)
    return quantize_model(nn.LSTM(4, size, **options), recipe, first=None, last=None)


@pytest.fixture(params=["as they come", "all", "none"])
def loops(request, monkeypatch):
    """Which compiled loops are ready: what ran before in this process decides that otherwise."""
    if request.param == "all":
        monkeypatch.setattr(kernel_selection, "loading_pays_off", lambda key, count: True)
        monkeypatch.setattr(reductions, "MIN_COMPILED_SIZE", 0)
    with kernel_selection.without_compiled_loops(request.param == "none"):
        yield request.param


def same_bits(a, b):
    """Whether the results of two models, as :func:`results` gives them, are the same."""
    steps = zip(a[0], b[0], strict=True)
    return a[1] == b[1] and all(torch.equal(p, q) for one, other in steps for p, q in zip(one, other, strict=True))


def one_by_one(model):
    """A watcher has to see each tensor, so that the steps are computed one by one."""
    emulation_of(model).watch = lambda *_: None
    return model


def uses_one_node(y):
    nodes, seen = [y.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            nodes += [following for following, _ in node.next_functions]
    return any("LSTMSequence" in node.name() for node in seen)


def results(model, x, states, loss_of, steps=3):
    """Losses, gradients, counts of random bits and gradient scales of some steps."""
    found = []
    for number in range(steps):
        leaves = [tensor.clone().requires_grad_() for tensor in (x, *states)]
        y, (h, c) = model(leaves[0], tuple(leaves[1:]) or None)
        assert uses_one_node(y) == (emulation_of(model).watch is None)
        model.zero_grad()
        loss = 2.0 ** (3 * number) * loss_of(y, h, c)  # gradient scales have to follow
        loss.backward()
        gradients = [tensor.grad for tensor in (*model.parameters(), *leaves)]
        found.append((loss.detach(), *(gradient for gradient in gradients if gradient is not None)))
    ops = emulation_of(model).ops
    return found, {name: op.state_dict() for name, op in ops.items()}


LOSSES = {
    "all": lambda y, h, c: y.square().sum() + (h * c).sum(),
    "outputs": lambda y, h, c: y.square().sum(),
    "the last h": lambda y, h, c: h.square().sum(),
    "the last c": lambda y, h, c: c.square().sum(),
}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("options", "loss", "with_states"), [
    ({}, "all", True),
    ({"num_layers": 2, "bidirectional": True}, "all", False),
    ({"batch_first": True}, "outputs", False),
    ({"bias": False}, "the last h", True),
    ({"num_layers": 2}, "the last c", False),
])  # fmt: skip
def test_one_node_computes_the_bits_of_the_steps(recipe, options, loss, with_states, loops):
    torch.manual_seed(1)
    x, count = torch.randn(6, 3, 4), 2 if with_states else 0
    states = [torch.randn(1, 6 if options.get("batch_first") else 3, 5) for _ in range(count)]
    together, one = make(recipe, **options), one_by_one(make(recipe, **options))
    (a, state_a), (b, state_b) = (results(model, x, states, LOSSES[loss]) for model in (together, one))
    for step_a, step_b in zip(a, b, strict=True):
        assert len(step_a) == len(step_b)
        assert all(torch.equal(p, q) for p, q in zip(step_a, step_b, strict=True))
    assert state_a == state_b
    if recipe == "int4_fp4_2020":
        assert any(state["scale"]["scale"] != 64.0 for state in state_a.values())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", [5, 64, 67])
def test_the_compiled_gates_have_the_bits_of_the_operations(size, loss, monkeypatch):
    torch.manual_seed(2)
    x = torch.randn(6, 3, 4)
    calls = []
    for name, served in (("in_one_loop", True), ("by_operations", False)):
        monkeypatch.setattr(kernel_selection, "loading_pays_off", lambda key, count, served=served: served)
        torch.manual_seed(0)
        model = quantize_model(nn.LSTM(4, size, num_layers=2), "int4_fp4_2020", first=None, last=None)
        made: list = []

        def backward(*tensors, made=made):
            made.append(gates_backward(*tensors))
            return made[-1]

        monkeypatch.setattr(recurrent, "gates_backward", backward)
        calls.append(results(model, x, [], LOSSES[loss]))
        assert {step.__name__ for step in made} == {name}
    (a, state_a), (b, state_b) = calls
    assert all(torch.equal(p, q) for one, other in zip(a, b, strict=True) for p, q in zip(one, other, strict=True))
    assert state_a == state_b


def test_weights_that_are_frozen_and_sums_of_an_accumulator_give_the_same_bits():
    from lplab.training import recipes

    recipe = recipes.get("fp8_2018", accumulator="chunked")
    together, one = make(recipe), one_by_one(make(recipe))
    for model in (together, one):
        model.weight_hh_l0.requires_grad_(False)
    x = torch.randn(4, 2, 4)
    (a, state_a), (b, state_b) = (results(model, x, [], LOSSES["all"], steps=1) for model in (together, one))
    assert all(torch.equal(p, q) for p, q in zip(a[0], b[0], strict=True)) and state_a == state_b


def test_sequences_of_unequal_length_are_stepped_one_by_one():
    model, x = make("hfp8_2019"), torch.randn(6, 3, 4)
    lengths = nn.utils.rnn.pack_padded_sequence(x, [6, 4, 1])
    assert not uses_one_node(model(lengths)[0].data)
    assert uses_one_node(model(nn.utils.rnn.pack_padded_sequence(x, [6, 6, 6]))[0].data)


def test_outputs_may_be_changed_in_place():
    model, x = make("hfp8_2019"), torch.randn(6, 3, 4)
    y, (h, c) = model(x)
    expected = torch.autograd.grad((2 * y).sum(), model.weight_hh_l0)[0]
    y, (h, c) = model(x)
    h.zero_(), c.zero_()
    assert torch.equal(torch.autograd.grad(y.mul_(2).sum(), model.weight_hh_l0)[0], expected)


@pytest.mark.parametrize("size", [5, 16, 20, 64, 67])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_compiled_steps_have_the_bits_of_the_operations(size, reverse, monkeypatch):
    torch.manual_seed(3)
    time, batch = 5, 3
    inputs, first_c = torch.randn(time, batch, 4 * size), torch.randn(batch, size)
    products = torch.randn(time, batch, 4 * size)
    found = {}
    for served in (True, False):
        monkeypatch.setattr(kernel_selection, "loading_pays_off", lambda key, count, served=served: served)
        results = [torch.full((time, batch, width), torch.nan) for width in (4 * size, size, size, size)]
        step = gates_forward(inputs, first_c, *results)
        order = range(time)[::-1] if reverse else range(time)
        for t, earlier in zip(order, [None, *order[:-1]], strict=True):
            step(t, earlier, products[t])
        found[step.__name__] = results
    assert list(found) == ["in_loops", "by_operations"]
    assert all(torch.equal(a, b) for a, b in zip(*found.values(), strict=True))


def test_states_in_any_layout_give_the_same_bits(loops):
    x = torch.randn(4, 3, 4)
    states = [torch.randn(1, 5, 3).transpose(1, 2), torch.randn(1, 1, 5).expand(1, 3, 5)]
    for recipe in RECIPES:
        together, one = make(recipe), one_by_one(make(recipe))
        assert same_bits(*(results(model, x, states, LOSSES["all"]) for model in (together, one)))


@pytest.mark.parametrize("batch", [1, 3, 7])
@pytest.mark.parametrize("size", [1, 5, 8, 16, 20, 24, 33, 67])
def test_the_bits_of_the_steps_at_any_size(size, batch, loops):
    """PyTorch's sigmoid rounds the last numbers of a row otherwise; products of it depend on where factors begin."""
    x = torch.randn(6, batch, 4, generator=torch.Generator().manual_seed(1))
    for recipe in (WEIGHTS_ALONE, "int4_fp4_2020"):
        together, one = make(recipe, size, num_layers=2), one_by_one(make(recipe, size, num_layers=2))
        assert same_bits(*(results(model, x, [], LOSSES["all"], steps=2) for model in (together, one)))


def test_the_bits_of_steps_that_several_threads_share(loops):
    """A step's sigmoid of one gate is computed by one thread, that of three gates would be split within a row."""
    x = torch.randn(2, 61, 4, generator=torch.Generator().manual_seed(1))
    with torch_threads(2):
        together, one = make(WEIGHTS_ALONE, 199), one_by_one(make(WEIGHTS_ALONE, 199))
        assert same_bits(*(results(model, x, [], LOSSES["all"], steps=1) for model in (together, one)))


@pytest.mark.parametrize("recipe", [*RECIPES[:3], pytest.param(WEIGHTS_ALONE, id="weights alone")])
def test_products_find_their_factors_where_fresh_tensors_begin(recipe, loops, monkeypatch):
    model, x = make(recipe), torch.randn(6, 3, 4)
    begins = []

    def noted(product):
        def call(*arguments):
            begins.extend(each.data_ptr() % 64 for each in arguments if isinstance(each, torch.Tensor))
            return product(*arguments)

        return call

    monkeypatch.setattr(recurrent.functional, "linear", noted(recurrent.functional.linear))
    monkeypatch.setattr(QuantizedOp, "matmul", noted(QuantizedOp.matmul))
    model(x)[0].square().sum().backward()
    assert len(begins) > 40 and not any(begins)


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_steps_round_into_memory_that_is_there(recipe, monkeypatch):
    torch.manual_seed(0)
    model = quantize_model(nn.LSTM(64, 128, num_layers=2), recipe, first=None, last=None)
    times = iter((30, 30, 30, 12))
    counts: list[int] = []
    new = QuantizedOp.round_by

    def counted(self, rounder, role, *more, **named):
        counts[-1] += role in ("activation", "output_gradient_dx", "output_gradient_dw")
        return new(self, rounder, role, *more, **named)

    monkeypatch.setattr(QuantizedOp, "round_by", counted)
    for time in times:  # the first ones load the loops
        counts.append(0)
        model(torch.randn(time, 16, 64))[0].square().sum().backward()
    assert counts[-1] == counts[-2] < 12  # the sequence's length does not count
