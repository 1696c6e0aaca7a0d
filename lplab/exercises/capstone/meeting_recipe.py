"""A way to meet as data, such as JSON has it: how learners that take steps of their own agree on shared weights.

::

    {"every": 24, "rate": 1.0, "momentum": 0.0, "compressor": {"name": "sparseloco", "k": 64, "bits": 2}}

What it may say is in :data:`MEETING_KEYS`. How many learners there are, how many steps they take, with how much data
and which inner optimizer, is the same for all, and no key changes it. Data that came from somebody else cannot harm:
names are looked up in fixed tables, and every number has limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from lplab.checks import check_int, check_number
from lplab.claims.framework.local_trainings import STEPS, Arm
from lplab.compression import (
    AdaComp,
    Compressor,
    DeMo,
    Dense,
    LowBit,
    ScaleCom,
    SparseLoCo,
)
from lplab.compression.fragments import PATTERNS, MeetingSchedule
from lplab.lookup import closest_names
from lplab.training.recipe.recipe_data import MAX_NAME, check_keys, errors_at, shown

BLOCKS = 6  # of the Transformer that is trained
MEETING_KEYS = {
    "name": "for tables and figures",
    "every": f"steps between two meetings about the same weights: a divisor of {STEPS}",
    "rate": "of the outer optimizer: above 0, at most 2",
    "momentum": "of the outer optimizer: 0 to 0.95",
    "nesterov": "true or false: whether the momentum is Nesterov's, which steps further at once",
    "compressor": "what a message says: a name of this table, or a dictionary of name and settings",
    "fragments": f"how many parts of the model meet in turn: 1 to {BLOCKS}; every must be a multiple of it",
    "delay": "steps that a learner goes on between what it sends and the meeting: less than every / fragments",
    "alpha": "the share of its own weights that a learner keeps in a meeting: 0 to 1",
    "pattern": f"which blocks form a fragment: {' or '.join(PATTERNS)}",
}
_WIRE = "what each value is sent in: fp32, fp16 or bf16"
_SMALL = "how biases and tensors below 1,024 elements are sent: dense or compressed"
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "dense": {"wire": _WIRE},
    "lowbit": {"format": "of all values: e3m0, e2m1 or int4 in 4 bits; e4m3fn, e5m2 or int8 in 8"},
    "sparseloco": {
        "chunk": "numbers of a chunk: a square, such as 256, 1024 or 4096. A place in it takes log2 of chunk bits",
        "k": "how many numbers of each chunk are sent: 1 to chunk",
        "bits": "of each value that is sent: 1 to 8",
        "decay": "of the residual at each meeting: 1 keeps all, 0 forgets it",
        "mean": "senders: each number is averaged over the learners that sent it; learners: over all",
    },
    "demo": {
        "chunk": "numbers of a block, which a cosine transform mixes: a square",
        "k": "how many coefficients of each block are sent: 1 to chunk",
        "decay": "of the momentum at each meeting, which keeps what is not sent: 0 to below 1",
        "wire": _WIRE,
    },
    "scalecom": {
        "chunk": "numbers of a chunk: 1 to 65536; null: 25, 50 or 400 by the layer",
        "beta": "how much of what is not sent the residual takes up: above 0, to 1, which loses nothing",
        "m": "how many numbers of each chunk are sent: 1 to chunk. One learner says which, for all",
        "wire": _WIRE,
        "small": _SMALL,
    },
    "adacomp": {
        "bin": "numbers of a bin: 1 to 16383; null: 50 in convolutions, 500 elsewhere",
        "scale_factor": "from 1: the larger, the more numbers of a bin are sent",
        "sign_of": "whose sign is sent. G: residual and new part together; H: with the new part once more",
        "scale_over": "whose largest numbers are averaged for the value that is sent: all bins, or nonzero ones",
        "always_one": "true or false: whether each bin sends its largest number anyway",
        "zero_bins": "what a bin of zeros sends: nothing or all",
        "small": _SMALL,
    },
}
"""What the settings of each compressor are, and what they may be."""
COMPRESSORS: Mapping[str, type[Compressor]] = {
    "dense": Dense,
    "lowbit": LowBit,
    "sparseloco": SparseLoCo,
    "demo": DeMo,
    "scalecom": ScaleCom,
    "adacomp": AdaComp,
}
MOST_RATE, MOST_MOMENTUM = 2.0, 0.95
FIXED = {
    **dict.fromkeys(("learning_rate", "lr"), "the learning rate of a learner's own steps"),
    **dict.fromkeys(("inner", "inner_optimizer", "optimizer"), "the optimizer of a learner's own steps"),
    **dict.fromkeys(("batch", "batch_size"), "how many sequences a learner has in a step"),
    **dict.fromkeys(("seed", "seeds"), "the seed"),
    "schedule": "the schedule of the learning rate",
    "clip": "how gradients are clipped",
    "steps": "the number of steps",
    "learners": "the number of learners",
    "model": "the model",
}
"""Keys that students look for, and what they would change: it is the same for all recipes."""


@dataclass(frozen=True)
class MeetingRecipe:
    """A way to meet; attributes as in :data:`MEETING_KEYS`.

    Raises:
        ValueError: whatever is wrong, in one line.

    >>> MeetingRecipe(every=7)
    Traceback (most recent call last):
    ...
    ValueError: every must divide the 240 steps, or some of them would lead to no meeting: got 7; closest: 6, 8
    """

    name: str = ""
    every: int = 30
    rate: float = 1.0
    momentum: float = 0.0
    nesterov: bool = True
    compressor: Compressor = field(default_factory=Dense)
    fragments: int = 1
    delay: int = 0
    alpha: float = 0.0
    pattern: str = PATTERNS[0]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or len(self.name) > MAX_NAME:
            raise ValueError(f"name must be a text of at most {MAX_NAME} characters, got {shown(self.name)}")
        if STEPS % check_int("every", self.every, 1, STEPS):
            divisors = [number for number in range(1, STEPS + 1) if STEPS % number == 0]
            below, above = max(n for n in divisors if n < self.every), min(n for n in divisors if n > self.every)
            raise ValueError(
                f"every must divide the {STEPS} steps, or some of them would lead to no meeting: got {self.every}; "
                f"closest: {below}, {above}"
            )
        for key, low, high in (("rate", 0.0, MOST_RATE), ("momentum", 0.0, MOST_MOMENTUM), ("alpha", 0.0, 1.0)):
            value = check_number(key, getattr(self, key))
            if not low <= value <= high or (key == "rate" and not value):
                limits = "above 0 and at most" if key == "rate" else f"from {low:g} to"
                raise ValueError(f"{key} must be {limits} {high:g}, got {value:g}")
        if not isinstance(self.nesterov, bool):
            raise ValueError(f"nesterov must be true or false, got {shown(self.nesterov)}")
        if self.pattern not in PATTERNS:
            raise ValueError(f"pattern must be {' or '.join(PATTERNS)}, got {shown(self.pattern)}")
        if check_int("fragments", self.fragments, 1, STEPS) > BLOCKS:
            raise ValueError(f"fragments must be at most {BLOCKS}, the blocks of the model, got {self.fragments}")
        MeetingSchedule(self.every, self.fragments, self.delay)

    def arm(self) -> Arm:
        """The training that this recipe describes."""

        def outer(parameters: Any) -> Any:
            import torch

            return torch.optim.SGD(
                parameters, lr=self.rate, momentum=self.momentum, nesterov=self.nesterov and self.momentum > 0
            )

        return Arm(
            every=self.every,
            outer=outer,
            compressor=self.compressor,
            fragments=self.fragments,
            delay=self.delay,
            pattern=self.pattern,
            alpha=self.alpha,
        )

    def what_it_does(self) -> MeetingRecipe:
        """The recipe without its name, and without settings that change nothing.

        >>> MeetingRecipe("mine", nesterov=False, pattern="consecutive").what_it_does() == MeetingRecipe()
        True
        """
        kept = replace(self, name="")
        if not self.momentum:
            kept = replace(kept, nesterov=True)
        return replace(kept, pattern=PATTERNS[0]) if self.fragments == 1 else kept


def recipe_from_data(data: Any) -> MeetingRecipe:
    """The way to meet that data describe.

    Args:
        data: a dictionary with keys among :data:`MEETING_KEYS`.

    Raises:
        ValueError: whatever is wrong, in one line that begins with where it is.

    >>> recipe_from_data({"every": 15, "compressor": {"name": "sparseloco", "k": 32}}).compressor.k
    32
    >>> recipe_from_data({"compressor": "sparsloco"})
    Traceback (most recent call last):
    ...
    ValueError: compressor: unknown compressor 'sparsloco'; closest: sparseloco, scalecom
    """
    for key in data if isinstance(data, dict) else ():
        if key in FIXED:
            raise ValueError(f"the recipe: unknown key '{key}'; no key changes {FIXED[key]}: all recipes have the same")
    check_keys("the recipe", data, tuple(MEETING_KEYS))
    given = {key: value for key, value in data.items() if value is not None}
    if "compressor" in given:
        given["compressor"] = _compressor(given["compressor"])
    with errors_at(""):
        return MeetingRecipe(**given)


def data_from_recipe(recipe: MeetingRecipe) -> dict[str, Any]:
    """The data of a way to meet, without what is as by default; :func:`recipe_from_data` makes the same of them.

    >>> data_from_recipe(MeetingRecipe(every=15, compressor=SparseLoCo(k=32)))
    {'every': 15, 'rate': 1.0, 'momentum': 0.0, 'compressor': {'name': 'sparseloco', 'chunk': 4096, 'k': 32, ...}}
    """
    kinds = {kind: name for name, kind in COMPRESSORS.items()}
    compressor = {"name": kinds[type(recipe.compressor)], **asdict(recipe.compressor)}  # type: ignore[call-overload]  # all of them are dataclasses
    always = {"every": recipe.every, "rate": recipe.rate, "momentum": recipe.momentum, "compressor": compressor}
    rest = {
        each.name: value
        for each in fields(recipe)
        if each.name not in always and (value := getattr(recipe, each.name)) != each.default
    }
    return {key: value for key, value in (always | rest).items() if key != "name"}


def _compressor(data: Any) -> Compressor:
    with errors_at("compressor"):
        given = {"name": data} if isinstance(data, str) else data
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(name, str) or name not in COMPRESSORS:
            close = closest_names(name, COMPRESSORS) if isinstance(name, str) else []
            hint = f"closest: {', '.join(close)}" if close else f"allowed: {', '.join(COMPRESSORS)}"
            raise ValueError(f"unknown compressor {shown(name if isinstance(given, dict) else data)}; {hint}")
        kind = COMPRESSORS[name]
        check_keys("", given, ("name", *(each.name for each in fields(kind))))  # type: ignore[arg-type]
        return kind(**{key: value for key, value in given.items() if key != "name"})
