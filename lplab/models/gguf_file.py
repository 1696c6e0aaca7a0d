"""A Llama and its tokenizer from a GGUF file, the format of llama.cpp: one file with weights, sizes and vocabulary.

Weights become float32, whatever the file rounds them to. The package ``gguf`` reads, ``tokenizers`` splits text:
``pip install 'lplab[llm]'``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from lplab.datasets.smollm2 import smollm2_file
from lplab.models.llama import Llama, LlamaShape

NAMES = {
    "token_embd.weight": "embedding.weight",
    "output_norm.weight": "norm.weight",
    "output.weight": "head.weight",
}
BLOCK_NAMES = {
    "attn_norm": "norm1",
    "attn_q": "attention.q",
    "attn_k": "attention.k",
    "attn_v": "attention.v",
    "attn_output": "attention.o",
    "ffn_norm": "norm2",
    "ffn_gate": "mlp.gate",
    "ffn_up": "mlp.up",
    "ffn_down": "mlp.down",
}
SPLITS = {"gpt-2": False, "smollm": True}
"""How text is split before its bytes are joined, by the name in the file: is each digit a token of its own?"""
CONTROL = 3  # the type of a token such as <|im_start|>


def read_gguf(path: str | Path) -> tuple[Llama, Any]:
    """A language model and its tokenizer.

    Args:
        path: a GGUF file of the architecture "llama", its tokenizer that of GPT-2.

    Returns:
        The model in evaluation mode, float32; and a ``tokenizers.Tokenizer``: ``encode(text).ids``, ``decode(ids)``.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: ``gguf`` or ``tokenizers`` is missing.
        ValueError: no GGUF file, another architecture or tokenizer, or tensors that a Llama does not have.
    """
    try:
        import gguf
    except ImportError as error:
        raise ImportError("GGUF files are read with gguf: pip install 'lplab[llm]'") from error
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{Path(path).name} is no GGUF file, or it is cut short: {error}") from None
    fields = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    with torch.device("meta"):  # no memory and no random numbers for weights that are replaced
        model = Llama(_shape_of(fields), tied="output.weight" not in tensors)
    state = {_name_in_llama(name): _numbers(gguf, tensor) for name, tensor in tensors.items()}
    if "output.weight" not in tensors and "embedding.weight" in state:
        state["head.weight"] = state["embedding.weight"]
    for name, empty in model.state_dict().items():
        if name not in state:
            raise ValueError(f"{Path(path).name} has no {name} for its {model.shape.blocks} blocks: it is incomplete")
        if state[name].shape != empty.shape:
            raise ValueError(
                f"{name} must be {list(empty.shape)} by the sizes in the file, got {list(state[name].shape)}"
            )
    model.load_state_dict(state, assign=True)
    if model.head.weight is not model.embedding.weight and "output.weight" not in tensors:
        model.head.weight = model.embedding.weight
    return model.eval(), _tokenizer_of(fields)


def _numbers(gguf: Any, tensor: Any) -> torch.Tensor:
    """A tensor of a file as float32, its own copy: the file may be closed."""
    return torch.from_numpy(np.array(gguf.dequantize(tensor.data, tensor.tensor_type), np.float32))


def _shape_of(fields: dict[str, Any]) -> LlamaShape:
    """The sizes in the header of a file."""
    if (architecture := fields.get("general.architecture")) != "llama":
        raise ValueError(f"only the architecture 'llama' is read, this file has {architecture!r}")
    heads = fields["llama.attention.head_count"]
    shape = LlamaShape(
        vocabulary=len(fields["tokenizer.ggml.tokens"]),
        width=fields["llama.embedding_length"],
        blocks=fields["llama.block_count"],
        heads=heads,
        kv_heads=fields.get("llama.attention.head_count_kv", heads),
        hidden=fields["llama.feed_forward_length"],
        context=fields["llama.context_length"],
        rope_base=fields.get("llama.rope.freq_base", 10_000.0),
        epsilon=fields["llama.attention.layer_norm_rms_epsilon"],
    )
    rotated = fields.get("llama.rope.dimension_count", shape.head_size)
    if rotated != shape.head_size or "llama.rope.scaling.type" in fields:
        raise ValueError("this file rotates a part of each head or scales its positions, which is not read")
    return shape


def _name_in_llama(name: str) -> str:
    """The name of a tensor of a file in :class:`Llama`.

    >>> _name_in_llama("blk.3.attn_output.weight")
    'blocks.3.attention.o.weight'
    """
    if name in NAMES:
        return NAMES[name]
    match name.split("."):
        case ["blk", number, layer, "weight"] if layer in BLOCK_NAMES:
            return f"blocks.{number}.{BLOCK_NAMES[layer]}.weight"
    raise ValueError(f"the file has a tensor {name!r}, which a Llama without biases does not have")


def _tokenizer_of(fields: dict[str, Any]) -> Any:
    """The tokenizer of a file: pairs of bytes joined in the order of its merges (Sennrich et al. 2016)."""
    try:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    except ImportError as error:
        raise ImportError("text is split with tokenizers: pip install 'lplab[llm]'") from error
    kind, split = fields["tokenizer.ggml.model"], fields.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2" or split not in SPLITS:
        raise ValueError(f"tokenizers of GPT-2 are read, split as {' or '.join(SPLITS)}; this is {kind!r}, {split!r}")
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    steps = [pre_tokenizers.Digits(individual_digits=True)] if SPLITS[split] else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    types = fields["tokenizer.ggml.token_type"]
    control = [AddedToken(token, special=True) for token, type in zip(tokens, types, strict=True) if type == CONTROL]
    tokenizer.add_special_tokens(control)
    return tokenizer


def smollm2() -> tuple[Llama, Any]:
    """SmolLM2-135M-Instruct and its tokenizer (Allal et al. 2025, arXiv:2502.02737), as :func:`read_gguf` gives them.

    134.5 million weights in 30 blocks of width 576. The file has its matrices in Q4_1: they lie on 16 levels for each
    32 weights already. So no statement about 4-bit weights may rest on them. Half a gigabyte of memory as float32.

    Raises:
        FileNotFoundError: it has not been fetched: ``lplab fetch smollm2``.
        ImportError: ``gguf`` or ``tokenizers`` is missing.
    """
    return read_gguf(smollm2_file())
