"""Learners that take many steps of their own and then meet: DiLoCo and its kin (Douillard et al. 2023).

In a round

1. each learner starts from the shared weights and takes ``every`` steps with its own data and its own *inner*
   optimizer, whose state it keeps and never averages;
2. it sends how far it moved, Δ = start − end, compressed. This *pseudo-gradient* is used like a gradient;
3. the *outer* optimizer moves the shared weights by the average of all Δ.

The special cases: outer "mean" with SGD inside is federated averaging (:class:`~lplab.parallel.FedAvg`). With
``every=1`` that is data parallelism. Outer "nesterov" is DiLoCo (arXiv 2311.08105), with E3M0 messages as in Streaming
DiLoCo (arXiv 2501.18512); outer "mean" with the compressor "sparseloco" is SparseLoCo (arXiv 2508.15706).

Nesterov's momentum is PyTorch's: b ← μ·b + Δ, then the step is lr·(Δ + μ·b). The first step is therefore
0.7 · 1.9 = 1.33 times the average Δ, further than the learners went on average.

The model can be cut into *fragments* that meet in turn, as in Streaming DiLoCo (:mod:`lplab.compression.fragments`): as
many bytes, a smaller largest message. Then a round is ``every`` / fragments steps and ends with the meeting about one
fragment, while each learner goes on with its own weights of the others. With a *delay* of τ steps the fragment is sent
τ steps before the end of the round. What comes of the meeting is mixed with the learner's own weights of that time,

    p ← shared + α · (own − shared),

so α is the share of the learner's own weights: 0, as by default, takes the shared ones, and with them the τ steps are
lost for this fragment. The paper's words can be read either way; the meaning is that of torchft's code.

Everything here runs in one process. :func:`lplab.parallel.local_steps` does the same between processes.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor

from lplab.checks import check_int, check_number
from lplab.compression import Compressor, NotFiniteError, TrafficLog, compressor_catalogue
from lplab.compression.compressor import all_finite
from lplab.compression.fragments import MeetingSchedule, fragment_numbers
from lplab.compression.module_layers import trainable_parameters
from lplab.parallel.compressor_states import (
    CompressorStates,
    as_arrays,
    as_tensors,
    average_updates,
    layer_infos,
    merge_ranks,
)
from lplab.parallel.federated import refuse_batch_norm
from lplab.parallel.learner_gradients import Batch, Loss, learner_seed
from lplab.parallel.learners import check_float32
from lplab.parallel.uninterrupted import uninterrupted
from lplab.training.loop.train_eval_mode import ensure_train_mode
from lplab.training.loop.trainer import default_loss
from lplab.training.thread_counts import torch_threads

OUTER: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "mean": partial(torch.optim.SGD, lr=1.0),
    "sgd": partial(torch.optim.SGD, lr=0.7),
    "nesterov": partial(torch.optim.SGD, lr=0.7, momentum=0.9, nesterov=True),
    "adam": partial(torch.optim.Adam, lr=0.1, eps=0.1),
}
"""Outer optimizers by name. The rates of SGD and Nesterov are DiLoCo's, and so is Adam's ε, without which it was not
stable; with the learning rate beside it, a small Δ moves the weights by about Δ."""
ATTENDANCE = ("here", "late", "gone")
Attendance = Callable[[int, int], str]


@dataclass(frozen=True)
class LocalRound:
    """One round.

    Attributes:
        number: from 0.
        loss: of the last inner step, mean over the learners that took part; NaN if none did.
        took_part: the learners of whose pseudo-gradients the outer step was made.
        payload_bytes: of all learners together.
        fragment: of the meeting, from 0.
    """

    number: int
    loss: float
    took_part: tuple[int, ...]
    payload_bytes: int
    fragment: int = 0


class SharedWeights:
    """The weights from which all learners start a round, and the outer optimizer that moves them.

    Args:
        model: whose weights the learner moves; float32.
        outer: the name of an outer optimizer, or a function of the parameters that makes one of ``torch.optim``.
        schedule: of the meetings.
        pattern: of the fragments, "strided" or "consecutive".
        alpha: the share of the learner's own weights after a meeting, 0 to 1.

    Attributes:
        weights: copies of the model's trainable parameters, by name.
        optimizer: the outer one.
        fragments: the names of the parameters of each fragment.

    Raises:
        ValueError: an unknown name, a share out of range, or more fragments than the model has blocks.
        TypeError: trainable parameters that are not float32, or none.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> shared = SharedWeights(model, "mean")
    >>> with torch.no_grad():
    ...     _ = model.weight.sub_(1)
    >>> deltas = shared.pseudo_gradients()
    >>> deltas["weight"].round(6).tolist()
    [[1.0, 1.0]]
    """

    def __init__(
        self,
        model: nn.Module,
        outer: str | Callable[[Any], torch.optim.Optimizer],
        schedule: MeetingSchedule | None = None,
        pattern: str = "strided",
        alpha: float = 0.0,
    ) -> None:
        if isinstance(outer, str) and outer not in OUTER:
            raise ValueError(f"unknown outer optimizer {outer!r}; allowed: {', '.join(OUTER)}, or a function")
        check_float32(model)
        self.parameters = trainable_parameters(model)
        self.weights = {name: nn.Parameter(p.detach().clone()) for name, p in self.parameters.items()}
        self.optimizer = (OUTER[outer] if isinstance(outer, str) else outer)([*self.weights.values()])
        self.schedule, self.alpha = schedule or MeetingSchedule(), check_number("alpha", alpha)
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha must be from 0, the shared weights, to 1, the learner's own, got {alpha}")
        of_name = fragment_numbers(self.weights, self.schedule.fragments, pattern)
        self.fragments: list[list[str]] = [[] for _ in range(self.schedule.fragments)]
        for name, fragment in zip(self.weights, of_name, strict=True):
            self.fragments[fragment].append(name)

    @property
    def keeps_own(self) -> bool:
        """Whether learners have other weights than the shared ones after a meeting."""
        return self.schedule.fragments > 1 or self.alpha > 0

    def pseudo_gradients(self, number: int = 0) -> dict[str, np.ndarray]:
        """How far the model is from the shared weights, start − end, in the fragment of a meeting: float32, by name.

        Those of a sharded model are gathered, so all of its ranks must call this.
        """
        names = self.fragments[self.schedule.fragment(number)]
        moved = {name: self.weights[name].detach() - self.parameters[name].detach() for name in names}
        return {name: whole(delta).cpu().numpy() for name, delta in moved.items()}

    def finite_pseudo_gradients(self, inner: torch.optim.Optimizer, number: int = 0) -> dict[str, np.ndarray] | None:
        """The pseudo-gradients; None if one is not finite.

        Then the model moves to the shared weights, and the inner optimizer forgets its state, since its moments may be
        NaN, too.
        """
        deltas = self.pseudo_gradients(number)
        if all(map(all_finite, deltas.values())):
            return deltas
        inner.state.clear()
        self.start()
        return None

    def step(self, averages: Mapping[str, np.ndarray]) -> None:
        """Move the shared weights of a fragment by the averages of its pseudo-gradients."""
        for name, average in averages.items():
            weight, gradient = self.weights[name], torch.from_numpy(average).to(self.weights[name].device)
            if isinstance(weight, DTensor):
                # Every rank has the whole average, and cuts its shard out of it.
                gradient = distribute_tensor(gradient, weight.device_mesh, weight.placements, src_data_rank=None)
            weight.grad = gradient
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.no_grad()
    def mix(self, own: Mapping[str, torch.Tensor], number: int = 0) -> None:
        """Mix a learner's weights with the shared ones in the fragment of a meeting; ``own`` is changed."""
        for name in self.fragments[self.schedule.fragment(number)]:
            shared = self.weights[name].detach()
            # A product of 0 and what is not finite is not 0.
            own[name].copy_(torch.lerp(shared, own[name], self.alpha) if self.alpha else shared)

    @torch.no_grad()
    def start(self, own: Mapping[str, torch.Tensor] | None = None) -> None:
        """Move the model to a learner's own weights, or to the shared ones."""
        for name, parameter in self.parameters.items():
            parameter.copy_((own or self.weights)[name])

    def own(self) -> dict[str, torch.Tensor]:
        """Copies of the model's weights, by name."""
        return {name: parameter.detach().clone() for name, parameter in self.parameters.items()}


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor, or all shards of a sharded one, which all of its ranks must ask for.

    >>> whole(torch.ones(2)).tolist()
    [1.0, 1.0]
    """
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


class LocalSteps:
    """Learners that take steps of their own and meet, in one process: DiLoCo, unless other arguments say otherwise.

    Between rounds the model has the shared weights: it is what is to be evaluated.

    Args:
        model: any module without batch norms; float32. Random layers have a seed for each learner and step.
        batches: a function of (step, learner) that returns a learner's (inputs, targets); steps count across rounds.
        learners: number of learners.
        every: inner steps from one meeting about a fragment to the next about the same one; of a round, if the model is
            one fragment.
        inner: a function of the parameters that makes a learner's optimizer; None: AdamW.
        outer: as for :class:`SharedWeights`.
        compressor: of the pseudo-gradients, or its text, as in "sparseloco" or "lowbit:format=e3m0".
        schedule: a function of an inner optimizer that makes its schedule, which counts the steps of that learner;
            None: constant learning rates.
        clip: the largest norm of a learner's gradient in an inner step; None: no clipping.
        attendance: a function of (round, learner). A learner that is "late" takes its steps, and its message comes too
            late; one that is "gone" takes no steps, and begins again from the shared weights. Both are left out of the
            round. None: all are "here".
        fragments: how many the model is cut into; they meet in turn, once in ``every`` / fragments steps.
        delay: steps that a learner takes between what it sends and the meeting.
        pattern: of the fragments' blocks: "strided" or "consecutive".
        alpha: the share of a learner's own weights in a fragment after its meeting: 0, the shared weights.
        loss: a function of (output, target).
        seed: of all random numbers.

    Attributes:
        ledger: traffic log of all messages: step is the round, rank the learner.
        number: of rounds made.

    Raises:
        ValueError: a number out of range, an unknown name, a model with batch norms, more fragments than blocks; what
            :class:`~lplab.compression.fragments.MeetingSchedule` refuses.
        TypeError: trainable parameters that are not float32, or none.

    >>> def batches(step, learner):
    ...     generator = torch.Generator().manual_seed(10 * step + learner)
    ...     return torch.randn(8, 64, generator=generator), torch.randint(0, 4, (8,), generator=generator)
    >>> layer = nn.Linear(64, 64, bias=False)
    >>> run = LocalSteps(layer, batches, learners=2, every=3, outer="mean", compressor="sparseloco")
    >>> first = next(run.rounds(1))
    >>> first.took_part, first.payload_bytes  # two messages of 64 · 14 bits and a table of 16 bytes
    ((0, 1), 256)
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Callable[[int, int], Batch],
        *,
        learners: int = 4,
        every: int = 30,
        inner: Callable[[Any], torch.optim.Optimizer] | None = None,
        outer: str | Callable[[Any], torch.optim.Optimizer] = "nesterov",
        compressor: str | Compressor = "dense",
        schedule: Callable[[torch.optim.Optimizer], Any] | None = None,
        clip: float | None = None,
        attendance: Attendance | None = None,
        fragments: int = 1,
        delay: int = 0,
        pattern: str = "strided",
        alpha: float = 0.0,
        loss: Loss = default_loss,
        seed: int = 0,
    ) -> None:
        refuse_batch_norm(model)
        self.model, self.batches, self.loss, self.seed, self.clip = model, batches, loss, seed, clip
        self.learners = check_int("learners", learners, 1, 2**16)
        self.shared = SharedWeights(model, outer, MeetingSchedule(every, fragments, delay), pattern, alpha)
        compressor, infos = compressor_catalogue.from_text(compressor), layer_infos(model)
        self.states = [CompressorStates(compressor, infos) for _ in range(self.learners)]
        self.inner = [(inner or torch.optim.AdamW)(model.parameters()) for _ in range(self.learners)]
        self.schedules: list[Any] = [schedule(optimizer) if schedule else None for optimizer in self.inner]
        self._attendance: Attendance = attendance or (lambda number, learner: "here")
        # The weights of learners that keep their own; None: they are the shared ones.
        self._own: list[dict[str, torch.Tensor] | None] = [None] * self.learners
        self.ledger, self.number = TrafficLog(), 0

    def rounds(self, count: int) -> Iterator[LocalRound]:
        """Make ``count`` rounds and yield after each."""
        for _ in range(check_int("count", count, 0, 2**31 - 1)):
            yield self.one_round()

    def one_round(self) -> LocalRound:
        """Let the learners take their steps, exchange the pseudo-gradients, and move the shared weights.

        A learner whose pseudo-gradient is not finite is left out. It goes on from the shared weights, and its inner
        optimizer forgets its state. If an average overflows, all are left out. After Ctrl-C the round can be made
        again, from the weights of its start.

        Raises:
            ValueError: an attendance that is none of "here", "late" and "gone".
        """
        deltas: dict[int, dict[str, np.ndarray]] = {}
        losses: dict[int, float] = {}
        own: list[dict[str, torch.Tensor] | None] = [None] * self.learners
        steps, delay = self.shared.schedule.steps, self.shared.schedule.delay
        first = self.number * steps
        with torch_threads(1):
            try:
                for learner in range(self.learners):
                    attendance = self._attendance(self.number, learner)
                    if attendance not in ATTENDANCE:
                        raise ValueError(f"attendance must be one of {', '.join(ATTENDANCE)}, got {attendance!r}")
                    if attendance == "gone":
                        continue
                    self.shared.start(self._own[learner])
                    losses[learner] = self._inner_steps(learner, first, first + steps - delay)
                    delta = self.shared.finite_pseudo_gradients(self.inner[learner], self.number)
                    if delta is not None and attendance == "here":
                        deltas[learner] = delta
                    if delay:
                        losses[learner] = self._inner_steps(learner, first + steps - delay, first + steps)
                    if self.shared.keeps_own:
                        own[learner] = self.shared.own()
            finally:
                self.shared.start()
            with uninterrupted():
                sent = self._meet(deltas)
                for weights in filter(None, own):
                    self.shared.mix(weights, self.number)
                self._own, fragment = own, self.shared.schedule.fragment(self.number)
                self.number += 1
        if sent is None:
            deltas, sent = {}, 0
        loss = float(np.mean([losses[learner] for learner in deltas])) if deltas else float("nan")
        return LocalRound(self.number - 1, loss, tuple(deltas), sent, fragment)

    def _inner_steps(self, learner: int, first: int, end: int) -> float:
        """Take a learner's steps with the model, up to ``end``; the last loss."""
        optimizer, schedule = self.inner[learner], self.schedules[learner]
        ensure_train_mode(self.model)
        with torch.random.fork_rng(devices=[]):
            for step in range(first, end):
                torch.manual_seed(learner_seed(self.seed, step, learner))
                inputs, targets = self.batches(step, learner)
                optimizer.zero_grad()
                value = self.loss(self.model(inputs), targets)
                value.backward()
                if self.clip is not None:
                    nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
                optimizer.step()
                if schedule is not None:
                    schedule.step()
            optimizer.zero_grad()
        return value.item()

    def _meet(self, deltas: Mapping[int, Mapping[str, np.ndarray]]) -> int | None:
        """Exchange and make the outer step; the bytes sent, or None if an average overflows, and nothing changes."""
        if not deltas:
            return 0
        states = {learner: self.states[learner] for learner in deltas}
        # Of the meetings about this fragment, so that each of them has every leader in turn.
        number = self.number // self.shared.schedule.fragments
        try:
            averages, sent = average_updates(states, deltas, number, self.seed)
        except NotFiniteError:
            for state in states.values():
                state.rollback()
            return None
        for state in states.values():
            state.commit()
        self.shared.step(averages)
        self.shared.start()
        self.ledger.entries += [entry._replace(step=self.number) for entry in sent.entries]
        return sent.total()

    def state_dict(self) -> dict[str, Any]:
        """The state to resume from, bit for bit with the same number of learners."""
        return {
            "model": self.model.state_dict(),
            "outer": self.shared.optimizer.state_dict(),
            "inner": [optimizer.state_dict() for optimizer in self.inner],
            "schedules": [schedule and schedule.state_dict() for schedule in self.schedules],
            "residuals": [as_tensors(state.state_dict()) for state in self.states],
            "own": self._own,
            "round": self.number,
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Resume, also with another number of learners.

        Then each takes the mean residual of the old ones, and learner i the inner optimizer and the own weights of the
        old learner i mod their number.

        Raises:
            ValueError: a checkpoint of another compressor or other layers.
        """
        residuals, before = [as_arrays(state) for state in saved["residuals"]], len(saved["inner"])
        if before != self.learners:
            residuals = [merge_ranks(residuals)] * self.learners
        for learner, (state, arrays) in enumerate(zip(self.states, residuals, strict=True)):
            state.load_state_dict(arrays)
            # Optimizers keep the tensors that they load.
            self.inner[learner].load_state_dict(deepcopy(saved["inner"][learner % before]))
            if self.schedules[learner] is not None:
                self.schedules[learner].load_state_dict(saved["schedules"][learner % before])
            self._own[learner] = deepcopy(saved["own"][learner % before])
        self.model.load_state_dict(saved["model"])
        with torch.no_grad():
            for name, weight in self.shared.weights.items():
                weight.copy_(self.shared.parameters[name])
        self.shared.optimizer.load_state_dict(deepcopy(saved["outer"]))
        self.number = saved["round"]
