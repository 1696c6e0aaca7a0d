"""Lab 16: its tables say what the text says, and its live run trains the arms of the claims."""

import numpy as np
import pytest

from lplab.labs import lab16
from lplab.recordings.recorded_meetings import ALONE, SYNCHRONOUS, meeting_runs


def test_a_slower_link_waits_longer():
    table = lab16.links_table().columns
    assert table["a step"] == sorted(table["a step"]) and table["computing"] == sorted(table["computing"])[::-1]
    np.testing.assert_allclose(
        np.array(table["waiting"]) / table["a step"], 1 - np.array(table["computing"]), atol=1e-9
    )


def test_gains_go_from_alone_to_each_step():
    runs = meeting_runs()
    assert lab16.gained(runs[ALONE].loss) == 0 and lab16.gained(runs[SYNCHRONOUS].loss) == 1


def test_positions_are_six_of_seven_bits():
    parts = lab16.message_parts().columns
    assert parts["share"][0] == pytest.approx(6 / 7) and parts["bits"][2] == sum(parts["bits"][:2])
    # log2 of a binomial coefficient, as a sum of logarithms.
    least = sum(np.log2((4096 - place) / (64 - place)) for place in range(64))
    assert parts["bits"][3] == round(least)


def test_fragments_shorten_the_largest_message_alone():
    rows = lab16.methods_table().columns
    place = rows["method"].index("Streaming DiLoCo")
    other = rows["method"].index("DiLoCo")
    assert (
        rows["largest meeting"][place] / rows["sent a step"][place]
        < rows["largest meeting"][other] / rows["sent a step"][other]
    )


def test_the_facts_of_the_text():
    facts = dict(zip(*lab16.facts().columns.values(), strict=True))
    assert facts["the first outer step"].endswith("1.33 times the mean")
    assert facts["a message of SparseLoCo is shorter"].startswith("146.3 times") and "73.1" in str(facts)
