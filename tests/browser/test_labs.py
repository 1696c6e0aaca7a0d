"""Every lab as a student opens it: in JupyterLab, run from top to bottom, nothing solved yet."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
LABS = sorted((Path(__file__).parents[2] / "labs").glob("*.ipynb"))
BY_DEFAULT = "12"  # two explorers, and one of the shortest to run
SECONDS = 300  # for a whole lab, on a machine with other work

NOT_RUN = """() => [...jupyterapp.shell.currentWidget.content.model.cells]
  .filter(cell => cell.type === 'code' && cell.executionCount === null).map(cell => cell.id)"""
ERRORS = """() => [...jupyterapp.shell.currentWidget.content.model.cells].filter(cell => cell.type === 'code')
  .flatMap(cell => cell.outputs.toJSON()).filter(output => output.output_type === 'error').map(error => error.evalue)"""
DRAWN = "() => document.querySelectorAll('.js-plotly-plot .main-svg, .lp-bits').length > 0"
EMPTY = """() => [...document.querySelectorAll('[role=img][aria-label]')]
  .filter(host => host.querySelector('.js-plotly-plot') && !host.querySelector('.main-svg')).length"""
SILENT = """() => [...document.querySelectorAll('.js-plotly-plot')]
  .filter(plot => (plot.closest('[role=img]')?.getAttribute('aria-label') ?? '').length < 20).length"""


def unveil(lab):
    """Show what waits for a guess, as somebody does who does not want to guess: each question is skipped once."""
    lab.sees("() => { document.querySelector('.lp-veil button:enabled')?.click();"
             " return document.querySelectorAll('.lp-veil').length }", 0)  # fmt: skip


def case(path):
    return pytest.param(path, id=path.stem, marks=() if path.name.startswith(BY_DEFAULT) else pytest.mark.slow)


@pytest.mark.parametrize("path", [case(path) for path in LABS])
def test_a_lab_runs_draws_and_tells_what_it_draws(path, open_lab):
    lab = open_lab(path, SECONDS, kernel="labs")
    lab.sees(NOT_RUN, [])
    assert lab.page.evaluate(ERRORS) == []
    unveil(lab)
    lab.sees(DRAWN, True)
    lab.sees(EMPTY, 0)
    lab.sees(SILENT, 0)
    if path.name.startswith("05"):
        measure_again(lab)


AGREES = """() => [...document.querySelectorAll('[role=img][aria-label]')]
  .some(host => /new run agrees at (\\d+) of \\1\\b/.test(host.getAttribute('aria-label')))"""


def measure_again(lab):
    """Lab 05's published result: every point that this machine measures is the stored one."""
    lab.sees(AGREES, False)
    lab.page.get_by_role("button", name="Measure one run").click()
    lab.sees(AGREES, True)
    lab.page.get_by_role("button", name="Measure one run again").wait_for()
