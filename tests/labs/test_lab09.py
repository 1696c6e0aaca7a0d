"""Lab 09: its tables."""

import json
from pathlib import Path

from lplab import claims
from lplab.labs import lab09

LABS = Path(__file__).parents[2] / "labs"


def test_tables_speak_of_the_same_layers():
    rates, threshold = lab09.rates().columns, lab09.one_threshold().columns
    assert rates["layer"][-1] == "dense" and round(100 * rates["sent"][-1], 1) == 1.4
    sent = sum(share * size for share, size in zip(threshold["sent"], threshold["elements"], strict=True))
    assert abs(sent / sum(threshold["elements"]) - 0.01) < 1e-4, "the largest 1 % of all"


def test_the_text_says_what_the_larger_run_of_error_feedback_found():
    claim = claims.get("error_feedback_large")
    results = claims.stored(claim).results(claim)

    def error(method, memory):
        return results.values("error", method=method, memory=memory)

    lost = [(error(method, False) - error(method, True)).mean() for method in ("top-k", "sign")]
    cells = json.loads(next(LABS.glob("09_*.ipynb")).read_text("utf-8"))["cells"]
    (text,) = ("".join(cell["source"]) for cell in cells if cell.get("id") == "must-remember")
    assert f"by {lost[0]:.1f} points with top-k and by {lost[1]:.2f} with signs" in text
    signs = error("sign", True) - error("dense", True)
    assert signs.mean() < 0 and sorted(signs > 0.5) == [False] * 4 + [True], "one of the five is half a point worse"
