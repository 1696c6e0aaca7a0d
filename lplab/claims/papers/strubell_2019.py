"""Strubell et al. 2019: watts, hours and carbon of five trainings, and what became of the 284 tonnes."""

from __future__ import annotations

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.hardware.footprint import runs

RUNS = ("transformer_base", "transformer_big", "elmo", "bert_base", "nas_2019")
PUBLISHED = {name: float(runs.get(name).published.split()[0].replace(",", "")) for name in RUNS}  # pounds
SEARCH, CORRECTED = "nas_2019", "nas_2021"
TIMES = 88.0  # so many times too high, Patterson et al. 2021
CAR_POUNDS = 126_000.0  # a car's life with its fuel, their comparison

POINTS: tuple[Point, ...] = tuple({"run": name} for name in (*RUNS, CORRECTED))

claim = ClaimBuilder(
    id="strubell_2019",
    title="A training's carbon is watts × hours × building × grid; the 284 tonnes were corrected 88 times down",
    paper=cite("strubell_2019", "patterson_2021"),
    where="table 3; the correction in section 4 of the latter",
    statement="Training a Transformer emits 26 lb of CO₂e, BERT 1,438, and a neural architecture search 626,155 lb "
    "(284 t), as much as five cars in their lives.",
    published="26, 192, 262, 1,438 and 626,155 lb (second-hand); corrected: 88 times too high, 7.5 MWh (second-hand), "
    "3.2 t (recalled)",
    experiment="Arithmetic, the same at every run: the formula of the paper with its watts and hours, PUE 1.58 and "
    "0.954 lb of CO₂ per kWh.",
    points=POINTS,
    seeds=(0,),
    budget_seconds=5,
    modelled=True,
    limits="Watts and hours are theirs, those of the corrected search recalled. Hours are printed rounded. Making the "
    "chips is in none of these numbers.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Pounds and tonnes of CO₂e, and kilowatt hours, by the formula from watts and hours."""
    run = runs.get(point["run"])
    bill = run.bill
    return {
        "pounds": round(bill.pounds, 4),
        "tonnes": round(bill.kilograms / 1000, 6),
        "kwh": round(bill.kwh, 4),
        "published_kwh": run.published_kwh or 0.0,
        "published_tonnes": (run.published_kilograms or 0.0) / 1000,
    }


def _of(results: Results, name: str, number: str = "pounds") -> float:
    return float(results.values(number, run=name)[0])


@claim.criterion("The table follows from watts and hours")
def the_table_closes(results: Results) -> CheckResult:
    """All five, to half a per cent or to the rounding of a pound."""
    values = {name: _of(results, name) for name in RUNS}
    text = join_words([f"{runs.get(name).label} {values[name]:,.0f} ({PUBLISHED[name]:,.0f})" for name in RUNS])
    close = all(abs(values[name] - PUBLISHED[name]) < max(0.5, 0.005 * PUBLISHED[name]) for name in RUNS)
    return CheckResult(close, f"Pounds of CO₂e from watts × hours × 1.58 × 0.954, and theirs: {text}.")


@claim.criterion("The 284 t were corrected")
def search_was_corrected(results: Results) -> CheckResult:
    """The number that went round the world was an estimate of a search that was never run that way.

    Judged by the energy: the corrected tonnes are recalled.
    """
    first, kwh = _of(results, SEARCH, "tonnes"), _of(results, SEARCH, "kwh")
    real, spent = _of(results, CORRECTED, "published_tonnes"), _of(results, CORRECTED, "published_kwh")
    return CheckResult(
        abs(kwh / spent / TIMES - 1) < 0.02,
        f"The {first:.0f} t of the architecture search were corrected in 2021: {real:.1f} t and {spent / 1000:.1f} "
        f"MWh, where the estimate was {kwh / 1000:.0f} MWh: {kwh / spent:.0f} times too high. The search had used a "
        "small proxy task, TPUs, and a better building.",
    )


@claim.explanation("What becomes of the five cars")
def five_cars_are_a_twentieth_of_one(results: Results) -> CheckResult:
    """What becomes of the comparison with five cars."""
    pounds, real = _of(results, SEARCH), _of(results, CORRECTED, "published_kwh") / _of(results, SEARCH, "kwh")
    cars = pounds / CAR_POUNDS
    return CheckResult(
        abs(cars - 5) < 0.1 and cars * real < 0.1,
        f"“As much as five cars in their lives” ({cars:.2f}) is {cars * real:.2f} of one car by the corrected energy.",
    )


@claim.explanation("The corrected run by the same formula")
def the_inputs_of_the_correction_close(results: Results) -> CheckResult:
    """The corrected run by the same formula from its own inputs."""
    values, published = _of(results, CORRECTED, "kwh"), _of(results, CORRECTED, "published_kwh")
    return CheckResult(
        abs(values / published - 1) < 0.02,
        f"From the corrected run's chips, watts and hours (recalled) the formula gives {values / 1000:.2f} MWh "
        f"(published {published / 1000:.1f}).",
    )


@claim.summary
def measured(results: Results) -> str:
    """Pounds, and the correction."""
    first, real = _of(results, SEARCH, "tonnes"), _of(results, CORRECTED, "published_tonnes")
    return (
        f"{join_words([f'{_of(results, name):,.0f}' for name in RUNS])} lb; the search {first:.0f} t, corrected to "
        f"{real:.1f} t"
    )


claim.draw(
    "pounds of CO₂e",
    lambda results: {runs.get(name).label: _of(results, name) for name in RUNS},
    {runs.get(name).label: PUBLISHED[name] for name in RUNS},
    log=True,
)

claim.compared(
    theirs_on="BERT and others, an architecture search",
    ours_on="the same trainings, as arithmetic",
    rows=(
        {
            "Transformer big": "Transformer, big",
            "ELMo": "ELMo",
            "BERT base": "BERT, base",
            "Architecture search (claimed)": "architecture search, as claimed",
        },
    ),
)
claim.found(
    the_table_closes,
    holds="the table follows from watts and hours",
    fails="the table does not follow from watts and hours",
)
claim.found(
    search_was_corrected,
    holds="the 284 t were corrected 88 times down",
    fails="the 284 t were not corrected 88 times down",
)

STRUBELL_2019 = claim.build()
