"""Real processes behind a button in JupyterLab: curves grow while they train, Stop ends them, a death is said."""

import re
import time

import psutil
import pytest

pytest.importorskip("torch")
# slow: it starts processes. By default test_live_run tests the page, tests/widgets and tests/parallel the processes.
pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELLS = (
    "import os\nfrom lplab import widgets\nfrom lplab.parallel import RunSettings, SimulatedRun\n"
    "from lplab.parallel.launch import DistributedRun",
    "real = DistributedRun(RunSettings('mlp', 'scalecom:chunk=112', learners=2, steps=100000))\n"
    "run = widgets.live_learners({'2 processes': real}, name='Train in processes'); run",
    "ways = {name: SimulatedRun(RunSettings('mlp', text, learners=16, steps=20, batch=8), 'stacked')\n"
    "        for name, text in {'dense': 'dense', 'ScaleCom': 'scalecom:chunk=112'}.items()}\n"
    "many = widgets.live_learners(ways, name='Train 16 learners'); many",
    "early = {'ScaleCom': SimulatedRun(RunSettings('mlp', 'scalecom:chunk=112', learners=4, steps=40), 'stacked')}\n"
    "shown_late = widgets.live_learners(early, name='Train before it is shown', start=True)\n"
    "await shown_late.done()\nshown_late",
)


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    notebook.page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot').length === 3")
    yield notebook
    notebook.python("run.stop()")


def button(notebook, name):
    return notebook.page.get_by_role("button", name=name, exact=True)


def started(notebook, name):
    """Click, wait for the first steps, and return the processes. After an earlier run the button says "again"."""
    notebook.page.get_by_role("button", name=re.compile(f"^{name}( again)?$")).click()
    notebook.page.get_by_text("Running. 2 processes are starting").wait_for()
    end = time.monotonic() + 120
    while notebook.python("len(run.losses['2 processes'])") < 3:
        assert time.monotonic() < end, "no step was reported"
        time.sleep(0.2)
    return [psutil.Process(pid) for pid in notebook.python("[p.pid for p in real.processes]")]


def gone(processes):
    return not psutil.wait_procs(processes, 60)[1]


def test_a_run_shown_after_its_end_is_drawn_on_the_axes_of_its_end(notebook):
    plot = notebook.page.locator(".js-plotly-plot").nth(2)
    upper = notebook.python("shown_late.figure.layout.yaxis2.range[1]")
    assert upper > 1.08, "the axis is not that of nothing sent, 1.08 kB"
    notebook.page.wait_for_function(
        "([e, top]) => Math.abs(e._fullLayout.yaxis2.range[1] - top) < 1e-6 * top", arg=[plot.element_handle(), upper]
    )
    assert plot.evaluate("e => e._fullData.find(trace => trace.name === 'ScaleCom: sent').y.length") == 40


def test_curves_grow_and_stop_ends_all_processes(notebook):
    processes = started(notebook, "Train in processes")
    assert len(processes) >= 3
    notebook.page.get_by_text("Running.", exact=True).first.wait_for()
    assert notebook.page.get_by_text("Running. 2 processes are starting").count() == 0, "they have started"
    plot = notebook.page.locator(".js-plotly-plot").first
    notebook.page.wait_for_function(
        "e => /Training loss after .* steps: 2 processes/.test(e.getAttribute('aria-label'))",
        arg=plot.element_handle(),
    )
    assert notebook.python("1 + 1") == 2, "the kernel answers while they train"
    button(notebook, "Stop").first.click()
    notebook.page.get_by_text("Stopped after").first.wait_for()
    assert gone(processes)


def test_a_process_that_dies_is_said_in_the_page(notebook):
    processes = started(notebook, "Train in processes")
    next(p for p in processes if "torch.distributed.run" not in p.cmdline()).kill()
    notebook.page.get_by_text("all other ranks have been stopped").first.wait_for(timeout=120_000)
    notebook.becomes("run.state", "failed")
    assert gone(processes)


def test_many_simulated_learners_by_keyboard(notebook):
    button(notebook, "Train 16 learners").focus()
    notebook.page.keyboard.press("Enter")
    notebook.page.get_by_text("dense and ScaleCom:").wait_for(timeout=120_000)
    notebook.becomes("many.state", "finished")
    plot = notebook.page.locator(".js-plotly-plot").nth(1)
    assert "Training loss after 20 of 20 steps" in plot.get_attribute("aria-label")
