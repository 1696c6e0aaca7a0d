"""The kinds of formats that the default tier picks its examples by: every format has one, and a kind is one."""

import pytest

from lplab import formats as F
from lplab.formats.paths.rules import FLOAT_LAYOUTS, grid_rule, rounding_strategy
from lplab.formats.paths.table_rules import lookup_arguments, table_rule
from lplab.formats.rounding_spec import BlockSpec, Grid
from tests.kinds import KINDS


def test_every_format_of_the_catalogue_is_of_exactly_one_kind():
    assert sorted(name for members in KINDS.values() for name in members) == sorted(F.names())


def branches(fmt) -> tuple:
    """What the code asks of a format before it chooses how to round."""
    spec = fmt.rounding_spec
    if isinstance(spec, BlockSpec):
        return type(fmt.element), spec.scale is None, fmt.tensor_scale, spec.element.mantissa_bits > 0
    traits = ("specials", "subnormals", "saturating", "radix")
    shape = (type(fmt), fmt.bits > 8, *(getattr(fmt, trait, None) for trait in traits))
    if isinstance(spec, Grid):
        words = tuple(rounding_strategy(spec, word) for word in FLOAT_LAYOUTS.values())
        rule = grid_rule(spec, F.Rounding(), "float32")
        sort = rule and (rule.word, rule.flags)
        return *shape, words, sort, spec.mantissa_bits > 0, spec.overflow, spec.negative_zero
    rule = table_rule(spec, F.Rounding())
    loop = rule.word if rule is not None else lookup_arguments(spec, F.Rounding()) is not None
    return *shape, loop, spec.helpers, spec.negative_zero, spec.never_zero, spec.only_positive, spec.infinite is None


@pytest.mark.parametrize("kind", [kind for kind, members in KINDS.items() if len(members) > 1])
def test_the_formats_of_a_kind_take_the_same_branches(kind):
    assert len({branches(F.get(name)) for name in KINDS[kind]}) == 1


def test_kinds_differ_in_their_branches():
    assert len({branches(F.get(members[0])) for members in KINDS.values()}) == len(KINDS)
