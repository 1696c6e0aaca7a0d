"""What is told of the baselines is what was recorded, with its provenance, and the page shows it."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from lplab import claims
from lplab.claims.claim_catalogue import LARGER
from lplab.claims.framework import larger_models
from lplab.claims.larger_ends import larger_runs_table
from lplab.datasets import data_folder
from lplab.recordings import float32_baselines as module
from lplab.recordings.float32_baselines import (
    BATCHES,
    BITS,
    PICTURES,
    PLANS,
    SEEDS,
    baselines_table,
    float32_baselines,
    gaps_to_others,
)

PROJECT = Path(__file__).parents[2]


def test_every_plan_trains_a_task_and_names_networks_of_others_in_its_unit():
    for plan in PLANS:
        assert callable(getattr(larger_models, plan.task))
        assert plan.unit in (PICTURES, BITS) and plan.elsewhere
        for other in plan.elsewhere:
            assert "(read)" in other.source and (80 < other.value < 100 if plan.unit == PICTURES else other.value < 4)


def test_what_is_recorded_is_whole_and_says_how_it_was_made():
    stored = module.read()
    provenance = stored.pop("provenance")
    assert provenance["command"] == "python data/record_baselines.py" and provenance["versions"]["instructions"]
    assert set(stored) <= {f"{plan.task}, seed {seed}" for plan in PLANS for seed in SEEDS}
    steps = {plan.task: plan.steps for plan in PLANS}
    for name, run in stored.items():
        assert run["steps"] == steps[name.partition(",")[0]] and run["diverged"] == 0 and run["core_seconds"] > 0


def test_the_baselines_are_the_recorded_numbers():
    stored = module.read()
    for name, each in float32_baselines().items():
        first = stored[f"{name}, seed 0"]
        assert each.values[0] == (100 - first["error"] if each.plan.unit == PICTURES else first["loss"])
        assert each.minutes >= first["core_seconds"] / 60


def test_the_page_shows_what_is_recorded():
    page = (PROJECT / "docs" / "baselines.md").read_text("utf-8")
    for made in (baselines_table(), gaps_to_others(), larger_runs_table()):
        assert f"-->\n{made}\n<!-- end -->" in page, "run: python data/record_baselines.py page"


@pytest.mark.parametrize(("claim", "end"), [
    pytest.param(claim, end, id=f"{claim.id}-{end.task}-{end.steps}") for claim in LARGER for end in claim.float32_ends
])  # fmt: skip
def test_a_float32_training_is_one_of_its_claim_and_of_a_plan(claim, end):
    (plan,) = (each for each in PLANS if each.task == end.task)
    assert dict(end.point) in [dict(point) for point in claim.points]
    said = {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\b", claim.experiment)}
    assert end.steps in said or any(end.steps - steps in said for steps in said), "its branch and what is before it"
    assert getattr(larger_models, end.task)().batch == BATCHES[plan.unit]
    assert f"| [`{claim.id}`]" in larger_runs_table() or not claims.judge(claim, claims.stored(claim)).findings


def test_every_larger_experiment_says_which_of_its_trainings_is_float32():
    assert [claim.id for claim in LARGER if not claim.float32_ends] == []


def test_a_larger_run_that_ends_early_has_its_distance_from_the_baseline():
    (row,) = (line for line in larger_runs_table().splitlines() if "wang_2018_training_large" in line)
    wrong = claims.stored(claims.get("wang_2018_training_large")).results(claims.get("wang_2018_training_large"))
    here = 100 - wrong.values("error", sums="float32").mean()
    base = float32_baselines()["fashion_resnet8"].values.mean()
    assert f"| 300 × 256 | 26 % | {here:.1f} % | {base - here:.1f} points lower |" in row
    assert not re.search(r"\b0\.0+ (points|bits) ", larger_runs_table()), "what rounds to zero is the same"


def test_a_recorded_training_is_put_in_its_place_and_the_page_follows(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("record_baselines", data_folder() / "record_baselines.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "FILE", tmp_path / "float32.json")
    monkeypatch.setattr(script, "PAGE", tmp_path / "baselines.md")
    plan = module.BaselinePlan("larger_speech", "speech", 2, PICTURES, ())
    monkeypatch.setattr(script, "PLANS", (plan,))
    script.record(plan, 1)
    script.record(plan, 0)
    found = script.recorded()
    assert list(found) == ["provenance", "larger_speech, seed 0", "larger_speech, seed 1"]
    assert found["larger_speech, seed 0"]["steps"] == 2 and np.isfinite(found["larger_speech, seed 1"]["loss"])
    for before in ("", "an older table\n"):
        script.PAGE.write_text(f"Before.\n<!-- table -->\n{before}<!-- end -->\nAfter.\n", "utf-8")
        script.write_page()
        assert script.PAGE.read_text("utf-8") == (
            f"Before.\n<!-- table -->\n{baselines_table()}\n<!-- end -->\nAfter.\n"
        )


@pytest.mark.parametrize(("values", "text"), [([91.04, 92.06, 92.0], "91.7 % (91.0 to 92.1), 3 seeds")])
def test_a_row_has_the_mean_and_the_range(values, text, monkeypatch):
    made = {"x": module.Baseline(PLANS[0], np.array(values), 1.26)}
    monkeypatch.setattr(module, "float32_baselines", lambda: made)
    row = baselines_table().splitlines()[-1]
    assert text in row and "| 1.3 |" in row and "92.5 %" in row
