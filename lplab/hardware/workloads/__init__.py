"""Networks as tables of products: sizes alone, so that a GPT-3 fits in a notebook.

>>> resnet = get("resnet50")
>>> f"{resnet.parameters:,} parameters, {resnet.multiplications / 1e9:.2f} billion multiply-adds"
'25,557,032 parameters, 4.09 billion multiply-adds'
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import MappingProxyType

from lplab.hardware.workloads.convolutional import mobilenetv2, resnet18, resnet50, vgg16
from lplab.hardware.workloads.from_module import from_module
from lplab.hardware.workloads.sequences import bert_base, gpt, gpt3, llama2_7b_writing, lstm_lm, transformer_base
from lplab.hardware.workloads.workload import GEMMs, Layer, Workload
from lplab.lookup import lookup

__all__ = ["INFERENCE", "WORKLOADS", "GEMMs", "Layer", "Workload", "from_module", "get", "gpt", "names"]

_BUILDERS: tuple[Callable[[], Workload], ...] = (
    *(resnet18, resnet50, mobilenetv2, vgg16),
    *(bert_base, transformer_base, lstm_lm, gpt, gpt3),
)
WORKLOADS = MappingProxyType({make.__name__: make for make in _BUILDERS})
"""What makes each workload, by name; a new one is a new entry."""
INFERENCE = MappingProxyType({llama2_7b_writing.__name__: llama2_7b_writing})
"""Workloads that are not trained: :func:`get` knows them, and :func:`names`, what can be trained, does not."""


def names() -> list[str]:
    """The names of all workloads.

    >>> names()[:3]
    ['resnet18', 'resnet50', 'mobilenetv2']
    """
    return list(WORKLOADS)


def get(name: str | Workload) -> Workload:
    """The workload of this name; a :class:`Workload` is passed through.

    Raises:
        ValueError: there is none; the message names the closest.

    >>> get("resnet-50").name
    'resnet50'
    """
    if isinstance(name, Workload):
        return name
    return _build(lookup({**WORKLOADS, **INFERENCE}, name, "workload"))


@cache
def _build(make: Callable[[], Workload]) -> Workload:
    return make()
