"""The models by name. A new one is a new function in ``MODELS``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from lplab.lookup import lookup
from lplab.models.basic import cnn, depthwise_net, lstm, mlp, row_lstm, speech_net
from lplab.models.llama import llama
from lplab.models.residual import detector, digits_resnet, resnet
from lplab.models.transformer import character_transformer, transformer

MODELS: dict[str, Callable[..., nn.Module]] = {
    maker.__name__: maker
    for maker in (
        *(mlp, cnn, depthwise_net, digits_resnet, resnet, detector),
        *(lstm, row_lstm, speech_net, transformer, character_transformer, llama),
    )
}


def names() -> list[str]:
    """The names of the models that can be made from a seed; each is also a function of :mod:`lplab.models`.

    >>> names()[:3]
    ['mlp', 'cnn', 'depthwise_net']
    """
    return list(MODELS)


def get(name: str, **settings: Any) -> nn.Module:
    """A new model by its name; its settings, such as sizes and ``seed``, are keywords of the function of this name.

    Raises:
        ValueError: there is no such model; the message names the closest, or all.
        TypeError: the function does not take such a setting, or needs another one (``vocabulary`` for ``"lstm"``).

    >>> get("mlp", sizes=(64, 32, 10), seed=1).layers[0]
    Linear(in_features=64, out_features=32, bias=True)
    >>> get("mpl")
    Traceback (most recent call last):
    ...
    ValueError: there is no model 'mpl'; did you mean mlp?
    """
    return lookup(MODELS, name, "model")(**settings)
