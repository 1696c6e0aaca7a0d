"""A question to a language model, and its answer, token by token."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import nn

from lplab.models.llama import KeyValueCache, Llama

START, END = "<|im_start|>", "<|im_end|>"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""What the template of SmolLM2 begins with."""


def chat_prompt(question: str) -> str:
    """A question in the template that SmolLM2 was trained with.

    >>> print(chat_prompt("Why?"))
    <|im_start|>system
    You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
    <|im_start|>user
    Why?<|im_end|>
    <|im_start|>assistant
    <BLANKLINE>
    """
    said = {"system": SYSTEM, "user": question}
    turns = "".join(f"{START}{who}\n{text}{END}\n" for who, text in said.items())
    return f"{turns}{START}assistant\n"


def answer(
    model: nn.Module, tokenizer: Any, question: str, tokens: int = 40, cache: KeyValueCache | None = None
) -> Iterator[str]:
    """The answer of a model to a question, as it grows: the likeliest token each time.

    Args:
        model: a :class:`Llama`, or one whose layers round.
        tokenizer: its own.
        question: plain text.
        tokens: the most tokens of the answer; it ends before, where the model ends it.
        cache: an empty one, such as a :class:`RoundedCache`. Without one the model reads the whole text again for
            each token, so that a scale for a whole tensor of inputs is that of the whole text.

    Yields:
        The answer so far.
    """
    ids = torch.tensor(tokenizer.encode(chat_prompt(question)).ids)
    end = tokenizer.token_to_id(END)
    written: list[int] = []
    for token in islice(_tokens(model, ids, cache), tokens):
        if token == end:
            return
        written.append(token)
        yield tokenizer.decode(written)


def _tokens(model: Any, ids: torch.Tensor, cache: KeyValueCache | None) -> Iterator[int]:
    if cache is not None:
        yield from Llama.write(model, ids, cache)
    with torch.no_grad():
        while True:
            ids = torch.cat([ids, model(ids[None])[0, -1].argmax()[None]])
            yield int(ids[-1])
