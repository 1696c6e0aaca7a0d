"""The page of all claims: what is in it, and that docs/claims.md is the one that the stored numbers give."""

import json
import re
from pathlib import Path

import pytest

from lplab import claims
from lplab.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "claims.md"
ROW = {
    "claim": "toy", "title": "More bits | less error", "paper": "A. Nobody 2000", "where": "table 1",
    "states": "Errors fall.", "theirs": "1 %", "experiment": "Toys, counted.", "ours": "2 (1–3) %", "seeds": 3,
    "verdict": "not shown", "badge": "it falls, but not by 4", "theirs_on": "toys", "ours_on": "other toys",
    "findings": [{"holds": True, "statement": "Less", "sentence": "It falls."},
                 {"holds": False, "statement": "By 4", "sentence": "By 3."}],
    "unit": [{"holds": True, "statement": "One", "sentence": "One toy."}],
    "foreseen": [{"holds": False, "statement": "Many", "sentence": "Too few toys."}],
    "explained": [{"holds": False, "statement": "Why", "sentence": "Seeds?"}], "limits": "Toys.",
    "measured": "measured today", "parity": [], "no_larger_run": "", "tried": [], "larger": None,
}  # fmt: skip


def test_the_documentation_is_what_the_numbers_say(capsys):
    assert main(["claims", "table", "--page"]) == 0
    made = capsys.readouterr().out
    assert made == PAGE.read_text("utf-8"), "run: lplab claims table --page > docs/claims.md"
    assert re.findall(r'^<a id="(\w+)"></a>$', made, re.M) == list(claims.experiments())
    titles = [claims.get(name).title for name in claims.names()]
    assert re.findall(r"^### (.+)$", made, re.M) == titles, "an outline of ids says nothing"
    assert all((PAGE.parent / link).exists() for link in re.findall(r"\]\((\.\.[^)]+)\)", made))


def test_the_whole_table_is_json(capsys):
    assert main(["claims", "table", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["claim"] for record in records] == list(claims.names())
    assert {result["holds"] for record in records for result in record["findings"]} <= {True, False}


def test_a_claim_has_a_row_and_a_section_with_every_finding():
    page = claims.as_page([ROW, ROW | {"claim": "other", "seeds": 1, "verdict": "shown"}])
    assert "Of 2 claims: 1 not shown, 1 shown." in page
    assert "| [More bits \\| less error](#toy) | not shown: it falls, but not by 4 |" in page.splitlines()
    section = page.partition('<a id="toy"></a>\n')[2].partition('<a id="other">')[0]
    for line in ("**Not shown: it falls, but not by 4.**", "*Theirs (toys):* 1 %.",
                 "*Ours (other toys):* 2 (1–3) %; 3 seeds.", "- *holds:* **Less.** It falls.",
                 "- *does not hold:* **By 4.** By 3.", "The unit alone:", "- *holds:* **One.** One toy.",
                 "What the paper itself foresees:", "- *not so:* **Many.** Too few toys.",
                 "- *not so:* **Why.** Seeds?", "*Limits:* Toys.", "Measured today."):  # fmt: skip
        assert line in section.splitlines()
    assert "seeds" not in page.partition('<a id="other">')[2]


def test_details_are_folded_below_verdict_and_numbers():
    """The page was 128,000 pixels long on a phone."""
    page = claims.as_page([ROW])
    seen, _, folded = page.partition('<a id="toy"></a>')[2].partition("<details>")
    lines = [line for line in seen.splitlines() if line]
    assert lines == [
        "### More bits | less error", "**Not shown: it falls, but not by 4.**", "*Theirs (toys):* 1 %.",
        "*Ours (other toys):* 2 (1–3) %; 3 seeds.",
    ]  # fmt: skip
    assert folded.endswith("</details>") and "\n\n*The paper:* Errors fall. A. Nobody 2000; table 1.\n\n" in folded
    summary = folded.partition("</summary>")
    assert summary[2].startswith("\n\n"), "what follows is Markdown only after an empty line"
    assert "| claim | what was found |" in page.splitlines()


@pytest.mark.parametrize("name", claims.experiments())
def test_nothing_breaks_the_layout_of_the_page(name):
    """No line break inside a number's sentence, no heading or list that a text begins by accident."""
    row = claims.row(claims.get(name))
    texts = [row[part] for part in ("title", "paper", "where", "states", "theirs", "experiment", "ours", "limits")]
    texts += [result["sentence"] for result in row["findings"] + row["unit"] + row["foreseen"] + row["explained"]]
    texts += [text for each in row["parity"] for text in each.values() if isinstance(text, str)]
    texts += [row["no_larger_run"], *row["tried"]]
    assert all("\n" not in text and not re.match(r"[#>*+-] ", text) and ".." not in text for text in texts)
