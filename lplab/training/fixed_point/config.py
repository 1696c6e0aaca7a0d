"""A training run in fixed point as data: its configuration and its results."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import Any

from lplab.formats import FixedFormat, get
from lplab.training.fixed_point.convert import ROUNDINGS, ConversionCounts, Rounding

SAME = "same"
EXACT_BITS = 53  # of a float64


@dataclass(frozen=True)
class FixedPointConfig:
    """One training of a small network on the digits, in Gupta's fixed point (ICML 2015, sections 3 and 4).

    Args:
        fraction_bits: FL of weights, biases and their updates; None trains in float64, by the same code.
        word_length: WL; the weights' format is ⟨WL − FL, FL⟩.
        rounding: a name of ``lplab.training.ROUNDINGS``, or your own function (x, fraction_bits, rng).
            "nearest_down" is the paper's nearest (ties towards minus infinity).
        outputs: format of layer outputs and back-propagated errors: "same" as the weights', or a name such as "q6.10"
            (⟨6, 10⟩, which the paper uses for its convolutional net).
        convert_gradient: whether the gradient is converted before it is multiplied by the learning rate, so that an
            update is rounded twice. The paper converts only the update.
        hidden: sizes of the hidden layers (ReLU); the paper has two of 1000.
        learning_rate, momentum: of stochastic gradient descent; the velocity is stored in the weights' format.
        batch, epochs: there are 1,400 training images; an incomplete last batch is left out.
        initial_std: of the normal distribution of the first weights; the paper's 0.01 trains slowly in a small net.
        widen_after: after so many epochs the words of weights and updates (and of outputs that are "same") get
            ``widen_by`` more fraction bits, as the paper's section 4.2 does with CIFAR-10; None for never.
        widen_by: 1 to 16.
        seed: of the first weights, the order of the images and the random bits, in three separate streams: runs that
            differ only in rounding start from the same weights and have the same batches.

    Raises:
        ValueError: a value out of its range, or words so long that float64 would not hold the sums exactly.

    >>> FixedPointConfig(fraction_bits=12).weight_format
    FixedFormat(integer_bits=4, fraction_bits=12, name='q4.12')
    >>> FixedPointConfig(rounding="neerest")
    Traceback (most recent call last):
    ...
    ValueError: unknown rounding 'neerest'; allowed: nearest_even, ..., or a function of (x, fraction_bits, rng)
    """

    fraction_bits: int | None = 8
    word_length: int = 16
    rounding: Rounding = "stochastic"
    outputs: str = SAME
    convert_gradient: bool = False
    hidden: tuple[int, ...] = (128, 128)
    learning_rate: float = 0.125
    momentum: float = 0.0
    batch: int = 100
    epochs: int = 60
    initial_std: float = 0.1
    seed: int = 0
    widen_after: int | None = None
    widen_by: int = 4

    def __post_init__(self) -> None:
        if not callable(self.rounding) and self.rounding not in ROUNDINGS:
            names = f"{', '.join(ROUNDINGS)}, or a function of (x, fraction_bits, rng)"
            raise ValueError(f"unknown rounding {self.rounding!r}; allowed: {names}")
        if self.fraction_bits is not None and self.fraction_bits >= self.word_length:
            raise ValueError(
                f"fraction_bits must be below word_length = {self.word_length}: the sign needs a bit; got "
                f"{self.fraction_bits}"
            )
        if not self.hidden or not all(_is_whole(n, 1, 4096) for n in self.hidden):
            raise ValueError(f"hidden must be sizes from 1 to 4096, one a layer, got {self.hidden!r}")
        for name, low, high in (("batch", 1, 1400), ("epochs", 1, 10_000), ("seed", 0, 2**63)):
            if not _is_whole(getattr(self, name), low, high):
                raise ValueError(f"{name} must be an integer from {low} to {high}, got {getattr(self, name)!r}")
        for name, top in (("learning_rate", math.inf), ("momentum", 1), ("initial_std", math.inf)):
            if not 0 <= getattr(self, name) < top:
                raise ValueError(f"{name} must be at least 0 and below {top}, got {getattr(self, name)!r}")
        if self.widen_after is not None:
            self._check_widening()
        if self.sum_bits > EXACT_BITS:
            raise ValueError(
                f"a sum of products needs up to {self.sum_bits} bits, and float64 is exact to {EXACT_BITS}; take a "
                "shorter word_length"
            )

    def _check_widening(self) -> None:
        if self.fraction_bits is None:
            raise ValueError("widen_after needs fixed point, got fraction_bits=None")
        if not _is_whole(self.widen_after, 1, self.epochs - 1):
            raise ValueError(f"widen_after must be an integer from 1 to epochs − 1, got {self.widen_after!r}")
        if not _is_whole(self.widen_by, 1, 16):
            raise ValueError(f"widen_by must be an integer from 1 to 16, got {self.widen_by!r}")
        _ = self.widened  # its own checks: sums must stay exact

    @property
    def widened(self) -> FixedPointConfig:
        """The run with the longer words; of a run that never widens, the run itself.

        >>> FixedPointConfig(fraction_bits=12, epochs=120, widen_after=100).widened.weight_format.name
        'q4.16'
        """
        if self.widen_after is None or self.fraction_bits is None:
            return self
        more, word = self.fraction_bits + self.widen_by, self.word_length + self.widen_by
        return replace(self, fraction_bits=more, word_length=word, widen_after=None)

    @cached_property
    def weight_format(self) -> FixedFormat | None:
        """⟨WL − FL, FL⟩ of weights, biases and updates; None for floating point."""
        bits = self.fraction_bits
        return None if bits is None else FixedFormat(self.word_length - bits, bits)

    @cached_property
    def output_format(self) -> FixedFormat | None:
        """The format of layer outputs and errors; None for floating point."""
        if self.fraction_bits is None or self.outputs == SAME:
            return self.weight_format
        fmt = get(self.outputs)
        if not isinstance(fmt, FixedFormat):
            raise ValueError(f"outputs must be 'same' or a fixed-point name such as 'q6.10', got {self.outputs!r}")
        return fmt

    @property
    def sum_bits(self) -> int:
        """Bits that the longest sum of products can need: both words, plus log2 of the number of terms.

        float64 holds integers of 53 bits, so up to there any order of additions gives the exact sum, as the wide
        accumulator of the paper's section 3.2 does; and the result does not depend on threads or the BLAS library.

        >>> FixedPointConfig(fraction_bits=8).sum_bits
        40
        """
        if self.weight_format is None or self.output_format is None:
            return 0
        widest = max(self.weight_format.bits, self.output_format.bits)
        terms = max(*self.hidden, 64, self.batch) + 1  # + 1: the bias
        return self.output_format.bits + widest + math.ceil(math.log2(terms))

    @property
    def label(self) -> str:
        """A short description of the run.

        >>> FixedPointConfig(fraction_bits=8).label, FixedPointConfig(fraction_bits=None).label
        ('⟨8, 8⟩, stochastic', 'floating point')
        """
        if self.weight_format is None:
            return "floating point"
        rule = self.rounding if isinstance(self.rounding, str) else getattr(self.rounding, "__name__", "own rounding")
        later = f", {self.widen_by} bits more after epoch {self.widen_after}" if self.widen_after is not None else ""
        return f"⟨{self.weight_format.integer_bits}, {self.fraction_bits}⟩, {rule.replace('_', ' ')}{later}"

    def parameters(self) -> dict[str, Any]:
        """The fields that differ from their defaults, for files; a function is given by its name."""
        changed = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return {k: getattr(v, "__name__", "own") if callable(v) else v for k, v in changed.items()}


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


@dataclass(frozen=True)
class Epoch:
    """The result of one pass through the training images.

    Attributes:
        number: 1 for the first.
        test_error: wrong answers on the test images, in percent, in the same arithmetic as the training.
        loss: mean cross-entropy of the training batches, in nats.
        counts: what Convert did.
    """

    number: int
    test_error: float
    loss: float
    counts: ConversionCounts


@dataclass(frozen=True)
class FixedPointResult:
    """The result of a run that has finished, or was stopped after at least one epoch."""

    run: FixedPointConfig
    epochs: tuple[Epoch, ...]

    @property
    def test_error(self) -> float:
        """Test error after the last epoch, in percent."""
        return self.epochs[-1].test_error

    @property
    def counts(self) -> ConversionCounts:
        """What Convert did in all epochs together."""
        return reduce(lambda a, b: a + b, (epoch.counts for epoch in self.epochs))

    def numbers(self) -> dict[str, float]:
        """Test error (%) and the shares of the whole run, by name, as they are stored."""
        return {"test_error": self.test_error, **self.counts.shares()}
