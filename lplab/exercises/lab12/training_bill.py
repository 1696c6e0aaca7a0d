"""Exercise 12.2: days, megawatt hours and tonnes of a training, from parameters, tokens and watts."""

from __future__ import annotations

from typing import Any

from lplab.exercises.checks.close import TOLERANCE, close_to, rounded_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Numbers


def training_bill(parameters, tokens, devices, peak, utilization, watts, pue, grams_per_kwh):
    """Days, megawatt hours from the grid, and tonnes of CO2e of a training."""
    seconds = 6 * parameters * tokens / (devices * peak * utilization)
    kwh = devices * watts * seconds / 3.6e6 * pue
    return seconds / 86400, kwh / 1000, kwh * grams_per_kwh / 1e6


SECONDS, KWH = "6 * parameters * tokens / (devices * peak * utilization)", "devices * watts * seconds / 3.6e6 * pue"
RETURN = "return seconds / 86400, kwh / 1000, kwh * grams_per_kwh / 1e6"
GPT3 = (175e9, 300e9, 10_000, 125e12, 0.1968, 330.0, 1.10, 429.0)


def bill_cases() -> list[Args]:
    """From a small model on one card to a large one on thousands, in clean and dirty places."""
    sizes = [(1e8, 2e9, 1, 15.7e12), (7e9, 2e12, 1024, 989e12), (175e9, 300e9, 10_000, 125e12), (1e6, 1e6, 3, 1e12)]
    places = [(1.0, 28.0), (1.1, 429.0), (1.58, 432.7), (2.2, 713.0)]
    return [(*size, share, watts, *place) for size in sizes for share, watts in ((0.2, 330.0), (0.5, 595.0), (1.0, 10.0)) for place in places]


def halved(calls: Any, results: Any) -> Finding | None:
    """Whether twice the devices take half the time and the same energy, in pairs of calls."""
    for first, (args, one), two in zip(calls[::2], zip(calls[1::2], results[::2], strict=True), results[1::2], strict=True):
        if abs(two[0] * 2 / one[0] - 1) > 1e-9 or abs(two[1] / one[1] - 1) > 1e-9:
            made = f"{rounded_text(one[0])} days and {rounded_text(one[1])} MWh become {rounded_text(two[0])} days and {rounded_text(two[1])} MWh"
            return Finding(f"With {args[2]:,} devices instead of {first[2]:,}, {made}.", args, two)
    return None


def pairs() -> list[Args]:
    """Calls that differ in the number of devices alone, two by two."""
    return [(*GPT3[:2], devices, *GPT3[3:]) for devices in (100, 200, 5000, 10_000)]


def show(args: Args) -> str:
    """The arguments by name."""
    names = ("parameters", "tokens", "devices", "peak", "utilization", "watts", "pue", "grams_per_kwh")
    return ", ".join(f"{name} = {value:g}" for name, value in zip(names, args, strict=True))


TRAINING_BILL = Exercise(
    id="12.2",
    version=1,
    title="GPT-3's 1,287 megawatt hours",
    goal="Goal 2: work out a bill",
    minutes=10,
    difficulty=1,
    statement=r"""
        Write `training_bill(parameters, tokens, devices, peak, utilization, watts, pue, grams_per_kwh)`. It returns **days, megawatt hours from the grid, and tonnes of CO₂e**.

        - A dense language model takes 6 operations for each parameter and token, 2 forward and 4 backward.
        - All devices work together. Each does `peak` operations a second at most, reaches the share `utilization` of it, and draws `watts`.
        - For each watt of the machines the building draws `pue` watts from the grid. Each kilowatt hour emits `grams_per_kwh`.
    """,
    reference=training_bill,
    form=Numbers(count=3),
    accept=close_to(training_bill, ("time in days", "energy in MWh", "CO₂e in tonnes")),
    tolerance=TOLERANCE,
    show=show,
    examples=(
        Example((1e9, 1e9, 1, 6e12, 1.0, 360.0, 1.0, 1000.0), "6·10¹⁸ operations at 6·10¹² a second: a million seconds, 100 kWh, 100 kg."),
        Example((1e9, 1e9, 1, 6e12, 0.5, 360.0, 1.0, 1000.0), "Half of the peak: twice the time, and twice the energy."),
        Example((1e9, 1e9, 10, 6e12, 1.0, 360.0, 1.0, 1000.0), "Ten devices: a tenth of the time, the same energy."),
        Example((1e9, 1e9, 1, 6e12, 1.0, 360.0, 1.5, 1000.0), "A building that draws half as much again: energy and CO₂e grow, time does not."),
        Example((1e9, 1e9, 1, 6e12, 1.0, 360.0, 1.0, 50.0), "A clean grid: the same energy, a twentieth of the CO₂e."),
        Example(GPT3, "GPT-3 with what Patterson et al. published of it (2021): 14.8 days, 1,287 MWh, 552 t."),
    ),
    boundary=bill_cases,
    properties=(Property("twice the devices, half the time, the same energy", pairs, halved),),
    mistakes=(
        mistake("the forward pass alone: 2 operations", "6 * parameters", "2 * parameters"),
        mistake("the backward pass is taken to cost as much as the forward pass", "6 * parameters", "4 * parameters"),
        mistake("multiply-adds instead of operations", "6 * parameters", "3 * parameters"),
        mistake("peak is taken for what is reached", "devices * peak * utilization", "devices * peak"),
        mistake("a low utilization makes it faster", "/ (devices * peak * utilization)", "/ (devices * peak) * utilization"),
        mistake("one device does it all", "/ (devices * peak * utilization)", "/ (peak * utilization)"),
        mistake("the watts of one device for all", KWH, "watts * seconds / 3.6e6 * pue"),
        mistake("the building is forgotten", KWH, "devices * watts * seconds / 3.6e6"),
        mistake("the energy is that of the machines, and only the carbon that of the grid", RETURN, "return seconds / 86400, kwh / pue / 1000, kwh * grams_per_kwh / 1e6"),
        mistake("PUE divides", KWH, "devices * watts * seconds / 3.6e6 / pue"),
        mistake("the carbon is that of the machines alone", RETURN, "return seconds / 86400, kwh / 1000, kwh / pue * grams_per_kwh / 1e6"),
        mistake("PUE counts twice in the carbon", RETURN, "return seconds / 86400, kwh / 1000, kwh * pue * grams_per_kwh / 1e6"),
        mistake("the watts are scaled with the utilization: published watts are means already", KWH, "devices * watts * utilization * seconds / 3.6e6 * pue"),
        mistake("hours instead of days", "seconds / 86400", "seconds / 3600"),
        mistake("kWh instead of MWh", "kwh / 1000,", "kwh,"),
        mistake("kilograms instead of tonnes", "grams_per_kwh / 1e6", "grams_per_kwh / 1e3"),
        mistake("a kilowatt hour has 1,000 times 60 joules", "3.6e6", "6e4"),
        mistake("watt seconds are taken for watt hours", "3.6e6", "1e3"),
    ),
    hints=(
        "Do an example on paper: 10⁹ parameters and tokens on one device of 6·10¹² operations a second and 360 W. How many operations, how many seconds, how many joules? A kilowatt hour is 3.6 million joules.",
        "Time first: operations / (devices × peak × utilization). Energy from the grid: devices × watts × time × pue. Carbon from that energy.",
        "Three lines: seconds, kilowatt hours from the grid, and the return. A day has 86,400 seconds, a kilowatt hour 3.6 million joules, a megawatt hour 1,000 kilowatt hours, a tonne a million grams.",
    ),
)
