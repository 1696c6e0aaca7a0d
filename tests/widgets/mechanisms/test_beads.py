"""Lab 03: the walks of both weights are those of the formats, each addition rounded once."""

import numpy as np
import pytest

from lplab.widgets.mechanisms import beads


@pytest.mark.parametrize("name", beads.FORMATS)
def test_ticks_are_all_numbers_of_the_format_on_the_ruler(name):
    numbers = np.unique(beads.FORMATS[name].codebook())
    assert beads.ticks(beads.FORMATS[name]) == numbers[(numbers >= 1) & (numbers <= beads.END)].tolist()


@pytest.mark.parametrize(("name", "dtype"), [("float16", np.float16), ("bfloat16", "bfloat16")])
@pytest.mark.parametrize("units", [2, 6, 9, 10, 13, 24])
def test_a_walk_is_that_of_numpy(name, dtype, units):
    dtype = np.dtype(dtype) if dtype == np.float16 else pytest.importorskip("ml_dtypes").bfloat16
    update = np.float32(units * beads.UNIT)
    master, alone = np.float32(1), dtype(1) if name == "bfloat16" else np.float16(1)
    for found in beads.walk(beads.FORMATS[name], units * beads.UNIT):
        assert found == [float(master), float(np.asarray(master).astype(dtype)), float(alone)]
        master = master + update
        alone = np.asarray(np.float32(alone) + update).astype(dtype)[()]


def test_a_small_update_moves_only_the_master_copy_and_a_large_one_moves_both():
    small, large = (beads.walk(beads.FORMATS["float16"], units * beads.UNIT) for units in (9, 10))  # half is 0.000488
    assert {alone for *_, alone in small} == {1.0} and small[-1][0] > 1.007
    assert large[1][2] == large[1][1] == 1 + 2**-10
