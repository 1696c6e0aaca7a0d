"""What nbclient keeps of widgets, which a page made by nbconvert opens again without a kernel."""

import nbformat
from nbclient import NotebookClient

CELLS = (
    "import numpy as np, plotly.graph_objects as go\nfrom lplab.widgets.live.live_figure import LiveFigure\n"
    "one, two = (LiveFigure(go.Figure(go.Scatter(y=np.zeros(3)))) for _ in range(2))\none",
    "for live in (one, two, one):\n    with live.batch_update():\n        live.data[0].y = np.ones(3)",
)


def test_every_saved_array_has_a_place_in_the_saved_state():
    """One whose place is gone stops html-manager, which then shows no widget of the whole page."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    NotebookClient(notebook, timeout=120).execute()
    states = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    places = [(state["state"], buffer["path"]) for state in states for buffer in state.get("buffers", [])]
    assert places
    for state, path in places:
        for name in path[:-1]:
            state = state[name]
        assert isinstance(state, dict | list)
