"""Which trainings of a larger experiment are float32, and which recorded baseline they are to be compared with."""

from __future__ import annotations

from dataclasses import dataclass

from lplab.claims.framework.results import Point


@dataclass(frozen=True)
class Float32End:
    """The float32 training of a larger experiment, beside the baseline that it is to be compared with.

    Attributes:
        task: of the baseline, by its name in :mod:`lplab.claims.framework.larger_models`.
        point: the point of the experiment that is float32, or whose gradients are not compressed.
        network: how its network differs from that of the baseline.
        steps: of its training.
        batch: examples in a step, of all learners; None is that of the baseline.
    """

    task: str
    point: Point
    network: str
    steps: int
    batch: int | None = None
