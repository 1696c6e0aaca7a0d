"""Few bits in FSDP (``torch.distributed.fsdp.fully_shard``): weights gathered in 8 bits, gradients between replicas.

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["shards"])
    fully_shard(model, mesh=mesh["shards"])
    replicas = mesh["replicas"].get_group()
    hook = FSDPHook(model, weight="hfp8_forward", compressor="scalecom:chunk=112", replicas=replicas)
    ...
    loss.backward()
    optimizer.step()                                         # as always

Three messages of a step can be exchanged in another way than PyTorch's:

* **Weights** (all-gather): as codes of an 8-bit format, with ``weight=BlockCode("int8", 256)`` with a scale for each
  block as in ZeRO++. The owner of a shard updates its float32 weights and rounds
  them anew for each message. What rounding took away stays with the owner: its weights are the sum of the values sent
  and of the residual of :mod:`lplab.compression.sharded_weights`. Biases, normalization, and shards of less than 1,024
  elements travel in float32.
* **Gradients within a replica** (reduce-scatter): dense, summed in the order of ranks, with the simulator's bits; the
  sum of PyTorch's own depends on the back end. Or, with ``gradient="int4"``, by ZeRO++'s two all-to-alls, inside nodes
  of ``per_node`` ranks and between them (:mod:`lplab.compression.two_all_to_alls`): each value is rounded twice. What
  travels in float32 above does so here, too.
* **Gradients between replicas** (all-reduce): by a compressor, each parameter's shard by itself, as in the hook of
  DistributedDataParallel. Shard the model over the shards' mesh alone, as above: over a two-dimensional mesh PyTorch
  averages between the replicas itself.

FSDPHook gives all replicas the weights and buffers of the first one, as DistributedDataParallel does.

If a gradient, or what is made of it, is not finite on some rank, no residual changes on any rank, and the gradients are
None after the backward pass. That needs ``replicas``; without, gradients are those of plain FSDP. Weights are coded by
numpy on the CPU. Tested over gloo.

This module needs PyTorch, and one whose FSDP has these hooks (2.13 is tested).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Shard

from lplab.compression import Compressor, Entry, TrafficLog, compressor_catalogue
from lplab.compression.block_codes import BlockCode, Code, PiecesCode
from lplab.compression.compressor import sum_of_ranks
from lplab.compression.layer_info import info_of
from lplab.compression.sharded_weights import check_whole_bytes
from lplab.compression.tensors.operations import divided
from lplab.compression.two_all_to_alls import Stages
from lplab.parallel.compressor_states import CompressorStates, as_arrays, as_tensors, layer_infos
from lplab.parallel.process_group import KEPT_ENTRIES, CompressedAverages, ProcessGroupTransport, after_backward

FULL = BlockCode("fp32", None)  # of biases and other small tensors
HOOKS = ("set_custom_all_gather", "set_custom_reduce_scatter", "set_all_reduce_hook")


class FSDPHook:
    """What was set in a model, and its state.

    Args:
        model: under ``fully_shard``, float32, sharded along the first dimension over a mesh of one dimension.
        weight: format of the gathered weights, of 8, 16 or 32 bits, without a scale; or a
            :class:`~lplab.compression.block_codes.BlockCode`; None: as PyTorch sends them.
        gradient: format of the gradients within a replica, as in "int4", with a scale for each 256 elements; or a
            BlockCode; None: float32.
        per_node: with ``gradient``, consecutive ranks of the shards' group that are in one node; it divides their
            number.
        compressor: for the gradients between replicas, or its name and settings; with ``replicas``.
        replicas: the process group of the ranks that own the same shards.
        ordered: whether values are summed between replicas in the order of ranks, with the simulator's bits: each rank
            then sends its values to every other replica. Else by ``all_reduce``.
        seed: of all random numbers, the same on all ranks.

    Attributes:
        averages: residuals, steps and traffic between replicas (:class:`CompressedAverages`); None without replicas.
        ledger: traffic of the weights and of the reduce-scatter: kinds "all_gather" and "reduce_scatter", layers as
            FSDP groups them. Bytes that this rank sends, recent ones one by one, older ones in sums.

    Raises:
        RuntimeError: this PyTorch's FSDP has no such hooks.
        TypeError: not a model under ``fully_shard``, or one that is sharded in another way.
        ValueError: an unknown format, compressor or setting; a compressor without replicas, or the other way round;
            ranks that do not fill their nodes, or nodes without ``gradient``.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        weight: str | BlockCode | None = None,
        gradient: str | BlockCode | None = None,
        per_node: int = 1,
        compressor: Compressor | str | None = None,
        replicas: Any = None,
        ordered: bool = False,
        seed: int = 0,
    ) -> None:
        check_hooks()
        if (compressor is None) != (replicas is None):
            raise ValueError("a compressor works between replicas: give both compressor= and replicas=, or neither")
        if gradient is None and per_node != 1:
            raise ValueError("per_node is about gradients that are sent in few bits: give gradient=, too")
        if isinstance(weight, str):
            check_whole_bytes("weight", weight)
        code_of_weights = BlockCode(weight, None) if isinstance(weight, str) else weight
        code_of_gradients = BlockCode(gradient) if isinstance(gradient, str) else gradient
        self.model, self.ledger = model, TrafficLog(keep=KEPT_ENTRIES)
        self.groups = {name: parts for name, module in model.named_modules() if (parts := _parts(model, module))}
        if not self.groups:
            raise TypeError(f"a model under torch's fully_shard is needed, got {type(model).__name__} without shards")
        kinds = layer_infos(model)
        infos = {
            part.name: replace(kinds.get(part.name) or info_of(part.name, part.shape), shape=part.shape)
            for parts in self.groups.values()
            for part in parts
        }
        mesh: Any = next(p for p in model.parameters() if isinstance(p, DTensor)).device_mesh
        device = next(model.parameters()).device
        self.averages: CompressedAverages | None = None
        if compressor is not None:
            broadcast_from_first(model, replicas)
            states = CompressorStates(compressor_catalogue.from_text(compressor), {name: infos[name] for name in kinds})
            self.averages = CompressedAverages(
                ProcessGroupTransport(replicas, ordered, device), states, seed, keep_ledger=True
            )
        self._shards = ProcessGroupTransport(mesh.get_group(), device=device)
        if gradient is not None:
            Stages(self._shards.world, per_node, FULL, ())
        self._seen: set[str] = set()
        for name, parts in self.groups.items():
            module: Any = model.get_submodule(name)
            log, full = partial(self._log, name), {part.name for part in parts if infos[part.name].is_small}
            if code_of_gradients is None:
                module.set_custom_reduce_scatter(OrderedReduceScatter(partial(log, "reduce_scatter")))
            else:
                trained = [part for part in parts if part.trained]
                code = _code_of(trained, code_of_gradients, full)
                module.set_custom_reduce_scatter(CodedReduceScatter(name, code, per_node, log))
            if code_of_weights is not None:
                code = _code_of(parts, code_of_weights, full)
                module.set_custom_all_gather(CodedAllGather(code, partial(log, "all_gather")))
            if self.averages is not None:
                module.set_all_reduce_hook(partial(self._average, name))

    def state_dict(self) -> dict[str, Any]:
        """The residuals of this rank, to resume bit for bit with the same shards and replicas: one file for each rank.

        Raises:
            ValueError: without replicas there is no state.
        """
        averages = self._with_state()
        return {"step": averages.step, **self._place(), **as_tensors(averages.states.state_dict())}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Resume from :meth:`state_dict` of the same rank; what a failed step has left, and the traffic logs, go.

        Raises:
            ValueError: the state of another rank, or of another number of ranks.
        """
        averages, place = self._with_state(), self._place()
        of = {key: saved[key] for key in place}
        if of != place:
            raise ValueError(f"this is the state of {of}, here is {place}: FSDP's residuals need the same ranks again")
        averages.load(as_arrays(saved), saved["step"])
        self._seen.clear()
        self.ledger.clear()

    def _with_state(self) -> CompressedAverages:
        if self.averages is None:
            raise ValueError("without replicas there is no state between steps: the weights are the model's own")
        return self.averages

    def _place(self) -> dict[str, int]:
        return {"rank": dist.get_rank(), "world": dist.get_world_size()}

    def _log(self, layer: str, kind: str, nbytes: int) -> None:
        step = 0 if self.averages is None else self.averages.step
        self.ledger.append(Entry(step, layer, kind, dist.get_rank(), nbytes))

    def _average(self, group: str, gradients: Tensor) -> None:
        """Called by FSDP with a group's shard of the gradients, which receives the average over the replicas."""
        averages, parts = self._with_state(), [part for part in self.groups[group] if part.trained]
        sizes = [prod(part.shape) for part in parts]
        if not self._seen:
            after_backward(self._finish)
        self._seen.add(group)
        if sum(sizes) != gradients.numel():
            self._seen.clear()
            raise RuntimeError(_missing(group))
        pieces = [
            np.ascontiguousarray(piece.float().cpu().numpy().reshape(part.shape))
            for piece, part in zip(gradients.split(sizes), parts, strict=True)
        ]
        names = [part.name for part in parts]
        means = averages.average_if_finite(names, pieces)
        finite = means is not None
        if means is not None:
            gradients.copy_(torch.from_numpy(np.concatenate([mean.reshape(-1) for mean in means])))
            finite = gradients.dtype == torch.float32 or averages.are_finite(gradients, names)
        averages.bucket_done(finite, is_last=False)

    def _finish(self) -> None:
        """After the backward pass: commit or skip the step, for which all groups need gradients."""
        averages, seen = self._with_state(), set(self._seen)
        self._seen.clear()
        # The error of a group has ended the pass.
        if not seen:
            return
        missing = [
            name for name, parts in self.groups.items() if any(part.trained for part in parts) and name not in seen
        ]
        if missing:
            averages.states.rollback()
            averages.finite = True
            raise RuntimeError(_missing(missing[0]))
        rank = self._shards.first_rank_with(not averages.finite)
        if rank is not None and averages.finite:
            averages.not_finite = f"a gradient of shard {rank} in step {averages.step}"
        averages.bucket_done(rank is None, is_last=True)
        for parameter in self.model.parameters() if averages.skipped else ():
            parameter.grad = None


@torch.no_grad()
def broadcast_from_first(model: nn.Module, replicas: Any) -> None:
    """Give all replicas the weights and buffers of the first one.

    Args:
        model: under ``fully_shard``.
        replicas: the process group of the ranks that own the same shards.

    Raises:
        TypeError: a parameter has no values yet, being on the device "meta".
    """
    tensors = dict((*model.named_parameters(), *model.named_buffers()))
    for name, tensor in tensors.items():
        if tensor.is_meta:
            raise TypeError(f"{name} has no values yet, being on the device 'meta': initialize the model first")
    first = dist.get_global_rank(replicas, 0)
    for tensor in tensors.values():
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        values = local.contiguous()
        dist.broadcast(values, first, replicas)
        local.copy_(values)


def check_sum(op: Any) -> None:
    """Refuse other reductions than sum and average.

    Raises:
        ValueError: another op, as FSDP has it for ``set_gradient_divide_factor``.
    """
    if op not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        raise ValueError("a gradient divide factor needs model.set_force_sum_reduction_for_comms(True)")


class MessageMemory:
    """What FSDP asks of a collective beside the exchange itself."""

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Memory for a message."""
        return torch.empty(*size, dtype=dtype, device=device)


class OrderedReduceScatter(MessageMemory):
    """Gradients summed in the order of ranks, for ``FSDPModule.set_custom_reduce_scatter``.

    Args:
        log: is told how many bytes this rank sends.
    """

    def __init__(self, log: Callable[[int], None]) -> None:
        self.log = log

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: Any, op: Any, async_op: bool = False
    ) -> None:
        """Receive the gradients of all ranks for this rank's shard, and sum or average them.

        Args:
            output_tensor: receives the result, [n].
            input_tensor: the gradients of this rank, [world · n].
            group: of the shards.
            op: ``ReduceOp.SUM`` or ``ReduceOp.AVG``.
            async_op: taken as False.

        Raises:
            ValueError: another op, as FSDP has it for ``set_gradient_divide_factor``.
        """
        check_sum(op)
        received = torch.empty_like(input_tensor)
        dist.all_to_all_single(received, input_tensor, group=group)
        rows = received.view(dist.get_world_size(group), -1)
        total = sum_of_ranks(rows)
        output_tensor.copy_(divided(total, len(rows)) if op == dist.ReduceOp.AVG else total)
        self.log((input_tensor.numel() - output_tensor.numel()) * input_tensor.element_size())


class CodedReduceScatter(MessageMemory):
    """Gradients summed by ZeRO++'s two all-to-alls, for ``FSDPModule.set_custom_reduce_scatter``.

    Ranks send nothing to those that are neither in their node nor at their place of another one.

    Args:
        name: of the group of parameters, for an error.
        code: of a shard's gradients.
        per_node: consecutive ranks that are in one node.
        log: is told a kind, "reduce_scatter_inside" or "reduce_scatter_between", and how many bytes this rank sends.
    """

    def __init__(self, name: str, code: PiecesCode, per_node: int, log: Callable[[str, int], None]) -> None:
        self.name, self.code, self.per_node, self.log = name, code, per_node, log

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: Any, op: Any, async_op: bool = False
    ) -> None:
        """Exchange codes of the gradients of all ranks, and sum or average those of this rank's shard.

        Args:
            output_tensor: receives the result, [n].
            input_tensor: the gradients of this rank, [world · n].
            group: of the shards.
            op: ``ReduceOp.SUM`` or ``ReduceOp.AVG``.
            async_op: taken as False.

        Raises:
            ValueError: another op.
            RuntimeError: a parameter of the group has no gradient.
        """
        check_sum(op)
        rank, world, size = dist.get_rank(group), dist.get_world_size(group), output_tensor.numel()
        if size != sum(count for count, _ in self.code.pieces):
            raise RuntimeError(_missing(self.name))
        stages = Stages(world, self.per_node, self.code, (size,) * world)
        place, node = rank % self.per_node, rank // self.per_node
        gradient = input_tensor.detach().float().cpu().numpy()
        sums = list(gradient.reshape(world, size))
        if self.per_node > 1:
            neighbours = range(node * self.per_node, (node + 1) * self.per_node)
            sums = stages.node_sums(place, self._exchanged("inside", neighbours, stages.first(gradient), group))
        total = sums[node]
        if stages.nodes > 1:
            peers = stages.owners(place)
            total = stages.total(rank, self._exchanged("between", peers, stages.second(sums), group))
        total = torch.from_numpy(total)
        output_tensor.copy_(divided(total, world) if op == dist.ReduceOp.AVG else total)

    def _exchanged(self, stage: str, peers: Sequence[int], messages: Sequence[bytes], group: Any) -> list[bytes]:
        """An all-to-all among some ranks, all of whose messages have one length; what they sent, in their order."""
        lengths = [0] * dist.get_world_size(group)
        for peer, message in zip(peers, messages, strict=True):
            lengths[peer] = len(message)
        device = "cpu" if dist.get_backend(group) == "gloo" else torch.device("cuda", torch.cuda.current_device())
        sent = torch.from_numpy(np.frombuffer(b"".join(messages), np.uint8).copy()).to(device)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, lengths, lengths, group)
        self.log(f"reduce_scatter_{stage}", len(sent) - lengths[dist.get_rank(group)])
        return [row.tobytes() for row in received.cpu().numpy().reshape(len(peers), -1)]


class CodedAllGather(MessageMemory):
    """Weights gathered as codes, for ``FSDPModule.set_custom_all_gather``.

    Args:
        code: of a shard.
        log: is told how many bytes this rank sends.
    """

    def __init__(self, code: Code, log: Callable[[int], None]) -> None:
        self.code, self.log = code, log

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: Any, async_op: bool = False) -> None:
        """Send the codes of this rank's shard to all, and decode those of all.

        Args:
            output_tensor: receives the rounded weights of all ranks, [world · n].
            input_tensor: the weights of this rank, [n]; may be a part of ``output_tensor``.
            group: of the shards.
            async_op: taken as False.
        """
        world = dist.get_world_size(group)
        codes = self.code.encode(input_tensor.float().cpu().numpy())
        own = torch.from_numpy(np.frombuffer(codes, np.uint8).copy()).to(input_tensor.device)
        rows = [torch.empty_like(own) for _ in range(world)]
        dist.all_gather(rows, own, group)
        for target, row in zip(output_tensor.view(world, -1), rows, strict=True):
            target.copy_(torch.from_numpy(self.code.decode(row.cpu().numpy().tobytes(), target.numel())))
        self.log(len(codes) * (world - 1))


@dataclass(frozen=True)
class _Part:
    """One parameter in a group's shard.

    Attributes:
        name: in the model.
        shape: of the shard, which is padded to that of rank 0.
        trained: whether it has gradients.
    """

    name: str
    shape: tuple[int, ...]
    trained: bool


def _parts(model: nn.Module, module: nn.Module) -> list[_Part]:
    """The parameters that FSDP keeps together with a module, in its order; none for a module that has no shards.

    Raises:
        TypeError: sharded over more than one dimension of a mesh, along another one than the first, or not float32.
    """
    if not isinstance(module, FSDPModule):
        return []
    names = {id(p): name for name, p in model.named_parameters()}
    parts = {}
    for parameter in _own_parameters(module):
        if isinstance(parameter, DTensor):
            name = names[id(parameter)]
            if parameter.placements != (Shard(0),) or parameter.dtype != torch.float32:
                raise TypeError(
                    f"{name} is {parameter.dtype} with {parameter.placements}; float32 parameters are needed, sharded "
                    "along the first dimension over a mesh of one dimension (mesh['shards'] of one with replicas)"
                )
            rows = -(-parameter.shape[0] // parameter.device_mesh.size())
            parts[name] = _Part(name, (rows, *parameter.shape[1:]), parameter.requires_grad)
    return list(parts.values())


def _code_of(parts: Sequence[_Part], code: BlockCode, full: set[str]) -> PiecesCode:
    """The code of a shard, of which some parameters travel in float32."""
    return PiecesCode(tuple((prod(part.shape), FULL if part.name in full else code) for part in parts))


def _own_parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    """The parameters of a module without those of nested FSDP modules; those of its children first, as FSDP has it."""
    for child in module.children():
        if not isinstance(child, FSDPModule):
            yield from _own_parameters(child)
    yield from module.parameters(recurse=False)


def _missing(group: str) -> str:
    """What is said of a group in which a parameter has no gradient."""
    return (
        f"in this step not all parameters have gradients (seen in {group or 'the outermost group'!r}): between "
        "replicas each parameter needs one in each step"
    )


def check_hooks() -> None:
    """Refuse a PyTorch whose FSDP has no such hooks.

    Raises:
        RuntimeError: which one is missing.
    """
    missing = [name for name in HOOKS if not hasattr(FSDPModule, name)]
    if missing:
        raise RuntimeError(f"PyTorch {torch.__version__} has no FSDPModule.{missing[0]}: update it, 2.13 is tested")
