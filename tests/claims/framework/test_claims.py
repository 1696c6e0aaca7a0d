"""Claims: measured once, kept, judged by their numbers alone; and the stored numbers can be measured again."""

import dataclasses
import json

import numpy as np
import pytest

from lplab import claims, cli
from lplab.claims import Check, CheckResult, Claim, Results, claim_catalogue
from lplab.claims.framework.results import key
from lplab.claims.framework.seed_comparisons import counting_noise
from lplab.claims.framework.store import Session, Stored, path_of, save
from lplab.claims.papers import gupta_2015

MEASURED = []


def toy_measure(point, seed):
    MEASURED.append((point["bits"], seed))
    return {"error": 16 / point["bits"] + seed / 10}


def failing_measure(point, seed):
    if point["bits"] == 8:
        raise KeyboardInterrupt
    return toy_measure(point, seed)


def falls(results):
    high, low = results.median("error", bits=4), results.median("error", bits=8)
    return CheckResult(low < high, f"{high} at 4 bits, {low} at 8")


TOY = Claim(
    id="toy", version=1, title="More bits, less error", paper="A. Nobody: Bits, 2020", where="figure 1",
    statement="Bits help.", published="1 %", experiment="None.", points=({"bits": 2}, {"bits": 4}, {"bits": 8}),
    seeds=(0, 1), measure=toy_measure, criteria=(Check("falls", falls),),
    measured=lambda results: f"{results.median('error', bits=8)} %",
)  # fmt: skip


@pytest.fixture
def measured():
    MEASURED.clear()
    return MEASURED


# ---- measuring -------------------------------------------------------------------------------------------------------


def test_a_claim_is_measured_once_and_kept(tmp_path, measured):
    seen = []
    first = claims.run_claim(TOY, folder=tmp_path, command="me", watch=lambda *counts: seen.append(counts))
    assert len(measured) == 6 and seen[-1] == (6, 6)
    again = claims.run_claim(TOY, folder=tmp_path)
    assert len(measured) == 6 and again == claims.stored(TOY, tmp_path) == first
    assert claims.judge(TOY, again).word == "shown"
    (session,) = again.sessions
    assert (session.command, session.points, session.jobs) == ("me", 6, 1) and "numpy" in session.versions
    assert "by “me” in" in again.provenance


def test_a_claim_is_run_by_its_id(tmp_path):
    stored = claims.run_claim("gpt3_energy", folder=tmp_path)
    assert stored.numbers == claims.stored(claims.get("gpt3_energy")).numbers
    with pytest.raises(ValueError, match="gpt3_enrgy"):
        claims.run_claim("gpt3_enrgy", folder=tmp_path)


def test_an_interruption_keeps_what_is_finished(tmp_path, measured):
    with pytest.raises(KeyboardInterrupt):
        claims.run_claim(dataclasses.replace(TOY, measure=failing_measure), folder=tmp_path)
    kept = claims.stored(TOY, tmp_path)
    assert len(kept.numbers) == 4 and claims.judge(TOY, kept).word == "not measured"
    assert claims.row(TOY, tmp_path)["ours"] == "2 to measure"
    whole = claims.run_claim(TOY, folder=tmp_path)
    assert measured == [(2, 0), (2, 1), (4, 0), (4, 1), (8, 0), (8, 1)]
    assert [session.points for session in whole.sessions] == [4, 2]


def test_fresh_and_a_new_version_measure_everything_again(tmp_path, measured):
    claims.run_claim(TOY, folder=tmp_path)
    claims.run_claim(TOY, folder=tmp_path, fresh=True)
    assert len(measured) == 12
    newer = dataclasses.replace(TOY, version=2)
    assert claims.stored(newer, tmp_path).numbers == {}


def test_results_of_a_later_version_do_not_count_for_an_earlier_one(tmp_path):
    save(dataclasses.replace(TOY, version=2), numbers_of({2: 9, 4: 5, 8: 4}), tmp_path)
    assert claims.stored(TOY, tmp_path) == Stored({})


def test_two_processes_store_the_same_file(tmp_path):
    one, two = (claims.run_claim(TOY, folder=tmp_path / str(jobs), jobs=jobs).numbers for jobs in (1, 2))
    assert one == two
    files = [json.loads(path_of(TOY, tmp_path / name).read_text())["measurements"] for name in "12"]
    assert files[0] == files[1], "in the claim's order, whoever was first"


def test_costs_are_measured_one_at_a_time(tmp_path):
    timed = claims.run_claim(dataclasses.replace(TOY, timed=True), folder=tmp_path, jobs=2)
    assert timed.sessions[-1].jobs == 1
    assert claims.get("lempel_ziv").timed, "it measures seconds"


def test_a_measurement_that_is_no_number_is_refused(tmp_path):
    broken = dataclasses.replace(TOY, measure=lambda point, seed: {"error": float("nan")})
    with pytest.raises(ValueError, match="toy: error is not finite at"):
        claims.run_claim(broken, folder=tmp_path)


@pytest.mark.parametrize("text", ["", "[]", '{"claim": "toy"}', '{"claim": "other", "version": 1}'])
def test_a_broken_file_is_named(tmp_path, text):
    path_of(TOY, tmp_path).write_text(text)
    with pytest.raises(ValueError, match=r"toy\.json (is no file of results|holds the claim 'other')"):
        claims.stored(TOY, tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot write .*; give another folder"):
        save(TOY, Stored({}), tmp_path / "file")


# ---- judging ---------------------------------------------------------------------------------------------------------


def numbers_of(errors):
    return Stored({key({"bits": bits}, seed): {"error": e} for bits, e in errors.items() for seed in TOY.seeds})


def test_the_verdict_follows_the_numbers():
    shown, not_shown = (claims.judge(TOY, numbers_of({2: 9, 4: 5, 8: e})) for e in (4, 6))
    assert (shown.word, not_shown.word) == ("shown", "not shown")
    assert not_shown.findings == (CheckResult(False, "5.0 at 4 bits, 6.0 at 8", "falls"),) and not not_shown.is_shown
    assert claims.judge(TOY, numbers_of({2: 9, 4: 5})).missing == 2


def test_a_claim_is_judged_by_its_id_and_its_stored_numbers():
    for name in ("gupta_2015", "scalecom_2020_large"):
        claim = claims.get(name)
        assert claims.judge(name) == claims.judge(claim) == claims.judge(claim, claims.stored(claim))
    with pytest.raises(ValueError, match="unknown claim 'gupta_2051'; did you mean gupta_2015"):
        claims.judge("gupta_2051")


def test_stored_numbers_are_found_by_the_id_of_a_claim(tmp_path):
    for name in ("gupta_2015", "scalecom_2020_large"):
        assert claims.stored(name) == claims.stored(claims.get(name)) != Stored({})
    assert claims.stored("gupta_2015", tmp_path) == Stored({})
    with pytest.raises(ValueError, match="unknown claim 'gupta_2051'; did you mean gupta_2015"):
        claims.stored("gupta_2051")


def test_an_explanation_does_not_decide():
    claim = dataclasses.replace(TOY, explanations=(Check("no", lambda results: CheckResult(False, "It is not why.")),))
    verdict = claims.judge(claim, numbers_of({2: 9, 4: 5, 8: 4}))
    assert verdict.is_shown and not verdict.explanations[0].holds


def test_a_claim_that_cannot_be_tested_says_why():
    claim = dataclasses.replace(TOY, points=(), criteria=(), untestable="It needs 12 billion parameters.")
    assert claims.judge(claim, Stored({})).word == "not testable in miniature"
    assert claims.row(claim)["ours"] == "It needs 12 billion parameters."


@pytest.mark.parametrize(("changes", "text"), [
    ({"id": "Toy 1"}, "lower-case"),
    ({"points": ()}, "points, seeds and criteria are needed"),
    ({"untestable": "because"}, "has no points"),
    ({"seeds": (0, 0)}, "duplicate point or seed"),
])  # fmt: skip
def test_claims_that_contradict_themselves_are_refused(changes, text):
    with pytest.raises(ValueError, match=text):
        dataclasses.replace(TOY, **changes)


def test_results_are_asked_by_parameters():
    results = numbers_of({2: 9, 4: 5}).results(TOY)
    assert results.values("error", bits=2).tolist() == [9, 9] and results.along("bits") == [2, 4]
    with pytest.raises(ValueError, match="no measurement at"):
        results.values("error", bits=3)
    with pytest.raises(ValueError, match="more than one point"):
        results.values("error")


# ---- the registered claims -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", claims.experiments())
def test_every_claim_is_measured_with_at_least_three_seeds_or_modelled_and_judged(name):
    claim = claims.get(name)
    record = claims.row(claim)
    if claim.budget == claims.LONG and record["verdict"] == "not measured":
        assert f"of the long budget, “lplab claims run {name} --long”" in record["measured"]
        return
    assert record["verdict"] != "not measured", f"lplab claims run {name}"
    if not claim.untestable:
        assert record["seeds"] >= (1 if claim.modelled else 3) and record["findings"] and claim.limits
        assert record["seeds"] == len(claim.seeds) or claim.budget == claims.LONG
        assert claim.modelled == record["measured"].startswith("computed on")
        assert len(record["findings"]) == len(claim.criteria)
        sessions = claims.stored(claim).sessions
        assert sessions and all(session.command.startswith("lplab claims run") for session in sessions)
        assert sum(session.cost for session in sessions) <= 2 * claim.budget_seconds
        assert {session.budget for session in sessions} == {claim.budget}


def test_ids_are_unique():
    assert len(set(claims.experiments())) == len(claim_catalogue.CLAIMS) + len(claim_catalogue.LARGER)


SOME = [  # one of each rule and setting: a few seconds
    ({"setting": "one format", "rounding": "stochastic", "fraction_bits": 14}, 2),
    ({"setting": "20 bits", "rounding": "nearest_down", "fraction_bits": 7}, 1),
    ({"setting": "wide outputs", "rounding": "nearest_even", "fraction_bits": 8}, 0),
    ({"setting": "gradient first", "rounding": "nearest_up", "fraction_bits": 9}, 4),
]


@pytest.mark.parametrize(("point", "seed"), SOME, ids=lambda value: str(value)[:60])
def test_stored_numbers_can_be_measured_again_to_the_last_bit(measured_and_stored, point, seed):
    now, kept = measured_and_stored(claims.get("gupta_2015"), point, seed)
    assert now == kept


def test_guptas_first_sentences_say_with_which_layer_outputs():
    claim = claims.get("gupta_2015")
    first, second, _ = claims.judge(claim, claims.stored(claim)).findings
    assert all(result.sentence.startswith("With layer outputs ⟨6, 10⟩: ") for result in (first, second))


@pytest.mark.slow
def test_a_whole_curve_can_be_measured_again(measured_and_stored):
    claim = claims.get("gupta_2015")
    for bits in gupta_2015.SETTINGS["wide outputs"].fraction_bits:
        point = {"setting": "wide outputs", "rounding": "stochastic", "fraction_bits": bits}
        seed = claim.seeds[bits % len(claim.seeds)]  # in turn
        now, kept = measured_and_stored(claim, point, seed)
        assert now == kept


def changed(change):
    """The stored results of Gupta's claim, with every measurement of "wide outputs" changed."""
    claim = claims.get("gupta_2015")
    rows = claims.stored(claim).results(claim).rows
    return Stored({
        key(point, seed): change(point, numbers) if point["setting"] == "wide outputs" else numbers
        for point, seed, numbers in rows
    })  # fmt: skip


@pytest.mark.parametrize(("change", "which"), [
    (lambda p, n: n | {"test_error": 5.0} if p["rounding"] == "stochastic" else n, 0),
    (lambda p, n: n | {"test_error": 2.0} if p["rounding"] == "nearest_down" else n, 1),
    (lambda p, n: n | {"test_error": 20.0} if p["rounding"] == "nearest_down" and p["fraction_bits"] < 8 else n, 2),
], ids=["the coin is worse", "nearest is as good", "nearest never stalls"])  # fmt: skip
def test_guptas_claim_can_fail(change, which):
    verdict = claims.judge(claims.get("gupta_2015"), changed(change))
    assert not verdict.is_shown and not verdict.findings[which].holds


def test_the_explanations_can_fail():
    claim = claims.get("gupta_2015")
    rows = claims.stored(claim).results(claim).rows
    flat = Stored({key(p, s): n | {"updates_made": 0.5, "outputs_saturated": 0, "test_error": 2} for p, s, n in rows})
    assert [finding.holds for finding in claims.judge(claim, flat).explanations] == [False, False, False]


def test_the_noise_of_the_test_set():
    errors = np.random.default_rng(0).binomial(397, 0.02, 20_000) / 3.97
    assert counting_noise(2.0, 397) == pytest.approx(2 * errors.std(), rel=0.05)


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def toy_only(monkeypatch, already_portable):
    monkeypatch.setattr(claim_catalogue, "CLAIMS", (TOY,))


def test_the_command_measures_lists_and_prints(tmp_path, toy_only, measured, capsys):
    assert cli.main(["claims", "run", "toy", "--folder", str(tmp_path), "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["verdict"] == "shown" and "lplab claims run toy --jobs 1" in record["measured"]
    assert cli.main(["claims", "list", "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == ["toy", "quick", "shown", "More", "bits,", "less", "error"]
    assert cli.main(["claims", "table", "--folder", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("toy: SHOWN") and "ours      2.05 %" in text
    assert cli.main(["claims", "table", "--markdown", "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[2].endswith("| 1 % | 2.05 % | shown |")


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path, monkeypatch, capsys, already_portable):
    monkeypatch.setattr(claim_catalogue, "CLAIMS", (dataclasses.replace(TOY, measure=failing_measure),))
    assert cli.main(["claims", "run", "--folder", str(tmp_path)]) == 130
    assert "the same command goes on: lplab claims run --jobs 1" in capsys.readouterr().err
    assert len(claims.stored(TOY, tmp_path).numbers) == 4


def test_a_broken_file_of_results_is_bad_input(tmp_path, toy_only, capsys):
    path_of(TOY, tmp_path).write_text("{")
    with pytest.raises(SystemExit) as stop:
        cli.main(["claims", "table", "--folder", str(tmp_path)])
    assert stop.value.code == 2 and "delete it to measure anew" in capsys.readouterr().err


@pytest.mark.parametrize(("argv", "told"), [
    (["list", "--folder", "no/such"], "there is no folder no/such"),
    (["table", "--folder", "no/such"], "there is no folder no/such"),
    (["table", "--json", "--page"], "not allowed with"),
    (["run", "--jobs", "0"], "--jobs must be -1 or at least 1, got 0"),
    (["run", "--jobs", "2", "--dask", "tcp://here:8786"], "not allowed with"),
    (["run", "--dask", "here"], "protocol://host:port"),
])  # fmt: skip
def test_bad_input_gets_one_line_and_code_2(argv, told, toy_only, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["claims", *argv])
    text = capsys.readouterr()
    assert stop.value.code == 2 and told in text.err and text.err.count("\n") == 1 and text.out == ""


def test_sessions_know_their_day():
    assert len(Session.now("x", 1, 0.04, 1).date) == 10
    assert Session.now("x", 1, 60.0, 2, 31.5).cost == 31.5 and Session.now("x", 1, 60.0, 2).cost == 120
    assert isinstance(Results([]), Results) and len(Results([])) == 0
