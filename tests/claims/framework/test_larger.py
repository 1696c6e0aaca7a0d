"""Larger experiments: what they must say, and how a claim and its larger experiment are shown together."""

import dataclasses
import json
import math
import re
from xml.etree import ElementTree

import pytest

from lplab import claims, cli, figures
from lplab.claims import NOTHING_TRIED, Check, CheckResult, ClaimBuilder, ParityRow, claim_catalogue
from lplab.claims.framework import store
from lplab.claims.framework.drawing import Drawing
from lplab.claims.framework.results import key
from lplab.claims.framework.store import Session, Stored, path_of
from lplab.figures.verdict_card import STYLE
from tests.claims.framework.test_claims import TOY

ROW = ParityRow("examples a learner", 32, "table 2, read", small=1, large=16)
SMALL_ROW = dataclasses.replace(ROW, large=None, why="Two cores.")
LARGE = dataclasses.replace(
    TOY, id="toy_large", budget="long", larger_than="toy", parity=(ROW,), tried=(NOTHING_TRIED,), experiment="More."
)


# ---- parity ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("paper", "small", "large", "factor"), [
    (30, 10, None, 3.0), (10, 30, None, 3.0), (30, 1, 10, 3.0), (0.9, 0.9, None, 1.0), (0, 0, None, 1.0),
    ((4, 64), (2, 128), None, 2.0), (20, (18, 50), None, 2.5),
])  # fmt: skip
def test_near_is_within_a_factor_of_three_at_both_ends(paper, small, large, factor):
    row = ParityRow("n", paper, "read", small=small, large=large)
    assert row.is_near and row.factor == pytest.approx(factor) and row.apart == "within a factor of 3"


@pytest.mark.parametrize(("paper", "small", "large", "apart"), [
    (30, 9.9, None, "3 times away"), (30, 30, 1, "30 times away"), (0.9, 0, None, "not comparable"),
    ((4, 64), (4, 16), None, "4 times away"), (450_000, 300, None, "1,500 times away"),
])  # fmt: skip
def test_what_is_not_near_needs_a_reason_and_nothing_else_has_one(paper, small, large, apart):
    with pytest.raises(ValueError, match=f"is {apart}; say why in why="):
        ParityRow("n", paper, "recalled", small=small, large=large)
    row = ParityRow("n", paper, "recalled", small=small, large=large, why="Two cores.")
    assert row.is_near is False and row.texts()["found"] == f"{apart}: Two cores."
    with pytest.raises(ValueError, match="why= is for rows that are more than 3 times away"):
        ParityRow("n", paper, "recalled", small=paper, large=paper, why="Two cores.")


def test_what_the_paper_does_not_say_is_not_compared():
    row = ParityRow("waiting over steps", None, "the paper does not say how long an element waits", small=0.5)
    assert row.is_near is None and row.texts()["found"] == "no number of the paper"
    assert row.texts()["paper"] == "– (the paper does not say how long an element waits)"
    with pytest.raises(ValueError, match="source must say why there is none"):
        ParityRow("waiting over steps", None, "", small=0.5)
    with pytest.raises(ValueError, match="source must say read, second-hand or recalled, got 'table 2, already'"):
        ParityRow("waiting over steps", 0.5, "table 2, already", small=0.5)


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan, (4, 2)])
def test_values_are_finite_and_ranges_are_in_order(value):
    for which in ("paper", "small", "large"):
        with pytest.raises(ValueError, match="finite, not negative, lowest first"):
            ParityRow("n", **{"paper": 1, "source": "read", which: value})


# ---- what a larger experiment needs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("changes", "text"), [
    ({"id": "toy_2"}, "the larger experiment of toy is toy_large"),
    ({"budget": "quick"}, "a larger experiment is of the budget 'long', got 'quick'"),
    ({"parity": ()}, "a larger experiment needs parity, and tried"),
    ({"tried": ()}, "a larger experiment needs parity, and tried"),
    ({"parity": (SMALL_ROW,)}, "the row 'examples a learner' of parity has no value of the larger experiment"),
    ({"no_larger_run": "It is large."}, "no_larger_run belongs to a claim without a larger experiment"),
    ({"larger_than": "", "id": "toy"}, "belong to one with larger_than"),
    ({"larger_than": "", "id": "toy", "tried": (), "parity": (SMALL_ROW,)}, "has parity and no_larger_run, or neither"),
    ({"larger_than": "", "id": "toy", "tried": (), "parity": (), "no_larger_run": "No."}, "or neither"),
])  # fmt: skip
def test_a_larger_experiment_that_is_not_whole_is_refused(changes, text):
    with pytest.raises(ValueError, match=text):
        dataclasses.replace(LARGE, **changes)


def test_a_claim_without_a_larger_experiment_says_why():
    claim = dataclasses.replace(TOY, parity=(SMALL_ROW,), no_larger_run="Four nodes of GPUs.")
    assert claim.parity[0].ours == 1


def test_the_builder_takes_from_the_claim_what_the_paper_states():
    made = ClaimBuilder.larger(
        TOY, experiment="More.", points=TOY.points, seeds=TOY.seeds, budget_seconds=60, limits="Toys.", parity=(ROW,),
        tried=("With 8 steps the error was 3 %.",), version=2,
    )  # fmt: skip
    made.measurement(TOY.measure)
    made.summary(TOY.measured)
    made.criterion("falls")(TOY.criteria[0].test)
    large = made.build()
    assert (large.id, large.larger_than, large.budget, large.version) == ("toy_large", "toy", "long", 2)
    for name in ("title", "paper", "where", "statement", "published"):
        assert getattr(large, name) == getattr(TOY, name)
    assert large.experiment == "More." and large.parity == (ROW,) and large.tried[0].startswith("With 8 steps")


# ---- the catalogue ---------------------------------------------------------------------------------------------------


def test_a_larger_experiment_is_no_claim_of_its_own(monkeypatch):
    monkeypatch.setattr(claim_catalogue, "CLAIMS", (TOY,))
    monkeypatch.setattr(claim_catalogue, "LARGER", (LARGE,))
    assert claims.names() == ("toy",) and claims.experiments() == ("toy", "toy_large")
    assert claims.get("toy_large") is LARGE and claims.larger(TOY) is LARGE and claims.larger(LARGE) is None


def test_each_larger_experiment_belongs_to_one_claim_and_states_what_it_states():
    assert sorted(each.id for each in claim_catalogue.LARGER) == sorted({*claims.experiments()} - {*claims.names()})
    for each in claim_catalogue.LARGER:
        claim = claims.get(each.larger_than)
        for name in ("title", "paper", "where", "statement", "published"):
            assert getattr(each, name) == getattr(claim, name)
        assert not claim.parity, "the numbers of both stand in the larger experiment"
        assert len(each.seeds) >= 3 and each.limits and each.experiment != claim.experiment
        for tried in each.tried:
            assert tried == NOTHING_TRIED or (any(map(str.isdigit, tried)) and tried.endswith(".")), tried


# ---- measuring -------------------------------------------------------------------------------------------------------


def tenth(point, seed):
    ORDER.append((point["bits"], seed))
    return {"error": 1 / point["bits"] + seed / 10}


ORDER = []
FIVE = dataclasses.replace(LARGE, seeds=(0, 1, 2, 3, 4), points=({"bits": 4}, {"bits": 8}), measure=tenth)


@pytest.fixture
def two(monkeypatch, already_portable):
    """A catalogue of one claim with its larger experiment, and one without."""
    other = dataclasses.replace(TOY, id="other", title="Other")
    monkeypatch.setattr(claim_catalogue, "CLAIMS", (TOY, other))
    monkeypatch.setattr(claim_catalogue, "LARGER", (FIVE,))


@pytest.fixture
def run(tmp_path, two, capsys):
    """Runs ``lplab claims run`` in a folder of its own; which experiments are stored then."""

    def run(*argv):
        assert cli.main(["claims", "run", *argv, "--folder", str(tmp_path)]) == 0
        capsys.readouterr()
        return {path.stem for path in tmp_path.glob("*.json")}

    return run


@pytest.mark.parametrize(("argv", "measured"), [
    (["toy"], {"toy"}), (["toy", "--long"], {"toy_large"}), (["toy_large", "--long"], {"toy_large"}),
    (["other", "--long"], {"other"}), ([], {"toy", "other"}), (["--long"], {"toy_large"}),
    (["toy", "other", "--long"], {"toy_large", "other"}),
])  # fmt: skip
def test_long_takes_the_larger_experiment_of_a_claim(run, argv, measured):
    assert run(*argv) == measured


def test_a_small_experiment_that_is_long_too_runs_with_the_larger(run, monkeypatch):
    monkeypatch.setattr(claim_catalogue, "CLAIMS", (dataclasses.replace(TOY, budget="long"),))
    assert run("toy", "--long") == {"toy", "toy_large"}


def test_a_larger_experiment_by_name_needs_long(run, capsys):
    with pytest.raises(SystemExit):
        run("toy_large")
    assert "toy_large is of the long budget, up to 1 minutes of a core; add --long" in capsys.readouterr().err


def test_the_unknown_is_told_with_larger_experiments_in_mind(two):
    with pytest.raises(ValueError, match="unknown claim 'toy_lagre'; did you mean toy_large"):
        claims.get("toy_lagre")


def test_a_long_claim_is_measured_seed_by_seed_and_stored_in_the_order_of_points(tmp_path):
    ORDER.clear()
    claims.run_claim(FIVE, folder=tmp_path)
    assert [(bits, seed) for seed in FIVE.seeds for bits in (4, 8)] == ORDER
    text = path_of(FIVE, tmp_path).read_text("utf-8")
    assert [int(bits) for bits in re.findall(r'"bits": (\d)', text)] == [4] * 5 + [8] * 5


def test_who_measured_is_stored_and_told(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (session,) = claims.run_claim(FIVE, folder=tmp_path).sessions
    assert session.processor == store.processor_name() != "" and session.threads == 1
    assert f", {session.processor}, 1 thread; version 1 of" in claims.row(FIVE, tmp_path)["measured"]
    before = dataclasses.replace(session, processor="", threads=0)
    assert "thread" not in Stored({}, (before,)).provenance, "what was stored earlier says nothing of it"


# ---- whole seeds -----------------------------------------------------------------------------------------------------


def with_seeds(claim, whole, half=()):
    """All measurements of some seeds, and the first one of others."""
    rows = [(point, seed) for point, seed in claim.measurements() if seed in whole]
    rows += [(claim.points[0], seed) for seed in half]
    session = Session.now("me", len(rows), 1.0, 1, budget=claim.budget)
    return Stored({key(point, seed): tenth(point, seed) for point, seed in rows}, (session,))


@pytest.mark.parametrize(("whole", "half", "seeds"), [
    ((0, 1, 2), (), 3), ((0, 1, 2, 3), (4,), 4), ((0, 1, 2, 4), (3,), 3), ((0, 1, 2, 3, 4), (), 5),
])  # fmt: skip
def test_a_stopped_run_is_judged_on_its_first_whole_seeds_and_says_so(tmp_path, whole, half, seeds):
    stored = with_seeds(FIVE, whole, half)
    verdict = claims.judge(FIVE, stored)
    assert verdict.word == "shown" and stored.seeds(FIVE) == (0, 1, 2, 3, 4)[:seeds]
    assert {seed for _, seed, _ in stored.results(FIVE).rows} == set(stored.seeds(FIVE)), "half a seed does not count"
    told = stored.provenance_of(FIVE)
    assert ("; judged on the first" in told) == ("; not yet: " in told) == (seeds < 5)
    assert f"; judged on the first {seeds} of 5 seeds; not yet: " in told or seeds == 5
    store.save(FIVE, stored, tmp_path)
    record = claims.row(FIVE, tmp_path)
    assert (record["seeds"], record["seeds_planned"], record["ours"]) == (seeds, 5, record["ours"])
    assert f"{seeds} of 5 seeds." in claims.as_page([record]) or seeds == 5


@pytest.mark.parametrize(("whole", "half"), [((0, 1), (2, 3, 4)), ((1, 2, 3, 4), (0,)), ((1, 2, 3, 4), ()), ((), ())])
def test_fewer_than_three_first_seeds_are_not_judged(whole, half):
    stored = with_seeds(FIVE, whole, half)
    verdict = claims.judge(FIVE, stored)
    assert verdict.word == "not measured" and verdict.missing == 10 - 2 * len(whole) - len(half)
    assert not verdict.findings


def test_a_quick_claim_needs_all_of_its_measurements():
    quick = dataclasses.replace(TOY, seeds=FIVE.seeds, points=FIVE.points, measure=tenth)
    stored = with_seeds(quick, (0, 1, 2, 3), (4,))
    assert claims.judge(quick, stored).word == "not measured" and stored.seeds(quick) == quick.seeds


# ---- showing ---------------------------------------------------------------------------------------------------------


BOTH = dataclasses.replace(
    FIVE,
    parity=(ROW, ParityRow("layers", 20, "section 5, recalled", small=3, large=4, why="Two cores & one hour.")),
    tried=("With a rate of 0.3 the error was 9 % on 2 seeds.",), ours_on="larger toys", limits="Toys, still.",
    criteria=(Check("it is 3", lambda results: CheckResult(False, "It is not 3.")),),
    drawings=(Drawing("error, %", lambda results: {"8 bits": results.values("error", bits=8)}),),
)  # fmt: skip


@pytest.fixture
def shown(tmp_path, monkeypatch, already_portable):
    """Both experiments of a claim measured: shown in small, not shown at a larger size; and one without a larger."""
    other = dataclasses.replace(TOY, id="other", title="Other")
    monkeypatch.setattr(claim_catalogue, "CLAIMS", (TOY, other))
    monkeypatch.setattr(claim_catalogue, "LARGER", (BOTH,))
    for claim in (TOY, other, BOTH):
        claims.run_claim(claim, folder=tmp_path)
    return tmp_path


@pytest.fixture
def planned(shown):
    """The same before the larger experiment was measured."""
    path_of(BOTH, shown).unlink()
    return shown


def test_the_page_has_a_row_and_a_section_for_both(shown):
    page = claims.as_page([claims.row(TOY, shown), claims.row(claims.get("other"), shown)])
    lines = page.splitlines()
    assert "Of 2 claims: 2 shown. 1 of these claims has a larger run, too: 1 not shown." in lines
    row = lines.index("| [More bits, less error](#toy) | shown |")
    assert lines[row + 1] == "| ↳ [at a larger size](#toy_large) | not shown |"
    section = page.partition('<a id="toy"></a>')[2].partition('<a id="other"></a>')[0]
    seen = section.partition("<details>")[0].split("\n\n")
    assert [part for part in map(str.strip, seen) if part] == [
        "### More bits, less error", "**Small: shown.**", "**At a larger size: not shown.**", "*Theirs:* 1 %.",
        "*Ours:* 2.05 %; 2 seeds.", "*Ours, larger (larger toys):* 0.325 %; 5 seeds.",
    ]  # fmt: skip
    for line in (
        "| what | the paper | small | larger | how far the larger is from the paper |",
        "| examples a learner | 32 (table 2, read) | 1 | 16 | within a factor of 3 |",
        "| layers | 20 (section 5, recalled) | 3 | 4 | 5 times away: Two cores & one hour. |",
        "*At a larger size* (`toy_large`): More.", "- With a rate of 0.3 the error was 9 % on 2 seeds.",
        "- *does not hold:* **it is 3.** It is not 3.", "*Limits:* Toys, still.",
    ):  # fmt: skip
        assert line in section.splitlines(), line
    parity, small, large = (section.index(words) for words in ("| what |", "*Here* (`toy`)", '<a id="toy_large"></a>'))
    assert parity < small < large and section.count("<details>") == section.count("</details>") == 3


def test_before_it_is_measured_only_the_table_says_so(planned):
    page = claims.as_page([claims.row(TOY, planned)])
    assert "| ↳ [at a larger size](#toy_large) | not measured yet: `lplab claims run toy_large --long` |" in page
    head, _, section = page.partition('<a id="toy"></a>')
    assert "larger run" not in head and "**Shown.**" in section and "Small:" not in section
    made = figures.verdict_card("toy", folder=planned)
    for text in (made._repr_html_(), repr(made)):
        assert "not measured yet" not in text and "arger" not in text.replace(STYLE, "") and "mall:" not in text
    assert made.larger == {} and repr(made).endswith("Verdict: shown")


def test_a_card_says_both_verdicts_and_folds_the_larger_experiment(shown):
    made = figures.verdict_card("toy", folder=shown)
    html, text = made._repr_html_(), repr(made)
    assert text.splitlines()[-2:] == ["Verdict: small: shown", "Larger: not shown"]
    tree = ElementTree.fromstring(html)
    plain = " ".join("".join(tree.itertext()).split())
    assert "✓ small: shown" in plain and "✗ larger: not shown" in plain
    front = html.partition("<details")[0]
    assert "0.325 %" not in front and "larger toys" not in front and front.index("small:") < front.index("larger:")
    (fold,) = (each for each in tree.iter("details") if each.get("class") == "lplab-larger")
    inside = " ".join("".join(fold.itertext()).split())
    assert inside.startswith("At a larger size: larger toys") and "the rows below" in inside
    assert len([*fold.iter("figure")]) == 1 and "They report" not in inside and "0.325 %" in inside
    for words in (
        "examples a learner: the paper 32 (table 2, read), small 1, larger 16 (within a factor of 3)",
        "small 3, larger 4 (5 times away): Two cores & one hour.", "With a rate of 0.3 the error was 9 % on 2 seeds.",
        "lplab claims run toy_large --long",
    ):  # fmt: skip
        assert words in inside, words
    assert repr(figures.verdict_card("toy_large", folder=shown)) == text, "the card of its claim"
    other = figures.verdict_card("other", folder=shown)._repr_html_()
    assert "</span> shown</b>" in other and 'class="lplab-larger"' not in other


def test_the_web_page_of_cards_says_both(shown):
    html = figures.verdict_page(folder=shown)
    assert html.count("<section") == 2 and 'class="lplab-larger"' in html
    assert "2 ✓ shown. 1 of these claims has a larger run, too: 1 not shown.</p>" in html
    assert "✓ small: shown; ✗ larger: not shown</li>" in html and ": ✓ shown</li>" in html


def test_the_terminal_and_json_say_both(shown, capsys):
    assert cli.main(["claims", "table", "toy_large", "--folder", str(shown)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("toy: SHOWN\n") and "\n  at a larger size (toy_large): NOT SHOWN\n" in text
    assert "  parity    examples a learner: the paper 32 (table 2, read), small 1, larger 16 (within a" in text
    assert "  tried     With a rate of 0.3" in text and "  does not  it is 3. It is not 3.\n" in text
    assert cli.main(["claims", "table", "--json", "--folder", str(shown)]) == 0
    toy, other = json.loads(capsys.readouterr().out)
    assert other["larger"] is None and toy["larger"]["verdict"] == "not shown" and toy["larger"]["larger"] is None
    assert [row["is_near"] for row in toy["larger"]["parity"]] == [True, False]
    assert toy["larger"]["tried"] == list(BOTH.tried)
    assert cli.main(["claims", "list", "--folder", str(shown)]) == 0
    assert "at a larger size: not shown" in capsys.readouterr().out
    assert cli.main(["claims", "table", "toy", "--markdown", "--folder", str(shown)]) == 0
    assert "| ↳ at a larger size |  |  | 0.325 % | not shown |" in capsys.readouterr().out.splitlines()


def test_a_claim_without_a_larger_run_shows_its_parity_and_why(shown, monkeypatch):
    claim = dataclasses.replace(TOY, parity=(SMALL_ROW,), no_larger_run="It needs four nodes of GPUs.")
    monkeypatch.setattr(claim_catalogue, "CLAIMS", (claim,))
    monkeypatch.setattr(claim_catalogue, "LARGER", ())
    page = claims.as_page([claims.row(claim, shown)])
    assert "| what | the paper | small | how far from the paper |" in page.splitlines()
    assert "\n\nIt needs four nodes of GPUs.\n\n" in page
    html = figures.verdict_card("toy", folder=shown)._repr_html_()
    assert "<b>Why there is no larger run:</b><p>It needs four nodes of GPUs.</p>" in html
    assert "small 1 (32 times away): Two cores." in html
