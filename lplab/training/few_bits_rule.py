"""The name of a method for language models, such as ``w4a16_gptq:group=64``, and what it says. Plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lplab.checks import check_at_least, check_int
from lplab.lookup import canonical_name
from lplab.quantizers import Hadamard, WeightGrid
from lplab.quantizers.layer_inputs import OUTLIER, LayerInput

PATTERN = re.compile(r"w(\d+)a(\d+)((?:_[a-z0-9]+)*)(?::(.*))?")
WORDS = {
    "rtn": "each weight to the nearest value, the default",
    "gptq": "column by column, errors passed on to the columns to come",
    "awq": "weights of large inputs scaled up before rounding",
    "smoothquant": "outliers of the inputs moved into the weights",
    "llmint8": "input channels above 6 not rounded",
    "hadamard": "inputs and weights transformed in blocks before rounding",
}
"""The methods in a name. One of rtn and gptq may stand beside one of the others.

As published, smoothquant is for layers behind a norm alone, where its factors cost nothing: name them as ``layers``.
"""
ROUNDINGS = ("rtn", "gptq")
DEFAULTS: dict[str, dict[str, Any]] = {
    "awq": {"kind": "asymmetric_awq"},
    "smoothquant": {"kind": "symmetric", "group": None},
    "llmint8": {"kind": "symmetric", "group": None},
}
"""Other defaults of a method, as published."""
WIDE = 16  # bits that count as not rounded


@dataclass(frozen=True)
class FewBits:
    """How weights and inputs of linear layers are rounded.

    Args:
        weight_bits, activation_bits: 16 leaves the numbers as they are.
        rounding: "rtn" or "gptq".
        repair: "", "awq", "smoothquant", "llmint8" or "hadamard".
        group, kind, search: of the :class:`~lplab.quantizers.WeightGrid`.
        per, clip: of the :class:`~lplab.quantizers.LayerInput`.
        damping, by_activation, static_groups: of :func:`~lplab.quantizers.gptq_round`.
        alpha: of :func:`~lplab.quantizers.smoothing_factors`.
        size: of the Hadamard transform.
        awq_clip: whether AWQ also clips the groups of weights, of queries and keys, too.

    >>> FewBits.from_name("w4a16_gptq:group=64").group
    64
    >>> FewBits.from_name("w4a4_hadamard_gptq:per=tensor").name
    'w4a4_hadamard_gptq:per=tensor'
    """

    weight_bits: int
    activation_bits: int
    rounding: str = "rtn"
    repair: str = ""
    group: int | None = 128
    kind: str = "asymmetric"
    search: int = 0
    per: str = "token"
    clip: float = 1.0
    damping: float = 0.01
    by_activation: bool = False
    static_groups: bool = False
    alpha: float = 0.5
    size: int = 64
    awq_clip: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        for name in ("weight_bits", "activation_bits"):
            bits = check_int(name, getattr(self, name), 2, WIDE)
            if name == "weight_bits" and 8 < bits < WIDE:
                raise ValueError(f"weights have 2 to 8 bits, or 16 for none, got {bits}")
        self.grid, self.layer_input()  # they check their numbers
        check_at_least(0, damping=self.damping)
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha must be from 0 to 1, got {self.alpha}")

    @classmethod
    def from_name(cls, text: str) -> FewBits:
        """The rule that a name says: bits, methods and, after a colon, options.

        Raises:
            ValueError: no such name, method or option; the message says what is allowed.
        """
        match = PATTERN.fullmatch(text)
        if match is None:
            raise ValueError(f"a name is like 'w4a16_gptq:group=64', got {text!r}")
        words = [canonical_name(WORDS, word, "method") for word in match[3].split("_")[1:]]
        roundings, repairs = [w for w in words if w in ROUNDINGS], [w for w in words if w not in ROUNDINGS]
        if len(roundings) > 1 or len(repairs) > 1:
            raise ValueError(f"{text!r} has two methods of one kind: name one of {' and '.join(ROUNDINGS)}, one other")
        repair = repairs[0] if repairs else ""
        options: dict[str, Any] = dict(DEFAULTS.get(repair, {}))
        for part in filter(None, (match[4] or "").split(",")):
            key, sign, value = part.partition("=")
            key = canonical_name(_OPTIONS, key.strip(), "option")
            if not sign:
                raise ValueError(f"options are like group=64, got {part!r}")
            options[key] = _parsed(key, value.strip())
        rounding = roundings[0] if roundings else "rtn"
        return cls(int(match[1]), int(match[2]), rounding, repair, name=text, **options)

    @property
    def grid(self) -> WeightGrid:
        """What weights are rounded to; 8 bits stand for weights that are not rounded."""
        return WeightGrid(min(self.weight_bits, 8), self.group, self.kind, self.search)

    @property
    def needs_data(self) -> bool:
        """Whether weights depend on the inputs of their layers."""
        return self.repair in ("awq", "smoothquant") or (self.rounding == "gptq" and self.weight_bits < WIDE)

    def layer_input(self, factors: Any = None) -> LayerInput:
        """How the inputs of a layer are changed and rounded, with these factors."""
        outlier = OUTLIER if self.repair == "llmint8" else None
        hadamard = Hadamard(self.size) if self.repair == "hadamard" else None
        bits = self.activation_bits if self.activation_bits < WIDE else None
        return LayerInput(bits, self.per, self.clip, outlier, factors, hadamard)


def _parsed(key: str, value: str) -> Any:
    """The value of an option in a name."""
    kind = _OPTIONS[key]
    if key == "group" and value in ("row", "none"):
        return None
    if kind is bool:
        if value not in ("True", "False"):
            raise ValueError(f"{key} must be True or False, got {value!r}")
        return value == "True"
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{key} must be {'a whole number' if kind is int else 'a number'}, got {value!r}") from None


_OPTIONS: dict[str, type] = {
    **dict.fromkeys(("group", "search", "size"), int),
    **dict.fromkeys(("clip", "damping", "alpha"), float),
    **dict.fromkeys(("by_activation", "static_groups", "awq_clip"), bool),
    **dict.fromkeys(("kind", "per"), str),
}


def is_few_bits(format: Any) -> bool:
    """Whether a format is a name or a value of this module.

    >>> is_few_bits("w4a16_gptq:group=64"), is_few_bits("int8")
    (True, False)
    """
    return isinstance(format, FewBits) or (isinstance(format, str) and re.match(r"w\d+a\d+", format) is not None)
