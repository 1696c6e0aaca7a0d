"""A KV cache (keys and values) in few bits for a Llama: KIVI (Liu et al. 2024), emulated in float32."""

from __future__ import annotations

import torch
from torch import Tensor

from lplab.models.llama import KeyValueCache
from lplab.quantizers import KIVI


class RoundedCache(KeyValueCache):
    """A KV cache whose keys and values are rounded once they leave the window of the latest positions.

    Args:
        rule: bits, groups, window, and the axis of each half.
        exact_new: whether the positions of a call attend to one another unrounded, as in KIVI's first pass over a
            prompt. False rounds first, so that one call on a whole passage shows what rounding costs.

    >>> cache = RoundedCache(KIVI(bits=2, group=4, window=0), exact_new=False)
    >>> keys, values = cache.extend(0, torch.randn(1, 1, 9, 8), torch.randn(1, 1, 9, 8))
    >>> keys[0, 0, :4, 0].unique().numel() <= 4, cache.length
    (True, 9)
    """

    def __init__(self, rule: KIVI, exact_new: bool = True) -> None:
        super().__init__()
        self.rule, self.exact_new = rule, exact_new
        self.done: dict[tuple[int, str], int] = {}  # positions that are rounded, of a block's keys and of its values

    def extend(self, block: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new positions of a block, [batch, head, time, size], and return all of them; the stored are rounded."""
        whole = super().extend(block, keys, values)
        stored = (
            self._rounded((block, "keys"), whole[0], self.rule.keys),
            self._rounded((block, "values"), whole[1], self.rule.values),
        )
        self.stored[block] = stored
        return whole if self.exact_new else stored

    def _rounded(self, half: tuple[int, str], x: Tensor, axis: str) -> Tensor:
        """One half of a block, its positions rounded that are ready and were not before."""
        begin, end = self.done.get(half, 0), self.rule.ready(axis, x.shape[-2])
        if end <= begin:
            return x
        self.done[half] = end
        return torch.cat([x[..., :begin, :], self.rule.rounded(x[..., begin:end, :], axis), x[..., end:, :]], -2)
