"""``lplab simulate``, driven as a user drives it."""

import csv
import io
import json
import math

import pytest

from lplab import cli, figures
from lplab.cli.simulate_sweep import parse_axis
from lplab.hardware import Cluster, compare_methods, local_machine, simulate, simulate_local_steps

pytest.importorskip("pandas")


def run(capsys, *argv: str) -> str:
    assert cli.main(["simulate", *argv]) == 0
    return capsys.readouterr().out


def test_a_step_is_the_librarys(capsys):
    text = run(
        capsys, "resnet50", "--chip", "v100", "--devices", "64", "--link", "ethernet_10g", "--recipe", "fp16_mixed"
    )
    found = simulate("resnet50", Cluster("v100", 64, "ethernet_10g"), precision="fp16_mixed")
    assert f"{1e3 * found.step_seconds:.4g} ms" in text and f"{found.efficiency:.1%}" in text
    assert text.startswith("modelled step") and "activations" in text


@pytest.mark.parametrize(("chip", "recipe", "rate", "note"), [
    ("v100", "bf16", "fp16 rate, 125 trillion", "has no bf16 rate"),
    ("tpu-v3", "fp16_mixed", "bf16 rate, 123 trillion", "(--recipe bf16)"),
    ("a100", "bf16", "bf16 rate, 312 trillion", ""),
])  # fmt: skip
def test_another_16_bit_rate_than_the_recipes_is_said(capsys, chip, recipe, rate, note):
    """In a report, and in sweeps, whose JSON stays JSON."""
    for several in ([], ["--sweep", "devices=1,2", "--json"]):
        assert cli.main(["simulate", "resnet18", "--chip", chip, "--precision", recipe, *several]) == 0
        output = capsys.readouterr()
        assert (note in output.err) if note else output.err == ""
        assert len(json.loads(output.out)) == 2 if several else rate in output.out


def test_what_does_not_fit_is_said_first_in_units_that_fit(capsys):
    text = run(capsys, "gpt3", "--chip", "v100", "--recipe", "fp16_mixed", "--devices", "8")
    first, *rest = text.splitlines()
    assert first.startswith("DOES NOT FIT: a device would need 7.054 TB and has 32 GB")
    step = next(line for line in rest if line.startswith("step"))
    assert step.endswith(" minutes") and "e+" not in text and "throughput      0 " not in text
    assert not json.loads(run(capsys, "gpt3", "--chip", "v100", "--recipe", "fp16_mixed", "--json"))["fits"]
    grid = json.loads(run(capsys, "gpt3", "--sweep", "devices=1,8", "--chip", "v100", "--json"))
    assert [row["fits"] for row in grid] == [False, False]
    assert "DOES NOT FIT" not in run(capsys, "resnet18")


def test_mine_is_the_users_once_measured_and_until_then_says_whose_it_is(capsys, tmp_path, monkeypatch):
    place = tmp_path / "machine.json"
    monkeypatch.setenv("LPLAB_MACHINE", str(place))
    for whose, has_note in (("the machine lplab was made on", True), ("your machine", False)):
        assert cli.main(["simulate", "resnet18", "--chip", "mine", "--recipe", "fp32"]) == 0
        output = capsys.readouterr()
        assert whose in output.out.splitlines()[0] and ("lplab doctor --measure" in output.err) is has_note
        place.write_text(local_machine.bundled_measurement_path().read_text("utf-8"), "utf-8")


def test_help_gives_defaults_and_the_report_what_was_assumed_and_typed(capsys):
    with pytest.raises(SystemExit):
        cli.main(["simulate", "--help"])
    words = " ".join(capsys.readouterr().out.split())
    for option in ("--utilization", "--overlap", "--straggler"):
        assert "(default: " in words.rpartition(option + " ")[2].partition(" --")[0], option
    text = run(capsys, "resnet18", "--compressor", "scalecom", "--utilization", "0.4")
    assert "of which it reaches 40%" in text and "compressor scalecom\n" in text


def test_counts_of_a_sweep_are_whole_as_those_of_a_step(capsys):
    (row,) = csv.DictReader(io.StringIO(run(capsys, "resnet18", "--sweep", "devices=8", "--csv")))
    assert (row["devices"], row["batch"], row["devices_per_node"]) == ("8", "32", "1")
    args = ["resnet18", "--compressor", "topk:density=0.01", "--json"]
    one, (many,) = (json.loads(run(capsys, *args, *more)) for more in ([], ["--sweep", "devices=1"]))
    assert set(one) == set(many) and one["compressor"] == many["compressor"] == "topk:density=0.01"


@pytest.mark.parametrize("devices", ["1", "3", "10000000"])
def test_any_number_of_devices_as_json_and_csv(capsys, devices):
    row = json.loads(run(capsys, "resnet50", "--devices", devices, "--compressor", "scalecom", "--json"))
    (again,) = csv.DictReader(
        io.StringIO(run(capsys, "resnet50", "--devices", devices, "--compressor", "scalecom", "--csv"))
    )
    assert row["devices"] == int(devices) and 0 < row["efficiency"] <= 1
    assert math.isclose(float(again["step_seconds"]), row["step_seconds"]) and list(again) == list(row)


def test_a_link_without_limits_is_null_in_json_in_a_step_as_in_a_sweep(capsys):
    for sweep in ([], ["--sweep", "devices=2"]):
        text = run(capsys, "resnet18", "--link", "ideal", "--devices", "2", "--json", *sweep)
        assert '"bytes_per_second":null' in text.replace(": ", ":") and "Infinity" not in text


def test_a_sweep_has_a_row_for_each_combination(capsys):
    args = ["resnet18", "--sweep", "devices=1,8,64", "--sweep", "compressor=none,topk:density=0.01,wire=fp16,scalecom"]
    rows = json.loads(run(capsys, *args, "--json"))
    assert [row["compressor"] for row in rows] == [
        c for c in ("none", "topk:density=0.01,wire=fp16", "scalecom") for _ in range(3)
    ]
    assert rows == json.loads(run(capsys, *args, "--json"))
    printed = run(capsys, *args).splitlines()
    assert len(printed) == 10 and printed[0].split()[:2] == ["compressor", "devices"]
    table = list(
        csv.DictReader(io.StringIO(run(capsys, "resnet18", "--sweep", "bytes-per-second=1e9:1e11:3", "--csv")))
    )
    assert [float(row["bytes_per_second"]) for row in table] == [1e9, 1e10, 1e11]


def test_a_range_goes_by_equal_factors_however_small_its_numbers_are():
    assert parse_axis("latency_seconds=1e-12:1e-9:4")[1] == [1e-12, 1e-11, 1e-10, 1e-9]
    assert parse_axis("devices=1:1024:11")[1] == [2.0**i for i in range(11)]


def test_html_is_a_timeline_or_curves(capsys, tmp_path):
    one, many = tmp_path / "one.html", tmp_path / "many.html"
    for path, args in ((one, ["--devices", "8", "--json"]), (many, ["--sweep", "devices=1,8"])):
        assert cli.main(["simulate", "resnet18", *args, "--html", str(path)]) == 0
        output = capsys.readouterr().err
        assert f"figure written to {path} (" in output and " MB)" in output
    assert "Timeline of a modelled step of ResNet-18 on 8" in one.read_text("utf-8")
    assert "Modelled efficiency against devices" in many.read_text("utf-8")


def test_the_list_names_what_can_be_combined(capsys):
    lists = json.loads(run(capsys, "--list", "--json"))
    assert (
        {"resnet50", "gpt3"} <= set(lists["workloads"]) and "h100" in lists["chips"] and "none" in lists["compressors"]
    )
    assert all(name in run(capsys, "--list") for names in lists.values() for name in names)


def test_chips_of_your_own(capsys, tmp_path):
    path = tmp_path / "chips.csv"
    path.write_text("name,label,fp16,memory_bytes_per_second\nmine2,My chip,1e15,1e12\n", "utf-8")
    row = json.loads(
        run(capsys, "resnet18", "--chips", str(path), "--chip", "mine2", "--recipe", "fp16_mixed", "--json")
    )
    assert row["chip"] == "mine2" and row["step_seconds"] > 0


@pytest.mark.parametrize(("argv", "message"), [
    ([], "name a workload"),
    (["resnet5"], "there is no workload 'resnet5'; did you mean"),
    (["resnet50", "--chip", "h1000"], "there is no chip 'h1000'"),
    (["resnet50", "--devices", "0"], "1 or more, got 0"),
    (["resnet50", "--devices", "many"], "invalid int value"),
    (["resnet50", "--link=-1Gb/s"], "must be positive"),
    (["resnet50", "--link", "-10Gb/s,2us"], "begins with a minus is written behind ="),
    (["resnet50", "--devices", "8", "--inner-link", "nvlink4"], "say how many with --per-node"),
    (["resnet50", "--compressor", "scalecom:chunk=abc"], "takes a whole number or None, got 'abc'"),
    (["resnet50", "--link", "1Gb/s, -3us"], "latency_seconds of a link must be finite and 0 or more"),
    (["resnet50", "--devices", "6", "--per-node", "4", "--inner-link", "nvlink4"], "do not fill nodes of 4"),
    (["resnet50", "--per-node", "4"], "need inner_link"),
    (["resnet50", "--batch", "0"], "batch must be a whole number from 1"),
    (["resnet50", "--recipe", "int4"], "int4 is for inference"),
    (["resnet50", "--compressor", "topq"], "did you mean topk"),
    (["resnet50", "--overlap", "2"], "overlap must be from 0 to 1"),
    (["resnet50", "--json", "--csv"], "choose one"),
    (["resnet50", "--html", "x.png"], "ends in .html"),
    (["resnet50", "--html", "/no/such/x.html"], "there is no folder"),
    (["resnet50", "--chips", "nowhere.csv"], "there is no file"),
    (["resnet50", "--sweep", "devices"], "SETTING=VALUES"),
    (["resnet50", "--sweep", "nodes=3"], "unknown axis 'nodes'"),
    (["resnet50", "--sweep", "devices=1:0:3"], "two numbers above 0 and a count from 2 to 100,000"),
    (["resnet50", "--sweep", "workload=vgg16"], "unknown axis 'workload'"),
    (["resnet50", "--sweep", "sharded=yes,no"], "sharded must be True or False, got 'yes'"),
    (["resnet50", "--sweep", "link=1,2"], "a link is a name"),
    (["resnet50", "--sweep", "bytes_per_second=nan"], "takes numbers, got nan"),
    (["resnet50", "--sweep", "devices=a:b:3"], "FIRST:LAST:COUNT"),
    (["resnet50", "--sweep", "devices=1:1e30:3"], "the number of devices must be at most 2^53, got 1e+30"),
    (["resnet50", "--sweep", "per_node=1e30", "--inner-link", "ideal"], "devices must be at most 2^53, got 1e+30"),
    (["resnet50", "--sweep", "bytes_per_second=1e-200:1e200:3"], "two numbers above 0"),
    (["resnet50", "--sweep", "batch=inf"], "batch must be at most 2^53, got inf"),
    (["resnet50", "--devices", "9" * 400], "the number of devices must be within the range of float64"),
    (["resnet50", "--sweep", "devices=1,2", "--sweep", "devices=8"], "gives devices twice: [1.0, 2.0] and [8.0]"),
    (["resnet50", "--sweep", "recipe=fp32", "--sweep", "precision=bf16"], "--sweep gives precision twice"),
    (["resnet50", "--compressor", "topk:density=0.1,density=0.2"], "TopK takes density once"),
    (["resnet50", "--recipe", ""], "there is no precision ''; there are: fp32"),
    (["resnet50", "--html", "x" * 300 + ".html"], "xxx"),
    (["resnet50", "--html", "x" * 300 + "/a.html"], "xxx"),
    (["resnet50", "--chips", "x" * 300 + ".csv"], "xxx"),
    (["resnet50", "--sweep", "devices=1,two"], "devices"),
    (["resnet50", "--sweep", "bytes_per_second=1:9:1000", "--sweep", "latency_seconds=1:9:1000"], "1,000,000 points"),
    (["resnet50", "--sweep", "batch=8,16", "--html", "x.html"], "two numbers of devices"),
])  # fmt: skip
def test_bad_input_gets_one_line_and_code_2(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["simulate", *argv])
    output = capsys.readouterr()
    assert stop.value.code == 2 and output.out == ""
    assert message in output.err and output.err.startswith("lplab simulate:") and output.err.count("\n") == 1


def test_a_figure_that_cannot_be_written_gets_one_line_and_code_2(capsys, tmp_path):
    (tmp_path / "there.html").mkdir()
    with pytest.raises(SystemExit) as stop:
        cli.main(["simulate", "resnet18", "--html", str(tmp_path / "there.html")])
    output = capsys.readouterr().err
    assert stop.value.code == 2 and "there.html is a folder; name a file in it" in output and output.count("\n") == 1


def test_the_helps_example_runs(capsys):
    with pytest.raises(SystemExit):
        cli.main(["simulate", "--help"])
    example = capsys.readouterr().out.partition("example:\n  lplab ")[2].split()
    assert cli.main(example) == 0 and "efficiency" in capsys.readouterr().out


# ---- learners that meet seldom ---------------------------------------------------------------------------------------


def test_learners_that_meet_seldom_are_the_librarys_beside_the_methods(capsys):
    args = ["gpt", "--every", "30", "--compressor", "sparseloco", "--link", "home_100m", "--devices", "8"]
    text = run(capsys, *args)
    cluster = Cluster("h100", 8, "home_100m")
    found = simulate_local_steps("gpt", cluster, compressor="sparseloco")
    assert f"{1e3 * found.step_seconds:.4g} ms" in text and f"{found.efficiency:.1%} of what" in text
    for row in compare_methods("gpt", cluster):
        assert any(line.startswith(row["label"]) and f"{row['efficiency']:.1%}" in line for line in text.splitlines())
    row = json.loads(run(capsys, *args, "--json"))
    assert row == json.loads(json.dumps(found.to_dict() | {"compressor": "sparseloco"}))
    (of_csv,) = csv.DictReader(io.StringIO(run(capsys, *args, "--csv")))
    assert float(of_csv["step_seconds"]) == found.step_seconds


def test_a_sweep_of_learners_that_meet_seldom(capsys):
    args = ["gpt", "--every", "30", "--sweep", "link=nvlink4,home_100m", "--sweep", "fragments=1,3", "--devices", "4"]
    rows = json.loads(run(capsys, *args, "--json"))
    assert [(row["link"], row["fragments"]) for row in rows] == [
        ("nvlink4", 1), ("nvlink4", 3), ("home_100m", 1), ("home_100m", 3),
    ]  # fmt: skip
    assert rows[2]["step_seconds"] > 10 * rows[0]["step_seconds"]
    assert len(run(capsys, *args).splitlines()) == len(run(capsys, *args, "--csv").splitlines()) == 5


def test_the_figure_of_a_sweep_of_learners_that_meet_seldom(capsys, tmp_path, monkeypatch):
    """A curve for each number of steps between meetings; its points are those of the table."""
    drawn = []
    monkeypatch.setattr(figures, "export", lambda figure, path: (drawn.append(figure), path.write_text("")))
    args = ["gpt", "--every", "30", "--link", "home_500m", "--sweep", "devices=2,4,16", "--sweep", "every=30,300"]
    rows = json.loads(run(capsys, *args, "--html", str(tmp_path / "x.html"), "--json"))
    curves = {trace.name: trace for trace in drawn[0].data[:2]}
    for every in (30, 300):
        found = curves[f"every {every}"]
        assert [*found.x] == [1, 2, 4]  # powers of two
        assert [*found.y] == pytest.approx([row["efficiency"] for row in rows if row["every"] == every])


@pytest.mark.parametrize(("args", "message"), [
    (["--fragments", "3"], "about learners that meet once in --every steps"),
    (["--every", "30", "--fragments", "4"], "every must be a multiple of the number of fragments"),
    (["--every", "30", "--bucket", "5"], "leave out --bucket"),
    (["--every", "30", "--html", "x.html"], "add --sweep devices=4,16,64, or leave out --every"),
    (["--every", "30", "--sweep", "link=ideal,home_100m", "--html", "x.html"], "two numbers of devices or more"),
    (["--every", "30", "--sweep", "bucket_bytes=1,2"], "got 'bucket_bytes'"),
    (["--every", "30", "--outer", "nestorov"], "nesterov"),
])  # fmt: skip
def test_bad_settings_of_meetings_are_told(capsys, args, message):
    with pytest.raises(SystemExit):
        cli.main(["simulate", "gpt", *args])
    assert message in capsys.readouterr().err
