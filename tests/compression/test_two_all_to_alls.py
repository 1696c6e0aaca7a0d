"""ZeRO++'s reduce-scatter against loops written anew, its bytes, and a ring that rounds at each hop."""

import numpy as np
import pytest

from lplab.compression.block_codes import BlockCode, PiecesCode
from lplab.compression.low_bit import FORMATS
from lplab.compression.sharded_weights import shard_sizes
from lplab.compression.two_all_to_alls import Stages, ring_reduce_scatter, two_all_to_alls

FULL = BlockCode("fp32", None)


def gradients(learners, size=600, seed=0):
    rng = np.random.default_rng(seed)
    return list(rng.standard_normal((learners, size)).astype(np.float32))


def rounded(x, block, largest=7):
    """Integers with one scale for each block, number by number."""
    found = np.empty(len(x), np.float32)
    for start in range(0, len(x), block):
        part = x[start : start + block]
        scale = np.float32(max(map(abs, part)) / np.float32(largest))
        for place, value in enumerate(part):
            found[start + place] = np.float32(round(float(value / scale))) * scale if scale else 0
    return found


@pytest.mark.parametrize(("learners", "per_node"), [(1, 1), (3, 1), (4, 2), (4, 4), (6, 3), (6, 2)])
def test_two_roundings_are_those_of_a_loop(learners, per_node):
    given, code = gradients(learners, 97), BlockCode("int4", 16)
    found = two_all_to_alls(given, code, per_node)
    cuts = np.cumsum(shard_sizes(97, learners))[:-1]
    for owner, part in enumerate(found.parts):
        total = np.zeros(len(part), np.float32)
        for node in range(learners // per_node):
            inside = np.zeros(len(part), np.float32)
            for rank in range(node * per_node, (node + 1) * per_node):
                own = np.split(given[rank], cuts)[owner]
                inside += rounded(own, 16) if per_node > 1 else own
            total += rounded(inside, 16) if learners > per_node else inside
        np.testing.assert_array_equal(part, total)


def test_a_ring_rounds_the_partial_sums_at_each_hop():
    given = gradients(4, 8)
    found = ring_reduce_scatter(given, BlockCode("int4", 2))
    for owner in range(4):
        part = slice(2 * owner, 2 * owner + 2)
        order = [(owner + 1 + hop) % 4 for hop in range(4)]
        total = given[order[0]][part]
        for rank in order[1:]:
            total = rounded(total, 2) + given[rank][part]
        np.testing.assert_array_equal(found.parts[owner], total)


@pytest.mark.parametrize("per_node", [1, 2, 8])
def test_without_rounding_both_are_the_sum(per_node):
    given = [np.rint(16 * gradient) / 16 for gradient in gradients(8)]  # exact in any order
    for found in (two_all_to_alls(given, FULL, per_node), ring_reduce_scatter(given, FULL)):
        np.testing.assert_array_equal(found.sum, np.sum(given, axis=0, dtype=np.float32))


def test_two_roundings_stay_where_a_ring_gets_worse():
    """With 4 bits: the ring's error grows with the learners, as its partial sums do; two roundings stay at two."""

    def error(found, given):
        exact = np.sum(given, axis=0, dtype=np.float64)
        return np.linalg.norm(found.sum - exact) / np.linalg.norm(exact)

    code, twice, ring = BlockCode("int4", 64), [], []
    for learners, per_node in ((4, 2), (12, 4), (36, 6)):
        given = gradients(learners, learners * 64)
        twice.append(error(two_all_to_alls(given, code, per_node), given))
        ring.append(error(ring_reduce_scatter(given, code), given))
    assert max(twice) < 1.2 * min(twice)
    assert ring[0] < twice[0], "three roundings of small partial sums are less than two of a node's"
    assert ring[2] > 1.5 * ring[1] > 2.25 * ring[0] and ring[2] > 3 * twice[2]


def test_bytes_are_those_of_the_messages_and_of_the_ring_together():
    given, code = gradients(8, 8 * 100), BlockCode("int4", 32)
    found, ring = two_all_to_alls(given, code, 4), ring_reduce_scatter(given, code)
    part = code.nbytes(100)
    assert part == len(code.encode(given[0][:100])) == 4 * 4 + 50
    assert set(found.inside_bytes) == {6 * part} and set(found.between_bytes) == {part}
    assert set(ring.inside_bytes) == {7 * part}
    dense = 4 * 100 * 7
    assert dense / (7 * part) > 6  # ZeRO++ says 4 times less than 16 bits for all three of its parts


@pytest.mark.parametrize("name", FORMATS)
def test_codes_of_every_format_decode_to_neighbours(name):
    x = gradients(1, 333)[0]
    code, fmt = BlockCode(name, 100), FORMATS[name]
    found = code.decode(code.encode(x), len(x))
    for start in range(0, 333, 100):
        block, got = x[start : start + 100], found[start : start + 100]
        scale = np.abs(block).max() / np.float32(fmt.max)
        grid = np.asarray(fmt.decode(np.arange(2**fmt.bits, dtype=np.uint8)), np.float32)
        grid = np.sort(grid[np.isfinite(grid)]) * scale
        nearest = np.abs(block[:, None] - grid).min(axis=1)
        np.testing.assert_allclose(np.abs(block - got), nearest, atol=1e-6)
    assert code.decode(code.encode(np.zeros(5, np.float32)), 5).tolist() == [0] * 5
    assert code.decode(code.encode(np.zeros(0, np.float32)), 0).tolist() == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spoils_its_block_and_is_seen(bad):
    x = np.ones(12, np.float32)
    x[5] = bad
    code = BlockCode("int4", 4)
    assert np.isnan(code.decode(code.encode(x), 12)).tolist() == [False] * 4 + [True] * 4 + [False] * 4
    assert np.isnan(two_all_to_alls([x] * 4, code, 2).sum).any()
    tiny = np.full(4, 1e-45, np.float32)
    assert np.isfinite(code.decode(code.encode(tiny), 4)).all()
    huge = np.full(4, 3e38, np.float32)
    np.testing.assert_allclose(code.decode(code.encode(huge), 4), 3e38)


@pytest.mark.parametrize(("ask", "message"), [
    (lambda: BlockCode("int5"), "unknown format 'int5' of blocks; allowed: e3m0"),
    (lambda: BlockCode("int4", 0), "block must be an integer from 1"),
    (lambda: BlockCode("int4", None), "format: only codes of 8, 16 or 32 bits can be sent, 'int4' has 4"),
    (lambda: two_all_to_alls([], FULL, 1), "no gradients"),
    (lambda: two_all_to_alls(gradients(4), FULL, 3), "4 learners do not fill nodes of 3"),
    (lambda: two_all_to_alls(gradients(4), FULL, 8), "4 learners do not fill nodes of 8"),
    (lambda: two_all_to_alls([np.zeros(3, np.float32), np.zeros(4, np.float32)], FULL, 1), "float32 of one length, 3"),
    (lambda: ring_reduce_scatter([np.zeros(3)], FULL), "must be float32 of one length, 3, got float64"),
    (lambda: BlockCode().decode(b"12", 9), "a message about 9 numbers has 9 bytes, got 2"),
    (lambda: PiecesCode(((2, FULL),)).decode(b"12", 2), "a message of these pieces has 8 bytes, got 2"),
    (lambda: Stages(0, 1, FULL, ()), "learners must be an integer from 1"),
])  # fmt: skip
def test_bad_input_is_told_in_one_line(ask, message):
    with pytest.raises(ValueError, match=message) as problem:
        ask()
    assert "\n" not in str(problem.value)
