"""The kinds of formats that the default tier picks its examples by: every format has one, and a kind is one."""

import pytest

from lplab import formats as F
from lplab.formats import arrays, lookups, nearest
from lplab.formats.blocks import BlockPlan
from lplab.formats.plan import Grid
from tests.kinds import KINDS


def test_every_format_of_the_catalogue_is_of_exactly_one_kind():
    assert sorted(name for members in KINDS.values() for name in members) == sorted(F.names())


def branches(fmt) -> tuple:
    """What the code asks of a format before it chooses how to round."""
    plan = fmt.plan
    if isinstance(plan, BlockPlan):
        return type(fmt.element), plan.scale is None, fmt.tensor_scale, plan.element.mantissa_bits > 0
    traits = ("specials", "subnormals", "saturating", "radix")
    shape = (type(fmt), fmt.bits > 8, *(getattr(fmt, trait, None) for trait in traits))
    if isinstance(plan, Grid):
        words = tuple(arrays.kind_of(plan, word) for word in arrays.WORDS.values())
        sort = nearest.sort_of(plan, F.Rounding())
        return *shape, words, sort, plan.mantissa_bits > 0, plan.overflow, plan.negative_zero
    loop = lookups.powers_of(plan, F.Rounding()) is not None, lookups.table_loop(plan, F.Rounding()) is not None
    return *shape, loop, plan.helpers, plan.negative_zero, plan.never_zero, plan.only_positive, plan.infinite is None


@pytest.mark.parametrize("kind", [kind for kind, members in KINDS.items() if len(members) > 1])
def test_the_formats_of_a_kind_take_the_same_branches(kind):
    assert len({branches(F.get(name)) for name in KINDS[kind]}) == 1


def test_kinds_differ_in_their_branches():
    assert len({branches(F.get(members[0])) for members in KINDS.values()}) == len(KINDS)
