"""Record what SmolLM2 writes and loses with each recipe that lab 15 offers.

    lplab fetch smollm2
    python data/record_rounded_answers.py           (needs 'lplab[llm]'; a quarter of an hour on one core)

writes data/language_model/rounded_answers.json after each recipe. Recipes that the file has are left as they are, so a
run that was cut off goes on. A word as argument takes the recipes with that word in their name alone.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from lplab.datasets import characters
from lplab.models import KeyValueCache, RoundedCache, bits_a_token, smollm2
from lplab.models.chat import answer
from lplab.quantizers import KIVI
from lplab.recordings.rounded_answers import CACHES, NOTHING, QUESTION, RECIPES, TOKENS, calibration_tokens
from lplab.training import bits_report, quantize_for_inference

FILE = Path(__file__).parent / "language_model" / "rounded_answers.json"
PASSAGES, LENGTH = 8, 129  # of the second half of the novel; each predicts 128 tokens
CALIBRATION_LENGTH = 128  # of a passage of the first half


def passages(tokenizer: Any, text: str, count: int, length: int) -> torch.Tensor:
    """The first passages of a text as tokens: int64 [count, length]."""
    return torch.tensor(tokenizer.encode(text[: 12 * count * length]).ids[: count * length]).view(count, length)


@torch.no_grad()
def record(model: Any, tokenizer: Any, recipe: str) -> dict[str, Any]:
    """What the file has of one recipe."""
    text = characters()
    test = passages(tokenizer, text[len(text) // 2 :], PASSAGES, LENGTH)
    calibration = passages(tokenizer, text, calibration_tokens(recipe) // CALIBRATION_LENGTH, CALIBRATION_LENGTH)

    def new_cache(exact_new: bool) -> KeyValueCache | None:
        if recipe in CACHES:
            bits, keys, values = CACHES[recipe]
            return RoundedCache(KIVI(bits, 32, 0, keys, values), exact_new=exact_new)
        return None if recipe.endswith("per=tensor") else KeyValueCache()  # one scale for the whole text, read anew

    bits_a_weight = 16.0
    if recipe != NOTHING and recipe not in CACHES:
        model = quantize_for_inference(model, recipe, calibration=calibration)
        bits_a_weight = bits_report(model).rounded
    losses = [round(bits_a_token(model, ids[None], new_cache(False)), 4) for ids in test]
    said = list(answer(model, tokenizer, QUESTION, TOKENS, new_cache(True)))
    return {"text": said[-1] if said else "", "losses": losses, "bits_a_weight": bits_a_weight}


if __name__ == "__main__":
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    language_model, its_tokenizer = smollm2()
    for name in (name for name in RECIPES if word in name):
        found = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
        if name in found:
            continue
        start = time.process_time()
        made = record(language_model, its_tokenizer, name)
        found = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
        found[name] = made
        ordered = {each: found[each] for each in RECIPES if each in found}
        FILE.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", "utf-8")
        loss = sum(made["losses"]) / PASSAGES
        print(f"{name}: {loss:.3f} bits, {time.process_time() - start:.0f} s, {made['text']!r}", flush=True)
