"""Where the controls of the roofline stand, and what follows: figures and sentences, no widgets."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from lplab import figures
from lplab.figures.roofline import Mark, Products, Roof
from lplab.figures.time_parts import by_layer
from lplab.hardware import accelerators, compute, precisions, workloads
from lplab.hardware.accelerators import Accelerator
from lplab.hardware.layer_times import LayerTimes
from lplab.hardware.my_machine import measured_products
from lplab.hardware.units import amount, duration
from lplab.hardware.workloads.layer import PASSES

WORKLOADS = {workloads.get(name).label: name for name in workloads.names()}
_TABLE = (
    *("ibm-rapid-training", "ibm-4core-7nm", "systolic", "p100", "v100", "a100", "h100", "h200", "b200"),
    *(f"tpu-{version}" for version in ("v2", "v3", "v4", "v5e", "v5p", "v6e")),
)
CHIPS = {accelerators.get(name).label.split(" (")[0].split(" at ")[0]: name for name in _TABLE} | {
    "this machine": "mine"
}
RECIPES = {"FP32": "fp32", "16 bits": "bf16", "HFP8 (2019)": "hfp8_2019", "4 bits (2020)": "int4_fp4_2020"}
BATCHES = tuple(2**k for k in range(13))
RECIPE_ROWS, LAYER_ROWS = "recipes", "layers"
VIEWS = (RECIPE_ROWS, LAYER_ROWS)
HEIGHT = 340  # of the lower figure, in pixels
OWN_PASS, FUSED = "in passes of their own", "on the way (fused)"
WAYS = (OWN_PASS, FUSED)
SUSTAINED = Mark("RaPiD's mean of its networks", math.nan, 203e12, 102e12, 588e12)  # Venkataramani et al. 2021
ROOF_NAMES = {"fp32": "FP32", "tf32": "TF32", "fp16": "FP16", "bf16": "BF16", "fp8": "FP8"} | {
    name: name.upper() for name in ("int8", "int4", "fp4", "int2")
}


@dataclass(frozen=True)
class Position:
    """Where the controls stand.

    Attributes:
        workload, chip, precision: names in `lplab.hardware`.
        batch: examples of a step, a power of two up to 4096.
        way: whether norms, activations and rounding are passes of their own, or done on the way to memory.
        view: rows of the lower figure: "recipes" beside each other, or "layers" of the chosen one.

    Raises:
        ValueError: a position that does not exist, or a chip that cannot run the recipe.

    >>> round(Position().times.share_of_peak, 2)
    0.11
    """

    workload: str = "resnet50"
    chip: str = "ibm-rapid-training"
    precision: str = "hfp8_2019"
    batch: int = 512
    way: str = OWN_PASS
    view: str = RECIPE_ROWS

    def __post_init__(self) -> None:
        allowed: dict[str, Any] = {
            "workload": WORKLOADS.values(),
            "chip": CHIPS.values(),
            "precision": RECIPES.values(),
            "batch": BATCHES,
            "way": WAYS,
            "view": VIEWS,
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ValueError(f"unknown {name} {getattr(self, name)!r}; allowed: {', '.join(map(str, values))}")
        if self.precision not in runs_on(self.chip):
            label = accelerators.get(self.chip).label
            raise ValueError(f"{label} has no rate for {self.precision}; it runs {', '.join(runs_on(self.chip))}")

    @property
    def times(self) -> LayerTimes:
        """The modelled times at this position."""
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
            "from lplab.hardware import compute\n"
            f'times = compute.layer_times("{self.workload}", "{self.chip}", "{self.precision}", batch={self.batch}, '
            f"fused={self.way == FUSED}, fall_back=True{share})\n"
            "times.step_seconds, times.share_of_peak, times.parts()"
        )


def _whole(**some: Any) -> dict[str, Any]:
    """Every field of a position, so that a preset is the same place wherever the controls stood before."""
    return {field.name: field.default for field in fields(Position)} | some


PRESETS: dict[str, dict[str, Any]] = {
    "RaPiD (2021)": _whole(),
    "RaPiD, fused": _whole(way=FUSED),
    "4 bits (2020)": _whole(chip="systolic", precision="int4_fp4_2020", batch=64),
    "GPT-3 on B200": _whole(workload="gpt3", chip="b200", precision="int4_fp4_2020", batch=1),
    "This machine": _whole(workload="resnet18", chip="mine", precision="fp32", batch=32),
}


def settled(at: Position, **changes: Any) -> Position:
    """The position after changes; a recipe that the new chip cannot run becomes the 16-bit one.

    >>> settled(Position(chip="a100", precision="fp32"), chip="tpu-v4").precision
    'bf16'
    """
    chip = changes.get("chip", at.chip)
    if chip in CHIPS.values() and "precision" not in changes and at.precision not in runs_on(chip):
        changes["precision"] = "bf16"
    return replace(at, **changes)


@lru_cache(maxsize=64)
def runs_on(chip: str) -> tuple[str, ...]:
    """The recipes that a chip can run: all but FP32, where there are 16-bit products.

    >>> runs_on("tpu-v4")
    ('bf16', 'hfp8_2019', 'int4_fp4_2020')
    """
    peaks = accelerators.get(chip).peaks
    return tuple(name for name in RECIPES.values() if name != "fp32" or "fp32" in peaks)


@lru_cache(maxsize=512)
def _times(workload: str, chip: str, precision: str, batch: int, way: str) -> LayerTimes:
    arrays = accelerators.get(chip).array_rows is not None
    return compute.layer_times(
        workload,
        chip,
        precision,
        batch,
        utilization="array" if arrays else 1.0,
        fused=way == FUSED,
        fall_back=True,
    )


def times_of(at: Position, precision: str) -> LayerTimes:
    """The modelled times at a position, in any recipe."""
    return _times(at.workload, at.chip, precision, at.batch, at.way)


def roofs(at: Position) -> tuple[list[Roof], int]:
    """A roof for each rate that the recipes run at on this chip, and the place of the chosen recipe's best one."""
    chip, found = at.accelerator, dict[str, Roof]()
    for name in runs_on(at.chip):
        recipe = precisions.get(name)
        for peaks in (recipe.forward_peaks, recipe.dx_peaks):
            peak, rate = compute.rate(chip, peaks, fall_back=True)
            found[peak] = Roof(ROOF_NAMES[peak], rate, float(chip.memory_bytes_per_second or 1))
    times = at.times
    best = str(times.rate_names.ravel()[int(times.rates.argmax())])
    return list(found.values()), list(found).index(best)


@lru_cache(maxsize=128)
def products(at: Position) -> Products:
    """The modelled products, with names, for the figure."""
    times = at.times
    some = times.flops > 0
    names = np.array([[f"{layer.name}, {word}" for layer in times.workload.layers] for word in PASSES])[some]
    seconds = times.product_seconds[some]
    rates = times.flops[some] / seconds
    return Products(names.tolist(), times.intensity[some], rates, seconds, waits(at))


def waits(at: Position) -> np.ndarray:
    """Which of the products wait for memory, bool."""
    times = at.times
    return np.asarray(~times.compute_bound[times.flops > 0])


def roofline_figure(at: Position) -> Any:
    """The upper figure."""
    times = at.times
    every, chosen = roofs(at)
    whole = Mark("the whole step", float(times.flops.sum() / times.nbytes.sum()), float(times.sustained_ops_per_second))
    measured = [Mark(*found) for found in measured_products()] if at.chip == "mine" else []
    published = [SUSTAINED] if at.chip == "ibm-rapid-training" else []
    share = 100 * float(times.share_of_peak)
    title = f"{times.workload.label}: the step does {share:.0f} % of what {every[chosen].name} multipliers could"
    return figures.roofline(
        every, products(at), whole, chosen=chosen, published=published, measured=measured, title=title, height=380
    )


def parts_figure(at: Position) -> Any:
    """The lower figure: recipes beside each other, or layers."""
    if at.view == LAYER_ROWS:
        rows = by_layer(at.times, per=at.batch)
        longest = max(rows, key=lambda name: sum(rows[name].values()))
        share = sum(rows[longest].values()) / sum(sum(row.values()) for row in rows.values())
        title = f"{longest} takes {100 * share:.0f} % of the step in {label_of(at.precision)}"
        return figures.time_parts(rows, what="time for one example", title=title, height=HEIGHT)
    shown = [p for p in runs_on(at.chip) if p in ("bf16", at.precision) or p != "fp32"]  # FP32 would dwarf the others
    rows = {label_of(p): {k: v / at.batch for k, v in times_of(at, p).parts().items()} for p in shown}
    wide, narrow = times_of(at, "bf16"), at.times
    title = "16 bits is what the others are compared with"
    if at.precision != "bf16":
        rate, speed = narrow.rates.max() / wide.rates.max(), wide.step_seconds / narrow.step_seconds
        title = f"{label_of(at.precision)}: {rate:.2g} × the rate of 16 bits, {speed:.2f} × the speed"
    return figures.time_parts(rows, label_of(at.precision), what="time for one example", title=title, height=HEIGHT)


def picture(at: Position) -> Any:
    """Both figures as one, which a browser draws in half the time."""
    return figures.stacked([roofline_figure(at)], [parts_figure(at)], left=112, right=24)


def label_of(precision: str) -> str:
    """The name of a recipe in the controls.

    >>> label_of("bf16")
    '16 bits'
    """
    return next(label for label, name in RECIPES.items() if name == precision)


def statement(at: Position) -> str:
    """What the step does at this position, in one or two sentences."""
    times = at.times
    parts, waiting = {name: float(value) for name, value in times.parts().items()}, waits(at)
    done, most = (amount(float(v), "").strip() for v in (times.sustained_ops_per_second, times.rates.max()))
    said = (
        f"A step with a batch of {at.batch:,} takes {duration(times.step_seconds)} (modelled): "
        f"{done} of {most} operations a second. "
        f"{int(waiting.sum())} of {len(waiting)} products wait for memory; "
        f"{100 * (parts['between'] + parts['conversion']) / times.step_seconds:.0f} % of the time is no product and "
        "no update."
    )
    return said + _replaced(at) + _too_large(at)


def _too_large(at: Position) -> str:
    """That the weights and their state alone do not fit into the chip's memory."""
    bits, room = precisions.get(at.precision), at.accelerator.memory_bytes
    each = bits.weight_bits * (bits.master_bits == 0) + bits.master_bits + bits.optimizer_bits
    needed = workloads.get(at.workload).parameters * each / 8
    if room is None or needed <= room:
        return ""
    sizes = f"weights and their state alone are {amount(needed, 'B')}, the chip has {amount(room, 'B')}"
    return f" It would need many chips: {sizes}."


def _replaced(at: Position) -> str:
    """That the chip lacks a rate, and which one stands in."""
    recipe, lacks = precisions.get(at.precision), []
    for peaks in dict.fromkeys((recipe.forward_peaks, recipe.dx_peaks)):
        peak, _ = compute.rate(at.accelerator, peaks, fall_back=True)
        if peak not in peaks:
            lacks.append(f"no {ROOF_NAMES[peaks[0]]} products: they run at the rate of {ROOF_NAMES[peak]}")
    return f" This chip has {' and '.join(lacks)}." if lacks else ""
