"""The Hadamard transform of neighbours, with signs: it spreads an outlier over them before they are rounded.

The transform is orthonormal. Where both operands of a product are transformed along the axis that the product sums
over, the transforms cancel: (x · H) · (w · H)ᵀ = x · wᵀ. On one operand alone it gives another product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lplab.checks import check_int
from lplab.formats import BlockFormat, Rounding, inputs
from lplab.formats.counter_rng import seed_to_int
from lplab.formats.rounding import as_rounding
from lplab.lookup import NamedSettings
from lplab.quantizers import hadamard_arrays

NVFP4_SIGNS = (1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1)
"""The signs of Transformer Engine's transform of 16 numbers, read in its reference quantizer for NVFP4."""


@dataclass(frozen=True)
class Hadamard(NamedSettings):
    """x → (x ∘ signs) · H / √size for each ``size`` neighbours; H[i, j] = (−1)^(number of ones in i & j), by Sylvester.

    Args:
        size: how many neighbours are transformed together: a power of two from 2 to 1024.
        signs: None for none; ``size`` numbers that are 1 or −1; or an integer, the seed of random ones. Signs turn a
            fixed transform into a random one.

    Raises:
        ValueError: no power of two; signs of another number, or other than 1 and −1.

    >>> Hadamard(4).apply([1.0, 0.0, 0.0, 0.0])
    array([0.5, 0.5, 0.5, 0.5])
    >>> Hadamard(4, signs=(1, -1, 1, 1)).matrix() @ Hadamard(4, signs=(1, -1, 1, 1)).matrix().T
    array([[1., 0., 0., 0.],
           [0., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    """

    size: int = 16
    signs: Any = None

    def __post_init__(self) -> None:
        size = check_int("size", self.size, 2, 1024)
        if size & (size - 1):
            raise ValueError(f"size must be a power of two, got {size}")
        if self.signs is None:
            return
        if isinstance(self.signs, int | np.integer):
            object.__setattr__(self, "signs", check_int("signs", self.signs, 0, 2**63 - 1))
            return
        signs = tuple(int(sign) for sign in self.signs)
        if len(signs) != size or set(signs) - {1, -1}:
            raise ValueError(f"signs must be {size} numbers that are 1 or -1, got {self.signs!r}")
        object.__setattr__(self, "signs", signs)

    @cached_property
    def sign_vector(self) -> np.ndarray:
        """The signs as float32 [size]; ones where there are none.

        >>> Hadamard(4, signs=(1, 1, -1, 1)).sign_vector
        array([ 1.,  1., -1.,  1.], dtype=float32)
        """
        if isinstance(self.signs, int):
            return np.random.default_rng(self.signs).choice(np.array([-1, 1], np.float32), self.size)
        return np.array([1] * self.size if self.signs is None else self.signs, np.float32)

    @cached_property
    def sign_numbers(self) -> tuple[float, ...]:
        """The signs as numbers."""
        return tuple(self.sign_vector.tolist())

    def matrix(self) -> np.ndarray:
        """The matrix of the transform of a row of ``size`` numbers, float64 [size, size]: the definition."""
        index = np.arange(self.size)
        ones = np.array([[bin(i & j).count("1") for j in index] for i in index])
        return self.sign_vector[:, None] * (-1.0) ** ones / math.sqrt(self.size)

    def apply(self, x: Any, axis: int = -1) -> Any:
        """Transform the numbers along an axis, ``size`` of them at a time.

        Args:
            x: numpy array, torch tensor or list of floats. Half precision is computed in float32.
            axis: where the numbers lie.

        Returns:
            The kind and dtype of x. Where the length is no multiple of ``size``, zeros fill up the last group, so the
            result is longer than x. Sums are carried out in a fixed order: numpy and torch give the same bits. A tensor
            has its gradient.

        >>> Hadamard(4).apply(np.ones((2, 6))).shape
        (2, 8)
        """
        return hadamard_arrays.apply(x, self.sign_vector, axis)

    def quantize(
        self, x: Any, format: Any, rounding: str | Rounding = "nearest_even", seed: Any = None, axis: int = -1
    ) -> Any:
        """The numbers of a format that are nearest to the transform: ``format.quantize(transform.apply(x))``.

        On a GPU one kernel transforms and rounds, where the format has blocks along one axis whose size is a power of
        two: numbers are read and written once, and once more read for a scale of the tensor (NVFP4).

        Args:
            x: numpy array, torch tensor or list of floats.
            format: a format of :mod:`lplab.formats`.
            rounding, seed: as in ``format.quantize``.
            axis: of the transform, and of the blocks of the format.

        Returns:
            The kind and dtype of x, as long as the transform. A tensor that requires a gradient gets that of the
            rounded transform, transformed back.

        >>> from lplab.formats import get
        >>> Hadamard(4).quantize([6.0, 0.0, 0.1, 0.0], get("mxfp4"))
        array([3., 3., 3., 3.])
        """
        rounding = as_rounding(rounding)
        number = seed_to_int(seed) if rounding.is_stochastic else 0
        if inputs.is_torch(x):
            from lplab.quantizers import transformed_rounding

            return transformed_rounding.quantize(self, x, format, rounding, number, axis)
        transformed = self.apply(x, axis)
        blocks = {"axis": axis} if isinstance(format, BlockFormat) else {}
        return format.quantize(transformed, rounding, number, **blocks)

    def invert(self, y: Any, length: int | None = None, axis: int = -1) -> Any:
        """The numbers whose transform is y; of the last group only as many as belong to ``length`` numbers.

        >>> x = np.array([3.0, -1.0, 2.0])
        >>> Hadamard(4, signs=7).invert(Hadamard(4, signs=7).apply(x), length=3)
        array([ 3., -1.,  2.])

        Raises:
            ValueError: y is no transform: its length is no multiple of ``size``.
        """
        return hadamard_arrays.invert(y, self.sign_vector, length, axis)
