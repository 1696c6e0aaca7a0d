"""Published energy, carbon and time of trainings: rows T01 to T11 and T53."""

from __future__ import annotations

from lplab.claims.published_numbers.published_number import Published
from lplab.hardware.footprint import carbon, mix, runs, training_hours, training_operations

STRUBELL = "Strubell et al. 2019, table 3 (second-hand)"
PATTERSON = "Patterson et al. 2021, table 4 (second-hand)"
SAME = "PUE 1.58, 0.954 lb CO₂ per kWh"


def gpt3_days() -> float:
    """Days of GPT-3's training on 10,000 devices that sustain 24.6 TFLOPS."""
    return training_hours(runs.get("gpt3").operations, 10_000, 24.6e12) / 24


def _pounds(name: str) -> float:
    return runs.get(name).bill.pounds


def _megawatt_hours(name: str) -> float:
    return runs.get(name).bill.kwh / 1000


NAS_NOTE = (
    "284 t; corrected in 2021: the search took 7.5 MWh and 3.2 t, 88 times less, as it ran on a small proxy task, on "
    "TPUs, in a better building."
)
ROWS: tuple[Published, ...] = (
    Published("T01", "CO₂e of the architecture search of 2019", f"1,515.43 W, 274,120 h, {SAME}", 626_155, "lb",
              "relative", 0.01, "A", STRUBELL, lambda: _pounds("nas_2019"), NAS_NOTE),
    Published("T02", "CO₂e of BERT base", f"12,041.51 W, 79 h, {SAME}", 1438, "lb", "relative", 0.5, "A", STRUBELL,
              lambda: _pounds("bert_base"), "Hours are printed rounded."),
    Published("T03", "CO₂e of ELMo", f"517.66 W, 336 h, {SAME}", 262, "lb", "relative", 0.5, "A", STRUBELL,
              lambda: _pounds("elmo")),
    Published("T04", "energy of GPT-3", "10,000 V100 at 330 W, 14.8 days, PUE 1.10", 1287, "MWh", "relative", 0.5, "B",
              PATTERSON, lambda: _megawatt_hours("gpt3")),
    Published("T05", "CO₂e of GPT-3", "the energy of T04 at 0.429 kg/kWh", 552, "t", "relative", 0.5, "B", PATTERSON,
              lambda: runs.get("gpt3").bill.kilograms / 1000),
    Published("T06", "operations to train GPT-3", "6 × 175·10⁹ parameters × 300·10⁹ tokens", 3.14e23, "FLOP",
              "relative", 0.5, "B", PATTERSON, lambda: training_operations(175e9, 300e9)),
    Published("T07", "time of GPT-3's training", "3.14·10²³ FLOP on 10,000 V100 at 24.6 TFLOPS", 14.8, "days",
              "relative", 0.5, "B", PATTERSON, gpt3_days, "24.6 TFLOPS are 20 % of the peak of 125."),
    Published("T08", "energy of T5", "512 TPUv3 at 310 W, 20 days, PUE 1.12", 85.7, "MWh", "relative", 1, "B",
              PATTERSON, lambda: _megawatt_hours("t5")),
    Published("T09", "energy of Meena", "1,024 TPUv3 at 289 W, 30 days, PUE 1.09", 232, "MWh", "relative", 1, "B",
              PATTERSON, lambda: _megawatt_hours("meena")),
    Published("T10", "energy of Switch Transformer", "1,024 TPUv3 at 245 W, 27 days, PUE 1.10", 179, "MWh", "relative",
              1, "B", PATTERSON, lambda: _megawatt_hours("switch")),
    Published("T11", "CO₂e of BLOOM's training", "433,196 kWh at 57 g/kWh", 24.69, "t", "relative", 0.1, "B",
              "Luccioni et al. 2022 (second-hand)", lambda: carbon(433_196, 57) / 1000),
    Published("T53", "intensity of a mix of fuels", "25 % coal, 35 % oil, 26 % gas, 14 % nuclear", 731.59, "g/kWh",
              "relative", 0.1, "A", "CodeCarbon's documentation, which prints kg where g is meant",
              lambda: mix({"coal": 0.25, "oil": 0.35, "gas": 0.26, "nuclear": 0.14})),
)  # fmt: skip
"""Rows of the table; each computes our value when it is asked."""
