"""The roofline, live: any workload on any chip in any recipe, and where the time of its step goes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from lplab import figures
from lplab.figures.roofline import Products, Roof, RooflinePoint
from lplab.figures.time_parts import by_layer
from lplab.hardware import accelerators, compute, precisions, workloads
from lplab.hardware.accelerators import Accelerator
from lplab.hardware.layer_times import LayerTimes
from lplab.hardware.local_machine import measured_products
from lplab.hardware.units import duration, format_si
from lplab.hardware.workloads.workload import PASSES
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Buttons, Choice, ExplorerState, Steps, control

WORKLOADS = {workloads.get(name).label: name for name in (*workloads.names(), *workloads.INFERENCE)}
_TABLE = (
    *("ibm-rapid-training", "ibm-4core-7nm", "systolic", "p100", "v100", "a100", "h100", "h200", "b200"),
    *(f"tpu-{version}" for version in ("v2", "v3", "v4", "v5e", "v5p", "v6e")),
)
CHIPS = {accelerators.get(name).label.split(" (")[0].split(" at ")[0]: name for name in _TABLE} | {
    "this machine": "mine"
}
CLASSIC = {"FP32": "fp32", "16 bits": "bf16", "HFP8 (2019)": "hfp8_2019", "4 bits (2020)": "int4_fp4_2020"}
_TRAINING = {
    **CLASSIC,
    "FP8 tiles (2024)": "deepseek_2024",
    "MXFP8 (2025)": "mxfp8_2025",
    "MXFP4 (2025)": "mxfp4_2025",
    "Quartet (2025)": "quartet_2025",
    "NVFP4 (2025)": "nvfp4_2025",
}
_WRITING = {label: CLASSIC[label] for label in ("FP32", "16 bits")} | {"4-bit weights": "w4a16"}
RECIPES = _TRAINING | _WRITING
BATCHES = tuple(2**k for k in range(13))
RECIPE_ROWS, LAYER_ROWS = "recipes", "layers"
VIEWS = (RECIPE_ROWS, LAYER_ROWS)
HEIGHT = 260  # of the lower figure, in pixels
FUSED = {"in separate passes": False, "fused": True}  # labels and values of the control
SUSTAINED = RooflinePoint("RaPiD's mean of its networks", math.nan, 203e12, 102e12, 588e12)  # Venkataramani et al. 2021
ROOF_NAMES = {"fp32": "FP32", "tf32": "TF32", "fp16": "FP16", "bf16": "BF16", "fp8": "FP8"} | {
    name: name.upper() for name in ("int8", "int4", "fp4", "int2")
}


@dataclass(frozen=True)
class RooflineState(ExplorerState):
    """The value of every control.

    Attributes:
        workload, chip, precision: names in `lplab.hardware`.
        batch: examples of a step, a power of two up to 4096.
        fused: whether norms, activations and rounding are fused into the products, or separate passes over memory.
        view: rows of the lower figure: "recipes" beside each other, or "layers" of the chosen one.

    Raises:
        ValueError: a value that is not allowed, or a chip or network that cannot run in the recipe.

    >>> round(RooflineState().times.share_of_peak, 2)
    0.11
    """

    workload: str = control("resnet50", Choice("network", WORKLOADS))
    chip: str = control("ibm-rapid-training", Choice("chip", CHIPS))
    precision: str = control("hfp8_2019", Choice("recipe", RECIPES))
    batch: int = control(512, Steps("batch", {f"{batch:,}": batch for batch in BATCHES}, unit="examples"))
    fused: bool = control(False, Choice("element-wise", FUSED))
    view: str = control(RECIPE_ROWS, Buttons("bars for", VIEWS))

    def __post_init__(self) -> None:
        super().__post_init__()
        runs = runs_on(self.chip, self.workload)
        if self.precision not in runs:
            labels = f"{workloads.get(self.workload).label} on {accelerators.get(self.chip).label}"
            raise ValueError(f"{labels} has no step in {self.precision}; it has one in {', '.join(runs)}")

    def changed(self, **changes: Any) -> RooflineState:
        """The state after changes; a recipe that the new chip or network cannot run in becomes the 16-bit one.

        >>> RooflineState(chip="a100", precision="fp32").changed(chip="tpu-v4").precision
        'bf16'
        """
        chip, workload = (changes.get(name, getattr(self, name)) for name in ("chip", "workload"))
        is_listed = chip in list(CHIPS.values()) and workload in list(WORKLOADS.values())
        if is_listed and "precision" not in changes and self.precision not in runs_on(chip, workload):
            changes["precision"] = "bf16"
        return replace(self, **changes)

    @property
    def times(self) -> LayerTimes:
        """The modelled times in this state."""
        return times_of(self, self.precision)

    @property
    def accelerator(self) -> Accelerator:
        """The chip."""
        return accelerators.get(self.chip)

    @property
    def code(self) -> str:
        """Python that gives the numbers."""
        share = ', utilization="array"' if self.accelerator.array_rows else ""
        return (
            f'times = compute.layer_times("{self.workload}", "{self.chip}", "{self.precision}", batch={self.batch}, '
            f"fused={self.fused}, fall_back=True{share})\n"
            "times.step_seconds, times.share_of_peak, times.parts()"
        )


PRESETS: dict[str, dict[str, Any]] = {
    "RaPiD (2021)": RooflineState.every_field(),
    "RaPiD, fused": RooflineState.every_field(fused=True),
    "4 bits (2020)": RooflineState.every_field(chip="systolic", precision="int4_fp4_2020", batch=64),
    "GPT-3 on B200": RooflineState.every_field(workload="gpt3", chip="b200", precision="int4_fp4_2020", batch=1),
    "Llama 2 writes": RooflineState.every_field(
        workload="llama2_7b_writing", chip="a100", precision="w4a16", batch=1, fused=True
    ),
    "This machine": RooflineState.every_field(workload="resnet18", chip="mine", precision="fp32", batch=32),
}


@lru_cache(maxsize=64)
def runs_on(chip: str, workload: str) -> tuple[str, ...]:
    """The recipes in which a chip can run a network: all but FP32, where there are 16-bit products.

    A network that writes is not trained, so that only what is stored in fewer bits matters.

    >>> runs_on("tpu-v4", "resnet50")
    ('bf16', 'hfp8_2019', 'int4_fp4_2020', 'deepseek_2024', 'mxfp8_2025', 'mxfp4_2025', 'quartet_2025', 'nvfp4_2025')
    >>> runs_on("tpu-v4", "llama2_7b_writing")
    ('bf16', 'w4a16')
    """
    peaks, recipes = accelerators.get(chip).peaks, _WRITING if workload in workloads.INFERENCE else _TRAINING
    return tuple(name for name in recipes.values() if name != "fp32" or "fp32" in peaks)


@lru_cache(maxsize=512)
def _times(workload: str, chip: str, precision: str, batch: int, fused: bool) -> LayerTimes:
    arrays = accelerators.get(chip).array_rows is not None
    return compute.layer_times(
        workload,
        chip,
        precision,
        batch,
        utilization="array" if arrays else 1.0,
        fused=fused,
        fall_back=True,
    )


def times_of(state: RooflineState, precision: str) -> LayerTimes:
    """The modelled times in a state, under any recipe."""
    return _times(state.workload, state.chip, precision, state.batch, state.fused)


def roofs(state: RooflineState) -> tuple[list[Roof], int]:
    """A roof for each peak that the recipes use on this chip, and the index of the chosen recipe's highest one."""
    chip, by_peak = state.accelerator, dict[str, Roof]()
    for name in runs_on(state.chip, state.workload):
        recipe = precisions.get(name)
        for peaks in (recipe.forward_peaks, recipe.dx_peaks):
            peak, ops_per_second = compute.peak_ops_per_second(chip, peaks, fall_back=True)
            by_peak[peak] = Roof(ROOF_NAMES[peak], ops_per_second, float(chip.memory_bytes_per_second or 1))
    times = state.times
    best = str(times.peak_names.ravel()[int(times.rates.argmax())])
    return list(by_peak.values()), list(by_peak).index(best)


@lru_cache(maxsize=128)
def products(state: RooflineState) -> Products:
    """The modelled products, with names, for the figure."""
    times = state.times
    exists = times.flops > 0
    names = np.array([[f"{layer.name}, {word}" for layer in times.workload.layers] for word in PASSES])[exists]
    seconds = times.product_seconds[exists]
    ops_per_second = times.flops[exists] / seconds
    return Products(names.tolist(), times.intensity[exists], ops_per_second, seconds, waits_for_memory(state))


def waits_for_memory(state: RooflineState) -> np.ndarray:
    """Which of the products are bound by memory bandwidth, bool."""
    times = state.times
    return np.asarray(~times.compute_bound[times.flops > 0])


def roofline_figure(state: RooflineState) -> Any:
    """The upper figure."""
    times = state.times
    every, chosen = roofs(state)
    whole = RooflinePoint(
        "the whole step", float(times.flops.sum() / times.nbytes.sum()), float(times.sustained_ops_per_second)
    )
    measured = [RooflinePoint(*product) for product in measured_products()] if state.chip == "mine" else []
    published = [SUSTAINED] if state.chip == "ibm-rapid-training" else []
    share = 100 * float(times.share_of_peak)
    percent = f"{share:.0f}" if share >= 1 else f"{share:.1g}"
    title = f"{times.workload.label}: the step does {percent} % of what {every[chosen].name} multipliers could"
    return figures.roofline(
        every, products(state), whole, chosen=chosen, published=published, measured=measured, title=title, height=300
    )


def parts_figure(state: RooflineState, height: int = HEIGHT) -> Any:
    """The lower figure: recipes beside each other, or layers."""
    if state.view == LAYER_ROWS:
        rows = by_layer(state.times, per=state.batch)
        longest = max(rows, key=lambda name: sum(rows[name].values()))
        share = sum(rows[longest].values()) / sum(sum(row.values()) for row in rows.values())
        title = f"{longest} takes {100 * share:.0f} % of the step in {label_of(state.precision)}"
        return figures.time_parts(rows, what="time for one example", title=title, height=height)
    # FP32 would dwarf the others; of the recipes since 2024 there is room for the chosen one
    always = [p for p in CLASSIC.values() if p != "fp32"]
    shown = [p for p in runs_on(state.chip, state.workload) if p == state.precision or p in always]
    rows = {label_of(p): {k: v / state.batch for k, v in times_of(state, p).parts().items()} for p in shown}
    wide, narrow = times_of(state, "bf16"), state.times
    title = "16 bits is what the others are compared with"
    if state.precision != "bf16":
        peaks, speed = narrow.rates.max() / wide.rates.max(), wide.step_seconds / narrow.step_seconds
        title = f"{label_of(state.precision)}: {peaks:.2g} × the rate of 16 bits, {speed:.2f} × the speed"
    return figures.time_parts(rows, label_of(state.precision), what="time for one example", title=title, height=height)


def figure(state: RooflineState) -> Any:
    """The two figures as one, which a browser draws in half the time."""
    return figures.stacked([roofline_figure(state)], [parts_figure(state)], left=128, right=24)


def label_of(precision: str) -> str:
    """The name of a recipe in the controls.

    >>> label_of("bf16")
    '16 bits'
    """
    return next(label for label, name in RECIPES.items() if name == precision)


def summary(state: RooflineState) -> str:
    """What the step does in this state, in one or two sentences."""
    times = state.times
    parts, waiting = {name: float(value) for name, value in times.parts().items()}, waits_for_memory(state)
    sustained, peak = (format_si(float(v), "").strip() for v in (times.sustained_ops_per_second, times.rates.max()))
    text = (
        f"A step with a batch of {state.batch:,} takes {duration(times.step_seconds)} (modelled): "
        f"{sustained} of {peak} operations a second. "
        f"{int(waiting.sum()):,} of {len(waiting):,} products wait for memory; "
        f"{100 * (parts['between'] + parts['conversion']) / times.step_seconds:.0f} % of the time is element-wise work "
        "(norms, activations, rounding)."
    )
    return text + _missing_units(state) + _memory_note(state)


def _memory_note(state: RooflineState) -> str:
    """A sentence where the weights and their state alone do not fit into the chip's memory, else ""."""
    bits, memory = precisions.get(state.precision), state.accelerator.memory_bytes
    each = bits.weight_bits * (bits.master_bits == 0) + bits.master_bits + bits.optimizer_bits
    workload = workloads.get(state.workload)
    needed = (workload.parameters * each + workload.frozen * bits.weight_bits) / 8
    if memory is None or needed <= memory:
        return ""
    sizes = f"weights and their state alone are {format_si(needed, 'B')}, the chip has {format_si(memory, 'B')}"
    return f" It would need many chips: {sizes}."


def _missing_units(state: RooflineState) -> str:
    """A sentence where the chip lacks a peak of the recipe, with the peak that replaces it, else ""."""
    recipe, missing = precisions.get(state.precision), []
    for peaks in dict.fromkeys((recipe.forward_peaks, recipe.dx_peaks)):
        peak, _ = compute.peak_ops_per_second(state.accelerator, peaks, fall_back=True)
        if peak not in peaks:
            missing.append(f"no {ROOF_NAMES[peaks[0]]} products: they run at the rate of {ROOF_NAMES[peak]}")
    return f" This chip has {' and '.join(missing)}." if missing else ""


class RooflineExplorer(Explorer):
    """A training step under the roofline of a chip, behind six controls.

    Args:
        **position: fields of `RooflineState`: ``workload``, ``chip``, ``precision``, ``batch``, ``fused``, ``view``.
            Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> explorer = RooflineExplorer(chip="h100", precision="bf16")
    >>> explorer.figure.layout.meta["title"]
    'ResNet-50: the step does 18 % of what BF16 multipliers could'
    """

    imports = ("from lplab.hardware import compute",)
    state_class, preset_fields = RooflineState, PRESETS
    side: ClassVar = {
        "Presets": ("presets",),
        "The work": ("workload", "batch"),
        "The machine": ("chip", "precision", "fused", "view"),
    }

    def _options(self, state: RooflineState) -> dict[str, list[Any]]:
        """Recipes in which the chip cannot run the network are not offered."""
        runs = runs_on(state.chip, state.workload)
        return super()._options(state) | {
            "precision": [(label, name) for label, name in RECIPES.items() if name in runs]
        }

    figure_names: ClassVar = {"roofline": "The products under the roof", "parts": "Where the time of a step goes"}

    def _figures(self, state: RooflineState) -> dict[str, Any]:
        return {"figure": figure(state)}

    def _panels(self, state: RooflineState) -> dict[str, Any]:
        drawn = {"roofline": roofline_figure(state), "parts": parts_figure(state, height=310)}
        return {name: figures.stacked([panel], left=128, right=24) for name, panel in drawn.items()}

    def _summary(self, state: RooflineState) -> str:
        return summary(state)
