"""Patterson et al. 2021: energy and carbon of five large trainings, from chips, watts, days, building and grid."""

from __future__ import annotations

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.hardware import accelerators
from lplab.hardware.footprint import carbon, runs

RUNS = ("t5", "meena", "gshard_600b", "switch", "gpt3")
PEAKS = {"TPU v3": ("tpu-v3", "bf16"), "V100": ("v100", "fp16")}

POINTS: tuple[Point, ...] = tuple({"run": name} for name in RUNS)

claim = ClaimBuilder(
    id="patterson_2021",
    title="Five large trainings: energy and carbon from chips, watts, days, building and grid",
    paper=cite("patterson_2021"),
    where="table 4",
    statement="T5, Meena, GShard-600B, Switch Transformer and GPT-3 took 85.7, 232, 24.1, 179 and 1,287 MWh; GPT-3 "
    "emitted 552 t.",
    published="85.7, 232, 24.1, 179, 1,287 MWh (second-hand); 46.7, 96.4, 4.8, 72.2, 552.1 t (recalled but for "
    "GPT-3's)",
    experiment="Arithmetic, the same at every run: chips × watts × days × PUE, times the intensity of the grid, from "
    "the paper's inputs (recalled: that they close supports them).",
    points=POINTS,
    seeds=(0,),
    budget_seconds=5,
    modelled=True,
    limits="Watts and days are theirs; nothing is measured. Making the chips, and all trainings before the last, are "
    "left out.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """MWh and tonnes by the formula, those that are published, and the share of the chips' peak that was reached."""
    run = runs.get(point["run"])
    chip, peak = PEAKS[run.device]
    return {
        "mwh": round(run.bill.kwh / 1000, 6),
        "tonnes": round(run.bill.kilograms / 1000, 6),
        "published_mwh": (run.published_kwh or 0.0) / 1000,
        "published_tonnes": (run.published_kilograms or 0.0) / 1000,
        "share_of_peak": round(run.sustained_ops_per_second / accelerators.get(chip).peaks[peak], 6),
        "clean_tonnes": round(carbon(run.bill.kwh, "france") / 1000, 6),
        "dirty_tonnes": round(carbon(run.bill.kwh, "poland") / 1000, 6),
    }


def _of(results: Results, name: str, number: str) -> float:
    return float(results.values(number, run=name)[0])


def _closes(results: Results, number: str, unit: str) -> CheckResult:
    values = {name: (_of(results, name, number), _of(results, name, f"published_{number}")) for name in RUNS}
    text = join_words([f"{runs.get(name).label} {a:,.1f} ({b:,.1f})" for name, (a, b) in values.items()])
    return CheckResult(all(abs(a / b - 1) < 0.015 for a, b in values.values()), f"{unit}, and theirs: {text}.")


@claim.criterion("The energies within 1.5 %")
def energies_close(results: Results) -> CheckResult:
    """Energy within 1.5 %."""
    return _closes(results, "mwh", "MWh")


@claim.criterion("GPT-3's carbon within 1.5 %")
def tonnes_of_gpt3(results: Results) -> CheckResult:
    """Carbon of GPT-3 within 1.5 %: the one that was read."""
    values, published = (_of(results, "gpt3", number) for number in ("tonnes", "published_tonnes"))
    return CheckResult(
        abs(values / published - 1) < 0.015, f"GPT-3: {values:.0f} t of CO₂e (published {published:.0f})."
    )


@claim.explanation("The carbon of the others, as recalled")
def tonnes_close(results: Results) -> CheckResult:
    """Carbon of all five within 1.5 % of what is recalled."""
    return _closes(results, "tonnes", "Tonnes of CO₂e")


@claim.explanation("The largest network emitted least")
def operations_do_not_decide(results: Results) -> CheckResult:
    """The run with the largest network needed the least: sparse activation, and where it was."""
    large, small = _of(results, "gshard_600b", "tonnes"), _of(results, "gpt3", "tonnes")
    return CheckResult(
        large < small / 100,
        f"GShard with 600 billion parameters, of which few are used at a time, {large:.1f} t; GPT-3 with 175, all of "
        f"them used, {small:.0f} t.",
    )


@claim.explanation("The place counts more than formats")
def the_place_counts(results: Results) -> CheckResult:
    """One amount of energy emits different amounts of CO2e in two countries."""
    clean, dirty = (_of(results, "gpt3", number) for number in ("clean_tonnes", "dirty_tonnes"))
    return CheckResult(
        dirty > 5 * clean,
        f"GPT-3's energy would have been {clean:.0f} t in France and {dirty:.0f} t in Poland (2023): a factor of "
        f"{dirty / clean:.0f} by the place alone, more than any format brings.",
    )


@claim.explanation("What of the peak was reached")
def chips_are_mostly_idle(results: Results) -> CheckResult:
    """What of the peak was reached."""
    values = {name: 100 * _of(results, name, "share_of_peak") for name in RUNS}
    text = join_words([f"{runs.get(name).label} {value:.0f} %" for name, value in values.items()])
    return CheckResult(all(value < 50 for value in values.values()), f"Of the chips' peak the runs reached: {text}.")


@claim.summary
def measured(results: Results) -> str:
    """Energy and carbon."""
    energy, tonnes = (", ".join(f"{_of(results, n, number):,.1f}" for n in RUNS) for number in ("mwh", "tonnes"))
    return f"{energy} MWh; {tonnes} t"


claim.draw(
    "energy, MWh",
    lambda results: {runs.get(name).label: _of(results, name, "mwh") for name in RUNS},
    {runs.get(name).label: (runs.get(name).published_kwh or 0) / 1e3 for name in RUNS},
    log=True,
)
claim.draw(
    "carbon, tonnes of CO₂e",
    lambda results: {runs.get(name).label: _of(results, name, "tonnes") for name in RUNS},
    {runs.get(name).label: (runs.get(name).published_kilograms or 0) / 1e3 for name in RUNS},
    log=True,
)

claim.compared(
    theirs_on="five large trainings",
    ours_on="the same trainings, as arithmetic",
    rows=(
        {"GShard-600B": "GShard-600B", "GPT-3": "GPT-3"},
        {"GShard-600B": "GShard-600B", "GPT-3": "GPT-3"},
    ),
)
claim.found(energies_close, holds="five energies within 1.5 %", fails="not all energies within 1.5 %")
claim.found(tonnes_of_gpt3, holds="GPT-3's carbon within 1.5 %", fails="GPT-3's carbon not within 1.5 %")

PATTERSON_2021 = claim.build()
