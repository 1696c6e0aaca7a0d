"""Learners that meet seldom, live: their loss, what they send, and how long a step takes over a link."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from typing import Any, ClassVar

from lplab import figures
from lplab.figures.many_learners import bytes_word
from lplab.hardware import Cluster, compare_methods, simulate_local_steps
from lplab.hardware.units import duration
from lplab.recordings.recorded_meetings import (
    ALONE,
    BITS,
    CHUNKS,
    DENSE,
    EVERY,
    FEW,
    LEARNERS,
    MOMENTA,
    NESTEROV,
    RATES,
    RECORDED,
    SHARES,
    SMALL,
    SYNCHRONOUS,
    MeetingRun,
    MeetingSetting,
    meeting_runs,
)
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Buttons, Choice, ExplorerState, Steps, control

SENT = {"everything, 32 bits": DENSE, "everything, 4 bits": SMALL, "the largest": FEW}
LINKS = {
    "home, 100 Mb/s": "home_100m",
    "home, 500 Mb/s": "home_500m",
    "two continents, 1 Gb/s": "wan_1g",
    "Ethernet, 10 Gb/s": "ethernet_10g",
    "NVLink": "nvlink4",
}
MODEL, CHIP, BATCH = "gpt", "h100", 32  # that the simulator trains
OF_FEW = ("chunk", "share", "bits")  # fields that mean nothing where everything is sent
PREFERRED = ("sends", "learners", "every", "momentum", "rate", *OF_FEW)
"""Fields of a setting, from the one that is kept first where a change leads to what was not recorded."""


@dataclass(frozen=True)
class MeetingState(ExplorerState):
    """The value of every control.

    Attributes:
        learners, every, rate, momentum, sends, chunk, share, bits: of a
            :class:`~lplab.recordings.recorded_meetings.MeetingSetting`.
        link: a value of ``LINKS``.

    Raises:
        ValueError: a setting that was not recorded.

    >>> MeetingState().meeting.compressor
    'dense'
    """

    learners: int = control(4, Steps("learners", LEARNERS, unit="learners"))
    every: int = control(12, Buttons("meet every", {f"{every} steps": every for every in EVERY}))
    rate: float = control(1.0, Buttons("outer rate", {f"{rate:g}": rate for rate in RATES}))
    momentum: float = control(0.0, Buttons("momentum", {f"{momentum:g}": momentum for momentum in MOMENTA}))
    sends: str = control(DENSE, Choice("sent", SENT))
    chunk: int = control(4096, Buttons("of a chunk of", {f"{chunk:,}": chunk for chunk in CHUNKS}))
    share: int = control(64, Steps("one of", SHARES, unit="elements"))
    bits: int = control(2, Buttons("bits a value", BITS))
    link: str = control("home_100m", Choice("link", LINKS))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.meeting.name not in meeting_runs():
            raise ValueError(f"no training of this setting is recorded: {self.meeting.name}")

    @property
    def meeting(self) -> MeetingSetting:
        """The recorded setting."""
        return MeetingSetting(**{name: getattr(self, name) for name in PREFERRED})

    @property
    def run(self) -> MeetingRun:
        """The recorded training."""
        return meeting_runs()[self.meeting.name]

    def changed(self, **changes: Any) -> MeetingState:
        """The state after changes; where that was not recorded, the nearest one that has all changes.

        >>> few = MeetingState().changed(sends="sparseloco")
        >>> few.changed(learners=8).sends
        'dense'
        """
        controls = self.controls()
        for name in changes.keys() & controls.keys():
            changes[name] = controls[name].check(name, changes[name], self)
        wanted = {name: changes.get(name, getattr(self, name)) for name in PREFERRED}
        if MeetingSetting(**wanted).name in meeting_runs():
            return replace(self, **changes)
        best = max(
            (each for each in recorded() if all(_has(each, name, wanted[name]) for name in changes if name in wanted)),
            key=lambda each: [_has(each, name, wanted[name]) for name in PREFERRED],
            default=None,
        )
        if best is None:  # the constructor says which value is wrong
            return replace(self, **changes)
        follow = {name: getattr(best, name) for name in PREFERRED if not _has(best, name, wanted[name])}
        return replace(self, **follow | changes)

    @property
    def code(self) -> str:
        """Python that gives the numbers of this state: the recording, and the simulated step."""
        given = ", ".join(
            f"{each.name}={getattr(self.meeting, each.name)!r}"
            for each in fields(MeetingSetting)
            if getattr(self.meeting, each.name) != each.default
        )
        return (
            f"run = meeting_runs()[MeetingSetting({given}).name]\n"
            f"cluster = Cluster({CHIP!r}, {self.learners}, {self.link!r})\n"
            f"step = simulate_local_steps({MODEL!r}, cluster, every={self.every}, "
            f"compressor={self.meeting.compressor!r}, outer={_outer(self)!r}, batch={BATCH})\n"
            "run.loss, run.bytes_a_step, step.step_seconds"
        )


@cache
def recorded() -> tuple[MeetingSetting, ...]:
    """The settings that the file has, of those that remember what they do not send."""
    return tuple(each for each in RECORDED if each.memory and each.name in meeting_runs())


def _has(meeting: MeetingSetting, name: str, value: Any) -> bool:
    """Whether a setting has this value, or does not care."""
    return bool(getattr(meeting, name) == value or (name in OF_FEW and meeting.sends != FEW))


def _outer(state: MeetingState) -> str:
    return "nesterov" if state.momentum else "mean"


PRESETS: dict[str, dict[str, Any]] = {
    "FedAvg": {"rate": 1.0, "momentum": 0.0, "sends": DENSE},
    "DiLoCo": {"rate": NESTEROV[0], "momentum": NESTEROV[1], "sends": DENSE},
    "DiLoCo in 4 bits": {"rate": NESTEROV[0], "momentum": NESTEROV[1], "sends": SMALL, "every": 12, "learners": 4},
    "SparseLoCo": {
        "rate": 1.0, "momentum": 0.0, "sends": FEW, "chunk": 4096, "share": 64, "bits": 2, "every": 12, "learners": 4,
    },
}  # fmt: skip
STARS: dict[str, MeetingSetting] = {  # dots of the plane
    "FedAvg": MeetingSetting(),
    "DiLoCo": MeetingSetting(4, 12, *NESTEROV),
    "DiLoCo every 60": MeetingSetting(4, 60, *NESTEROV),
    "DiLoCo in 4 bits": MeetingSetting(4, 12, *NESTEROV, sends=SMALL),
    "SparseLoCo": MeetingSetting(sends=FEW),
    "without memory": MeetingSetting(sends=FEW, memory=False),
}


# ---- the figures -----------------------------------------------------------------------------------------------------


@cache
def limits() -> tuple[float, float]:
    """Ends of the axis of losses: all recorded trainings fit that do not diverge."""
    runs = meeting_runs()
    top = max(float(runs[ALONE].losses.max()), 0.0)
    low = min(run.loss for run in runs.values())
    return low - 0.03, top + 0.05


def losses_figure(state: MeetingState) -> Any:
    """The training of a state beside one alone and a synchronous one."""
    runs, run = meeting_runs(), state.run
    beside = {"one alone": runs[ALONE], "a gradient in each step": runs[SYNCHRONOUS]}
    low, top = limits()
    return figures.meeting_losses(
        {"this setting": (run.steps, run.losses)},
        {name: (each.steps, each.losses) for name, each in beside.items()},
        steps=int(run.steps[-1]),
        limits=(low, max(top, float(run.losses.max()) + 0.05)),  # room for what diverges
        title=f"This setting ends at {run.loss:.3f} bits, one alone at {runs[ALONE].loss:.3f}",
        height=300,
    )


def plane_figure(state: MeetingState) -> Any:
    """Bytes and loss of a state, among other ways to train and the level of one learner alone."""
    runs = meeting_runs()
    dots = {
        name: (runs[each.name].bytes_a_step, runs[each.name].loss) for name, each in STARS.items() if each.name in runs
    }
    together = runs[SYNCHRONOUS]
    return figures.byte_loss_plane(
        dots | {"in each step": (together.bytes_a_step, together.loss)},
        (state.run.bytes_a_step, state.run.loss),
        {"one alone": runs[ALONE].loss},
        height=310,
    )


@lru_cache(maxsize=64)
def seconds(state: MeetingState) -> dict[str, float]:
    """Seconds of a simulated step, by way: data parallelism, this setting, and "alone", which meets nobody."""
    cluster = Cluster(CHIP, state.learners, state.link)
    (ddp,) = compare_methods(MODEL, cluster, batch=BATCH, methods=("ddp",))
    meetings = simulate_local_steps(
        MODEL, cluster, every=state.every, compressor=state.meeting.compressor, outer=_outer(state), batch=BATCH
    )
    return {
        "in each step": float(ddp["step_seconds"]),
        "this setting": meetings.step_seconds,
        "alone": meetings.step_alone_seconds,
    }


def computing(state: MeetingState, way: str = "this setting") -> float:
    """The share of the time in which learners compute.

    >>> computing(MeetingState(), "in each step") < 0.01
    True
    """
    by_way = seconds(state)
    return by_way["alone"] / by_way[way]


def time_figure(state: MeetingState) -> Any:
    """A step of a language model over the link."""
    by_way = dict(seconds(state))
    alone = by_way.pop("alone")
    name = next(label for label, value in LINKS.items() if value == state.link)
    return figures.meeting_seconds(by_way, alone, "this setting", link=name, height=290)


def summary(state: MeetingState) -> str:
    """Loss, bytes and time, in one line.

    >>> summary(MeetingState())[:33]
    '4 learners that meet every 12 ste'
    """
    run, by_way = state.run, seconds(state)
    return (
        f"{state.learners} learners that meet every {state.every} steps: {run.loss:.3f} bits a character, "
        f"{bytes_word(run.bytes_a_step)} a step from each. Over the link, a step of a model of 124 million weights "
        f"takes {duration(by_way['this setting'], 3)}."
    )


class MeetingExplorer(Explorer):
    """Recorded trainings of learners that meet seldom, and the simulated time of a step over a link.

    Args:
        **position: fields of `MeetingState`; Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> MeetingExplorer(rate=0.7, momentum=0.9).position.meeting.momentum
    0.9
    """

    imports = (
        "from lplab.hardware import Cluster, simulate_local_steps",
        "from lplab.recordings.recorded_meetings import MeetingSetting, meeting_runs",
    )
    state_class, preset_fields = MeetingState, PRESETS
    side: ClassVar = {
        "Published methods": ("presets",),
        "Meetings": ("learners", "every", "rate", "momentum"),
        "What is sent": ("sends", "chunk", "share", "bits"),
        "Time": ("link",),
    }
    figure_names: ClassVar = {
        "losses": "The loss over the steps",
        "plane": "Loss against bytes",
        "time": "The time of a step over the link",
    }

    def _off(self, state: MeetingState) -> dict[str, str]:
        """What means nothing where everything is sent."""
        return dict.fromkeys(OF_FEW, "only where the largest are sent") if state.sends != FEW else {}

    def _figures(self, state: MeetingState) -> dict[str, Any]:
        return {"losses": losses_figure(state), "plane": plane_figure(state), "time": time_figure(state)}

    def _summary(self, state: MeetingState) -> str:
        return summary(state)
