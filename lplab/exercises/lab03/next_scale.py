"""Exercise 03.1: the rule of a dynamic loss scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import Numbers


def next_scale(scale, good_steps, finite, interval):
    """The loss scale for the next step, and the good steps since its last change."""
    if not finite:
        return max(scale / 2, 1.0), 0
    if good_steps + 1 == interval:
        return min(scale * 2, 2.0**24), 0
    return scale, good_steps + 1


BACK, GROW, COUNT = "return max(scale / 2, 1.0), 0", "return min(scale * 2, 2.0**24), 0", "good_steps + 1 == interval"
FULL = f"\n    if {COUNT}:\n        "


def cases() -> list[Args]:
    """Scales at, next to and between the limits, every count around the interval, good and bad steps."""
    scales = (1.0, 1.5, 2.0, 3.0, 4.0, 2.0**10, 2.0**16, 2.0**23, 1.5 * 2.0**23, 2.0**24)
    counts = {interval: sorted({0, 1, interval // 2, interval - 2, interval - 1}) for interval in (1, 2, 3, 20, 2000)}
    return [
        (scale, good, finite, interval)
        for interval, goods in counts.items()
        for good in goods
        if 0 <= good < interval
        for scale in scales
        for finite in (True, False)
    ]


def why(args: Args, expected: Any) -> str:
    """What happened in this step."""
    _, good, finite, interval = args
    if not finite:
        return "A gradient was not finite: half the scale, at least 1, and the count begins anew."
    if good + 1 < interval:
        return f"A good step, the {good + 1}. of {interval:,} in a row: nothing changes but the count."
    return f"The {interval:,}. good step in a row: twice the scale, at most 2²⁴, and the count begins anew."


def kind(args: Args) -> str:
    """Which of the three branches."""
    _, good, finite, interval = args
    if not finite:
        return "steps with an overflow"
    return "steps at which the scale grows" if good + 1 == interval else "good steps before the interval is full"


NEXT_SCALE = Exercise(
    id="03.1",
    version=2,
    title="A dynamic loss scale",
    goal="Goal 2: find a loss scale by trial",
    minutes=10,
    difficulty=1,
    statement=r"""
        Write `next_scale(scale, good_steps, finite, interval)`, which is called at the end of every step. It returns the scale and the count of good steps for the next step.

        - If a gradient was infinite or NaN, `finite` is False. Then **halve** the scale, and the count begins at 0 again.
        - Otherwise the step was good, and the count goes up by one. After `interval` good steps in a row, **double** the scale, and the count begins at 0 again.
        - The scale always stays between 1 and $2^{24}$.
    """,
    reference=next_scale,
    form=Numbers(count=2),
    why=why,
    kind=kind,
    examples=(
        Example((1024.0, 0, True, 20), "A good step: the scale stays, the count goes up."),
        Example((1024.0, 7, False, 20), "An overflow: half the scale, and the seven good steps count no more."),
        Example((1024.0, 19, True, 20), "The twentieth good step in a row: double."),
        Example((1024.0, 18, True, 20), "The nineteenth: not yet."),
        Example((1.0, 0, False, 20), "Below 1 a loss scale would make small gradients smaller."),
        Example((2.0**24, 19, True, 20), "The upper limit: the scale stays, the count begins anew."),
        Example((4.0, 0, True, 1), "With an interval of 1 every good step is a try."),
    ),
    boundary=cases,
    mistakes=(
        mistake("overflow and good step are exchanged", "if not finite", "if finite"),
        mistake("the scale grows after every good step", COUNT, "finite"),
        mistake("the scale grows one step too late", COUNT, "good_steps == interval"),
        mistake("the scale grows one step too early", COUNT, "good_steps + 2 >= interval"),
        mistake("the count goes on after an overflow, as if the good steps need not be in a row", BACK, "return max(scale / 2, 1.0), good_steps"),
        mistake("the step with the overflow counts as a good one", BACK, "return max(scale / 2, 1.0), 1"),
        mistake("the count goes on after the scale has grown", GROW, "return min(scale * 2, 2.0**24), good_steps + 1"),
        mistake("the step at which the scale grows is the first of the next interval", GROW, "return min(scale * 2, 2.0**24), 1"),
        mistake("an overflow puts the scale back to 1", BACK, "return 1.0, 0"),
        mistake("an overflow changes nothing but the count: the next step overflows again", BACK, "return scale, 0"),
        mistake("there is no lower limit", BACK, "return scale / 2, 0"),
        mistake("there is no upper limit", GROW, "return scale * 2, 0"),
        mistake("there are no limits", BACK, "return scale / 2, 0", GROW, "return scale * 2, 0"),
        mistake("growth and backoff are exchanged", f"{BACK}{FULL}{GROW}", f"{GROW}{FULL}{BACK}"),
        mistake("half of the scale is rounded down to a whole number", "max(scale / 2, 1.0)", "max(scale // 2, 1.0)"),
        mistake("the limits are looked at before the scale changes, not after it", "max(scale / 2, 1.0)", "(scale / 2 if scale > 1.0 else scale)", "min(scale * 2, 2.0**24)", "(scale * 2 if scale < 2.0**24 else scale)"),
        mistake("the scale only ever shrinks", GROW, "return scale, 0"),
        mistake("the scale grows by 1 instead of twofold", GROW, "return min(scale + 1, 2.0**24), 0"),
    ),
    hints=(
        "Play it on paper with interval 3 and scale 8: good, good, good → 16 and 0; overflow → 8 and 0; good, good, overflow → 4 and 0.",
        "Three cases, each with one return: not finite; finite and the interval is full with this step; finite and not full. Whenever the scale changes, or tries to, the count is 0.",
        "`max(…, 1.0)` and `min(…, 2.0**24)` keep the scale between its limits. Begin with the case that is not finite. Then ask whether the interval is full with this step, which is good step number good_steps + 1.",
    ),
)


def train_with(rule: Callable[..., Any], **run: Any) -> Any:
    """A live training in emulated float16 that a rule for the loss scale drives; see `lplab.widgets.train_with_scale`.

    Args:
        rule: function of (scale, good_steps, finite, interval) that returns the next scale and the next count.
        **run: ``steps``, ``interval``, ``start``.
    """
    from lplab import widgets  # shown in a notebook only

    return widgets.train_with_scale(rule, **run)
