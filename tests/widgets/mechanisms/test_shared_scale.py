"""Lab 13: scales and rounded numbers are those of the rules, written out here."""

import numpy as np
import pytest

from lplab import formats as F
from lplab.widgets.mechanisms import shared_scale


def by_hand(x, rule):
    """The scale of a block, and its numbers in E2M1, from the definition of the rules."""
    largest = max(x)
    exponent = np.floor(np.log2(largest)) - 2 if rule == "floor" else np.ceil(np.log2(largest / 6))
    scale = 2.0**exponent
    return scale, (F.get("e2m1").quantize(np.array(x) / scale) * scale).tolist()


@pytest.mark.parametrize("rule", shared_scale.RULES.values())
@pytest.mark.parametrize("cut", range(8))
def test_blocks_are_those_of_the_rule(rule, cut):
    for place, found in enumerate(shared_scale.blocks(cut, rule), 1):
        x = list(shared_scale.SIZES)
        x[shared_scale.OUTLIER] = shared_scale.STEP * place
        parts = [by_hand(part, rule) for part in ([x[:cut], x[cut:]] if cut else [x])]
        assert found == {"scales": [s for s, _ in parts], "rounded": [value for _, part in parts for value in part]}


def test_a_scale_that_is_rounded_up_clips_nothing():
    data = shared_scale.data()
    for found in data["blocks"]["up"][0]:
        assert max(found["rounded"]) <= 6 * found["scales"][0] and 6 * found["scales"][0] >= max(data["sizes"][:5])
