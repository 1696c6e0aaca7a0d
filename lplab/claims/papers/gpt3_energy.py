"""GPT-3's training in three independent steps: operations, days, energy; and the same from its layers."""

from __future__ import annotations

from lplab.claims.bibliography import PAPERS
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.hardware import accelerators, workloads
from lplab.hardware.footprint import Job, bill, runs, training_hours, training_operations

PARAMETERS, TOKENS = 175e9, 300e9
SUSTAINED, SEQUENCE = 24.6e12, 2048  # operations a second of a V100; tokens of an example
OPERATIONS, DAYS, MWH, TONNES = 3.14e23, 14.8, 1287.0, 552.0
UTILIZATION = 0.2  # 24.6 of 125 TFLOPS
HOST_WATTS = 75.0  # of the machine around each V100: 330 W are more than the chip's 300 (assumed)

POINTS: tuple[Point, ...] = ({"by": "rule"}, {"by": "layers"})

claim = ClaimBuilder(
    id="gpt3_energy",
    title="GPT-3 took 1,287 MWh and 552 tonnes: from parameters, tokens, chips and a grid",
    paper="T. Brown et al. 2020; " + PAPERS["patterson_2021"].short_citation,
    where="table 4 of the latter",
    statement="GPT-3's training took 3.14·10²³ operations, 14.8 days on 10,000 V100s, 1,287 MWh and 552 t of CO₂e.",
    published="1,287 MWh, 552 t (second-hand); 3.14·10²³ operations, 24.6 TFLOPS, 330 W, 14.8 days (recalled)",
    experiment="Arithmetic, the same at every run: 6·N·D, time, energy, carbon; and, independently, the model of a "
    "step from the network's 96 blocks.",
    points=POINTS,
    seeds=(0,),
    budget_seconds=5,
    modelled=True,
    limits=f"The last training alone. {accelerators.get('v100').label} at a recalled peak and power; what 10,000 chips "
    "lost by waiting for each other is within the 20 % that they reached.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """By the rule 6·N·D and published watts, or from the layers by the model of a step."""
    run = runs.get("gpt3")
    if point["by"] == "rule":
        operations = training_operations(PARAMETERS, TOKENS)
        days = training_hours(OPERATIONS, run.devices, SUSTAINED) / 24
        spent = bill(watts=run.watts, hours=24 * days, devices=run.devices, pue=run.pue, region=run.grams_per_kwh)
    else:
        operations = workloads.get("gpt3").training_flops * TOKENS / SEQUENCE
        job = Job(
            "gpt3", "v100", devices=10_000, batch=1, examples=TOKENS / SEQUENCE, utilization=UTILIZATION,
            host_watts=HOST_WATTS,
        )  # fmt: skip
        total = job.total("fp16_mixed")
        days = total.seconds / 86_400
        spent = bill(
            watts=total.watts / run.devices, hours=total.seconds / 3600, devices=run.devices, pue=run.pue,
            region=run.grams_per_kwh,
        )  # fmt: skip
    return {
        "operations": round(operations / 1e21, 6),  # 10²¹
        "days": round(days, 6),
        "mwh": round(spent.kwh / 1000, 6),
        "tonnes": round(spent.kilograms / 1000, 6),
    }


def _of(results: Results, number: str, by: str = "rule") -> float:
    return float(results.values(number, by=by)[0])


@claim.criterion("The operations by 6·N·D")
def operations_by_the_rule(results: Results) -> CheckResult:
    """Six operations for each parameter and token."""
    values = _of(results, "operations")
    return CheckResult(
        abs(values * 1e21 / OPERATIONS - 1) < 0.005,
        f"6 × 175·10⁹ × 300·10⁹ = {values / 100:.2f}·10²³ operations (published {OPERATIONS / 1e23:.2f}·10²³).",
    )


@claim.criterion("Days, energy and carbon")
def energy_and_carbon(results: Results) -> CheckResult:
    """Days, energy and carbon from 24.6 TFLOPS, 330 W, PUE 1.10 and 0.429 kg/kWh."""
    days, mwh, tonnes = (_of(results, number) for number in ("days", "mwh", "tonnes"))
    return CheckResult(
        abs(days / DAYS - 1) < 0.005 and abs(mwh / MWH - 1) < 0.005 and abs(tonnes / TONNES - 1) < 0.005,
        f"10,000 V100 that sustain {SUSTAINED / 1e12:.1f} TFLOPS: {days:.1f} days (published {DAYS}), {mwh:,.0f} MWh "
        f"({MWH:,.0f}), {tonnes:.0f} t ({TONNES:.0f}).",
    )


@claim.explanation("The layers, counted, agree with the rule")
def layers_agree(results: Results) -> CheckResult:
    """The products of all layers, counted one by one, attention included."""
    rule, layers = _of(results, "operations"), _of(results, "operations", "layers")
    return CheckResult(
        0.97 < layers / rule < 1.06,
        f"Counted layer by layer it is {layers / 100:.2f}·10²³: the products of attention are on top of the rule.",
    )


@claim.explanation("A model of the step comes near")
def a_model_of_the_step_comes_near(results: Results) -> CheckResult:
    """Without the published days and watts: from layers, a share of the peak, and the chip's power."""
    days, mwh = (_of(results, number, "layers") for number in ("days", "mwh"))
    return CheckResult(
        abs(days / DAYS - 1) < 0.15 and abs(mwh / MWH - 1) < 0.25,
        f"From the layers, at {100 * UTILIZATION:.0f} % of a V100's peak and its design power, with {HOST_WATTS:.0f} W "
        f"around each: {days:.1f} days and {mwh:,.0f} MWh.",
    )


@claim.summary
def measured(results: Results) -> str:
    """All four numbers by the rule."""
    return (
        f"{_of(results, 'operations') / 100:.2f}·10²³ operations, {_of(results, 'days'):.1f} days, "
        f"{_of(results, 'mwh'):,.0f} MWh, {_of(results, 'tonnes'):.0f} t"
    )


claim.draw(
    "ours, in % of the published number",
    lambda results: {
        "operations": 100 * _of(results, "operations") * 1e21 / OPERATIONS,
        "days": 100 * _of(results, "days") / DAYS,
        "energy": 100 * _of(results, "mwh") / MWH,
        "carbon": 100 * _of(results, "tonnes") / TONNES,
    },
    dict.fromkeys(("operations", "days", "energy", "carbon"), 100),
    axis=(90, 110),
)

claim.compared(theirs_on="GPT-3", ours_on="the same training, as arithmetic")
claim.found(operations_by_the_rule, holds="operations by the rule", fails="operations not by the rule")
claim.found(energy_and_carbon, holds="days, energy and carbon follow", fails="days, energy or carbon do not follow")

GPT3_ENERGY = claim.build()
