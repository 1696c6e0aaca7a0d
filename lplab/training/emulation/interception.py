"""The hooks and the function mode that intercept what a quantized model computes.

While a quantized model runs, a :class:`torch.overrides.TorchFunctionMode` receives each function of PyTorch that is
called (``nn.Linear`` and ``x @ w`` alike) and passes it to its handler of
:mod:`lplab.training.emulation.op_handlers`. Hooks before and after each module record which module is running.

This module needs PyTorch.
"""

from __future__ import annotations

import copy
import sys
import warnings
from contextlib import nullcontext
from functools import cached_property
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from lplab.formats.recorded import is_recording, knows_shapes_alone
from lplab.formats.torch_privates import (
    MODULE_CALL,
    asks_subclasses,
    count_dispatch_modes,
    current_function_mode,
    forward_derivative_level,
    is_autocast_on,
    is_fx_tracing,
    open_transform,
    saved_tensor_hooks,
    set_eval_frame,
    tracing_state,
)
from lplab.training.emulation.argument_checks import has_own_numbers
from lplab.training.emulation.autocast import autocast_off, in_float32
from lplab.training.emulation.model_state import Emulation, ModuleCall, ModuleReference
from lplab.training.emulation.op_handlers import (
    HANDLERS,
    WITHOUT_PLACES,
    Unsupported,
    is_checked,
    multi_head_attention,
    without_plain_tensors,
)
from lplab.training.emulation.quantized_op import NOT_COMPILED
from lplab.training.emulation.recomputation import draws_of
from lplab.training.emulation.unseen_products import begin_watch, end_watch, watch_functions
from lplab.training.emulation.weight_lineage import Lineage

WITH_FAST_PATH = (nn.MultiheadAttention, nn.TransformerEncoder, nn.TransformerEncoderLayer)
"""Modules that PyTorch computes otherwise in evaluation, with other last bits, where no function mode is on."""
_NOT_SCRIPTED = (
    "torch.jit.script cannot compile a model under a recipe, which runs in Python: record it with torch.jit.trace "
    "within `with torch.no_grad():`, or script dequantize_model(model)"
)
_NOT_EXPORTED = (
    "torch.export cannot record how a recipe rounds: export dequantize_model(model), or do it within "
    "`with lplab.training.float32(model):`"
)
_NOT_TRACED = (
    "torch.fx.symbolic_trace cannot see how a recipe rounds: trace the plain model, and quantize the module that it "
    "returns; or record the model with torch.jit.trace within `with torch.no_grad():`"
)


class QuantizationMode(TorchFunctionMode):
    """Passes every function of PyTorch that is called to its handler, if it has one.

    Args:
        emulation: of the model.
        module: the module that is called.
        caller: the call of the module during which the mode is on; None where a ``with`` block closes the mode.
    """

    def __init__(self, emulation: Emulation, module: nn.Module, caller: FrameType | None = None) -> None:
        super().__init__()
        self.emulation, self.module, self.caller = emulation, module, caller

    @cached_property
    def lineage(self) -> Lineage:
        """Which tensors are weights, in this call of the model; made when the first function needs it."""
        return Lineage(self.module)

    def nested(self) -> QuantizationMode:
        """A mode like this one for use inside a handler, where PyTorch has switched this one off."""
        mode = QuantizationMode(self.emulation, self.module)
        mode.lineage = self.lineage
        return mode

    def is_left_behind(self) -> bool:
        """Whether the call has ended without closing the mode, as after Ctrl-C. It must not act on other models."""
        if self.caller is None or torch.compiler.is_compiling():
            return False
        try:
            self.caller.clear()
        except RuntimeError:  # Python refuses while the call is going on
            return False
        return True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the handler of the function; the function itself where there is none."""
        handler, kwargs, emulation = HANDLERS.get(func), kwargs or {}, self.emulation
        if handler is None:
            result = func(*args, **kwargs)
            self.lineage.follow(func, args, kwargs, result)
            return result
        if not emulation.enabled or self.is_left_behind():
            return func(*args, **kwargs)
        if emulation.is_identity:
            if isinstance(handler, Unsupported):
                return func(*args, **kwargs)
        else:
            if types and asks_subclasses():  # else they have been asked
                subclasses = [kind for kind in types if kind is not Tensor]
                if subclasses and all(issubclass(kind, Tensor) for kind in subclasses):
                    return self._called_by_subclasses(func, handler, subclasses, types, args, kwargs)
            if is_autocast_on():
                with autocast_off():
                    return self.__torch_function__(func, types, *in_float32(args, kwargs))
        thread = emulation.thread
        thread.draws = draws_of(emulation, sys._getframe(1)) if may_be_checkpointed() else thread.inherited_draws
        watch = thread.product_watch
        if watch is None:
            result = handler(emulation, func, args, kwargs)
        else:
            before, watch.is_on = watch.is_on, handler is multi_head_attention  # its products have their own handlers
            try:
                result = handler(emulation, func, args, kwargs)
            finally:
                watch.is_on = before
        if handler in WITHOUT_PLACES:
            self.lineage.follow(func, args, kwargs, result)
        return result

    def _called_by_subclasses(
        self, func: Any, handler: Any, subclasses: list, types: Any, args: tuple, kwargs: dict
    ) -> Any:
        """What subclasses of tensors make of the function, as PyTorch asks them; the mode sees what they call."""
        own = [kind.__name__ for kind in subclasses if has_own_numbers(kind)]
        if own and is_checked(handler):
            func(*args, **kwargs)  # raises PyTorch's own error, if there is one
            return without_plain_tensors(f"a {own[0]}")(self.emulation, func, args, kwargs)
        is_attention = func is functional.scaled_dot_product_attention  # a mask object may call a fused kernel on a GPU
        with self.nested(), sdpa_kernel(SDPBackend.MATH) if is_attention else nullcontext():
            for kind in subclasses:
                result = kind.__torch_function__(func, types, args, kwargs)
                if result is not NotImplemented:
                    return result
        raise TypeError(f"{func} has no implementation for {', '.join(kind.__name__ for kind in subclasses)}")


class _Hook:
    @property
    def __name__(self) -> str:
        """What ``torch.jit.script`` asks each hook for, to compile the function of this name."""
        raise AttributeError(_NOT_SCRIPTED)


class PreForwardHook(_Hook):
    """The hook that runs before a module; it knows the module's name."""

    def __init__(self, emulation: Emulation, name: str) -> None:
        self.emulation, self.name = emulation, name

    def __call__(self, module: nn.Module, args: Any) -> None:
        """Record the call; the first call switches the mode on."""
        if torch.compiler.is_dynamo_compiling():
            torch._dynamo.skip_frame(msg=_NOT_EXPORTED if torch.compiler.is_exporting() else NOT_COMPILED)
        emulation, thread = self.emulation, self.emulation.thread
        compiler = set_eval_frame(None)
        if compiler is not None:
            thread.compiler = compiler
            warnings.warn(NOT_COMPILED, stacklevel=2)
        if thread.modes and thread.modes[-1].is_left_behind():
            _reset_after_interrupt(emulation)
        frame, draws = None, thread.inherited_draws
        if may_be_checkpointed():
            frame = module_call(sys._getframe(1))
            draws = draws_of(emulation, frame and frame.f_back)
        call = ModuleCall(self.name, module, draws=draws, frame=frame)
        if thread.calls:
            thread.calls.append(call)
        else:
            self._begin_outermost(call, sys._getframe(1), args)
        if not module.training and isinstance(module, WITH_FAST_PATH) and _is_plain(emulation, self.name, module):
            mode = thread.modes[-1]
            if current_function_mode() is mode:
                mode.__exit__(None, None, None)
                call.without_mode = True

    def _begin_outermost(self, call: ModuleCall, caller: FrameType, args: Any) -> None:
        """Switch the mode on for a call that is not inside another one."""
        emulation, thread = self.emulation, self.emulation.thread
        if not emulation.is_identity and emulation.enabled:
            _check_surroundings()  # before anything is switched on: torch.export calls no hook after an error
        # inside a reentrant checkpoint gradients are off in the forward pass, and the recomputation is no new step
        if thread.again is None and (torch.is_grad_enabled() or call.draws is not None):
            for op in emulation.ops.values():
                if op.scale is not None:
                    op.end_step()
        mode = QuantizationMode(emulation, call.module, caller)
        thread.modes.append(mode)
        mode.__enter__()
        thread.calls.append(call)
        if thread.product_watch is not None or call.kind not in emulation.watched_calls:
            begin_watch(emulation, call, args)


class ForwardHook(_Hook):
    """The hook that runs after a module, also where the module raised an error."""

    def __init__(self, emulation: Emulation) -> None:
        self.emulation = emulation

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        """Remove the call; the end of the first call switches the mode off."""
        thread = self.emulation.thread
        if thread.calls:  # else the hook before the module has refused the call
            if thread.product_watch is not None:
                watch_functions(self.emulation, output)
            call = thread.calls.pop()
            if call.without_mode:
                thread.modes[-1].__enter__()
            if not thread.calls and thread.product_watch is not None:
                end_watch(self.emulation, call, is_done=output is not None)
        if not thread.calls:
            if thread.modes:
                thread.modes.pop().__exit__(None, None, None)
            thread.shared.clear()
            thread.draws = None
            if thread.compiler is not None:
                compiler, thread.compiler = thread.compiler, None
                set_eval_frame(compiler)


def may_be_checkpointed() -> bool:
    """Whether an activation checkpoint may have begun. It needs no look at the stack: each call of a layer asks it.

    Reentrant checkpoints switch gradients off, the others set hooks for the tensors that are saved.
    """
    return not torch.is_grad_enabled() or saved_tensor_hooks(True) is not None


def _is_plain(emulation: Emulation, name: str, module: nn.Module) -> bool:
    """Whether PyTorch computes a module and all modules inside, and no watcher looks on."""
    if not emulation.enabled:
        return True
    return emulation.watch is None and not any(
        emulation.may_round(inner) for inner, _ in module.named_modules(prefix=name)
    )


def _check_surroundings() -> None:
    """Refuse tools of PyTorch that cannot see into a quantized function."""
    if open_transform() is not None:
        raise NotImplementedError(
            "torch.func (vmap, grad, jacrev, …) cannot transform a model under a recipe: take torch.autograd.grad, one "
            "example after the other, or call the model within `with lplab.training.float32(model):`"
        )
    if forward_derivative_level() >= 0:
        raise NotImplementedError(
            "forward-mode derivatives of a model under a recipe are not defined: take torch.autograd.grad, or call the "
            "model within `with lplab.training.float32(model):`"
        )
    if torch.compiler.is_exporting():
        raise NotImplementedError(_NOT_EXPORTED)
    if is_symbolic_trace():
        raise NotImplementedError(_NOT_TRACED)
    if (tracing_state() is None and not count_dispatch_modes()) or not is_recording():
        return
    if torch.is_grad_enabled():
        raise NotImplementedError(
            "torch.jit.trace and make_fx record a model under a recipe only within `with torch.no_grad():`"
        )
    if knows_shapes_alone():
        raise NotImplementedError("make_fx records a model under a recipe only with tracing_mode='real'")


def is_symbolic_trace() -> bool:
    """Whether ``torch.fx.symbolic_trace`` or another ``torch.fx.Tracer`` runs a forward pass with stand-ins now.

    >>> is_symbolic_trace()
    False
    """
    return is_fx_tracing() and not is_recording()


class NameOutsideTraces:
    """Takes the place of a module's ``_get_name``, which a ``torch.fx.Tracer`` asks for before it traces a module.

    Such a trace calls ``forward`` of the module itself and no hook, so that nothing else could notice it. The name is
    that of the class.
    """

    def __init__(self, emulation: Emulation, module: nn.Module) -> None:
        self.emulation, self.module = emulation, ModuleReference(module)

    def __call__(self) -> str:
        """The name; refused while a trace begins."""
        if is_symbolic_trace() and not self.emulation.is_identity:
            raise NotImplementedError(_NOT_TRACED)
        return type(self.module()).__name__

    def __deepcopy__(self, memo: dict[int, Any]) -> NameOutsideTraces:
        return NameOutsideTraces(*copy.deepcopy((self.emulation, self.module()), memo))

    def __getstate__(self) -> dict[str, Any]:
        """Refuse a file of a module that PyTorch would trace again when it is read, without its hooks."""
        if isinstance(self.module(), torch.fx.GraphModule):
            raise NotImplementedError(
                "a torch.fx.GraphModule under a recipe cannot be pickled: save its state_dict(), or "
                "dequantize_model(model), and quantize what is loaded"
            )
        return self.__dict__


def module_call(frame: FrameType | None) -> FrameType | None:
    """The frame of the module call that runs a hook, or None."""
    while frame is not None and frame.f_code is not MODULE_CALL:
        frame = frame.f_back
    return frame


def _reset_after_interrupt(emulation: Emulation) -> None:
    """Reset the state of the thread after KeyboardInterrupt; forward hooks do not run for it."""
    thread = emulation.thread
    mode = thread.modes[-1]
    end_watch(emulation, thread.calls[0], is_done=False)
    if current_function_mode() is mode:
        mode.__exit__(None, None, None)  # a mode below others stays there, and passes everything through
    thread.compiler = thread.draws = thread.again = None
    for open_items in (thread.calls, thread.modes, thread.shared):
        open_items.clear()
