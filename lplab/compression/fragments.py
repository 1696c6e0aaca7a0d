"""Fragments: parts of a model that learners send in turn, as in Streaming DiLoCo.

Learners that meet once in ``every`` steps would send the whole model at once. With F fragments they send one of them
after each ``every`` / F steps: as many bytes, in messages of one F-th. What is sent may arrive ``delay`` steps later,
while the learners go on.

A fragment has whole *blocks*. The block of a parameter is its name up to the first part that ends with a number, such
as "transformer.h.3"; if no part does, it is the first part, such as "embedding". Strided fragments take the blocks in
turn, as the paper does. Consecutive ones are pieces of the model from its first to its last block.

Sources: Streaming DiLoCo (arXiv 2501.18512, abstract). The rules on ``every``, the fragments and the delay are those of
torchft (torchft/local_sgd.py), where a fragment is prepared ``delay`` steps before its meeting.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lplab.checks import check_int

PATTERNS = ("strided", "consecutive")
MAX_EVERY = 2**20


def block_of(name: str) -> str:
    """The block of a parameter or a layer, by its name.

    >>> [block_of(name) for name in ("transformer.h.3.mlp.weight", "block12.up", "embedding.weight", "0.bias")]
    ['transformer.h.3', 'block12', 'embedding', '0']
    """
    parts = name.split(".")
    numbered = next((place for place, part in enumerate(parts) if part[-1:].isdigit()), 0)
    return ".".join(parts[: numbered + 1])


def fragment_numbers(names: Iterable[str], fragments: int, pattern: str = "strided") -> list[int]:
    """The fragment of each parameter or layer, from 0.

    Args:
        names: in the model's order.
        fragments: how many there are.
        pattern: one of :data:`PATTERNS`.

    Raises:
        ValueError: an unknown pattern, or more fragments than the model has blocks.

    >>> names = ["embedding", "blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.2.up"]
    >>> fragment_numbers(names, 2), fragment_numbers(names, 2, "consecutive")
    ([0, 1, 1, 0, 1], [0, 0, 0, 1, 1])
    """
    if pattern not in PATTERNS:
        raise ValueError(f"the pattern of fragments must be one of {', '.join(PATTERNS)}, got {pattern!r}")
    blocks = [block_of(name) for name in names]
    order = {block: number for number, block in enumerate(dict.fromkeys(blocks))}
    if check_int("fragments", fragments, 1, MAX_EVERY) > max(len(order), 1):
        raise ValueError(f"a model of {len(order)} blocks cannot be cut into {fragments} fragments")
    if pattern == "strided":
        return [order[block] % fragments for block in blocks]
    return [order[block] * fragments // len(order) for block in blocks]


@dataclass(frozen=True)
class MeetingSchedule:
    """When learners meet, and about which fragment.

    Args:
        every: steps from one meeting about a fragment to the next about the same one.
        fragments: how many the model is cut into.
        delay: steps that learners take between what they send and the meeting.

    Raises:
        ValueError: a number out of range; ``every`` is no multiple of ``fragments``; a delay that reaches back to the
            meeting before.

    >>> schedule = MeetingSchedule(every=30, fragments=3, delay=4)
    >>> schedule.steps, [schedule.fragment(number) for number in range(4)]
    (10, [0, 1, 2, 0])
    """

    every: int = 30
    fragments: int = 1
    delay: int = 0

    def __post_init__(self) -> None:
        check_int("every", self.every, 1, MAX_EVERY)
        check_int("fragments", self.fragments, 1, MAX_EVERY)
        if self.every % self.fragments:
            raise ValueError(
                f"every must be a multiple of the number of fragments, which meet in turn: got {self.every} steps and "
                f"{self.fragments} fragments"
            )
        if check_int("delay", self.delay, 0, MAX_EVERY) >= self.steps:
            raise ValueError(
                f"delay must be less than every / fragments = {self.steps} steps, since a fragment arrives before the "
                f"next one is sent: got {self.delay}"
            )

    @property
    def steps(self) -> int:
        """From one meeting to the next, about whichever fragment."""
        return self.every // self.fragments

    def fragment(self, number: int) -> int:
        """The fragment of a meeting; meetings count from 0."""
        return number % self.fragments
