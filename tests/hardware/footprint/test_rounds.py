"""Federated rounds: bytes by format and compressor, joules of a client, the slowest client."""

import pytest

from lplab.compression import AdaComp, Dense, TopK
from lplab.hardware import footprint
from lplab.hardware.footprint import federated_rounds

RESNET18 = 11.69e6  # parameters
TABLE = [  # section 8 of the dossier: bits, share, index bits, megabytes
    (32, 1, 0, 46.8),
    (16, 1, 0, 23.4),
    (8, 1, 0, 11.7),
    (4, 1, 0, 5.8),
    (8, 0.01, 16, 0.35),
    (32, 1 / 112, 9, 0.53),
]


@pytest.mark.parametrize(("bits", "share", "index", "megabytes"), TABLE)
def test_messages(bits, share, index, megabytes):
    sent = footprint.message_bytes(RESNET18, bits, share, index) / 1e6
    assert sent == pytest.approx(megabytes, abs=0.051 if megabytes > 1 else 0.0051)


def test_compressors_count_their_own_bytes():
    shapes = [(64, 64, 3, 3), (64,)]
    numbers = 64 * 64 * 9 + 64
    assert footprint.compressed_bytes(Dense(), shapes) == 4 * numbers
    assert footprint.compressed_bytes(TopK(0.01), shapes) < 0.03 * 4 * numbers
    assert footprint.compressed_bytes(Dense(), [(0,), *shapes]) == 4 * numbers  # an empty tensor sends nothing
    with pytest.raises((ValueError, TypeError)):  # what AdaComp sends depends on the gradients: its plan must be told
        footprint.compressed_bytes(AdaComp(), shapes)


def test_a_round_adds_up():
    once = footprint.federated(operations=3e11, down_bytes=1.625e6, up_bytes=0.75e6, device="phone", radio="lte")
    assert once.compute_seconds == pytest.approx(3) and once.compute_joules == pytest.approx(9)
    assert (once.down_seconds, once.up_seconds) == pytest.approx((1, 1))
    assert once.joules == pytest.approx(9 + 1.96 + 3.92)
    assert once.seconds == pytest.approx(5)


def test_bad_rounds():
    for bad, words in (
        ({"operations": -1}, "operations"),
        ({"device": "toaster"}, "there is no device 'toaster'"),
        ({"radio": "smoke"}, "there is no radio 'smoke'"),
    ):
        with pytest.raises(ValueError, match=words):
            footprint.federated(**{"operations": 1, "down_bytes": 1, "up_bytes": 1} | bad)
    with pytest.raises(ValueError, match="share must be from 0 to 1"):
        footprint.message_bytes(10, share=2)
    with pytest.raises(ValueError, match="up_bytes_per_second must be more than 0"):
        federated_rounds.Radio("x", "x", 1, 0, 1, 1)
