"""Lab 14: the button below the explorer trains what the explorer shows at that moment, on a seed of its own."""

import ipywidgets
import pytest

from lplab import widgets
from lplab.claims import BranchPlan
from lplab.labs import lab14
from lplab.labs.guided import GuidedExplorer
from lplab.recordings.ingredient_runs import NVFP4_2025, SWITCHED, ingredient_branches
from lplab.training.recipe.ingredient_recipes import recipe_of
from lplab.widgets.explorers.ingredient_explorer import PRESETS


@pytest.fixture
def asked(monkeypatch):
    """What the button would train: task, recipe and settings of each call."""
    calls = []

    def live_branch(task, recipe, **settings):
        calls.append((task, recipe, settings))
        return ipywidgets.Button()

    monkeypatch.setattr(widgets, "live_branch", live_branch)
    return calls


def test_the_button_trains_what_the_explorer_shows_when_it_is_pressed(asked):
    view, _ = lab14.switchboard().children
    ((task, recipe, settings),) = asked
    assert isinstance(view, GuidedExplorer) and task.batch == 8
    view.explorer.set(**PRESETS["NVFP4 (2025)"])
    assert recipe() == recipe_of(NVFP4_2025)
    view.explorer.set(switch=True)
    assert recipe() == recipe_of(SWITCHED, 582) and recipe().switch.at == ingredient_branches().switch_step
    assert settings["plan"] == BranchPlan(500, 100)


def test_its_seed_is_none_of_the_recorded_ones(asked):
    lab14.live_branch(lab14.explorer())
    assert asked[0][2]["seed"] not in ingredient_branches().seeds


def test_the_figure_to_take_along_has_the_recorded_recipes():
    names = [trace.name for trace in lab14.branches_figure().data]
    assert {"float32", "MXFP8 (2025)", "NVFP4 (2025)", "plain MXFP4", "MXFP4 backward (2025)"} <= set(names)
