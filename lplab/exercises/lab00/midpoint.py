"""Exercise 00.1: a function that is broken on purpose."""

from __future__ import annotations

from lplab.exercises.model.exercise import Example, Exercise, mistake
from lplab.exercises.model.forms import Number


def midpoint(low, high):
    """The number halfway between two neighbours; of 1 and 1.125 it is 1.0625."""
    return (low + high) / 2


NEIGHBOURS = [(k * 2.0**e, (k + 1) * 2.0**e) for e in range(-9, 6) for k in range(-16, 16)]

MIDPOINT = Exercise(
    id="00.1",
    version=1,
    title="Broken on purpose",
    goal="Goal 1: run a check and read what it says",
    minutes=2,
    difficulty=1,
    statement="""
        The function below is wrong, on purpose. Run the cell as it is and read the answer: which call, what came, what should have come. Then repair the function and run the cell again.
    """,
    stub='''
        def midpoint(low, high):
            """The number halfway between two neighbours; of 1 and 1.125 it is 1.0625."""
            return low + high / 2
    ''',
    reference=midpoint,
    form=Number(),
    examples=(
        Example((0.0, 2.0), "Halfway from 0 to 2 lies 1."),
        Example((1.0, 1.125), "1.0625 is the tie between E4M3's 1 and 1.125."),
        Example((-2.0, 2.0), "Opposite numbers meet at 0."),
        Example((-1.125, -1.0), "Below zero it works the same way."),
        Example((3.0, 3.0), "Between a number and itself lies that number."),
    ),
    boundary=lambda: NEIGHBOURS,
    is_repair=True,
    mistakes=(
        mistake("division binds more strongly than addition", "(low + high) / 2", "low + high / 2"),
        mistake("only the sum is taken", "(low + high) / 2", "low + high"),
        mistake("half of the distance, not the middle", "(low + high)", "(high - low)"),
        mistake("division without remainder", "/ 2", "// 2"),
        mistake("the geometric middle", "(low + high) / 2", "math.copysign(math.sqrt(abs(low * high)), low + high)"),
        mistake("the middle of the sizes, without the sign", "(low + high)", "(abs(low) + abs(high))"),
        mistake("rounded to a whole number", "(low + high) / 2", "float(round((low + high) / 2))"),
        mistake("half of each, added in another order", "(low + high) / 2", "low / 2 + high / 2", equivalent="halving is exact for numbers of this size"),
    ),
    hints=(
        "Read the second line of the answer: for low = 0 and high = 2 nothing goes wrong. For which call does it?",
        "Python divides before it adds.",
        "Put parentheses around what has to be computed first.",
    ),
)
