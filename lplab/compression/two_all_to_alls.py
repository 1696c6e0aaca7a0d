"""A reduce-scatter that rounds twice: ZeRO++'s two all-to-alls, beside a ring that rounds at each hop.

Each of N learners has a gradient, and is to own the sum of one part. In a ring, partial sums go from learner to
learner. With few bits on the wire they are rounded at each of N − 1 hops, and the partial sums grow, so that the steps
of their grid do, too. ZeRO++ (Wang et al. 2023) has two stages:

1. inside a node, each learner sends its codes of each part to the one that will add it up for this node, by an
   all-to-all; the receiver decodes them and adds them in float32;
2. between the nodes, the learners with the same place in their nodes exchange the rounded sums of their nodes, and
   the owner adds them in float32.

A value is rounded twice, however many learners there are. Each learner sends (N − M) parts inside its node and M − 1
between the N / G = M nodes of G; the ring sends N − 1. A stage of one learner is left out.

Sums are taken in the order of ranks. Learner r is the (r mod G)-th of node r // G. The part of each learner is that of
``sharded_weights.shard_sizes``. :class:`lplab.parallel.fsdp.CodedReduceScatter` does the same between processes, with
the same bits, as a reduce-scatter of FSDP.

Source: arXiv 2306.10209 and DeepSpeed's code, where 1-d tensors, and sizes that two times the learners do not divide,
silently go in full precision. Here parts may have any sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lplab.checks import check_int
from lplab.compression.block_codes import Code, split
from lplab.compression.sharded_weights import shard_sizes


@dataclass(frozen=True)
class Reduced:
    """What came of a reduce-scatter.

    Attributes:
        parts: the sums, float32, that of each learner.
        inside_bytes: that each learner sent inside its node, its own parts left out; of a ring: all.
        between_bytes: that each learner sent between nodes.
    """

    parts: tuple[np.ndarray, ...]
    inside_bytes: tuple[int, ...]
    between_bytes: tuple[int, ...]

    @property
    def sum(self) -> np.ndarray:
        """The sum of all gradients, put together: float32 [n]."""
        return np.concatenate(self.parts)


@dataclass(frozen=True)
class Stages:
    """The messages of one learner, without a network.

    Args:
        learners: N.
        per_node: learners in a node, G; it divides N.
        code: of the messages.
        sizes: of the learners' parts.

    Raises:
        ValueError: learners that do not fill their nodes.
    """

    learners: int
    per_node: int
    code: Code
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        check_int("learners", self.learners, 1, 2**16)
        check_int("per_node", self.per_node, 1, 2**16)
        if self.learners % self.per_node:
            raise ValueError(
                f"{self.learners} learners do not fill nodes of {self.per_node}: per_node must divide their number"
            )

    @property
    def nodes(self) -> int:
        """How many nodes, M."""
        return self.learners // self.per_node

    def owners(self, place: int) -> range:
        """The learners at a place of their nodes, in the order of nodes."""
        return range(place, self.learners, self.per_node)

    def first(self, gradient: np.ndarray) -> list[bytes]:
        """What a learner sends inside its node: for each place, its codes of the parts of that place's owners."""
        parts = np.split(gradient, np.cumsum(self.sizes)[:-1])
        return [b"".join(self.code.encode(parts[owner]) for owner in self.owners(p)) for p in range(self.per_node)]

    def node_sums(self, place: int, received: Sequence[bytes]) -> list[np.ndarray]:
        """The sums of one node for the owners at a place, from the messages of the node's learners in their order."""
        sizes = [self.sizes[owner] for owner in self.owners(place)]
        sums = [np.zeros(size, np.float32) for size in sizes]
        for message in received:
            for total, part in zip(sums, split(message, [self.code.nbytes(size) for size in sizes]), strict=True):
                total += self.code.decode(part, len(total))
        return sums

    def second(self, sums: Sequence[np.ndarray]) -> list[bytes]:
        """What a learner sends between nodes: its codes of the sums of its node, one for each owner."""
        return [self.code.encode(total) for total in sums]

    def total(self, rank: int, received: Sequence[bytes]) -> np.ndarray:
        """The sum over all nodes of a learner's part, from the messages of all nodes in their order."""
        total = np.zeros(self.sizes[rank], np.float32)
        for message in received:
            total += self.code.decode(message, len(total))
        return total


@np.errstate(over="ignore", invalid="ignore")
def two_all_to_alls(gradients: Sequence[np.ndarray], code: Code, per_node: int) -> Reduced:
    """Reduce and scatter gradients by two all-to-alls, all learners in this process.

    Args:
        gradients: of the learners, float32 [n] each.
        code: of the messages.
        per_node: learners in a node.

    Returns:
        The sums and the bytes. What is not finite, or overflows, is not finite in its part.

    Raises:
        ValueError: no learners, gradients of different sizes, learners that do not fill their nodes.

    >>> from lplab.compression.block_codes import BlockCode
    >>> gradients = [np.full(8, value, np.float32) for value in (1, 2, 3, 4)]
    >>> found = two_all_to_alls(gradients, BlockCode("int4", 2), per_node=2)
    >>> found.sum.tolist()[:2], found.inside_bytes, found.between_bytes
    ([10.0, 10.0], (10, 10, 10, 10), (5, 5, 5, 5))
    """
    ranks = range(checked_learners(gradients))
    stages = Stages(len(gradients), per_node, code, tuple(shard_sizes(len(gradients[0]), len(gradients))))
    g, inside, between = per_node, [0] * len(ranks), [0] * len(ranks)
    if g > 1:
        sent = [stages.first(gradient) for gradient in gradients]
        inside = [sum(map(len, messages)) - len(messages[rank % g]) for rank, messages in zip(ranks, sent, strict=True)]
        neighbours = [range(rank - rank % g, rank - rank % g + g) for rank in ranks]
        sums = [stages.node_sums(rank % g, [sent[other][rank % g] for other in neighbours[rank]]) for rank in ranks]
    else:
        sums = [np.split(gradient, np.cumsum(stages.sizes)[:-1]) for gradient in gradients]
    if stages.nodes == 1:
        return Reduced(tuple(own for [own] in sums), tuple(inside), tuple(between))
    sent = [stages.second(of_rank) for of_rank in sums]
    between = [sum(map(len, messages)) - len(messages[rank // g]) for rank, messages in zip(ranks, sent, strict=True)]
    totals = (stages.total(rank, [sent[other][rank // g] for other in stages.owners(rank % g)]) for rank in ranks)
    return Reduced(tuple(totals), tuple(inside), tuple(between))


@np.errstate(over="ignore", invalid="ignore")
def ring_reduce_scatter(gradients: Sequence[np.ndarray], code: Code) -> Reduced:
    """Reduce and scatter gradients around a ring whose messages are rounded at each hop, all learners in this process.

    The part of learner r begins at learner r + 1, and each adds its own values in float32 to what it decodes.

    Args, returns, raises: as for :func:`two_all_to_alls`.

    >>> from lplab.compression.block_codes import BlockCode
    >>> gradients = [np.full(8, value, np.float32) for value in (1, 2, 3, 4)]
    >>> found = ring_reduce_scatter(gradients, BlockCode("int4", 2))
    >>> found.sum.tolist()[:2], found.inside_bytes
    ([10.0, 10.0], (15, 15, 15, 15))
    """
    world = checked_learners(gradients)
    sizes = shard_sizes(len(gradients[0]), world)
    parts = [np.split(gradient, np.cumsum(sizes)[:-1]) for gradient in gradients]
    sent, sums = [0] * world, []
    for owner in range(world):
        partial = parts[(owner + 1) % world][owner]
        for hop in range(1, world):
            sender, receiver = (owner + hop) % world, (owner + hop + 1) % world
            message = code.encode(partial)
            sent[sender] += len(message)
            partial = code.decode(message, len(partial)) + parts[receiver][owner]
        sums.append(partial.astype(np.float32))
    return Reduced(tuple(sums), tuple(sent), (0,) * world)


def checked_learners(gradients: Sequence[np.ndarray]) -> int:
    """How many learners there are; ValueError unless their gradients are float32 of one length."""
    if not len(gradients):
        raise ValueError("there are no gradients to reduce")
    for gradient in gradients:
        if gradient.dtype != np.float32 or gradient.shape != (len(gradients[0]),):
            raise ValueError(
                f"gradients must be float32 of one length, {len(gradients[0])}, got {gradient.dtype} {gradient.shape}"
            )
    return len(gradients)
