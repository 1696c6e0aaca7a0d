"""KIVI: keys and values of a language model in few bits, each along its own axis (Liu et al. 2024, arXiv:2402.02750).

Keys have channels that are large at every position: each channel gets scales of its own, for groups of neighbouring
positions. Values have none, and attention adds up few of them: each position gets scales of its own, for groups of
channels. The latest positions stay as they are.

Of two other ways: QuaRot rotates queries and keys after their positions, so that no channel stands out; KVQuant rounds
keys before their positions are put in, since these mix the two channels of a pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lplab.checks import check_int
from lplab.lookup import NamedSettings
from lplab.quantizers import array_inputs

AXES = ("channel", "token")
"""What has scales of its own."""


@dataclass(frozen=True)
class KIVI(NamedSettings):
    """How a KV cache is rounded: unsigned integers with a scale and a smallest value for each group of numbers.

    :class:`lplab.models.RoundedCache` is a Llama's cache that is rounded so.

    Args:
        bits: 1 to 8.
        group: numbers that share a scale, along the other axis.
        window: latest positions that stay as they are; 0 for none.
        keys, values: "channel" or "token": what has scales of its own.

    Raises:
        ValueError: a number out of range or an unknown axis; or, when called, a group that does not divide an axis.

    >>> KIVI(bits=2, group=2).rounded([[0.0, 10.0], [0.3, 40.0]], "channel")
    array([[ 0. , 10. ],
           [ 0.3, 40. ]])
    """

    bits: int = 2
    group: int = 32
    window: int = 128
    keys: str = "channel"
    values: str = "token"

    def __post_init__(self) -> None:
        check_int("bits", self.bits, 1, 8)
        check_int("group", self.group, 1, 2**20)
        check_int("window", self.window, 0, 2**20)
        for name in ("keys", "values"):
            if getattr(self, name) not in AXES:
                raise ValueError(f"{name} must be {' or '.join(map(repr, AXES))}, got {getattr(self, name)!r}")

    @property
    def bits_per_value(self) -> float:
        """Bits of a rounded number with its share of a scale and a smallest value of 16 bits each.

        >>> KIVI(bits=2, group=32).bits_per_value
        3.0
        """
        return self.bits + 32 / self.group

    def ready(self, axis: str, tokens: int) -> int:
        """How many of the oldest of ``tokens`` positions are to be rounded now.

        With scales for each channel, positions are rounded in whole windows (whole groups where there is no window),
        as published. With scales for each token, all that have left the window are.

        >>> KIVI(window=128).ready("channel", 300), KIVI(window=128).ready("token", 300)
        (256, 172)
        """
        if axis == "token":
            return max(tokens - self.window, 0)
        whole = self.group * -(-max(self.window, 1) // self.group)
        return tokens // whole * whole

    def rounded(self, x: Any, axis: str) -> Any:
        """Numbers on 2^bits levels between the smallest and the largest of their group.

        Args:
            x: array or tensor [..., tokens, channels]; with "channel", tokens are a multiple of the group.
            axis: "channel" or "token".

        Returns:
            The kind, shape and dtype of x.
        """
        xp, array, close = array_inputs.to_working_array(x)
        if axis not in AXES:
            raise ValueError(f"axis must be {' or '.join(map(repr, AXES))}, got {axis!r}")
        if axis == "channel":
            array = xp.swapaxes(array, -1, -2)
        if array.shape[-1] % self.group:
            along = "channels" if axis == "token" else "positions"
            raise ValueError(f"group={self.group} does not divide the {array.shape[-1]} {along}; pass a divisor")
        groups = array.reshape(*array.shape[:-1], -1, self.group)
        low, high = xp.amin(groups, -1)[..., None], xp.amax(groups, -1)[..., None]
        step = (high - low) / (2**self.bits - 1)
        step = xp.where(step > 0, step, xp.ones_like(step))
        values = (xp.round((groups - low) / step) * step + low).reshape(array.shape)
        return close(xp.swapaxes(values, -1, -2) if axis == "channel" else values)
