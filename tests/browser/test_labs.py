"""Every lab as a student opens it: in JupyterLab, run from top to bottom, nothing solved yet."""

from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LABS = sorted((Path(__file__).parents[2] / "labs").glob("*.ipynb"))
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


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_a_lab_runs_draws_and_tells_what_it_draws(path, open_lab):
    lab = open_lab(path, SECONDS)
    lab.sees(NOT_RUN, [])
    assert lab.page.evaluate(ERRORS) == []
    lab.sees(DRAWN, True)
    lab.sees(EMPTY, 0)
    lab.sees(SILENT, 0)
