"""Products that a recipe does not see: found where PyTorch carries them out, and listed.

:mod:`lplab.training.emulation.interception` sees the functions of PyTorch that Python code calls. It does not see what
compiled code calls (``torch.jit.script``), nor what the backward pass of a matrix inverse or of a user's own
``autograd.Function`` computes. While a model is called for the first time, with and without gradients, a
``TorchDispatchMode`` watches every operator. A product that no handler has computed is added to ``Emulation.unseen``,
and a warning says so. Later calls are not watched, and cost nothing.

This module needs PyTorch.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lplab.formats.recorded import is_tracing
from lplab.formats.torch_privates import (
    as_causal_bias,
    current_autograd_node,
    dispatch_mode_stack,
    without_function_modes,
)
from lplab.training.emulation.model_state import Emulation, ModuleCall

PRODUCT_OPERATORS = frozenset({
    "mm", "bmm", "mv", "dot", "vdot", "addmm", "baddbmm", "addbmm", "addmv", "addr", "linear", "linear_backward",
    "mkldnn_linear", "_addmm_activation", "_trilinear", "_euclidean_dist", "linalg_matrix_exp",
    "linalg_householder_product", "ormqr", "_grouped_mm", "_scaled_mm", "_scaled_grouped_mm", "_sparse_mm",
    "_sparse_addmm", "sspaddmm", "hspmm", "_sparse_mm_reduce_impl", "_sparse_semi_structured_mm", "convolution",
    "convolution_overrideable", "convolution_backward", "conv_tbc", "conv_tbc_backward", "mkldnn_convolution",
    "cudnn_convolution", "cudnn_convolution_transpose", "miopen_convolution", "_slow_conv2d_forward",
    "_conv_depthwise2d", "conv_depthwise3d", "slow_conv3d_forward", "slow_conv_transpose2d", "slow_conv_transpose3d",
    "slow_conv_dilated2d", "slow_conv_dilated3d", "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward", "_cudnn_rnn",
    "_cudnn_rnn_backward", "miopen_rnn", "_linear_cross_entropy_batch_chunked", "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_attention_math",
    "_scaled_dot_product_fused_attention_overrideable", "_flash_attention_forward", "_efficient_attention_forward",
})  # fmt: skip
"""PyTorch's operators that sum products of two tensors, without the "_" at the end of those that work in place.

Matrix decompositions, inverses and solvers, Fourier transforms, interpolation and multiplication element by element are
not among them: no recipe rounds those.
"""
SOLVERS = ("Linalg", "Cholesky", "Lu", "Triangular", "Orgqr")
"""Nodes of the autograd graph, by how their names begin, whose backward pass multiplies matrices."""


class UnseenProductWarning(UserWarning):
    """A product is computed in float32, because the recipe cannot see it."""


@dataclass(frozen=True)
class UnseenProduct:
    """A product that a recipe does not see; it and its backward pass are computed in float32.

    Attributes:
        layer: name of the module that computes it, "" for the model itself.
        operator: PyTorch's name of what is computed: "aten.mm".
        where: "forward", or "backward of F" where PyTorch, or a user's ``autograd.Function`` F, computes a gradient.
        because: that it is not seen, and why.
    """

    layer: str
    operator: str
    where: str
    because: str

    def __str__(self) -> str:
        """One line, for a report."""
        return (
            f"not seen: {self.operator} in {self.layer or 'the model'}, {self.where}: float32, because {self.because}"
        )


def unseen_products(emulation: Emulation) -> tuple[UnseenProduct, ...]:
    """The products that the recipe did not see, in the order in which they were found.

    They are found in the first call of a model, with and without gradients, in ``train()`` and in ``eval()``, and in
    the backward pass of that call. The first calls of a copy are watched, too.

    >>> from lplab.training.emulation.conversion import emulation_of, quantize_model
    >>> unseen_products(emulation_of(quantize_model(torch.nn.Linear(2, 2), "hfp8_2019")))
    ()
    """
    return tuple(emulation.unseen)


class ProductWatch(TorchDispatchMode):
    """Adds each product that no handler computes to ``Emulation.unseen``.

    Args:
        emulation: of the model that is watched.
        layer: where a backward pass is watched, the name of the module that called the function.
        node: name of the node of the autograd graph that is watched; None to watch a forward pass.

    Attributes:
        outer: the watch that is on already, as where a user's backward pass runs a part of the model again; or None.
        is_on: False while a handler computes.
        visited: the nodes of the autograd graph that were looked at. It holds them, so that none has the identity of
            another.
    """

    def __init__(self, emulation: Emulation, layer: str = "", node: str | None = None) -> None:
        super().__init__()
        self.emulation, self.layer, self.node = emulation, layer, node
        self.outer = emulation.thread.product_watch
        self.is_on = True
        self.visited: set[Any] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        """Compute the operator; look at it if it is a product."""
        is_product = func.namespace == "aten" and func._opname.removesuffix("_") in PRODUCT_OPERATORS
        if is_product and self.is_on and self.emulation.thread.product_watch is self:
            current = current_autograd_node()
            if self.node is None:
                self._found_in_forward(func, args)
            elif current is not None and current.name() == self.node:
                self._found_in_backward(func, args, self.node)
        with without_function_modes():  # else the recipe would see the operator in this call, and in no other
            y = func(*args, **(kwargs or {}))
        return as_causal_bias(y) if func is torch.ops.aten.empty.memory_format else y

    def _found_in_forward(self, func: Any, args: tuple) -> None:
        thread = self.emulation.thread
        if not thread.calls or thread.modes[-1].is_left_behind() or not _has_real_numbers(args):
            return
        if not rounds(self.emulation, self.emulation.name):
            return
        because = "it is not seen: only functions of PyTorch that Python code calls, and that lplab knows, are"
        cure = "compute it by torch.matmul or other functions of PyTorch, called from Python, or "
        product = UnseenProduct(self.emulation.name, f"aten.{func._opname}", "forward", because)
        self._add(product, self.emulation.location, cure)

    def _found_in_backward(self, func: Any, args: tuple, node: str) -> None:
        if not _has_real_numbers(args):
            return
        because = "it is not seen: what a function computes for its own gradient has no roles that a recipe rounds"
        where = f"backward of {_function_of(node)}"
        cure = (
            ""
            if node.startswith(SOLVERS)
            else "let PyTorch differentiate the products, without a function of yours, or "
        )
        product = UnseenProduct(self.layer, f"aten.{func._opname}", where, because)
        self._add(product, f"{self.layer or 'the model'}, {where}", cure)

    def _add(self, product: UnseenProduct, location: str, cure: str) -> None:
        if product in self.emulation.unseen:
            return
        self.emulation.unseen[product] = None
        warnings.warn(
            f"{location}: {product.operator} is computed in float32, the recipe does not see it; {cure}"
            "name the module in skip=[…]",
            UnseenProductWarning,
            stacklevel=2,
        )

    def look_at_functions(self, layer: str, outputs: Any) -> None:
        """Watch the backward pass of users' functions and of solvers, in what a module computed."""
        waiting = [node for node in _nodes_of(outputs) if node not in self.visited]
        while waiting:
            node = waiting.pop()
            if node in self.visited:
                continue
            self.visited.add(node)
            waiting += [before for before, _ in node.next_functions if before is not None]
            if _may_compute_products(node) and rounds(self.emulation, layer):
                _watch_backward(node, self.emulation, layer)


def _may_compute_products(node: Any) -> bool:
    """Whether a node of the autograd graph may compute products in the backward pass, though it is none itself."""
    if isinstance(node, BackwardCFunction):
        module: str = type(node)._forward_cls.__module__
        return module.partition(".")[0] not in ("torch", "lplab")
    return node.name().startswith(SOLVERS)


def _function_of(node: str) -> str:
    """The function whose gradient a node computes.

    >>> _function_of("LinalgInvExBackward0")
    'LinalgInvEx'
    """
    return node.rstrip("0123456789").removesuffix("Backward")


def _watch_backward(node: Any, emulation: Emulation, layer: str) -> None:
    """Watch what one node of the autograd graph computes.

    Autograd sets the modes of the forward pass again before each node, so that a mode cannot stay on after an error.
    """
    name = node.name()

    def begin(gradients: Any) -> None:
        _begin(ProductWatch(emulation, layer, name))

    def end(gradients: Any, output_gradients: Any) -> None:
        _end(emulation.thread.product_watch)

    node.register_prehook(begin)
    node.register_hook(end)


def _begin(watch: ProductWatch) -> None:
    watch.emulation.thread.product_watch = watch
    watch.__enter__()


def _end(watch: ProductWatch) -> None:
    """End a watch; where another mode was switched on after it, it stays below that, and does nothing more."""
    watch.emulation.thread.product_watch, watch.is_on = watch.outer, False
    if dispatch_mode_stack()[-1:] == [watch]:
        watch.__exit__(None, None, None)


def rounds(emulation: Emulation, name: str) -> bool:
    """Whether a module of this name is under rules that round anything, now."""
    return emulation.enabled and not emulation.rules_of(name, emulation.kinds.get(name, frozenset())).is_identity


def _has_real_numbers(args: tuple) -> bool:
    """Whether an operator computes with real numbers; formats are of these."""
    return any(isinstance(x, Tensor) and x.is_floating_point() for x in tree_leaves(args))


def _nodes_of(values: Any) -> Iterator[Any]:
    """The nodes of the autograd graph that computed the tensors in a structure."""
    return (x.grad_fn for x in tree_leaves(values) if isinstance(x, Tensor) and x.grad_fn is not None)


# ---- the first calls of a model --------------------------------------------------------------------------------------


def begin_watch(emulation: Emulation, call: ModuleCall, args: Any) -> None:
    """Watch the call of the model that begins, if none of its kind was watched yet."""
    thread = emulation.thread
    if thread.product_watch is not None and thread.product_watch not in dispatch_mode_stack():
        thread.product_watch = None  # a backward pass that ended with an error
    if emulation.is_identity or not emulation.enabled or call.kind in emulation.watched_calls:
        return
    if torch.compiler.is_compiling() or is_tracing():
        return
    watch = ProductWatch(emulation)
    watch.visited.update(_nodes_of(args))  # what was computed before the model is not looked at
    _begin(watch)


def watch_functions(emulation: Emulation, output: Any) -> None:
    """Watch the backward pass of users' functions and of solvers that the module which ends has called."""
    watch = emulation.thread.product_watch
    if watch is not None and watch.node is None:
        watch.look_at_functions(emulation.name, output)


def end_watch(emulation: Emulation, call: ModuleCall, is_done: bool) -> None:
    """End the watch of a call, if it is on. A call that raised an error is not done; the next one is watched, too."""
    watch = emulation.thread.product_watch
    if watch is None or watch.node is not None:
        return
    _end(watch)
    if is_done:
        emulation.watched_calls.add(call.kind)
