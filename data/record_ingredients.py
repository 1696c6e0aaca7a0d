"""Branch the recipes of 2025, and each without single ingredients, from float32 checkpoints of a small Transformer.

    python data/record_ingredients.py            (needs PyTorch; see data/README.md for how long)

writes data/ingredients/transformer.npz, the source of lab 14's main figure: the training loss of every step, and the
test loss in the end, of each combination of `lplab.recordings.ingredient_runs.COMBINATIONS` and of float32, on
every seed. Seeded, one thread. Other processors add in another order and agree qualitatively.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch

from lplab.claims.framework.branches import BranchPlan, branch
from lplab.claims.framework.models import branch_transformer
from lplab.recordings.ingredient_runs import COMBINATIONS, SWITCH_AT, Ingredients
from lplab.training.recipe.ingredient_recipes import recipe_of

FILE = Path(__file__).parent / "ingredients" / "transformer.npz"
PLAN = BranchPlan(before=500, steps=100)
SEEDS = (0, 1, 2)


def record(chosen: Ingredients | None, seed: int) -> tuple[np.ndarray, float]:
    """One branch; None is float32. Its training losses [steps] and its test loss, in bits."""
    switch_at = PLAN.before + round(SWITCH_AT * PLAN.steps)  # the share is one of the branch
    recipe = recipe_of(chosen, switch_at) if chosen else "fp32"
    done = branch(branch_transformer(), recipe, seed, PLAN)
    losses = np.full(PLAN.steps, np.nan, np.float32)
    losses[: len(done.losses)] = np.array(done.losses) / np.log(2)
    return losses, done.numbers()["loss"]


def main() -> None:
    """Record all, and write the file."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    every: tuple[Ingredients | None, ...] = (None, *COMBINATIONS)
    names = [each.name if each else "float32" for each in every]
    losses = np.empty((len(every), len(SEEDS), PLAN.steps), np.float32)
    test = np.empty((len(every), len(SEEDS)), np.float32)
    for row, chosen in enumerate(every):
        began = time.process_time()
        for column, seed in enumerate(SEEDS):
            losses[row, column], test[row, column] = record(chosen, seed)
        gap = (test[row] - test[0]).round(4).tolist()
        print(f"{row + 1} of {len(every)}: {names[row]}: {gap} bits, {time.process_time() - began:.0f} s", flush=True)
    FILE.parent.mkdir(exist_ok=True)
    made = {"names": np.array(names), "losses": losses, "test": test}
    np.savez_compressed(FILE, before=PLAN.before, seeds=np.array(SEEDS), **made)  # type: ignore[arg-type]  # numpy's own stub
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
