"""A simulated cluster, live: one step on a time axis, and how efficient more or fewer devices would be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from lplab import figures
from lplab.figures.cluster_scaling import ScalingCurve
from lplab.figures.device_timeline import milliseconds
from lplab.hardware import Cluster, Simulation, simulate, workloads
from lplab.hardware.step import Design, step
from lplab.number_text import percent
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Buttons, Checkbox, Choice, ExplorerState, Steps, control

CHIPS = {"P100 (2016)": "p100", "V100 (2017)": "v100", "A100 (2020)": "a100", "H100 (2022)": "h100"}
INNER = {"p100": "nvlink1", "v100": "nvlink2", "a100": "nvlink3", "h100": "nvlink4"}  # between devices of a node
RECIPES = {"32 bits": "fp32", "16 bits": "fp16_mixed", "8 bits (2019)": "hfp8_2019"}
COMPRESSORS = {
    "none": "none",
    "topk, 1 %": "topk:density=0.01",
    "randomk, 1 %": "randomk:density=0.01",
    "adacomp": "adacomp",
    "scalecom": "scalecom",
    "efsign, one bit": "efsign",
    "powersgd, rank 4": "powersgd:rank=4",
}
DEVICES = tuple(2**k for k in range(13))
NODES = (1, 4, 8)
GIGABITS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 400.0, 800.0)
MICROSECONDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
BATCHES = (8, 16, 32, 64, 128)
SHARES = tuple(round(0.1 * k, 1) for k in range(11))
UTILIZATIONS = (0.1, 0.2, 0.3, 0.42, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_FRESH: dict[str, Any] = {"compressor": "none", "batch": 32, "sharded": False, "overlap": 1.0, "workload": "resnet50"}
PRESETS: dict[str, dict[str, Any]] = {  # published settings, with every field that they fix
    # P100: the share of the peak that takes 0.2 s a step, as reported; nothing is sent before the backward pass ends
    "DDL 2017 (4 × 64 P100)": _FRESH | {
        "chip": "P100 (2016)", "recipe": "32 bits", "devices": 256, "per_node": 4, "gigabits": 200.0,  # two ports
        "microseconds": 10.0, "utilization": 0.42, "overlap": 0.0},
    "Goyal 2017 (8 × 32 P100)": _FRESH | {
        "chip": "P100 (2016)", "recipe": "32 bits", "devices": 256, "per_node": 8, "gigabits": 50.0,
        "microseconds": 10.0, "utilization": 0.42, "overlap": 0.0},
    "64 V100, 10 Gb/s": _FRESH | {
        "chip": "V100 (2017)", "recipe": "16 bits", "devices": 64, "per_node": 1, "gigabits": 10.0,
        "microseconds": 50.0, "utilization": 0.5},
    "1,024 H100": _FRESH | {
        "chip": "H100 (2022)", "recipe": "8 bits (2019)", "devices": 1024, "per_node": 8, "gigabits": 400.0,
        "microseconds": 5.0, "utilization": 0.5},
}  # fmt: skip
PUBLISHED = {  # published efficiencies, by preset: label, devices, efficiency
    "DDL 2017 (4 × 64 P100)": ("DDL", 256, 0.95),
    "Goyal 2017 (8 × 32 P100)": ("Goyal et al.", 256, 0.90),
}


@dataclass(frozen=True)
class ClusterState(ExplorerState):
    """The value of every control.

    Attributes:
        chip, recipe, compressor: names of `CHIPS`, `RECIPES`, `COMPRESSORS`.
        devices: a power of two up to 4,096.
        per_node: devices that share one link: 1, 4 or 8.
        gigabits, microseconds: bandwidth and latency of that link.
        overlap: speed of transfers while devices compute, 0 to 1 in tenths.
        batch: examples on each device.
        sharded: whether each device updates one part of the weights and sends it to the others.
        workload: a name of `lplab.hardware.workloads.names()`.
        utilization: the share of its peak that a chip reaches in products, one of `UTILIZATIONS`.

    Raises:
        ValueError: a value that is not allowed.

    >>> round(ClusterState().simulation.efficiency, 2)
    0.26
    """

    refusal = "{name} must be one of {allowed}; got {value!r}"

    chip: str = control("V100 (2017)", Choice("chip", list(CHIPS)))
    recipe: str = control("16 bits", Choice("bits", list(RECIPES)))
    compressor: str = control("none", Choice("compressor", list(COMPRESSORS)))
    devices: int = control(64, Steps("devices", {f"{n:,}": n for n in DEVICES}, unit="devices"))
    per_node: int = control(1, Buttons("in a node", NODES))
    gigabits: float = control(10.0, Steps("link, Gb/s", {f"{g:g}": g for g in GIGABITS}, unit="gigabits a second"))
    microseconds: float = control(50.0, Steps("latency, µs", {f"{m:,g}": m for m in MICROSECONDS}, unit="microseconds"))
    overlap: float = control(1.0, Steps("overlap", {f"{share:.0%}": share for share in SHARES}))
    batch: int = control(32, Steps("batch each", BATCHES, unit="examples"))
    sharded: bool = control(False, Checkbox("shared update"))
    workload: str = "resnet50"
    utilization: float = control(0.5, Steps("share of peak", {f"{share:.0%}": share for share in UTILIZATIONS}))

    def __post_init__(self) -> None:
        super().__post_init__()
        workloads.get(self.workload)  # raises for an unknown one

    @property
    def cluster(self) -> Cluster:
        """Devices and network."""
        chip = CHIPS[self.chip]
        link = f"{self.gigabits:g}Gb/s, {self.microseconds:g}us"
        return Cluster(chip, self.devices, link, devices_per_node=self.per_node, inner_link=INNER[chip])

    @property
    def settings(self) -> dict[str, Any]:
        """The other arguments of `simulate`."""
        return {
            "precision": RECIPES[self.recipe],
            "compressor": COMPRESSORS[self.compressor],
            "batch": self.batch,
            "overlap": self.overlap,
            "sharded": self.sharded,
            "utilization": self.utilization,
            "fall_back": True,  # an older chip multiplies 8-bit operands in 16 bits
        }

    @property
    def simulation(self) -> Simulation:
        """The simulated step."""
        return _simulated(self)

    @property
    def code(self) -> str:
        """Python that simulates the same step."""
        chip = CHIPS[self.chip]
        link = f"{self.gigabits:g}Gb/s, {self.microseconds:g}us"
        nodes = f", devices_per_node={self.per_node}, inner_link={INNER[chip]!r}" if self.per_node > 1 else ""
        given = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"simulate({self.workload!r}, Cluster({chip!r}, {self.devices}, {link!r}{nodes}), {given})"


@lru_cache(maxsize=512)
def _simulated(state: ClusterState) -> Simulation:
    return simulate(state.workload, state.cluster, **state.settings)


@lru_cache(maxsize=512)
def efficiencies(state: ClusterState) -> np.ndarray:
    """Efficiency for every number of `DEVICES`, all else as in the state: float64 [13], one vectorised step."""
    design: Design = state.simulation.design
    times = step(design, state.cluster.fabric, np.array(DEVICES), state.batch, overlap=state.overlap)
    return times.single / times.total


def figures_by_name(state: ClusterState, lane: int = 34) -> dict[str, Any]:
    """The figures of a state: one step on a time axis with lanes of this height, and efficiency against devices."""
    curves = [ScalingCurve(_curve_name(state), DEVICES, efficiencies(state))]
    plain = replace(state, compressor="none", recipe="32 bits", sharded=False)
    if plain == state:  # compare with another one
        plain = replace(state, recipe="16 bits")
    curves.append(ScalingCurve(_curve_name(plain), DEVICES, efficiencies(plain)))
    published = [PUBLISHED[name] for name in PUBLISHED if _same_cluster(state, name)]
    efficiency = state.simulation.efficiency
    title = f"{state.devices:,} devices do the work of {state.devices * efficiency:,.1f} ({percent(efficiency)})"
    if state.devices == 1:
        title = "One device alone sends nothing and waits for nobody"
    return {
        "timeline": figures.device_timeline(state.simulation, 2, lane=lane),
        "scaling": figures.scaling(curves, chosen=state.devices, published=published, title=title),
    }


def figure(state: ClusterState) -> Any:
    """The two figures above one another, which a browser redraws in half the time."""
    both = figures_by_name(state)
    return figures.stacked([both["scaling"]], [both["timeline"]], left=76)


def _same_cluster(state: ClusterState, preset: str) -> bool:
    fields = PRESETS[preset]
    return all(getattr(state, name) == fields[name] for name in ("chip", "recipe", "per_node")) and state.batch == 32


def _curve_name(state: ClusterState) -> str:
    compressor = "" if state.compressor == "none" else f", {state.compressor}"
    return state.recipe + compressor + (", shared update" if state.sharded else "")


def summary(state: ClusterState) -> str:
    """Time, the share of it that waits for the network, and memory, in one line.

    >>> summary(ClusterState(devices=1))
    'One device: 24.2 ms a step, 1,320 images a second; memory 1.7 of 32 GB.'
    """
    result = state.simulation
    capacity = result.design.chip.memory_bytes or 0.0
    memory = f"memory {result.memory_bytes / 1e9:.1f} of {capacity / 1e9:.0f} GB" + (
        "" if result.fits else ": too much"
    )
    what = "images" if any("conv" in layer.kind for layer in result.design.workload.layers) else "examples"
    speed = f"{result.throughput:,.0f} {what} a second"
    if state.devices == 1:
        return f"One device: {milliseconds(result.step_seconds)} a step, {speed}; {memory}."
    megabytes = result.sent_bytes / 1e6
    sent = f"{megabytes:,.0f}" if megabytes >= 100 else f"{megabytes:.3g}"
    transfers = milliseconds(result.communication_seconds)
    return (
        f"Each device sends {sent} MB a step; transfers take {transfers}, of which "
        f"{milliseconds(result.exposed_seconds)} are not hidden by the backward pass. {speed}; {memory}."
    )


class ClusterExplorer(Explorer):
    """A training step on a simulated cluster behind controls for chips, network, bits and compressor.

    Args:
        **position: fields of `ClusterState`; Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> explorer = ClusterExplorer(devices=8)
    >>> explorer.figure.layout.meta["title"]
    '8 devices do the work of 2.3 (29.3 %)'
    """

    imports = ("from lplab.hardware import Cluster, simulate",)
    state_class, preset_fields, no_preset = ClusterState, PRESETS, "(none)"
    side: ClassVar = {
        "The cluster": (
            *("preset", "chip", "utilization", "devices", "per_node"),
            *("gigabits", "microseconds"),
        ),
        "The training": ("recipe", "compressor", "overlap", "batch", "sharded"),
    }
    figure_names: ClassVar = {"timeline": "One step on a time axis", "scaling": "Efficiency against the devices"}
    _copy_tooltip = "Python that simulates this step"
    _figure_flex = "3 1 480px"

    def _figures(self, state: ClusterState) -> dict[str, Any]:
        return {"figure": figure(state)}

    def _panels(self, state: ClusterState) -> dict[str, Any]:
        drawn = figures_by_name(state, lane=60)
        return {name: figures.stacked([drawn[name]], left=76) for name in ("scaling", "timeline")}

    def _summary(self, state: ClusterState) -> str:
        return summary(state)
