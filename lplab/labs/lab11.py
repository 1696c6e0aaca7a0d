"""Lab 11, from bits to seconds: its tables and figures, and the questions above its explorers."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab import figures, widgets
from lplab.hardware import accelerators, amdahl, compute, multiplier
from lplab.hardware.layer_times import LayerTimes
from lplab.hardware.local_machine import measured_products
from lplab.hardware.precisions import get as precision_named
from lplab.hardware.units import format_si
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, guided
from lplab.labs.needing import needing
from lplab.widgets.explorers.roofline_explorer import PRESETS, RECIPE_ROWS, SUSTAINED, RooflineState

CHIP, BATCH = "systolic", 64  # of the prediction
FOUR_BITS = "int4_fp4_2020"
MULTIPLIERS = {"fp16": "FP16", "bf16": "bf16", "hfp8_forward": "FP8 1-4-3", "fp8_152": "FP8 1-5-2", "e2m1": "E2M1"}


# ---- tables and figures ----------------------------------------------------------------------------------------------


def step_times(precision: str, fused: bool = False) -> LayerTimes:
    """The modelled training step of the prediction: ResNet-50, 64 images, an array of 128 × 128 cells.

    Args:
        precision: a recipe of `lplab.hardware.precisions`.
        fused: whether element-wise work costs nothing.
    """
    return compute.layer_times("resnet50", CHIP, precision, batch=BATCH, utilization="array", fused=fused)


def speed_by_recipe() -> figures.DataTable:
    """Rate, speed and share of the peak of three recipes, with element-wise work and without."""
    names = ("bf16", "hfp8_2019", FOUR_BITS)
    plain, fused = ([step_times(name, fuse) for name in names] for fuse in (False, True))
    columns: dict[str, list[Any]] = {
        "recipe": [precision_named(name).label for name in names],
        "rate": [float(times.rates.max() / plain[0].rates.max()) for times in plain],
        "speed": [float(plain[0].step_seconds / times.step_seconds) for times in plain],
        "share of the peak": [float(times.share_of_peak) for times in plain],
        "speed, fused": [float(fused[0].step_seconds / times.step_seconds) for times in fused],
    }
    formats: dict[str, Any] = {"rate": _times, "speed": _times, "share of the peak": ".0%", "speed, fused": _times}
    return figures.DataTable(columns, caption="A step of ResNet-50 on 128 × 128 cells, beside 16 bits", formats=formats)


def _times(value: float) -> str:
    return f"{value:.0f} ×" if value == round(value) else f"{value:.2f} ×"


def speedup_by_factor() -> figures.DataTable:
    """What products that are 2, 4 and 16 times as fast bring to the 16-bit step, and the bound, by Amdahl's law."""
    columns: dict[str, list[Any]] = {
        "element-wise work": ["in separate passes", "fused"],
        "products, share of the step": [],
        "products 2 × as fast": [],
        "4 ×": [],
        "16 ×": [],
        "bound": [],
    }
    for fused in (False, True):
        times = step_times("bf16", fused)
        products, step = float(times.part("products")), float(times.step_seconds)
        gains = [float(amdahl.speedup([products, step - products], [factor, 1])) for factor in (2, 4, 16)]
        row = [products / step, *gains, float(amdahl.bound(1 - products / step))]
        for column, value in zip(list(columns.values())[1:], row, strict=True):
            column.append(value)
    formats: dict[str, Any] = dict.fromkeys(list(columns)[2:], _times) | {"products, share of the step": ".0%"}
    return figures.DataTable(columns, caption="How many times as fast the 16-bit step would get", formats=formats)


def multiplier_areas() -> figures.DataTable:
    """How many times smaller than for FP16 a multiplier is, alone and with the adder behind it.

    >>> multiplier_areas().columns["bits of the significand"]
    [11, 8, 4, 3, 2]
    """
    wide, bits = multiplier.mac("fp16"), [multiplier.significand_bits(name) for name in MULTIPLIERS]
    in_fp32 = [multiplier.mac(name) for name in MULTIPLIERS]
    in_169 = [multiplier.mac(name, "dlfloat16") for name in MULTIPLIERS]
    columns: dict[str, list[Any]] = {
        "factors": list(MULTIPLIERS.values()),
        "bits of the significand": bits,
        "square of the bits": [(bits[0] / count) ** 2 for count in bits],
        "multiplier": [wide.multiply_um2 / cost.multiply_um2 for cost in in_fp32],
        "with a sum in FP32": [wide.um2 / cost.um2 for cost in in_fp32],
        "with a sum in 1-6-9": [wide.um2 / cost.um2 for cost in in_169],
    }
    formats: dict[str, Any] = dict.fromkeys(list(columns)[2:4], ".1f") | dict.fromkeys(list(columns)[4:], ".2f")
    return figures.DataTable(
        columns, caption="How many times smaller than FP16 (its sum in FP32), by area", formats=formats
    )


def multiplier_figure() -> Any:
    """The area of a multiplier, alone and with its adder, against the bits of the significand."""
    return figures.multiplier_cost("area")


@needing("torch")
def real_steps() -> figures.DataTable:
    """Two small networks: a training step as modelled for this machine, and as timed now. It takes a few seconds."""
    import torch

    from lplab import models
    from lplab.hardware import workloads
    from lplab.training import step_seconds

    networks = {
        "dense layers": (models.mlp((256, 512, 512, 256)), torch.randn(256, 256)),
        "residual network": (models.resnet(depth=8), torch.randn(16, 3, 16, 16)),
    }
    columns: dict[str, list[Any]] = {"network": list(networks), "modelled (ms)": [], "measured (ms)": []}
    for model, batch in networks.values():
        work = workloads.from_module(model, batch)
        times = compute.layer_times(work, accelerators.mine(), "fp32", batch=len(batch))
        columns["modelled (ms)"].append(1e3 * float(times.step_seconds))
        columns["measured (ms)"].append(1e3 * step_seconds(model, batch, repeats=3))
    formats = dict.fromkeys(list(columns)[1:], ".1f")
    return figures.DataTable(columns, caption="A training step on this machine", formats=formats)


def facts() -> figures.DataTable:
    """The numbers that the text of the lab gives and that stand in no table.

    >>> facts().rows()[0]
    ['element-wise share of the 16-bit step (%)', '44.72']
    """
    plain, rapid, writes = step_times("bf16"), RooflineState(), RooflineState(**PRESETS["Llama 2 writes"])
    rows: dict[str, float] = {
        "element-wise share of the 16-bit step (%)": 100 * _element_wise(plain),
        "density of the 4-bit unit of 2020": multiplier.density_2020(),
        "RaPiD with ResNet-50, tera-operations a second": float(rapid.times.sustained_ops_per_second) / 1e12,
        "the same, fused": float(rapid.changed(fused=True).times.sustained_ops_per_second) / 1e12,
        "RaPiD's peak": float(rapid.times.rates.max()) / 1e12,
        **{
            f"Llama 2 with 4 bits, batch {batch}: times as fast": _speed(writes.changed(batch=batch))
            for batch in (1, 64)
        },
    }
    columns: dict[str, list[Any]] = {"what": list(rows), "number": list(rows.values())}
    return figures.DataTable(columns, caption="What the text says in numbers", formats={"number": ",.4g"})


def _speed(state: RooflineState) -> float:
    """How many times as fast as in 16 bits a step is."""
    return float(state.changed(precision="bf16").times.step_seconds / state.times.step_seconds)


# ---- guided questions ------------------------------------------------------------------------------------------------


def _share(times: LayerTimes, *parts: str) -> float:
    """The share of some parts of the step in its time."""
    return float(sum(times.part(part) for part in parts) / times.step_seconds)


def _element_wise(times: LayerTimes) -> float:
    """The share of norms, activations and rounding in the time of a step."""
    return _share(times, "between", "conversion")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1g} %"


def _busy(times: LayerTimes) -> float:
    """The share of the array that works while products compute."""
    return float(times.flops.sum() / (times.compute_seconds * times.rates).sum())


def _waiting(times: LayerTimes) -> tuple[int, int]:
    """How many products wait for memory, of how many."""
    exists = times.flops > 0
    return int((~times.compute_bound & exists).sum()), int(exists.sum())


def _tera(times: LayerTimes) -> str:
    return format_si(float(times.sustained_ops_per_second), "").strip()


def _sixteen(state: RooflineState) -> str:
    times = state.times
    return (
        f"The step does {_percent(float(times.share_of_peak))} of what the multipliers could. Products take only "
        f"{_percent(_share(times, 'products'))} of its time: {_percent(_share(times, 'compute'))} multiplying and "
        f"{_percent(_share(times, 'memory'))} waiting for memory. Element-wise work, nearly all of "
        f"it norms and activations, takes {_percent(_element_wise(times))}. Multipliers do nothing meanwhile. During the "
        f"products, {_percent(_busy(times))} of the cells are busy; this is not in the figure. Exercise 11.1 is about such empty cells."
    )


def _four(state: RooflineState) -> str:
    wide, narrow = state.changed(precision="bf16").times, state.times
    multiply, stays = (
        [1e3 * float(times.part(part)) / BATCH for times in (wide, narrow)] for part in ("compute", "between")
    )
    return (
        f"Multiplying shrinks from {multiply[0]:.2f} to {multiply[1]:.2f} ms an image, so it is only "
        f"{multiply[0] / multiply[1]:.1f} times as fast (question 3 says why it is not "
        f"{narrow.rates.max() / wide.rates.max():.0f} times). Norms and activations stay at {stays[1]:.2f} ms, as they still "
        f"work on 16-bit numbers. Rounding grows from {_percent(_share(wide, 'conversion'))} to "
        f"{_percent(_share(narrow, 'conversion'))} of the step. (A 16-bit step rounds only its weights, which have a master "
        f"copy in 32 bits.) So the whole step is {wide.step_seconds / narrow.step_seconds:.2f} times as fast."
    )


def _fused(state: RooflineState) -> str:
    wide, narrow = state.changed(precision="bf16").times, state.times
    in_16 = narrow.peak_names == "fp16"
    time = narrow.product_seconds[in_16].sum() / narrow.product_seconds.sum()
    work = narrow.flops[in_16].sum() / narrow.flops.sum()
    return (
        f"The step is {wide.step_seconds / narrow.step_seconds:.2f} times as fast as the fused 16-bit step. There are "
        f"two reasons why it is not four times. The recipe keeps some layers in 16 bits: they have {_percent(work)} of "
        f"the operations and take {_percent(time)} of the products' time. And many products are too small. In 4 bits, each "
        "cell multiplies four pairs of numbers of one sum, so a column of 128 cells is full only where a sum has 512 "
        f"products. While products compute, {_percent(_busy(narrow))} of the array is busy instead of "
        f"{_percent(_busy(wide))}. (These shares are not in the figure.)"
    )


def _rapid(state: RooflineState) -> str:
    plain, fused = state.times, state.changed(fused=True).times
    low, high = (format_si(float(end or 0), "").strip() for end in (SUSTAINED.low, SUSTAINED.high))
    return (
        f"The model says {_tera(plain)} of {format_si(float(plain.rates.max()), '').strip()} operations a second, "
        f"{_percent(float(plain.share_of_peak))} of the peak and below the published range of {low} to {high}. "
        f"{_percent(_element_wise(plain))} of the time is element-wise work. Fused, it would be {_tera(fused)}, which is "
        "inside the range."
    )


QUESTIONS = (
    GuidedQuestion(
        "This is the step of your guess. Look at the bar *16 bits*: which part of it takes longer than multiplying, or "
        "nearly as long?",
        {},
        _sixteen,
        lambda state: state.times.share_of_peak < 0.5 and _share(state.times, "between") > 0.4,
        ("precision", "fused"),
        "parts",
        ("waiting for memory", "norms and activations", "rounding"),
    ),
    GuidedQuestion(
        "Press *4 bits (2020)*, where the multipliers are four times as fast. How many times as fast is the part "
        "*multiplying*?",
        PRESETS["4 bits (2020)"],
        _four,
        lambda state: bool(
            np.isclose(state.times.part("between"), state.changed(precision="bf16").times.part("between"))
            and state.times.part("conversion") > 5 * state.changed(precision="bf16").times.part("conversion")
        ),
        ("presets", "precision", "fused"),
        "parts",
        "times as fast",
    ),
    GuidedQuestion(
        "Now choose *element-wise*: *fused*. Norms, activations and rounding cost nothing any more. How many times as fast "
        "as 16 bits is the step now?",
        {"precision": FOUR_BITS, "fused": True},
        _fused,
        lambda state: _element_wise(state.times) == 0 and _busy(state.times) < 0.5,
        ("precision", "fused"),
        "parts",
        "times as fast",
    ),
    GuidedQuestion(
        "Press *RaPiD (2021)*, the training system of the second claim. The figure has the roofs of this chip now, and the "
        "diamond is what IBM published. Where is our ResNet-50? Then choose *fused*.",
        PRESETS["RaPiD (2021)"],
        _rapid,
        lambda state: bool(
            state.times.sustained_ops_per_second
            < float(SUSTAINED.low or 0)
            < state.changed(fused=True).times.sustained_ops_per_second
            < float(SUSTAINED.high or 0)
        ),
        ("presets", "fused"),
        "roofline",
        ("below the range", "in it", "above it"),
    ),
)


def _measured(state: RooflineState) -> str:
    name, rate, share = _slowest(state)
    return (
        f"The product farthest below its roof is {name}. It reached {format_si(rate, 'op/s')}, which is "
        f"{_percent(share)} of the fastest product in this format. The roof is what this fastest product reached."
    )


def _slowest(state: RooflineState) -> tuple[str, float, float]:
    """The measured product that reached the smallest share of its format's peak: name, operations a second, share."""
    peaks = state.accelerator.peaks
    shares = [(rate / peaks[name.split(",")[0]], rate, name) for name, _, rate in measured_products()]
    share, rate, name = min(shares)
    return name, float(rate), float(share)


MACHINE_QUESTIONS = (
    GuidedQuestion(
        "The green dots are products of two large matrices that were measured. Which one stays farthest below its roof?",
        {},
        _measured,
        lambda state: 0 < _slowest(state)[2] <= 1,
        ("precision", "workload"),
        "roofline",
    ),
)


def explorer() -> widgets.RooflineExplorer:
    """The explorer where the prediction asks: its chip, in 16 bits, recipe by recipe."""
    return widgets.RooflineExplorer(chip=CHIP, precision="bf16", batch=BATCH, view=RECIPE_ROWS)


def machine_explorer() -> widgets.RooflineExplorer:
    """The explorer with this machine as the chip."""
    return widgets.RooflineExplorer(**PRESETS["This machine"])


def guided_explorer() -> GuidedExplorer:
    """The explorer below its questions."""
    return guided(explorer(), QUESTIONS)


def guided_machine() -> GuidedExplorer:
    """The explorer of this machine below its question."""
    return guided(machine_explorer(), MACHINE_QUESTIONS)


GUIDED = ((explorer, QUESTIONS), (machine_explorer, MACHINE_QUESTIONS))


def checked_numbers() -> Folded:
    """What the tests of the course compare: the tables behind the veil, and the numbers of the text."""
    return Folded(speed_by_recipe(), speedup_by_factor(), facts(), line="The numbers of this lab")


def checked_answers() -> Folded:
    """What the tests of the course compare: the answers to the questions above the explorer."""
    shown = explorer()
    answers = [question.answer(shown.state_at(**question.position)) for question in QUESTIONS]
    return Folded("\n".join(answers), line="The answers to the questions above the explorer")
