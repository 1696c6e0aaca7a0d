"""Simulated learners that take steps of their own and meet over slow links: seconds, bytes, memory.

A learner is a device, or a node of devices with a fast link inside. It takes E = ``every`` / ``fragments`` steps, and
then all learners meet about one fragment of the model (:mod:`lplab.compression.fragments`). What they send leaves
``delay`` steps before the meeting. So a transfer of c seconds, beside steps of T seconds, is waited for

    max(0, c − overlap · delay · T)

seconds, and the steps of one fragment take E · T + compressing + waiting + outer step. At most one fragment is on its
way, since the delay is shorter than E.

The methods (:data:`METHODS`) differ in these numbers alone: data parallelism meets in each step behind the backward
pass (:func:`lplab.hardware.simulate`), DiLoCo sends the whole model, Streaming DiLoCo fragments in 4 bits while the
learners go on, SparseLoCo few elements in 2 bits. :class:`lplab.parallel.LocalSteps` trains in the same ways.

Everything here is **modelled**; step times may be measured ones (``measured_seconds=``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from lplab.checks import check_int
from lplab.compression import Compressor
from lplab.compression.fragments import MeetingSchedule, fragment_numbers
from lplab.hardware import memory, precisions, workloads
from lplab.hardware.accelerators import Accelerator
from lplab.hardware.network.cluster import Cluster
from lplab.hardware.network.fabric import Fabric
from lplab.hardware.overlap import exposed_seconds
from lplab.hardware.precisions import Precision
from lplab.hardware.simulation import simulate
from lplab.hardware.step import ADD_PASSES, COMPRESS_PASSES, Design, request_seconds, step
from lplab.hardware.traffic import Traffic, compressor_of
from lplab.hardware.workloads import Workload
from lplab.lookup import lookup, named_settings

OUTER_NUMBERS = MappingProxyType({"mean": 0, "sgd": 0, "nesterov": 1, "adam": 2})
"""Outer optimizers of :class:`lplab.parallel.LocalSteps`, and the float32 numbers that they keep for each weight."""


@dataclass(frozen=True)
class Method:
    """A published way to train across slow links; None for ``every``: in each step, as data parallelism does.

    The settings are those that the course compares, with one ``every`` for all.

    Attributes:
        name, label: in code and in figures.
        every: None for data parallelism; else steps between meetings, unless others are given.
        compressor, fragments, delay, outer: as for :func:`simulate_local_steps`.
        source: where it is from.
    """

    name: str
    label: str
    every: int | None
    compressor: str
    fragments: int = 1
    delay: int = 0
    outer: str = "nesterov"
    source: str = ""


METHODS = MappingProxyType(
    {
        method.name: method
        for method in (
            Method("ddp", "data parallelism", None, "none", outer="mean", source="gradients in each step"),
            Method("fedavg", "FedAvg", 30, "dense", outer="mean", source="McMahan et al. 2017"),
            Method("diloco", "DiLoCo", 30, "dense", source="arXiv 2311.08105; the paper meets once in 500 steps"),
            Method(
                "streaming", "Streaming DiLoCo", 30, "lowbit:format=e3m0", 3, 5,
                source="arXiv 2501.18512, abstract; three fragments and a delay of five steps are our choice",
            ),
            Method(
                "sparseloco", "SparseLoCo", 30, "sparseloco", outer="mean",
                source="arXiv 2508.15706; constants of the run with 70 billion parameters",
            ),
        )
    }
)  # fmt: skip
"""Methods by name, from the most bytes to the fewest."""


@dataclass(frozen=True)
class LocalStepsSimulation:
    """Learners that meet, and what follows. Times in seconds, of the slowest learner.

    Attributes:
        design: workload, chip, precision, compressor of the pseudo-gradients, optimizer.
        cluster: devices and network; each node is a learner.
        schedule: when they meet, and about which fragment.
        outer: the outer optimizer's name.
        batch: examples on each device in a step.
        overlap: how fast the network goes while devices compute, 0 to 1.
        step_alone_seconds: of a step without a meeting.
        meeting_bytes: that a learner sends in the meeting about each fragment, with ring algorithms: [fragments].
        transfer_seconds: of each meeting, waited for or not.
        waiting_seconds: of each meeting, after the steps beside it.
        work_seconds: in which a learner compresses and makes the outer step, of each meeting.
    """

    design: Design
    cluster: Cluster
    schedule: MeetingSchedule
    outer: str
    batch: int
    overlap: float
    step_alone_seconds: float
    meeting_bytes: np.ndarray = field(repr=False)
    transfer_seconds: np.ndarray = field(repr=False)
    waiting_seconds: np.ndarray = field(repr=False)
    work_seconds: np.ndarray = field(repr=False)

    @property
    def learners(self) -> int:
        """How many learners meet: the nodes."""
        return self.cluster.nodes

    @property
    def step_seconds(self) -> float:
        """Seconds from one step to the next, with its share of the meetings."""
        return self.step_alone_seconds + self._each_step(self.waiting_seconds + self.work_seconds)

    @property
    def communication_seconds(self) -> float:
        """All transfers, a step on average."""
        return self._each_step(self.transfer_seconds)

    @property
    def exposed_seconds(self) -> float:
        """The part of the transfers that learners wait for, a step on average."""
        return self._each_step(self.waiting_seconds)

    @property
    def compute_seconds(self) -> float:
        """Steps, compressing and outer steps, a step on average."""
        return self.step_alone_seconds + self._each_step(self.work_seconds)

    @property
    def efficiency(self) -> float:
        """Examples per second, over those of learners that never meet. Published as utilization."""
        return self.step_alone_seconds / self.step_seconds

    @property
    def throughput(self) -> float:
        """Examples per second of all devices."""
        return self.batch * self.cluster.devices / self.step_seconds

    @property
    def sent_bytes(self) -> float:
        """Bytes that a learner sends, a step on average."""
        return self._each_step(self.meeting_bytes)

    @property
    def peak_bytes(self) -> float:
        """Bytes that a learner sends in the largest meeting."""
        return float(self.meeting_bytes.max())

    def total_bytes(self, steps: int) -> float:
        """Bytes that a learner sends in so many steps.

        Meetings after the last step are not counted.
        """
        meetings = check_int("steps", steps, 0, 2**53) // self.schedule.steps
        rounds, more = divmod(meetings, self.schedule.fragments)
        return float(rounds * self.meeting_bytes.sum() + self.meeting_bytes[:more].sum())

    @property
    def memory(self) -> dict[str, float]:
        """Bytes on a device by part; "shared" are the weights of the last meetings and the outer optimizer's state."""
        d, inside = self.design, self.cluster.devices // self.learners
        parts = memory.memory_bytes(
            d.workload, d.precision, d.traffic, self.batch, inside, optimizer=d.optimizer, sharded=d.sharded
        )
        share = inside if d.sharded else 1
        meets = self.learners > 1
        return {part: float(nbytes) for part, nbytes in parts.items()} | {
            "residuals": float(d.traffic.state_bytes.sum()) / share * meets,
            "shared": 4.0 * (1 + OUTER_NUMBERS[self.outer]) * d.workload.parameters / share * meets,
        }

    @property
    def memory_bytes(self) -> float:
        """Bytes on a device, all parts together."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool | None:
        """Whether that is within the chip's memory; None where the chip's memory is unknown."""
        capacity = self.design.chip.memory_bytes
        return None if capacity is None else self.memory_bytes <= capacity

    def to_dict(self) -> dict[str, Any]:
        """The result as a row."""
        d, c, s = self.design, self.cluster, self.schedule
        return {
            "workload": d.workload.name,
            "chip": d.chip.name,
            "devices": c.devices,
            "learners": self.learners,
            "link": getattr(c.link, "name", c.link),
            "precision": d.precision.name,
            "compressor": "none" if d.compressor is None else repr(d.compressor),
            "every": s.every,
            "fragments": s.fragments,
            "delay": s.delay,
            "outer": self.outer,
            "batch": self.batch,
            "overlap": self.overlap,
            "step_seconds": self.step_seconds,
            "compute_seconds": self.compute_seconds,
            "communication_seconds": self.communication_seconds,
            "exposed_seconds": self.exposed_seconds,
            "efficiency": self.efficiency,
            "throughput": self.throughput,
            "sent_bytes": self.sent_bytes,
            "peak_bytes": self.peak_bytes,
            "memory_bytes": self.memory_bytes,
            "fits": self.fits,
            **{f"{part}_bytes": nbytes for part, nbytes in self.memory.items()},
        }

    def _each_step(self, of_meetings: np.ndarray) -> float:
        return float(of_meetings.sum()) / self.schedule.every


@named_settings(Design)
def simulate_local_steps(
    workload: str | Workload,
    cluster: Cluster | str | Accelerator,
    *,
    every: int = 30,
    compressor: str | Compressor | None = "dense",
    fragments: int = 1,
    delay: int = 0,
    pattern: str = "strided",
    outer: str = "nesterov",
    precision: str | Precision = "bf16",
    batch: int = 32,
    overlap: float = 1.0,
    **design: Any,
) -> LocalStepsSimulation:
    """Simulate learners that take ``every`` steps of their own between meetings; a call takes some milliseconds.

    Args:
        workload: a name of ``workloads.names()``, or a Workload.
        cluster: a :class:`Cluster`, of which each node is a learner; a chip stands for one learner alone.
        every: steps from one meeting about a fragment to the next about the same one.
        compressor: of the pseudo-gradients, as it is typed ("sparseloco"), or an object; "dense": in float32; None: in
            the precision's format of gradients.
        fragments: how many the model is cut into; they meet in turn.
        delay: steps that learners take while a fragment is on its way.
        pattern: of the fragments: "strided" or "consecutive".
        outer: a name of :data:`OUTER_NUMBERS`; decides on memory and on the time of the outer step.
        precision: of the steps: a name of ``precisions.names()`` that trains, or a Precision.
        batch: examples on each device in a step.
        overlap: how fast the network goes while devices compute: 1, undisturbed; 0, only after the steps.
        **design: ``sharded``, ``optimizer``, ``utilization``, ``measured_seconds`` and the rest of
            :class:`lplab.hardware.step.Design`; they are about the steps inside a learner.

    Raises:
        ValueError: an unknown name, a number out of range, as :class:`~lplab.compression.fragments.MeetingSchedule`
            has them, more fragments than the workload has blocks.
        TypeError: a cluster that is none, or an unknown setting.

    >>> home = Cluster("h100", 8, "home_100m")
    >>> dense, few = (simulate_local_steps("gpt", home, compressor=name) for name in ("dense", "sparseloco"))
    >>> round(dense.peak_bytes / 1e6), round(few.peak_bytes / 1e6), few.step_seconds < dense.step_seconds / 10
    (871, 32, True)
    """
    if isinstance(cluster, str | Accelerator):
        cluster = Cluster(cluster)
    if not isinstance(cluster, Cluster):
        raise TypeError(f"learners are simulated on a Cluster, or on a chip, got {type(cluster).__name__}")
    schedule = MeetingSchedule(every, fragments, delay)
    numbers = lookup(OUTER_NUMBERS, outer, "outer optimizer")
    of_workload, of_precision = workloads.get(workload), precisions.get(precision)
    of_learner = Design(of_workload, cluster.chip, of_precision, compressor_of(compressor), **design)
    alone = _step_alone(of_learner, cluster, batch)
    columns = of_workload.columns
    elements = np.where(columns["shared"], 0.0, columns["weights"] * columns["count"])
    # Layers without weights of their own belong to no fragment.
    of_layer, trained = np.full(len(elements), -1), np.flatnonzero(elements)
    of_layer[trained] = fragment_numbers((of_workload.layers[place].name for place in trained), fragments, pattern)
    whole, own = of_learner.traffic, [of_layer == number for number in range(fragments)]
    parts = [
        replace(whole, payload_bytes=whole.payload_bytes[here], state_bytes=whole.state_bytes[here]) for here in own
    ]
    learners, seconds_per_byte = cluster.nodes, of_learner.seconds_per_byte
    between, add = Fabric(cluster.link, cluster.algorithm), ADD_PASSES * seconds_per_byte
    transfers = np.array([_transfer_seconds(between, part, learners, add) for part in parts])
    waiting = [exposed_seconds(np.zeros(1), np.array([c]), delay * alone, overlap) for c in transfers]
    # Weights, pseudo-gradient and the outer optimizer's numbers, read and written.
    passes = ADD_PASSES + (COMPRESS_PASSES if whole.compressed else 0) + 3 + 2 * numbers
    work = np.array([elements[here].sum() for here in own]) * 4 * passes * seconds_per_byte
    work *= (1 + cluster.straggler) * (learners > 1)
    sent = np.array([float(part.sent_bytes(learners)) for part in parts])
    times = alone, sent, transfers, np.array(waiting), work
    return LocalStepsSimulation(of_learner, cluster, schedule, outer, int(batch), float(overlap), *times)


def compare_methods(
    workload: str | Workload,
    cluster: Cluster,
    *,
    every: int | None = None,
    methods: Iterable[str] = tuple(METHODS),
    **settings: Any,
) -> list[dict[str, Any]]:
    """The methods side by side: one row for each.

    Args:
        workload, cluster, settings: as for :func:`simulate_local_steps`.
        every: of all methods but data parallelism; None: each its own.
        methods: names of :data:`METHODS`.

    Returns:
        Rows of ``method``, ``label``, ``every`` (1 for data parallelism), ``compressor``, ``fragments``, ``delay``, and
        ``step_seconds``, ``compute_seconds``, ``communication_seconds``, ``exposed_seconds``, ``efficiency``,
        ``sent_bytes`` (a learner's, a step on average), ``peak_bytes`` (a learner's, in one meeting), ``memory_bytes``
        and ``fits``.

    Raises:
        ValueError: an unknown method, or what :func:`simulate_local_steps` refuses.

    >>> rows = compare_methods("gpt", Cluster("h100", 4, "home_100m"), measured_seconds=1.0)
    >>> [(row["method"], f"{row['efficiency']:.1%}") for row in rows]
    [('ddp', '3.1%'), ('fedavg', '33.4%'), ('diloco', '33.4%'), ('streaming', '90.6%'), ('sparseloco', '96.1%')]
    """
    rows = []
    for name in methods:
        method = lookup(METHODS, name, "method")
        found: Any
        if method.every is None:
            found = simulate(workload, cluster, compressor=method.compressor, **settings)
            sent, gap = float(found.design.sent_bytes(cluster.nodes)), 1
            peak = sent
        else:
            gap = method.every if every is None else every
            found = simulate_local_steps(
                workload, cluster, every=gap, compressor=method.compressor, fragments=method.fragments,
                delay=method.delay, outer=method.outer, **settings,
            )  # fmt: skip
            sent, peak = found.sent_bytes, found.peak_bytes
        columns = ("step_seconds", "compute_seconds", "communication_seconds", "exposed_seconds", "efficiency")
        rows.append(
            {
                "method": name,
                "label": method.label,
                "every": gap,
                "compressor": method.compressor,
                "fragments": method.fragments,
                "delay": method.delay,
                **{column: getattr(found, column) for column in columns},
                "sent_bytes": sent,
                "peak_bytes": peak,
                "memory_bytes": found.memory_bytes,
                "fits": found.fits,
            }
        )
    return rows


def _step_alone(design: Design, cluster: Cluster, batch: int) -> float:
    """Seconds of a step of the slowest learner without a meeting."""
    inside = cluster.devices // cluster.nodes
    fabric = Fabric(cluster.fabric.inner, "ring")
    seconds = step(replace(design, compressor=None), fabric, inside, batch, straggler=cluster.straggler).total.item()
    # In a node the step has counted the straggler.
    return seconds * (1 + cluster.straggler * (cluster.nodes > 1 and inside == 1))


def _transfer_seconds(fabric: Fabric, part: Traffic, learners: int, add: float) -> float:
    """Seconds of the collectives about a fragment, one after the other."""
    ranks = np.array([float(learners)])
    seconds = (
        request_seconds(fabric, kind, np.array([nbytes]), ranks, add)
        for kind, nbytes in zip(part.kinds, part.payload_bytes.sum(axis=0), strict=True)
    )
    return float(sum(one.item() for one in seconds))
