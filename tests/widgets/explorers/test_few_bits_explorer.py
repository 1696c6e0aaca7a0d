"""The explorer of a language model in few bits: its layers are the library's, and all that it offers is recorded."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from lplab.quantizers import WeightGrid, gptq_round, input_hessian
from lplab.recordings import language_model_recording
from lplab.recordings.rounded_answers import RECIPES, rounded_answers
from lplab.training import quantize_for_inference
from lplab.training.few_bits_rule import FewBits
from lplab.widgets import FewBitsExplorer
from lplab.widgets.explorers import few_bits_explorer as few
from lplab.widgets.explorers.few_bits_explorer import CACHE, INPUTS, WEIGHTS, FewBitsState

NAMES = {WEIGHTS: ("group",), INPUTS: ("per",), CACHE: ("keys", "values")}


@pytest.fixture(scope="module")
def explorer():
    return FewBitsExplorer()


def every_state():
    """Every position that the controls can reach, fields that change nothing left out."""
    for part, tensors in few.TENSORS.items():
        first = FewBitsState().changed(part=part)
        choices = [tensors.values(), few.BITS[part], few.METHODS[part].values()]
        choices += [first.controls()[name].offered(first) for name in NAMES[part]]
        choices[3:] = [[each[1] if isinstance(each, tuple) else each for each in options] for options in choices[3:]]
        for tensor, bits, method, *others in product(*choices):
            more = dict(zip(NAMES[part], others, strict=True))
            yield first.changed(tensor=tensor, bits=bits, method=method, **more)


def test_all_that_can_be_reached_is_recorded_and_nothing_else():
    reached = {state.recipe for state in every_state()}
    assert reached | {"w16a16"} == set(RECIPES) == set(rounded_answers()) and len(reached) == 32


def as_the_library_does(state, x, w, calibration):
    """The output of one layer that ``quantize_for_inference`` rounds."""
    layer = nn.Linear(w.shape[1], w.shape[0], bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(w.copy()))
        rounded = quantize_for_inference(nn.Sequential(layer), state.recipe, calibration=calibration, layers=["*"])
        return rounded(torch.from_numpy(x.copy())).numpy()


@pytest.mark.parametrize(
    "state",
    [
        FewBitsState(tensor="attention", per="token"),
        FewBitsState(tensor="attention", method="llmint8"),
        FewBitsState(tensor="attention", method="smoothquant"),
        FewBitsState(tensor="attention", method="hadamard", bits=4, per="token"),
        FewBitsState().changed(part=WEIGHTS, method="gptq", bits=2, group="row", tensor="values"),
        FewBitsState().changed(part=WEIGHTS, method="rtn"),
    ],
    ids=lambda state: state.recipe,
)
def test_a_layer_is_rounded_as_the_library_rounds_it(state):
    x, w = few.layer(state.tensor)
    calibration, seen = (x, x) if state.part == INPUTS else (x[::2], x[1::2])
    theirs = as_the_library_does(state, seen, w, torch.from_numpy(calibration.copy()))
    exact = seen @ w.T
    off = np.linalg.norm(theirs - exact, axis=1) / np.linalg.norm(exact, axis=1)
    assert few.rounded(state).error == pytest.approx(off.mean(), rel=0.02)


def test_gptq_sees_other_tokens_than_those_that_tell_its_error():
    state = FewBitsState().changed(part=WEIGHTS, method="gptq")
    x, w = few.layer(state.tensor)
    wanted = gptq_round(w, input_hessian(x[::2]), WeightGrid(3, 32))
    np.testing.assert_array_equal(few.rounded(state).after, wanted)


def test_scores_and_sums_are_those_of_attention():
    """Position by position, for one head of queries."""
    recorded = language_model_recording()
    state = FewBitsState().changed(part=CACHE, tensor="keys", keys="token")
    rounded_keys = few.KIVI(2, 32, 0).rounded(recorded.keys, "token")
    errors = []
    for head in range(9):
        for position in range(256):
            query = recorded.queries[head, position]
            exact, found = (query @ keys[head // 3, : position + 1].T for keys in (recorded.keys, rounded_keys))
            errors.append(np.linalg.norm(found - exact) / np.linalg.norm(exact))
    assert few.rounded(state).error == pytest.approx(np.mean(errors), rel=1e-3)
    sums = few.rounded(state.changed(tensor="values", values="token")).error
    assert sums < few.rounded(state.changed(tensor="values", values="channel")).error


def test_the_first_position_is_that_of_the_guess(explorer):
    explorer.reset()
    found = few.rounded(explorer.position)
    assert found.before.shape == (256, 1536) and (found.after != 0).sum() == 3
    assert set(np.argwhere(found.after)[:, 0].tolist()) == {0}
    rows, columns = few.window(explorer.position)
    assert rows.start == 0 and columns.start <= 1229 < columns.stop, "the map shows the huge number"


def test_another_part_brings_its_own_first_values_and_greys_what_it_has_not(explorer):
    explorer.reset()
    for part, names in NAMES.items():
        explorer.set(part=part)
        off = [name for name in ("group", "per", "keys", "values") if explorer.controls[name].disabled]
        assert off == [name for name in ("group", "per", "keys", "values") if name not in names]
        assert explorer.error_line.value == "" and explorer.position.bits in few.BITS[part]
    assert explorer.controls["method"].disabled, "a cache has one method"


@pytest.mark.parametrize("state", [FewBitsState(), FewBitsState().changed(part=CACHE)], ids=["inputs", "cache"])
def test_text_and_loss_are_those_of_the_recording(state):
    fig, answer = few.text_figure(state), rounded_answers()[state.recipe]
    shown = next(trace for trace in fig.data if trace.name == "what the model writes").text[0]
    assert shown.replace("<br>", " ").startswith(answer.text[:40].split("\n")[0][:20])
    marks = next(trace for trace in fig.data if trace.name == "this recipe")
    assert marks.x[0] == pytest.approx(min(answer.loss, few.LOSSES[1]))
    assert f"{answer.loss:.2f}" in fig.layout.meta["title"] and f"{answer.loss:.2f}" in few.summary(state)


def test_a_loss_above_that_of_a_model_that_knows_nothing_is_said_to_compare_no_methods():
    row = FewBitsState().changed(part=WEIGHTS).changed(bits=2, group="row")
    for method in ("rtn", "gptq"):
        assert "15.6 of a model that knows nothing" in few.summary(row.changed(method=method))
    assert "knows nothing" not in few.summary(row.changed(group="32"))


def test_copied_code_names_a_recipe_that_the_library_takes():
    for state in (FewBitsState(), FewBitsState().changed(part=WEIGHTS)):
        assert FewBits.from_name(state.recipe).name in state.code
    assert "ids[:4096]" in FewBitsState().changed(part=WEIGHTS, method="gptq").code
    assert "KIVI(2, 32, 0, keys='channel', values='token')" in FewBitsState().changed(part=CACHE).code
