"""The README and the pages that it leads to: their code runs, their commands exist, their links lead somewhere."""

import doctest
import json
import re
import runpy
import shlex
from argparse import Namespace
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from lplab import claims
from lplab.cli import COMMANDS
from lplab.cli.command import Parser
from lplab.formats import catalogue

PROJECT = Path(__file__).parents[1]
PAGES = {
    name: (PROJECT / name).read_text("utf-8")
    for name in (
        "README.md",
        *(
            f"docs/{page}.md"
            for page in (
                "own_network",
                "quantize_language_model",
                "learners",
                "compress_training",
                "clusters",
                "measure_claims",
                "teaching",
                "contributing",
                "exactness",
            )
        ),
    )
}
TEXT = PAGES["README.md"]
FENCED = [found for text in PAGES.values() for found in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)]
ROW_OF_THE_CATALOGUE = "_float("
SHELL = "".join(block for language, block in FENCED if not language)
LINES = [
    *(line for text in PAGES.values() for line in re.findall(r"`(?:python3 start.py )?(lplab [^`]+)`", text)),
    *re.findall(r"^(lplab [^#\n]+)", SHELL, re.M),
]
COMMAND_LINES = [line for line in LINES if "..." not in line]
LINKS = [
    pytest.param(name, link, id=f"{name}-{link}")
    for name, text in PAGES.items()
    for link in sorted(set(re.findall(r"\]\(([^)]+)\)", text)))
]


def code_blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", PAGES[page], re.M | re.S)


def run(page):
    """What all blocks of a page but the row of the catalogue leave behind, run one after the other by a reader."""
    torch = pytest.importorskip("torch")
    for needed in ("ipywidgets", "onnx", "tensorboard"):
        pytest.importorskip(needed)
    torch.manual_seed(0)
    found = {}
    for block in code_blocks(page):
        if not block.startswith(ROW_OF_THE_CATALOGUE):
            exec(block, found)
    return found


@pytest.fixture(scope="module")
def readme():
    return run("README.md")


@pytest.fixture(scope="module")
def namespace():
    return run("docs/own_network.md")


def test_the_first_lines_give_what_their_comments_say(readme):
    formats, x = readme["F"], readme["x"]
    line = next(line for line in TEXT.splitlines() if line.startswith('F.get("e4m3fn").quantize(x)'))
    assert formats.get("e4m3fn").quantize(x).tolist() == [float(n) for n in line.partition("#")[2].split(",")]
    one, two = (formats.get("bf16").quantize(x, rounding="stochastic", seed=7) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_model_tensors_and_recording_went_out(namespace):
    import onnx

    from lplab.datasets import load_tensors

    folder, plain, formats = (namespace[name] for name in ("folder", "plain", "F"))
    kinds = [node.op_type for node in onnx.load(folder / "small.onnx").graph.node]
    assert kinds.count("Gemm") == kinds.count("QuantizeLinear") == 3
    with pytest.warns(UserWarning, match="no floating-point numbers in 1.num_batches_tracked"):
        stored = load_tensors(folder / "plain.safetensors")
    expected = formats.get("e4m3fn").quantize(plain.state_dict()["0.weight"].numpy())
    np.testing.assert_array_equal(stored["0.weight"], expected)
    assert len(list((folder / "runs").iterdir())) == 1


def test_the_row_of_the_catalogue_is_one():
    (block,) = (block for block in code_blocks("docs/contributing.md") if block.startswith(ROW_OF_THE_CATALOGUE))
    (made,) = eval(block, vars(catalogue))
    assert (made.name, made.bits, made.bias, made.max) == ("my_fp6", 6, 4, 12.0)


def test_the_network_was_trained_recorded_and_rounded(namespace):
    from lplab.training import compare, recipes, sensitivity
    from lplab.training.emulation.conversion import emulation_of

    names = "plain", "inputs", "wrong", "recorder", "trainer", "small"
    plain, inputs, wrong, recorder, trainer, small = (namespace[name] for name in names)
    assert trainer.step == 200 and trainer.recipe.name == "hfp8_2019"
    assert len(recorder.series("3", "output_gradient_dx")["underflowed"]) == 20
    rules = {name: op.rules.weight.format.label for name, op in emulation_of(trainer.model).ops.items()}
    assert [rules[name] for name in "035"] == ["dlfloat16", "hfp8_forward", "dlfloat16"]
    assert wrong(plain.eval()) < 0.15 and wrong(small) < 0.15
    rows = compare(plain, ["int8", "int4"], inputs, wrong)
    assert abs(rows[0].direct - rows[0].float32) < 0.05 and list(sensitivity(plain, "int4", wrong)) == ["0", "3", "5"]
    assert {"fixed16_2015", "luq_2022"} <= set(recipes.names())


def test_the_report_says_what_its_comments_say(namespace):
    rows, lines = namespace["report"].rows, PAGES["docs/own_network.md"].splitlines()
    line = next(line for line in lines if 'row.layer == "0" and row.role == "weight"' in line)
    assert [r.rounded_to for r in rows if r.layer == "0" and r.role == "weight"] == [
        line.split("# ")[1].split(":")[0]
    ] * 2
    line = next(line for line in lines if 'row.layer.startswith("1")' in line)
    assert {r.because for r in rows if r.layer.startswith("1")} == {line.split("# ")[1]}


def test_the_live_run_trains(namespace):
    run = namespace["run"]
    run.start()
    run.wait(120)
    assert {name: len(losses) for name, losses in run.losses.items()} == {"fp32": 60, "int4_fp4_2020": 60}


def test_the_learners_train_and_their_bytes_are_those_that_are_stated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the page saves a checkpoint
    found, text = run("docs/learners.md"), PAGES["docs/learners.md"]
    history, learners = found["history"], found["learners"]
    assert len(history) == 100 and not any(found.skipped for found in history)
    first, last = re.search(r"# \.loss from ([\d.]+) to about ([\d.]+)", text).groups()
    assert round(history[0].loss, 2) == float(first)
    assert abs(np.mean([found.loss for found in history[-10:]]) - float(last)) < 0.1
    line = next(line for line in text.splitlines() if line.startswith("learners.ledger.total("))
    stated = int(re.search(r"# (\d+) bytes", line)[1])
    assert learners.ledger.total(layer="layers.1.weight", kind="all_reduce", rank=3, step=99) == stated == 4 * 328
    assert found["hook"].step == 1 and not found["hook"].skipped and any(tmp_path.iterdir())
    few, sparse, dense = re.search(
        r"# ([\d,]+) and ([\d,]+) in a round of 10 steps; dense would be ([\d,]+)", text
    ).groups()
    for sent, kind in ((few, "diloco"), (sparse, "sparse")):
        assert found[kind].ledger.total(step=0) == int(sent.replace(",", ""))
    assert 4 * 4 * sum(p.numel() for p in found["model"].parameters()) == int(dense.replace(",", ""))


def test_the_simulated_cluster_is_simulated():
    found = run("docs/clusters.md")
    step, grid = found["step"], found["grid"]
    assert step.cluster.devices == 64 and 0 < step.exposed_seconds < step.step_seconds
    assert step.memory["residuals"] > 0 and set(grid.compressor) == {"none", "topk:density=0.01", "scalecom"}
    assert len(grid) == 12 and (grid[grid.devices == 1].efficiency == 1).all()


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_commands_are_understood(line):
    parser = Parser("lplab")
    commands = parser.add_subparsers(required=True)
    for add in COMMANDS:
        add(commands)
    assert isinstance(parser.parse_args(shlex.split(line)[1:]), Namespace)


def test_there_are_commands_of_every_kind():
    assert {line.split()[1] for line in COMMAND_LINES} >= {"train", "claims", "formats", "exercises", "simulate"}


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_links_lead_somewhere(page, link):
    file, _, anchor = link.partition("#")
    if link.startswith("https://"):
        return
    target = (PROJECT / page).parent / file if file else PROJECT / page
    assert target.exists()
    if anchor and target.suffix == ".md":
        text = target.read_text("utf-8")
        headings = [
            re.sub(r"[^\w -]", "", line.lower()).strip().replace(" ", "-")
            for line in re.findall("^#+ (.*)", text, re.M)
        ]
        assert anchor in headings or f'id="{anchor}"' in text


def test_the_readme_is_short_and_counts_the_claims_right():
    assert len(TEXT.splitlines()) <= 120
    counts = Counter(claims.judge(claim, claims.stored(claim)).word for claim in map(claims.get, claims.names()))
    sentence = (
        r"Of \[(\d+) claims\]\(.*?\), (\d+) are shown here, (\d+) in part, (\d+) for the arithmetic unit and not for a "
        r"training, (\d+) (?:is|are) undecided, (\d+) (?:is|are) not shown for a reason that the paper gives, and "
        r"(\d+) (?:is|are) not shown"
    )
    words = (
        "shown",
        "shown in part",
        "shown for the unit, not for a training",
        "undecided",
        "not shown, and the paper says why",
        "not shown",
    )
    assert tuple(map(int, re.search(sentence, TEXT).groups())) == (counts.total(), *(counts[word] for word in words))
    assert counts.total() == sum(counts[word] for word in words)


def test_the_readme_counts_the_larger_runs_by_computation():
    said = claims.count_of_larger([claims.row(claims.get(name)) for name in claims.names()])
    assert said in TEXT and bool(said) == ("a larger run, too" in TEXT), said


def test_what_the_readme_says_of_three_claims_is_their_verdict():
    for name, shown in re.findall(r"\[(as published in|does not come out)[^\]]*\]\(docs/claims.md#(\w+)\)", TEXT):
        name, shown = shown, name == "as published in"
        verdict = claims.judge(claims.get(name), claims.stored(claims.get(name)))
        assert all(finding.holds for finding in verdict.findings) == shown


def test_every_lab_has_a_row_with_a_question():
    rows = re.findall(r"^\| \[(\d\d) · .*?\]\((labs/.*?)\) \| (.*\?) \|$", TEXT, re.M)
    assert [path for _, path, _ in rows] == sorted(f"labs/{path.name}" for path in (PROJECT / "labs").glob("*.ipynb"))


def test_the_moving_picture_is_the_mechanism_as_it_is_now():
    """A page shows it to all but those who want no movement: they get its end."""
    pytest.importorskip("anywidget")
    pictures = runpy.run_path(str(PROJECT / "docs" / "pictures.py"))
    name = pictures["MOVING"]
    stored = json.loads(pictures["SHOWN"].read_text("utf-8"))
    assert stored[name] == pictures["content_digest"](), "python docs/pictures.py records it anew"
    moving, still = ((PROJECT / "docs" / f"{name}.{kind}").read_bytes() for kind in ("webp", "png"))
    assert moving[8:12] == b"WEBP" and b"ANIM" in moving[:64] and len(moving) < 1_000_000
    assert still.startswith(b"\x89PNG")
    calm = f'<source media="(prefers-reduced-motion: reduce)" srcset="docs/{name}.png">'
    assert calm in TEXT and f'src="docs/{name}.webp"' in TEXT


@pytest.mark.parametrize("patent", ["11,295,208", "11,816,549"])
def test_the_patents_are_named_beside_the_licence(patent):
    assert patent in TEXT.partition("## Licence")[2]


def test_the_examples_of_the_page_about_quantizing_are_true():
    result = doctest.testfile(str(PROJECT / "docs/quantize.md"), module_relative=False, encoding="utf-8")
    assert result.attempted >= 8 and result.failed == 0
