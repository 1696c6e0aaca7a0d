"""Lab 02: weights on a grid get small updates, rounded to nearest and with a coin."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab import formats as F

from .mechanism import Mechanism

FORMAT = F.FixedFormat(integer_bits=10, fraction_bits=6)
EPS = 2.0**-6
WEIGHTS, COUNT = 20, 30
UPDATES = [k / 20 for k in range(1, 15)]  # in steps of the format: 0.05 to 0.7
START = 3  # 0.2


def data() -> dict[str, Any]:
    """How many steps each weight has moved after each update, for every length of the updates.

    >>> walks = data()["walks"]
    >>> walks[1]["nearest"][-1], walks[10]["nearest"][-1], len(walks[1]["coins"])
    (0, 30, 20)
    """
    return {"count": COUNT, "updates": UPDATES, "start": START, "walks": [walk(update) for update in UPDATES]}


def walk(update: float) -> dict[str, Any]:
    """Steps that weights have moved after 0 to 30 updates of one length, itself in steps of the format.

    Returns:
        nearest: of a weight that is rounded to nearest, [31]; coins: of 20 weights with a coin each, [20][31]; mean: of
        these 20, [31].
    """
    rng = np.random.default_rng(2015)
    nearest, coins = np.zeros((COUNT + 1, 1)), np.zeros((COUNT + 1, WEIGHTS))
    for k in range(COUNT):
        nearest[k + 1] = FORMAT.quantize(nearest[k] + update * EPS, "nearest_down")
        coins[k + 1] = FORMAT.quantize(coins[k] + update * EPS, "stochastic", seed=rng)
    steps = np.rint(coins.T / EPS).astype(int)
    return {
        "nearest": np.rint(nearest[:, 0] / EPS).astype(int).tolist(),
        "coins": steps.tolist(),
        "mean": np.round(steps.mean(axis=0), 2).tolist(),  # a twentieth has two digits
    }


MECHANISM = Mechanism(
    name="coins",
    title="Small updates of weights on a grid",
    todo="Press *Play*. Then drag the *orange: size of the updates* up and down, and play again.",
    alt="A chart of how far weights move with each of 30 equal updates. A weight that is rounded to nearest stays at 0 "
    "while an update is at most half a step, and moves a whole step each time when it is larger. Twenty weights with a "
    "coin climb in steps at different times, and their mean follows the true sum.",
    data=data,
)
