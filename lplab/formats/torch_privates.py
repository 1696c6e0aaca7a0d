"""Private names of PyTorch that lplab needs: a new version may drop them, and then breaks lplab here alone.

PyTorch has no public way to ask what these tell. Each name says what it stands for;
``tests/formats/test_torch_privates.py`` says of each one what to do when its test fails under a new version. Operators
such as ``torch._foreach_add`` stay where they are used, and so does ``torch._dynamo.skip_frame``, which acts on the
function that calls it. This module imports torch; it is imported when the first tensor is passed.
"""

from __future__ import annotations

import inspect
import sys
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._dynamo import eval_frame
from torch.autograd import forward_ad
from torch.nn.utils import parametrize
from torch.overrides import _get_current_function_mode
from torch.utils import checkpoint
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

# ---- tools that record or transform what is computed -----------------------------------------------------------------

tracing_state = torch._C._get_tracing_state
"""What ``torch.jit.trace`` is recording into; None where it is not running."""
set_tracing_state = torch._C._set_tracing_state
"""Continue another recording; None to record nothing."""
count_dispatch_modes = torch._C._len_torch_dispatch_stack
"""How many dispatch modes of Python are on: each recording or fake tensor mode is one."""
open_transform = torch._C._functorch.peek_interpreter_stack
"""The innermost transformation of ``torch.func`` that is going on (vmap, grad, …), or None."""
is_batched_gradient = torch._C._functorch.is_legacy_batchedtensor
"""Whether a tensor is the batch of gradients of ``torch.autograd.grad(…, is_grads_batched=True)``."""
_MODE_KEYS = torch._C._TorchDispatchModeKey
PROXY, FAKE, FUNCTIONAL = (_MODE_KEYS.PROXY, _MODE_KEYS.FAKE, _MODE_KEYS.FUNCTIONAL)
"""The modes of ``make_fx``, of fake tensors and of ``torch.export``."""
dispatch_mode = torch._C._get_dispatch_mode
"""The mode of one of these kinds that is on, or None."""


forward_derivative_level = partial(getattr, forward_ad, "_current_level")
"""How many blocks of ``torch.autograd.forward_ad.dual_level()`` the code runs in, less one: −1 outside of them."""
_FX = torch.fx._symbolic_trace
is_fx_tracing = getattr(_FX, "_get_is_fx_tracing", None) or partial(getattr, _FX, "_is_fx_tracing_flag")
"""Whether a ``torch.fx.Tracer`` runs a forward pass with stand-ins for tensors. Before PyTorch 2.14 it was a flag."""


def is_fake(x: Tensor) -> bool:
    """Whether a tensor has a shape and no numbers."""
    return isinstance(x, torch._subclasses.FakeTensor)


# ---- modes ---------------------------------------------------------------------------------------------------------

current_function_mode = _get_current_function_mode
"""The innermost ``TorchFunctionMode`` that is on, or None."""
dispatch_mode_stack = _get_current_dispatch_mode_stack
"""All dispatch modes that are on, the outermost first."""
without_dispatch_modes = _disable_current_modes
"""A context in which no dispatch mode sees anything."""
without_function_modes = torch._C.DisableTorchFunction
"""A context in which neither function modes nor subclasses of tensors see anything."""
asks_subclasses = torch._C._is_torch_function_enabled
"""Whether subclasses of tensors are still to be asked what a function does."""
is_autocast_on = torch._C._is_any_autocast_enabled
"""Whether ``torch.autocast`` is on for any device."""
autocast_devices = torch._C._autocast_supported_devices
"""The types of devices that ``torch.autocast`` knows."""
current_autograd_node = torch._C._current_autograd_node
"""The node of the graph whose backward pass is being computed, or None."""
set_eval_frame = eval_frame.set_eval_frame
"""Exchange what compiles frames of Python for ``torch.compile``; None switches it off. Returns what it was."""


# ---- frames and code of PyTorch's own functions ----------------------------------------------------------------------

MODULE_CALL = nn.Module._call_impl.__code__
"""The call of any module, which runs the module's hooks."""
saved_tensor_hooks = torch._C._autograd._top_saved_tensors_default_hooks
"""With True: the innermost hooks for tensors that are saved, as activation checkpoints set them, or None."""
_CHECKPOINT_WITH_REENTRANT = checkpoint.CheckpointFunction.forward.__code__
_CHECKPOINT = inspect.unwrap(checkpoint.checkpoint).__code__
_APPLIED_BY_TO_EMPTY = nn.Module.to_empty.__code__.co_consts


def recomputed_function(frame: FrameType) -> tuple[Any, str, tuple] | None:
    """The function that an activation checkpoint will call again, if the frame is the checkpoint's.

    Returns:
        The object and the name of its attribute that hold the function, and the arguments that a reentrant checkpoint
        passes; None for other frames.
    """
    if frame.f_code is _CHECKPOINT_WITH_REENTRANT:
        return frame.f_locals["ctx"], "run_function", frame.f_locals["args"]
    if frame.f_code is _CHECKPOINT and (running := frame.f_locals.get("gen")) is not None:
        return running.gi_frame.f_locals["new_frame"], "recompute_fn", ()
    return None


def is_to_empty(function: Any) -> bool:
    """Whether ``nn.Module._apply`` was given the function of ``to_empty``, which leaves parameters without values."""
    return getattr(function, "__code__", None) in _APPLIED_BY_TO_EMPTY


def as_causal_bias(y: Tensor) -> Tensor:
    """The result of a dispatch mode, which calls this; a mask of ``torch.nn.attention.bias`` where PyTorch makes one.

    Under a mode, the constructor of these masks takes no tensor of another class.
    """
    bias = sys.modules.get("torch.nn.attention.bias")  # importing it takes a second
    if bias is None:
        return y
    codes = bias.causal_upper_left.__code__, bias.causal_lower_right.__code__
    frame: FrameType | None = sys._getframe(2)
    for _ in range(3):  # PyTorch's own, between the constructor and the mode
        frame = frame and frame.f_back
        if frame is not None and frame.f_code in codes:
            return y.as_subclass(bias.CausalBias)
    return y


def cached_parametrizations() -> list[Tensor]:
    """What parametrizations have computed and keep, within ``torch.nn.utils.parametrize.cached()``."""
    return list(parametrize._cache.values())
