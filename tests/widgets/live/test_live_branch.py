"""The live branch: its losses are those of the recorded way, the checkpoint's steps are counted, Stop works."""

import numpy as np
import pytest

from lplab import widgets
from lplab.claims import BranchPlan, branches, checkpoint_steps
from lplab.training import recipes, tasks

PLAN = BranchPlan(before=6, steps=8)


def live(folder, recipe="fp8_2018", **more):
    return widgets.live_branch(tasks.get("mlp"), lambda: recipes.get(recipe), plan=PLAN, folder=folder, **more)


def test_its_differences_are_those_of_branches(tmp_path):
    run = live(tmp_path)
    assert run.figure.layout.meta["title"] == "Not started yet" and run.recipe is None
    run.start()
    run.wait(60)
    assert run.state == "finished" and run.recipe.name == "fp8_2018"
    made = branches(tasks.get("mlp"), {"one": "fp8_2018"}, (0,), PLAN, folder=tmp_path)
    np.testing.assert_allclose(run.gaps, (made.losses["one"] - made.losses["float32"])[0], atol=1e-12)
    half = run.gaps[4:].mean()
    assert run.figure.layout.meta["title"].endswith(f"mean of the last half: {half:+.3f} bits".replace("-", "−"))


def test_steps_of_the_checkpoint_are_counted_once(tmp_path):
    first = live(tmp_path)
    first.start()
    first.wait(60)
    assert len(first.result()) == PLAN.before + PLAN.steps == first.progress.max == first.progress.value
    again = live(tmp_path)
    again.start()
    again.wait(60)
    assert len(again.result()) == PLAN.steps == again.progress.max, "the checkpoint is kept"
    np.testing.assert_array_equal(first.gaps, again.gaps)


def test_the_recipe_is_that_of_the_moment_of_the_start(tmp_path):
    chosen = ["fp8_2018"]
    run = widgets.live_branch(tasks.get("mlp"), lambda: recipes.get(chosen[0]), plan=PLAN, folder=tmp_path)
    run.start()
    run.wait(60)
    before = run.gaps
    chosen[0] = "bf16"
    run.start()
    run.wait(60)
    assert run.recipe.name == "bf16" and not np.array_equal(before, run.gaps)


def test_it_stops_while_float32_trains_and_keeps_no_half_checkpoint(tmp_path):
    run = widgets.live_branch(tasks.get("mlp"), lambda: recipes.get("bf16"), plan=BranchPlan(5000, 3), folder=tmp_path)
    run.start()
    run.stop()
    run.wait(60)
    assert run.state == "stopped" and not list(tmp_path.iterdir()) and run.gaps.shape == (0,)
    assert "float32 first: step" in run.figure.layout.meta["title"]


def test_a_branch_that_diverges_is_told(tmp_path):
    run = widgets.live_branch(
        tasks.get("mlp"), lambda: recipes.get("fp16_mixed", loss_scale=2.0**24), plan=PLAN, folder=tmp_path
    )
    run.start()
    run.wait(60)
    assert run.state == "finished" and np.isnan(run.gaps).any()
    assert "It diverged." in run.remark_line.value and "it diverged" in run.figure.layout.meta["title"]


def test_an_error_of_the_recipe_is_one_line(tmp_path):
    run = live(tmp_path, "hfp8")
    run.start()
    run.wait(60)
    assert run.state == "failed" and "there is no recipe" in run.error_line.value


def test_wrong_arguments_are_told():
    with pytest.raises(TypeError, match="recipe must be a function without arguments that gives a Recipe, got str"):
        widgets.live_branch(tasks.get("mlp"), "bf16")
    with pytest.raises(ValueError, match="seed must be"):
        widgets.live_branch(tasks.get("mlp"), lambda: recipes.get("bf16"), seed=-1)


def test_checkpoint_steps_yield_the_float32_losses_and_nothing_the_second_time(tmp_path):
    task = tasks.get("mlp")
    assert list(checkpoint_steps(task, 0, 4, tmp_path)) == [step.loss for step in task.trainer("fp32", 0).steps(4)]
    assert list(checkpoint_steps(task, 0, 4, tmp_path)) == []
