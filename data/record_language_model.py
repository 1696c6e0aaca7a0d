"""Record what goes on inside SmolLM2 while it reads a page of the novel.

    lplab fetch smollm2
    python data/record_language_model.py            (needs 'lplab[llm]'; a minute on two cores)

writes data/language_model/smollm2.npz: the largest magnitude of each channel of the residual stream before every block,
the inputs and weights of a few layers, queries, keys and values of one block, the tokens. Weights are copied as the
file has them: Q4_1, 20 bytes for 32 weights.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from lplab.datasets import characters, smollm2_file
from lplab.models import bits_a_token, smollm2
from lplab.models.gguf_file import BLOCK_NAMES

FILE = Path(__file__).parent / "language_model" / "smollm2.npz"
TOKENS = 256
BLOCK = 12  # whose stream, queries, keys and values are kept
LAYERS = {"blocks.12.attention": ("q", "k", "v"), "blocks.11.mlp": ("down",)}  # those that share an input


@torch.no_grad()
def record() -> dict[str, np.ndarray]:
    """The arrays of the file, by name."""
    import gguf

    model, tokenizer = smollm2()
    text = characters()
    ids = tokenizer.encode(text[len(text) // 2 :][: 8 * TOKENS]).ids[: TOKENS + 1]
    streams, caught = [], {}
    hooks = [block.register_forward_pre_hook(lambda _, x: streams.append(x[0][0])) for block in model.blocks]
    hooks.append(model.norm.register_forward_pre_hook(lambda _, x: streams.append(x[0][0])))
    attention = model.blocks[BLOCK].attention
    places = {name: getattr(attention, name) for name in ("queries", "keys", "values")}
    places |= {part: model.get_submodule(f"{part}.{names[0]}") for part, names in LAYERS.items()}
    for name, module in places.items():
        hooks.append(module.register_forward_pre_hook(lambda _, x, name=name: caught.update({name: x[0][0]})))
    bits = bits_a_token(model, torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    largest = torch.stack(streams).abs()
    found = {
        "pieces": np.array([tokenizer.decode([token]) for token in ids[:TOKENS]]),
        "bits": np.float64(bits),
        "first_token": largest[:, 0].numpy(),
        "other_tokens": largest[:, 1:].amax(1).numpy(),
        "medians": largest.flatten(1).median(1).values.numpy(),
        "stream": streams[BLOCK].half().numpy(),
    }
    found |= {name: caught[name].half().numpy() for name in places}
    theirs = {ours: name for name, ours in BLOCK_NAMES.items()}
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(smollm2_file()).tensors}
    for part, names in LAYERS.items():
        _, number, kind = part.split(".")
        for name in names:
            tensor = stored[f"blk.{number}.{theirs[f'{kind}.{name}']}.weight"]
            if tensor.tensor_type.name != "Q4_1":
                raise ValueError(f"{tensor.name} must be in Q4_1, got {tensor.tensor_type.name}")
            found[f"{part}.{name}"] = np.array(tensor.data)
    return found


if __name__ == "__main__":
    arrays = record()
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FILE, **arrays)
    print(f"{FILE}: {FILE.stat().st_size / 1e6:.2f} MB, {float(arrays['bits']):.3f} bits a token")
