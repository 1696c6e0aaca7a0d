"""Wang's chunks, update, FP8 and training: judged by stored and by made-up numbers; points can be measured."""

import numpy as np
import pytest

from lplab import arithmetic, claims
from lplab.claims.framework.branches import BranchPlan
from lplab.claims.papers import wang_2018_chunks, wang_2018_fp8, wang_2018_training, wang_2018_update
from lplab.claims.papers.wang_2018_chunks import LENGTHS, LONG, ONE_SIGN, SHORT
from lplab.claims.papers.wang_2018_training import SHORT as SHORT_BATCH
from tests.claims.changed_numbers import judged, where

CHUNKS, UPDATE = wang_2018_chunks.WANG_2018_CHUNKS, wang_2018_update.WANG_2018_UPDATE
FP8, TRAINING = wang_2018_fp8.WANG_2018_FP8, wang_2018_training.WANG_2018_TRAINING
AT = {"product": LONG, "length": LENGTHS[-1]}


def test_the_update_is_shown_and_explained():
    verdict = claims.judge(UPDATE, claims.stored(UPDATE))
    assert verdict.is_shown and all(finding.holds for finding in verdict.explanations)


def test_chunks_have_a_valley_whose_bottom_is_not_quite_where_the_paper_says():
    verdict = claims.judge(CHUNKS, claims.stored(CHUNKS))
    assert [finding.holds for finding in verdict.findings] == [True, False, True]
    assert "of 32 on 2 of 3 seeds" in verdict.findings[1].sentence
    assert "with the signs taken away the best chunk is 128" in verdict.explanations[1].sentence.lower()
    assert all(finding.holds for finding in verdict.explanations)


@pytest.mark.parametrize(("claim", "change", "which"), [
    (CHUNKS, where(AT | {"chunk": 1}, error=0.02), 0),
    (CHUNKS, where(AT | {"chunk": LENGTHS[-1]}, error=0.02), 0),
    (CHUNKS, where({"product": SHORT, "chunk": 1}, error=0.1), 2),
    (UPDATE, where({"update": "nearest", "rate": wang_2018_update.SMALLEST_RATE}, train_loss=3.1), 0),
    (UPDATE, where({"update": "nearest", "rate": wang_2018_update.SMALLEST_RATE}, error=40), 0),
    (UPDATE, where({"update": "stochastic"}, train_loss=3.3), 1),
])  # fmt: skip
def test_they_can_fail(claim, change, which):
    verdict = judged(claim, change)
    assert not verdict.is_shown and not verdict.findings[which].holds


@pytest.mark.parametrize(("claim", "change", "which"), [
    (CHUNKS, where(AT | {"chunk": 4}, error=0.001), 0),
    (CHUNKS, where(AT | {"chunk": 64}, error=0.05), 0),
    (CHUNKS, where({"product": ONE_SIGN, "chunk": 16}, error=1e-5), 1),
    (CHUNKS, where({"product": LONG, "length": LENGTHS[0], "chunk": 1}, error=0.19), 2),
    (UPDATE, where({"update": "nearest"}, moved=0.1), 0),
    (UPDATE, where({"update": "stochastic"}, moved=0.01), 1),
    (TRAINING, where({"sums": "chunk 1"}, slope=0.5), 0),
    (TRAINING, where({"sums": "chunk 256"}, error=0.001), 1),
    (TRAINING, where({"sums": "chunk 1", "pictures": SHORT_BATCH}, error=0.4), 2),
    (TRAINING, where({"sums": "chunk 1"}, steady=0.001), 3),
    (TRAINING, where({"sums": "chunk 1"}, sampling=0.001), 4),
    (FP8, where({"recipe": "float32"}, moved_fp16=0.1), 0),
    (FP8, where({"recipe": "fp8 ends"}, error=99), 1),
    (FP8, where({"task": "resnet", "recipe": "fp8"}, train_loss=0.1), 2),
])  # fmt: skip
def test_explanations_can_fail(claim, change, which):
    assert not judged(claim, change).explanations[which].holds


@pytest.mark.parametrize(("claim", "change", "which", "holds"), [
    (CHUNKS, where(AT | {"chunk": 128}, error=0.001), 1, True),
    (CHUNKS, where(AT | {"chunk": 16}, error=0.001), 1, False),
    (TRAINING, where({"sums": "chunk 64"}, error=9), 0, False),
    (TRAINING, where({"sums": "chunk 64"}, error=0.001, slope=0.98), 0, False),
    (TRAINING, where({"sums": "chunk 64"}, error=0.001, slope=1.001), 0, True),
    (TRAINING, where({"sums": "chunk 1"}, error=9), 1, True),
    (TRAINING, where({"sums": "chunk 1"}, error=0.001), 1, False),
    (FP8, where({"recipe": "fp8"}, loss=6, error=95), 0, False),
    (FP8, where({"recipe": "fp8"}, loss=1, error=5), 0, True),
    (FP8, where({"recipe": "fp8 ends"}, loss=6, error=95, train_loss=6), 1, True),
    (FP8, where({"recipe": "fp8 ends"}, loss=6, error=95, train_loss=1), 1, False),
    (FP8, where({"recipe": "fp8 ends"}, loss=1, error=5, train_loss=6), 1, False),
])  # fmt: skip
def test_either_verdict_is_possible(claim, change, which, holds):
    assert judged(claim, change).findings[which].holds is holds


def test_operands_are_those_of_a_convolution_and_the_products_repeat():
    parts = wang_2018_chunks.operands(0)
    assert {name: part.shape for name, part in parts.items()} == {"x": (16384, 72), "dy": (16384, 8), "w": (8, 72)}
    assert (parts["x"] >= 0).all() and abs(parts["dy"].mean()) < 0.01 * parts["dy"].std()
    errors = [claims.measure(CHUNKS, AT | {"chunk": chunk}, 0)["error"] for chunk in (1, 64)]
    assert errors[0] > 5 * errors[1] > 0
    assert claims.measure(CHUNKS, AT | {"chunk": 64}, 0)["error"] == errors[1]


def test_a_step_moves_fewer_weights_with_nearest(monkeypatch):
    monkeypatch.setattr(wang_2018_update, "STEPS", 101)
    point = {"rate": wang_2018_update.SMALLEST_RATE}
    moved = {w: claims.measure(UPDATE, point | {"update": w}, 0)["moved"] for w in wang_2018_update.VARIANTS}
    assert moved["float32"] > moved["stochastic"] > moved["nearest"] > 0


def test_ends_in_fp8_move_outputs_more(monkeypatch):
    monkeypatch.setitem(wang_2018_fp8.PLANS, "resnet", BranchPlan(before=1, steps=2))
    point = {"task": "resnet"}
    numbers = claims.measure(FP8, point | {"recipe": "fp8"}, 0)
    assert numbers["moved_fp8"] > 10 * numbers["moved_fp16"] > 0
    ends = claims.measure(FP8, point | {"recipe": "fp8 ends"}, 0)
    assert ends["steps"] == 2 and "moved_fp8" not in ends


def test_rounded_sums_of_the_weight_gradient(monkeypatch):
    """With few pictures: every addition is emulated."""
    monkeypatch.setattr(wang_2018_training, "BATCHES", 2)
    exact, none, chunked = (
        claims.measure(TRAINING, {"sums": sums, "pictures": 4}, 0) for sums in ("float32", "chunk 1", "chunk 64")
    )
    assert exact["error"] < 1e-5 < chunked["error"] < none["error"] and exact["slope"] == 1
    assert none["terms"] == 4 * 256 and 0 < none["operands"] < 0.2
    assert {numbers["sampling"] for numbers in (exact, none, chunked)} == {exact["sampling"]}
    parts = wang_2018_chunks.in_fp8(wang_2018_chunks.captured(0, pictures=4))
    gradients = [parts["dy"].T.astype(float) @ parts["x"], arithmetic.matmul(
        np.ascontiguousarray(parts["dy"].T), parts["x"], wang_2018_training.accumulator("chunk 1"))]  # fmt: skip
    slope = (gradients[0] * gradients[1]).sum() / (gradients[0] ** 2).sum()
    assert none["slope"] == pytest.approx(slope, abs=0.05), "one batch of two"


@pytest.mark.slow
@pytest.mark.parametrize("sums", ["chunk 1", "chunk 64"])
def test_the_stored_errors_of_the_weight_gradient_can_be_measured_again(measured_and_stored, sums):
    now, kept = measured_and_stored(TRAINING, {"sums": sums, "pictures": SHORT_BATCH}, 1)
    assert now == kept
