"""Private names of PyTorch still mean what ``lplab.formats.torch_privates`` says.

A test that fails under a new version of PyTorch says in its docstring what to do. A name that is gone fails at import:
look for the same name in that version's sources; where it was renamed, change the one line of the module.
"""

import re
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

import lplab
from lplab.formats import torch_privates as private


def test_no_other_module_uses_private_names():
    """Move the name to the module, with a line that says what it stands for, and test it here."""
    package = Path(lplab.__file__).parent
    pattern = re.compile(
        r"torch\._(C|subclasses|functorch)\b|_python_dispatch import _|overrides import _|_current_level"
    )
    files = [p for p in package.rglob("*.py") if p.name != "torch_privates.py" and pattern.search(p.read_text("utf-8"))]
    assert files == []


def test_nothing_is_on_outside_of_tools():
    """Each name that asks must answer "no" here; else its meaning has changed, and all roundings take the slow way."""
    assert private.tracing_state() is None and private.open_transform() is None
    assert private.count_dispatch_modes() == 0 and private.dispatch_mode_stack() == []
    assert private.forward_derivative_level() < 0 and not private.is_fx_tracing()
    assert not private.is_autocast_on() and private.current_function_mode() is None
    assert private.current_autograd_node() is None and private.saved_tensor_hooks(True) is None
    assert private.cached_parametrizations() == []


def test_tools_are_noticed():
    """Without these, a tool records wrong numbers in silence: find out how the tool says now that it is running."""
    seen = []
    torch.jit.trace(lambda x: (seen.append(private.tracing_state()), x + 1)[1], torch.ones(1), check_trace=False)
    assert seen[0] is not None
    make_fx(lambda x: (seen.append(private.dispatch_mode(private.PROXY)), x + 1)[1])(torch.ones(1))
    assert seen[1] is not None
    with torch._subclasses.FakeTensorMode():
        assert private.count_dispatch_modes() == 1 and private.dispatch_mode(private.FAKE) is not None
        assert private.is_fake(torch.ones(1))
    torch.func.vmap(lambda x: (seen.append(private.open_transform()), x)[1])(torch.ones(2))
    assert seen[2] is not None
    with torch.autograd.forward_ad.dual_level():
        assert private.forward_derivative_level() == 0

    class Traced(nn.Module):
        def forward(self, x):
            seen.append(private.is_fx_tracing())
            return x

    torch.fx.symbolic_trace(Traced())
    assert seen[3] is True
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert private.is_autocast_on() and "cpu" in private.autocast_devices()


def test_a_batch_of_gradients_is_noticed():
    """Without it a backward pass under a recipe takes the batch for one gradient: ask PyTorch in another way."""
    seen = []

    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append((private.is_batched_gradient(gradient), private.current_autograd_node().name()))
            return gradient

    x = torch.ones(2, requires_grad=True)
    torch.autograd.grad(Identity.apply(x), x, torch.eye(2), is_grads_batched=True)
    torch.autograd.grad(Identity.apply(x), x, torch.ones(2))
    assert seen == [(True, "IdentityBackward"), (False, "IdentityBackward")]


@pytest.mark.parametrize("reentrant", [False, True])
def test_the_frame_of_a_checkpoint_is_known(reentrant):
    """Without it random bits differ between the two computations: find the checkpoint's frame and its function."""
    found = []

    def part(x):
        frame = sys._getframe()
        while frame is not None:
            found.append(private.recomputed_function(frame))
            frame = frame.f_back
        return x * 2

    assert not torch.is_grad_enabled() or private.saved_tensor_hooks(True) is None
    checkpoint(part, torch.ones(1, requires_grad=True), use_reentrant=reentrant)
    ((owner, attribute, arguments),) = filter(None, found)
    assert callable(getattr(owner, attribute)) and len(arguments) == reentrant


def test_code_of_modules_is_known():
    """A module's call and ``to_empty`` run these code objects: look where they have moved to."""

    class Looking(nn.Module):
        def forward(self, x):
            frame, found = sys._getframe(), False
            while frame is not None and not found:
                found, frame = frame.f_code is private.MODULE_CALL, frame.f_back
            return found

    functions = []

    class Noted(nn.Linear):
        def _apply(self, function, **more):
            functions.append(private.is_to_empty(function))
            return super()._apply(function, **more)

    assert Looking()(1)
    Noted(1, 1).double().to_empty(device="cpu")
    assert functions == [False, True]


def test_modes_can_be_switched_off():
    """Without these, a check of arguments would be seen by a user's modes: take the contexts that do it now."""

    class Seen(torch.overrides.TorchFunctionMode):
        count = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.count += 1
            return function(*args, **(kwargs or {}))

    with Seen() as seen, private.without_function_modes(), private.without_dispatch_modes():
        torch.ones(1) + 1
    assert seen.count == 0
    before = private.set_eval_frame(None)
    assert private.set_eval_frame(before) is None
