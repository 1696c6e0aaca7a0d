"""Lab 02, Sixteen bits and a coin: fixed point, stochastic rounding, what is lost, and the drift of a biased rounding."""

from __future__ import annotations

from lplab.exercises.lab02.count_losses import LOSSES
from lplab.exercises.lab02.drift import DRIFT
from lplab.exercises.lab02.fixed_point import FIXED
from lplab.exercises.lab02.stochastic_round import STOCHASTIC_ROUND
from lplab.exercises.model.questions import Question

RULES = ("nearest_down", "stochastic")
WHICH_LEARNS = ("both learn, nearest better", "both learn, the coin better", "only nearest learns", "only the coin learns", "neither learns")


def which_learns() -> str:
    """The answer according to the stored results of Gupta's claim: medians over all seeds at 6 fraction bits."""
    from lplab import claims

    claim = claims.get("gupta_2015")
    results = claims.stored(claim).results(claim)
    at = {"setting": "one format", "fraction_bits": 6}
    nearest, coin = (results.median("test_error", rounding=rule, **at) for rule in RULES)
    learns = (nearest < 50, coin < 50)  # of ten classes; guessing gives 90 %
    if all(learns):
        return WHICH_LEARNS[nearest > coin]
    return {(True, False): WHICH_LEARNS[2], (False, True): WHICH_LEARNS[3], (False, False): WHICH_LEARNS[4]}[learns]


QUESTIONS = (
    Question("02.a", "With 6 fraction bits, which rounding learns?", which_learns, choices=WHICH_LEARNS),
)
EXERCISES = (FIXED, STOCHASTIC_ROUND, LOSSES, DRIFT)
