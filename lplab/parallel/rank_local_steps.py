"""Local steps between processes: an optimizer that meets the others after every so many of its own steps.

    meetings = local_steps(model, optimizer, every=30, outer="mean", compressor="sparseloco",
                           store=store, rank=rank, world=4)
    ...                                                       # the training loop stays as it is
    optimizer.step()                                          # every thirtieth call of it ends with a meeting

The bits are those of :class:`lplab.parallel.LocalSteps`, which runs all learners in one process. Processes meet through
a store (``store_meeting.py``): one that dies, or comes too late, is left out of the round. One that was left out reads
the others' messages, and begins its next round from the same weights as they do.

A learner can also be several ranks of a process group together, whose model is sharded by FSDP (``fully_shard``) or has
averaged gradients. The first of them then meets for all, about the whole weights.

With a delay, as in Streaming DiLoCo, a rank exchanges the messages in a thread while it goes on with its steps.

This module needs PyTorch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from lplab.checks import check_int, check_number
from lplab.compression import Compressor, TrafficLog, compressor_catalogue
from lplab.compression.fragments import MeetingSchedule
from lplab.parallel.compressor_states import CompressorStates, as_arrays, as_tensors, layer_infos, merge_ranks
from lplab.parallel.federated import refuse_batch_norm
from lplab.parallel.local_rounds import SharedWeights, whole
from lplab.parallel.store_meeting import Meeting, StoreMeetings


class RankLocalSteps:
    """One rank that takes steps of its own and meets the others; see :func:`local_steps`.

    Attributes:
        took_part: the ranks of the last meeting; () before the first.
        ledger: traffic log of this rank: step is the round.
        meetings: with the others; ``meetings.number`` is that of the next round.
        shared: the weights from which all start a round, and the outer optimizer.
        states: the compressors and the residuals of this rank.
        group: of the ranks that are this learner together; None: it is one.
        leads: whether this rank meets for the learner.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        meetings: StoreMeetings,
        compressor: Compressor,
        outer: str | Callable[[Any], torch.optim.Optimizer],
        seed: int,
        schedule: MeetingSchedule,
        pattern: str,
        alpha: float,
        group: Any,
    ) -> None:
        refuse_batch_norm(model)
        self.optimizer, self.seed = optimizer, seed
        self.meetings, self.shared = meetings, SharedWeights(model, outer, schedule, pattern, alpha)
        self.group = group_of(model) if group is None else group
        self.leads = self.group is None or dist.get_rank(self.group) == 0
        # Who leads keeps the residual of the learner.
        self.states = CompressorStates(compressor, layer_infos(model) if self.leads else {})
        self.ledger = TrafficLog()
        self.took_part: tuple[int, ...] = ()
        self._steps = 0
        # The number of a meeting whose messages are on their way, and a function that waits for it.
        self._under_way: tuple[int, Callable[[], Meeting]] | None = None
        # One thread; without a delay it is never started.
        self._thread = ThreadPoolExecutor(1)
        self._check_start()
        self._hook = optimizer.register_step_post_hook(self._after_step)

    def remove(self) -> None:
        """Let the optimizer meet nobody any more."""
        self._hook.remove()
        self._thread.shutdown(wait=False)

    def state_dict(self) -> dict[str, Any]:
        """The state to resume from after a meeting, without the inner optimizer and its schedule.

        Raises:
            RuntimeError: a fragment is on its way.
        """
        if self._under_way is not None:
            raise RuntimeError("a fragment is on its way: take the checkpoint after a meeting, or before what is sent")
        return {
            "rank": self.meetings.rank,
            "round": self.meetings.number,
            "own": self.shared.own() if self.shared.keeps_own else None,
            "weights": {name: weight.detach().clone() for name, weight in self.shared.weights.items()},
            "outer": deepcopy(self.shared.optimizer.state_dict()),
            "residuals": as_tensors(self.states.state_dict()),
        }

    def load_state_dict(self, saved: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Resume, or join a run that is rounds ahead, from the state of this rank or of another one.

        The residual of another rank is not taken, nor are its own weights: it still has them. A run with another number
        of ranks resumes from the states of all ranks before. Then each rank takes the mean of their residuals, and the
        weights of the rank that has its number modulo theirs; take the inner optimizer of that rank, too. These are the
        bits of :meth:`LocalSteps.load_state_dict <lplab.parallel.LocalSteps.load_state_dict>`.

        Args:
            saved: the state of one rank, or a list of those of all ranks, in their order.

        Raises:
            ValueError: a checkpoint of another compressor or other layers; no states, or states of different rounds.
        """
        if self._under_way is not None:
            self._told(self._under_way[1])
            self._under_way = None
        rank = self.meetings.rank
        if isinstance(saved, Sequence):
            if len({state["round"] for state in saved}) != 1:
                raise ValueError("the states of all ranks must be of one round, and there must be one or more")
            merged = merge_ranks([as_arrays(state["residuals"]) for state in saved])
            saved = {**saved[rank % len(saved)], "residuals": merged, "rank": rank}
        if saved["rank"] == rank:
            self.states.load_state_dict(as_arrays(saved["residuals"]))
        with torch.no_grad():
            for name, weight in self.shared.weights.items():
                weight.copy_(saved["weights"][name])
        # Optimizers keep the tensors that they load.
        self.shared.optimizer.load_state_dict(deepcopy(saved["outer"]))
        self.shared.start(saved["own"] if saved["rank"] == rank else None)
        self._steps = 0
        self.meetings.number = saved["round"]
        self._told(lambda: self.meetings.join(saved["round"]))

    def _check_start(self) -> None:
        digest = hashlib.sha256()
        for weight in self.shared.weights.values():
            digest.update(whole(weight.detach()).cpu().numpy().tobytes())
        own = digest.hexdigest()
        first = self._told(lambda: bytes(self.meetings.store.compare_set("lplab/start", "", own)).decode())
        if first != own:
            raise ValueError(
                f"rank {self.meetings.rank} begins with other weights than the first rank: build the model with the "
                "same seed on all ranks, or load the same checkpoint"
            )

    def _after_step(self, *_: Any) -> None:
        """Send what is due, and meet after the last step of a round; and again, while the others are rounds ahead."""
        self._steps += 1
        schedule = self.shared.schedule
        if (self._steps + schedule.delay) % schedule.steps == 0:
            number = self.meetings.number
            meeting = self._meeting(self.shared.finite_pseudo_gradients(self.optimizer, number))
            in_thread = schedule.delay and self.leads
            self._under_way = number, self._thread.submit(meeting).result if in_thread else meeting
        if self._steps % schedule.steps or self._under_way is None:
            return
        (number, meeting), self._under_way = self._under_way, None
        self._apply(self._told(meeting), number)
        while self._told(lambda: self.meetings.decided):
            number = self.meetings.number
            self._apply(self._told(self._meeting(None)), number)

    def _told(self, ask: Callable[[], Any]) -> Any:
        """What the rank that leads finds out, or raises, on all ranks of the learner."""
        if self.group is None:
            return ask()
        word: list[Any] = [None]
        if self.leads:
            try:
                word = [(ask(), None)]
            except Exception as problem:
                word = [(None, problem)]
        dist.broadcast_object_list(word, dist.get_global_rank(self.group, 0), self.group)
        [(found, failure)] = word
        if failure is not None:
            raise failure
        return found

    def _meeting(self, deltas: Mapping[str, np.ndarray] | None) -> Callable[[], Meeting]:
        """The next meeting, to be called."""
        number, fragments = self.meetings.number, self.shared.schedule.fragments
        names = self.shared.fragments[self.shared.schedule.fragment(number)]
        # As in the simulator, the context counts the meetings about this fragment.
        return partial(self.meetings.meet, self.states, deltas, self.seed, names, number // fragments)

    def _apply(self, meeting: Meeting, number: int) -> None:
        self.took_part = () if meeting.averages is None else meeting.members
        self.ledger.entries += meeting.sent.entries if self.leads else []
        self.meetings.number = number + 1
        if meeting.averages is not None:
            self.shared.step(meeting.averages)
        self.shared.mix(self.shared.parameters, number)


def local_steps(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    store: Any,
    rank: int,
    world: int,
    every: int = 30,
    outer: str | Callable[[Any], torch.optim.Optimizer] = "nesterov",
    compressor: str | Compressor = "dense",
    patience: float = 60.0,
    seed: int = 0,
    fragments: int = 1,
    delay: int = 0,
    pattern: str = "strided",
    alpha: float = 0.0,
    group: Any = None,
) -> RankLocalSteps:
    """Let an optimizer meet those of the other ranks after every ``every`` steps, as in DiLoCo.

    Args:
        model: float32, without batch norms; with the same weights on all ranks. Sharded by FSDP, or the ``module`` of a
            DistributedDataParallel, it is that of a learner of several ranks: see ``group``.
        optimizer: the inner one, of the model's parameters. It keeps its state.
        store: of torch.distributed, the same for all ranks, as ``TCPStore`` or ``FileStore``. A process group is not
            needed. The store must outlive the ranks.
        rank, world: this rank, and how many there are. If a learner has several ranks, this learner and how many
            learners there are: the same numbers on all of its ranks.
        every: inner steps from one meeting about a fragment to the next about the same one.
        outer: "mean", "sgd", "nesterov" or "adam", or a function of the parameters that makes an optimizer; see
            :data:`~lplab.parallel.local_rounds.OUTER`.
        compressor: of the pseudo-gradients, or its text, as in "sparseloco".
        patience: seconds that a rank waits for the others. Who was missing in a round is not waited for in the next.
        seed: of the compressor's random numbers, the same on all ranks.
        fragments, delay, pattern, alpha: as for :class:`~lplab.parallel.LocalSteps`: parts of the model that meet in
            turn, steps between what is sent and the meeting, the share of a rank's own weights after it.
        group: the process group of the ranks that are one learner together and whose gradients are averaged in each
            step. None: that of the mesh of a sharded model, or one rank. The group's first rank meets for all. It has
            the whole residual, and the whole fragment for the time of a meeting.

    Raises:
        ValueError: a number out of range, an unknown name, a model with batch norms, other weights than the first
            rank's; what :class:`~lplab.compression.fragments.MeetingSchedule` refuses.
        TypeError: trainable parameters that are not float32, or none; a model that is sharded over several dimensions
            of a mesh.

    >>> import torch.distributed as dist
    >>> model = nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> run = local_steps(model, optimizer, every=2, store=dist.HashStore(), rank=0, world=1)
    >>> for _ in range(4):
    ...     optimizer.zero_grad()
    ...     model(torch.ones(3, 4)).sum().backward()
    ...     optimizer.step()
    >>> run.took_part, run.meetings.number, run.ledger.total(step=1)
    ((0,), 2, 40)
    """
    check_int("world", world, 1, 2**16)
    check_int("rank", rank, 0, world - 1)
    schedule = MeetingSchedule(every, fragments, delay)
    if not 0 < check_number("patience", patience) < float("inf"):
        raise ValueError(f"patience must be a positive number of seconds, got {patience}")
    compressor, meetings = compressor_catalogue.from_text(compressor), StoreMeetings(store, rank, world, patience)
    return RankLocalSteps(model, optimizer, meetings, compressor, outer, seed, schedule, pattern, alpha, group)


def group_of(model: nn.Module) -> Any:
    """The process group over which a model is sharded; None for a model that is not.

    Raises:
        TypeError: sharded over several dimensions of a mesh.

    >>> group_of(nn.Linear(2, 2)) is None
    True
    """
    meshes = [parameter.device_mesh for parameter in model.parameters() if isinstance(parameter, DTensor)]
    if not meshes:
        return None
    if any(mesh.ndim > 1 for mesh in meshes):
        raise TypeError(
            "this model is sharded over several dimensions of a mesh: shard it over one, such as mesh['shards'], and "
            "let each replica be a learner"
        )
    return meshes[0].get_group()
