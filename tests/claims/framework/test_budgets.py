"""Two budgets: quick and long claims run apart; a long one survives being killed; both say when they were measured."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from lplab import claims, cli
from lplab.claims import Check, CheckResult, Claim, claim_catalogue
from lplab.claims.framework.store import Session, Stored, path_of

PROJECT = Path(__file__).parents[3]


def measure(point, seed):
    return {"error": float(point["bits"] + seed)}


QUICK = Claim(
    id="quick_one", version=1, title="Quick", paper="A. Nobody: Bits, 2020", where="figure 1", statement="It is quick.",
    published="1 %", experiment="None.", points=({"bits": 4}, {"bits": 8}), seeds=(0,), measure=measure,
    criteria=(Check("true", lambda results: CheckResult(len(results) == 2, "It is.")),), measured=lambda results: "2",
)  # fmt: skip
LONG = dataclasses.replace(QUICK, id="long_one", title="Long", budget="long", budget_seconds=7200.0, version=3)


@pytest.fixture
def both(monkeypatch):
    monkeypatch.setattr(claim_catalogue, "CLAIMS", (QUICK, LONG))


@pytest.fixture
def run(tmp_path, both, capsys, already_portable):
    """Runs ``lplab claims run`` in a folder of its own; which claims are measured then."""

    def run(*argv):
        assert cli.main(["claims", "run", *argv, "--folder", str(tmp_path)]) == 0
        capsys.readouterr()
        return {path.stem for path in tmp_path.glob("*.json")}

    return run


def test_without_names_a_run_takes_the_claims_of_one_budget(run):
    assert run() == {"quick_one"}
    assert run("--long") == {"quick_one", "long_one"}


def test_long_alone_leaves_the_quick_ones(run):
    assert run("--long") == {"long_one"}


def test_a_long_claim_by_name_needs_long(run, capsys):
    with pytest.raises(SystemExit) as stop:
        run("quick_one", "long_one")
    assert stop.value.code == 2
    assert "long_one is of the long budget, up to 120 minutes of a core; add --long" in capsys.readouterr().err
    assert run("quick_one", "long_one", "--long") == {"quick_one", "long_one"}


def test_what_was_measured_says_budget_day_versions_and_command(run, tmp_path):
    run("--long")
    stored = claims.stored(LONG, tmp_path)
    (session,) = stored.sessions
    assert session.budget == "long" and session.command == "lplab claims run --long --jobs 1"
    told = claims.row(LONG, tmp_path)["measured"]
    took = rf"in {session.seconds:.0f} s(, {session.core_seconds:.0f} s of a core)?"
    once = rf"measured on {session.date} by “lplab claims run --long --jobs 1” {took} \(long budget; "
    assert re.match(once, told), told
    assert f"lplab {session.versions['lplab']}" in told and told.endswith("; version 3 of the experiment)")


def test_seconds_of_all_runs_are_not_said_to_be_those_of_the_last():
    runs = [Session.now(f"run {k}", 1, 1000.0 * k, 1, core_seconds=100.0 * k) for k in (1, 2)]
    assert f"in 2 runs, the last on {runs[1].date} by “run 2” in 3000 s together, 300 s of a core (" in (
        Stored({}, tuple(runs)).provenance
    )
    unknown = dataclasses.replace(runs[0], core_seconds=0.0)
    assert "of a core" not in Stored({}, (unknown, runs[1])).provenance


def test_what_was_not_measured_says_so_and_how(tmp_path):
    assert claims.row(LONG, tmp_path)["measured"] == (
        "not measured yet: 2 measurements of the long budget, “lplab claims run long_one --long”"
    )
    half = Stored({LONG.keys()[0]: {"error": 4.0}}, (Session.now("me", 1, 3.0, 1, budget="long"),))
    assert half.provenance_of(LONG).endswith(
        "; not yet: 1 measurement of the long budget, “lplab claims run long_one --long”"
    )


def test_budgets_are_two():
    with pytest.raises(ValueError, match="long_one: budget must be quick or long, got 'endless'"):
        dataclasses.replace(LONG, budget="endless")


def test_the_page_says_how_long_larger_runs_may_take():
    *most, longest = sorted(
        each.budget_seconds / 60 for name in claims.names() if (each := claims.larger(claims.get(name)))
    )
    page = (Path(__file__).parents[3] / "docs" / "measure_claims.md").read_text("utf-8")
    assert max(most) < 70 and f"less than 70 minutes of a core, the longest for {longest:.0f}." in page


def test_all_quick_claims_fit_into_forty_minutes_on_two_cores():
    quick = [claim for claim in map(claims.get, claims.names()) if claim.budget == claims.QUICK]
    assert sum(claim.budget_seconds for claim in quick) <= 2 * 40 * 60


def test_a_long_claim_is_stored_after_each_measurement(tmp_path):
    sizes = []

    def watching(point, seed):
        sizes.append(len(claims.stored(LONG, tmp_path).numbers))
        return measure(point, seed)

    claims.run_claim(dataclasses.replace(LONG, measure=watching), folder=tmp_path)
    assert sizes == [0, 1]


KILLED = """
    import dataclasses, pathlib, sys, time
    from lplab import cli
    from lplab.claims import claim_catalogue
    from tests.claims.framework.test_budgets import LONG

    folder, third = pathlib.Path(sys.argv[1]), sys.argv[2]

    def measure(point, seed):
        with (folder / "log").open("a") as log:
            log.write(f"{seed}\\n")
        if seed == 2 and third == "hangs":
            (folder / "hangs").touch()
            time.sleep(600)
        return {"error": float(seed)}

    claim = dataclasses.replace(LONG, points=({"bits": 4},), seeds=(0, 1, 2, 3), measure=measure)
    claim_catalogue.CLAIMS = (claim,)
    sys.exit(cli.main(["claims", "run", "--long", "--folder", str(folder), "--json"]))
"""


@pytest.mark.skipif(os.name == "nt", reason="a process is killed by a signal")
def test_a_killed_run_goes_on_where_it_was(tmp_path, already_portable):
    """Killed in the third of four measurements, without a chance to tidy up: the first two are not measured again."""
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)]
    process = subprocess.Popen(
        [*command, "hangs"], env=os.environ | {"PYTHONPATH": str(PROJECT)}, stdout=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "hangs").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    text = path_of(LONG, tmp_path).read_text("utf-8")
    assert text.count('"point"') == 2
    subprocess.run(
        [*command, "goes on"],
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=120,
    )
    assert (tmp_path / "log").read_text().split() == ["0", "1", "2", "2", "3"]
    whole = path_of(LONG, tmp_path).read_text("utf-8")
    assert whole.count('"point"') == 4 and whole.count('"date"') == 2
