"""The ring of lab 08: a schedule that the exercise's own rules accept, and the bytes of the cost model."""

import numpy as np
import pytest

from lplab.exercises.lab08.ring import contributions, ring_messages
from lplab.hardware import network
from lplab.widgets.mechanisms import ring


@pytest.mark.parametrize("devices", ring.DEVICES)
def test_it_holds_what_the_messages_of_the_exercise_bring(devices):
    found = ring.ring(devices)
    assert np.array_equal(found["held"], contributions(ring_messages(devices), devices))
    assert np.all(np.array(found["held"][-1]) == devices)


@pytest.mark.parametrize("devices", ring.DEVICES)
def test_what_a_device_sends_is_what_the_network_model_counts(devices):
    sent = ring.ring(devices)["sent"]
    assert sent[0] == 0 and sent[-1] == network.sent_bytes("ring", devices, 1.0) < 2
    assert np.allclose(np.diff(sent), 1 / devices)  # one part in each step
