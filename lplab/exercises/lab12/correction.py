"""Exercise 12.3: the 284 tonnes of an architecture search, and how they shrink 88 times when they are put right."""

from __future__ import annotations

from typing import Any

from lplab.exercises.checks.close import TOLERANCE, close_to, rounded_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Numbers


def correct(steps, claimed, actual):
    """Tonnes as claimed and as corrected; the factors of hours, of watts and of the place between them."""
    tonnes = []
    for hours, watts, pue, grams in (claimed, actual):
        kwh = steps / 300_000 * hours * watts / 1000 * pue
        tonnes.append(kwh * grams / 1e6)
    place = claimed[2] * claimed[3] / (actual[2] * actual[3])
    return tonnes[0], tonnes[1], claimed[0] / actual[0], claimed[1] / actual[1], place


KWH, TONNES = "steps / 300_000 * hours * watts / 1000 * pue", "kwh * grams / 1e6"
PLACE, RETURN = "claimed[2] * claimed[3] / (actual[2] * actual[3])", "return tonnes[0], tonnes[1], claimed[0] / actual[0], claimed[1] / actual[1], place"
CLAIMED, ACTUAL = (84.0, 1515.43, 1.58, 432.727), (10.0, 208.0, 1.10, 431.0)
STEPS = 979_000_000


def correction_cases() -> list[Args]:
    """Searches short and long, on machines and in places that differ in one thing, in all, in nothing."""
    runs = [CLAIMED, ACTUAL, (84.0, 208.0, 1.1, 431.0), (10.0, 1515.43, 1.1, 431.0), (10.0, 208.0, 1.58, 431.0), (10.0, 208.0, 1.1, 57.0)]
    return [(steps, one, two) for steps in (300_000, 1_000_000, STEPS) for one in runs for two in runs]


def multiplies_up(calls: Any, results: Any) -> Finding | None:
    """Whether the three factors together are the ratio of the tonnes."""
    for args, (claimed, actual, *factors) in zip(calls, results, strict=True):
        product = factors[0] * factors[1] * factors[2]
        if abs(product * actual / claimed - 1) > 1e-9:
            return Finding(f"Your factors multiply to {rounded_text(product)}, your tonnes differ by {rounded_text(claimed / actual)}.", args, product)
    return None


def show(args: Args) -> str:
    """The arguments by name."""
    steps, claimed, actual = args
    sides = (f"({h:g} h, {w:g} W, PUE {p:g}, {g:g} g/kWh)" for h, w, p, g in (claimed, actual))
    return "steps = {:,}, claimed = {}, actual = {}".format(steps, *sides)


CORRECTION = Exercise(
    id="12.3",
    version=1,
    title="The 284 tonnes, corrected",
    goal="Goal 3: find what is wrong with a published number",
    minutes=15,
    difficulty=2,
    statement=r"""
        The search trained for 979 million steps. In 2019 it was billed with a *large* network, which takes 84 hours for 300,000 steps, on a machine that draws 1,515.43 W, in an average data centre (PUE 1.58, 432.727 g). But it trained *small* networks, which take 10 hours for 300,000 steps, on a chip (TPU v2) that draws 208 W, in an efficient one (PUE 1.1, 431 g). (The 10 hours and 208 W are recalled, not looked up.)

        Write `correct(steps, claimed, actual)`. Both tuples are (hours for 300,000 steps, watts, PUE, grams of CO₂e per kWh). Return five numbers:

        1. the **tonnes** as claimed, and as they actually were;
        2. the factors claimed/actual of the **hours**, of the **watts**, and of the **place** (PUE and grid together).
    """,
    reference=correct,
    form=Numbers(count=5),
    accept=close_to(correct, ("claim in tonnes", "correction in tonnes", "factor of the hours", "factor of the watts", "factor of the place")),
    tolerance=TOLERANCE,
    show=show,
    examples=(
        Example((300_000, (1.0, 1000.0, 1.0, 500.0), (1.0, 1000.0, 1.0, 500.0)), "Nothing to correct: 1 kWh, half a kilogram, all factors 1."),
        Example((300_000, (8.0, 1000.0, 1.0, 500.0), (2.0, 1000.0, 1.0, 500.0)), "Only the hours differ, four times."),
        Example((300_000, (1.0, 1000.0, 1.0, 500.0), (1.0, 200.0, 1.0, 500.0)), "Only the machine differs, five times."),
        Example((300_000, (1.0, 1000.0, 2.0, 500.0), (1.0, 1000.0, 1.0, 50.0)), "The place alone: twice the building, ten times the grid."),
        Example((600_000, (1.0, 1000.0, 1.0, 500.0), (1.0, 1000.0, 1.0, 500.0)), "Twice the steps, twice the tonnes; factors do not change."),
        Example((STEPS, CLAIMED, ACTUAL), "284.0 t become 3.2 t: 8.4 times the hours, 7.3 times the watts, 1.4 times the place, 88 in all."),
    ),
    boundary=correction_cases,
    properties=(Property("the three factors multiply to the ratio of the tonnes", correction_cases, multiplies_up),),
    mistakes=(
        mistake("the hours are taken for those of the whole search", KWH, "hours * watts / 1000 * pue"),
        mistake("hours for each step", KWH, "steps * hours * watts / 1000 * pue"),
        mistake("only whole trainings of 300,000 steps are counted", KWH, "steps // 300_000 * hours * watts / 1000 * pue"),
        mistake("both sides get the claimed hours: the small network is forgotten", "for hours, watts, pue, grams in (claimed, actual):", "for hours, watts, pue, grams in (claimed, (claimed[0], *actual[1:])):"),
        mistake("both sides get the claimed machine", "for hours, watts, pue, grams in (claimed, actual):", "for hours, watts, pue, grams in (claimed, (actual[0], claimed[1], *actual[2:])):"),
        mistake("both sides get the claimed place", "for hours, watts, pue, grams in (claimed, actual):", "for hours, watts, pue, grams in (claimed, (*actual[:2], *claimed[2:])):"),
        mistake("the building is left out of the tonnes", KWH, "steps / 300_000 * hours * watts / 1000"),
        mistake("a thousand is missing: kilograms instead of tonnes, or watts taken for kilowatts", TONNES, "kwh * grams / 1e3"),
        mistake("the place is the grid alone", PLACE, "claimed[3] / actual[3]"),
        mistake("the place is the building alone", PLACE, "claimed[2] / actual[2]"),
        mistake("the factors of the place are added", PLACE, "claimed[2] / actual[2] + claimed[3] / actual[3]"),
        mistake("a difference instead of a factor", "claimed[0] / actual[0], claimed[1]", "claimed[0] - actual[0], claimed[1]"),
        mistake("the factors are upside down", RETURN, "return tonnes[0], tonnes[1], actual[0] / claimed[0], actual[1] / claimed[1], 1 / place"),
        mistake("the factors of hours and watts are exchanged", RETURN, "return tonnes[0], tonnes[1], claimed[1] / actual[1], claimed[0] / actual[0], place"),
        mistake("corrected and claimed are exchanged", "return tonnes[0], tonnes[1],", "return tonnes[1], tonnes[0],"),
    ),
    hints=(
        "Let only the hours differ: correct(300_000, (8, 1000, 1, 500), (2, 1000, 1, 500)). The claim is 8 kWh, that is 4 kg or 0.004 t. What is the other side?",
        "The same formula for both sides: steps / 300,000 × hours × watts / 1000 × PUE gives kWh; times grams / 10⁶ gives tonnes. A factor is always claimed ÷ actual.",
        "Write one small formula that gives the tonnes of a tuple, and call it twice. The place has two parts, PUE and grid: multiply them on each side before you divide. Do your three factors multiply to the ratio of the tonnes?",
    ),
)
