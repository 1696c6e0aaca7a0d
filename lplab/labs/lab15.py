"""Lab 15, a language model in few bits: its tables and figures, the explorer with its questions, and the live answer."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import figures, widgets
from lplab.exercises.notebook import Text
from lplab.figures.written_text import plain
from lplab.hardware.decoding import decoding_step
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, guided
from lplab.number_text import percent
from lplab.quantizers import STORED_WEIGHTS, WeightGrid
from lplab.recordings.language_model import language_model_recording
from lplab.recordings.rounded_answers import GPTQ_TOKENS, NOTHING, QUESTION, calibration_tokens, rounded_answers
from lplab.widgets.explorers import few_bits_explorer as few
from lplab.widgets.explorers.few_bits_explorer import CACHE, KNOWS_NOTHING, WEIGHTS, FewBitsState
from lplab.widgets.missing import can_be_imported, missing_line

# ---- the explorer and its questions ----------------------------------------------------------------------------------


def explorer() -> widgets.FewBitsExplorer:
    """The explorer where the prediction asks: inputs in 8 bits with one scale for the tensor."""
    return widgets.FewBitsExplorer()


def guided_explorer() -> GuidedExplorer:
    """The explorer below its questions."""
    return guided(explorer(), QUESTIONS)


def _largest() -> tuple[int, int]:
    """Token and channel of the largest number of the input that the guess asks about."""
    x = language_model_recording().layers[few.DOWN].inputs
    token, channel = np.unravel_index(int(np.abs(x).argmax()), x.shape)
    return int(token), int(channel)


def _a_scale_for_each_token_is_true(state: FewBitsState) -> bool:
    found, (token, channel) = few.rounded(state), _largest()
    others = np.delete(np.abs(found.before[:, channel]), token)
    is_zero = (found.after == 0).mean(axis=0)
    _, columns = few.window(state)
    is_orange = int(is_zero[columns].argmax()) + columns.start == channel and is_zero[channel] > 0.8
    return bool(
        is_orange
        and np.median(others) < 0.05 * np.median(np.abs(found.before))
        and found.zeroed < 0.2
        and few.rounded(state.changed(per="tensor")).zeroed > 0.999
        and few.cost(state) < few.cost(state.changed(per="tensor")) / 3
    )


def _a_scale_for_each_token(state: FewBitsState) -> str:
    zeroed, before = few.rounded(state).zeroed, few.rounded(state.changed(per="tensor")).zeroed
    _, channel = _largest()
    return (
        f"With a scale for each token, {percent(zeroed)} of this input become zero, instead of {percent(before)}. The huge number sets the scale of its own token "
        f"alone. The orange column of the map is its channel, {channel:,}: other tokens have next to nothing there. The loss rises by {few.cost(state):.2f} bits a token, instead of {few.cost(state.changed(per='tensor')):.2f}."
    )


def _which_repair(state: FewBitsState) -> str:
    costs = {name: few.cost(other) for name, other in few.beside(state).items()}
    told = ", ".join(f"{name} {costs[name]:.2f}" for name in ("split", "smooth", "rotate"))
    return (
        f"The loss rises by {costs['as they are']:.2f} bits a token without a repair. With the repairs it rises by less: {told}. Splitting helps most, as the few channels with "
        "huge numbers are not rounded at all. It also costs most on a chip, which has to multiply these channels apart, in 16 bits. In the layer of your guess, "
        f"rotating still leaves an error of {percent(few.rounded(state.changed(method=few.ROTATE)).error)}: its first token, now spread over all channels, still sets the one scale. The gain comes from other layers."
    )


def _which_repair_is_true(state: FewBitsState) -> bool:
    cost = {name: few.cost(other) for name, other in few.beside(state).items()}
    best = cost["split"] < min(cost["smooth"], cost["rotate"]) and max(cost.values()) == cost["as they are"]
    return best and few.rounded(state.changed(method=few.ROTATE)).error > 0.9


def _column_by_column(state: FewBitsState) -> str:
    nearest, two, rows = state.changed(method="rtn"), state.changed(bits=2), state.changed(group="row")
    few_rows = [few.recorded(rows.changed(bits=2, method=method)).loss for method in ("gptq", "rtn")]
    errors = [few.rounded(other).error for other in (state, nearest)]
    return (
        f"With GPTQ, the layer's output is off by {percent(errors[0])}, which is {percent(errors[0] / errors[1])} of the {percent(errors[1])} to nearest. The loss of the whole model "
        f"rises by {few.cost(state):.2f} bits a token, and to nearest by {few.cost(nearest):.2f}. With a scale for a whole row it rises by {few.cost(rows):.2f}, and to nearest by {few.cost(rows.changed(method='rtn')):.2f}. The recording calibrates with {GPTQ_TOKENS:,} tokens, and GPTQ's authors with 262,144. At 2 bits the loss is {few.recorded(two).loss:.1f} bits, and to nearest {few.recorded(two.changed(method='rtn')).loss:.1f}. A model that knows nothing loses {KNOWS_NOTHING:.1f}, so no English is left. With a scale for a row, GPTQ loses {few_rows[0]:.1f} bits and nearest {few_rows[1]:.1f}. Both are worse than knowing nothing, so this no longer compares the methods."
    )


def _column_by_column_is_true(state: FewBitsState) -> bool:
    two, rows = state.changed(bits=2), state.changed(group="row")
    halved = few.rounded(state).error < 0.5 * few.rounded(state.changed(method="rtn")).error
    lost = min(few.recorded(other).loss for other in (two, two.changed(method="rtn"))) > 12
    gains = [few.cost(other) < 0.75 * few.cost(other.changed(method="rtn")) for other in (state, rows)]
    broken = [few.recorded(rows.changed(bits=2, method=method)).loss for method in ("gptq", "rtn")]
    return halved and all(gains) and lost and min(broken) > KNOWS_NOTHING


def _which_axes(state: FewBitsState) -> str:
    costs = {name: few.cost(other) for name, other in few.beside(state).items()}
    best = min(costs, key=lambda name: costs[name])
    told = "; ".join(f"{name} {value:.2f}" for name, value in costs.items())
    return (
        f"The loss rises least with {best}. In bits a token: {told}. Some channels of keys are large at every token, so that they need a scale of their own. "
        "Values have no such channels."
    )


QUESTIONS = (
    GuidedQuestion(
        "This is the input of your guess, with one scale for the whole *tensor*. Give each *token* a scale of its own."
        " Which share of the numbers becomes zero now?",
        {"per": "token"},
        _a_scale_for_each_token,
        _a_scale_for_each_token_is_true,
        controls=("per",),
        figure="map",
        guess="%",
    ),
    GuidedQuestion(
        "Back to one scale for the *tensor*. *Split* keeps channels with huge numbers in 16 bits, *smooth* moves a part"
        " of them into the weights, and *rotate* spreads them over many channels. Try them, and read what the model writes."
        " Which of the three brings the loss closest to that of the unrounded model?",
        {"method": few.SPLIT},
        _which_repair,
        _which_repair_is_true,
        controls=("method", "per"),
        figure="text",
        guess=("split", "smooth", "rotate"),
    ),
    GuidedQuestion(
        "Now round *weights alone*, to 3 bits with a scale for 32 weights. *GPTQ* rounds a matrix column by column, and"
        " the columns to come make up for the errors. Which share of the error of the layer's output is left with it?",
        {"part": WEIGHTS, "bits": 3, "method": "gptq", "group": "32"},
        _column_by_column,
        _column_by_column_is_true,
        controls=("part", "method", "bits"),
        figure="error",
        guess="%",
    ),
    GuidedQuestion(
        "Round *keys and values* to 2 bits. They are what the model keeps of earlier tokens: two tables with a row for each"
        " token and a column for each channel. Which axis needs scales of its own in keys, and which in values? Try all four"
        " ways.",
        {"part": CACHE, "bits": 2, "keys": "channel", "values": "token"},
        _which_axes,
        lambda state: min(few.beside(state).values(), key=few.cost) == state,
        controls=("part", "keys", "values"),
        figure="text",
        guess=("channel, token", "token, channel", "both channel", "both token"),
    ),
)
GUIDED = ((explorer, QUESTIONS),)


# ---- tables and figures ----------------------------------------------------------------------------------------------


def first_answer() -> Text:
    """The question, and what the unrounded model answers."""
    return Text(f"{QUESTION}\n\n{textwrap.fill(f'{rounded_answers()[NOTHING].text} …', 100)}")


def one_channel() -> go.Figure:
    """The largest numbers of the residual stream before each block: one channel of the first token."""
    recorded = language_model_recording()
    return figures.stream_magnitudes(recorded.first_token, recorded.other_tokens, recorded.medians)


SHOWN = {  # in the table below the explorer
    "nothing rounded": NOTHING,
    "8 bits, a scale for a tensor": FewBitsState().recipe,
    "the same, split": FewBitsState(method=few.SPLIT).recipe,
    "8 bits, a scale for a token": FewBitsState(per="token").recipe,
    "4 bits, a scale for a token": FewBitsState(bits=4, per="token").recipe,
    "the same, smooth": FewBitsState(bits=4, per="token", method=few.SMOOTH).recipe,
    "the same, rotate": FewBitsState(bits=4, per="token", method=few.ROTATE).recipe,
}


def what_you_saw() -> figures.DataTable:
    """Loss and first words of some recipes that round weights and inputs."""
    answers = [rounded_answers()[recipe] for recipe in SHOWN.values()]
    return figures.DataTable(
        {
            "weights and inputs": list(SHOWN),
            "bits a token": [answer.loss for answer in answers],
            "it writes": [_first_words(answer.text) for answer in answers],
        },
        caption=f"What the model loses, and how it answers. The three rows with 4 bits are new. {QUESTION}",
        formats={"bits a token": ".2f"},
    )


def _first_words(text: str, letters: int = 60) -> str:
    line = plain(text)
    return line if len(line) <= letters else f"{line[:letters].rsplit(' ', 1)[0]} …"


def two_bit_grids() -> figures.DataTable:
    """Four weights on the levels that published methods have at 2 bits, the largest magnitude at 1."""
    rows = {
        "−1 to 1": ("symmetric", "whole numbers with a sign"),
        "−2 to 1, mirrored": ("full_range", "llama.cpp; LSQ (lab 04) does not mirror"),
        "without zero": ("no_zero", "SAWB (2018, lab 04), ParetoQ (2025)"),
        "ternary": ("ternary", "ParetoQ, BitNet b1.58 (2024)"),
    }
    return figures.DataTable(
        {
            "grid": list(rows),
            "levels": [_levels(kind) for kind, _ in rows.values()],
            "who": [who for _, who in rows.values()],
        },
        caption="The levels of a group of weights whose largest magnitude is 1, at 2 bits.",
    )


def _levels(kind: str) -> str:
    """All values of a grid of two bits, from a group that has one weight of 1 and many others."""
    weights = np.append(np.linspace(-0.999, 0.999, 1001), 1.0)
    values = np.unique(WeightGrid(2, None, kind).quantize(weights))
    return ", ".join(f"{value:.3g}".replace("-", "−") for value in values.tolist())


def stored_weights() -> figures.DataTable:
    """What a weight takes in the formats that language models are stored in, and a model of 7 billion weights."""
    rows = [STORED_WEIGHTS[name] for name in STORED]
    return figures.DataTable(
        {
            "format": [row.name for row in rows],
            "what is stored": [row.levels for row in rows],
            "bits a weight": [row.bits_per_weight for row in rows],
            "7 billion weights (GB)": [7 * row.bits_per_weight / 8 for row in rows],
        },
        caption="Bits of a weight with its share of scales, and the size of 7 billion of them.",
        formats={"bits a weight": ".3f", "7 billion weights (GB)": ".1f"},
    )


STORED = ("F16", "Q8_0", "Q4_1", "Q4_0", "nf4, double", "int4 g128", "mxfp4", "Q2_K", "int2 g64", "ternary, packed")


def writing_speed() -> figures.DataTable:
    """How many times as fast a model writes with fewer bits, by the model of lab 11's roofline."""
    batches = (1, 8, 64)
    ways = {"4-bit weights": {"weight_bits": 4.16}, "and a cache in 2 bits": {"weight_bits": 4.16, "cache_bits": 3.0}}
    wide = {batch: decoding_step("llama-2-7b", "a100", batch=batch).seconds for batch in batches}
    columns: dict[str, list[Any]] = {"": list(ways)}
    for batch in batches:
        columns[f"{batch} text{'s' if batch > 1 else ''} at once"] = [
            float(wide[batch] / decoding_step("llama-2-7b", "a100", batch=batch, **bits).seconds)
            for bits in ways.values()
        ]
    return figures.DataTable(
        columns,
        "How many times as fast as in 16 bits Llama-2-7B writes on an A100 after 1,024 tokens, modelled",
        dict.fromkeys(list(columns)[1:], "{:.1f} ×".format),
    )


# ---- the model itself ------------------------------------------------------------------------------------------------


def write(recipe: str, question: str = QUESTION, cache: Any = None) -> None:
    """Let SmolLM2 answer with a recipe of your own; where the model or a package is missing, a line says so.

    Args:
        recipe: as ``quantize_for_inference`` takes it, such as "w3a16_gptq:group=32"; "w16a16" rounds nothing.
        question: plain text, in English.
        cache: a ``lplab.quantizers.KIVI`` that rounds keys and values, or None.

    Raises:
        ValueError: no such recipe.
    """
    for package in ("torch", "gguf", "tokenizers"):
        if not can_be_imported(package):
            print(missing_line(package, ". Install 'lplab[llm]'"))
            return
    from lplab.datasets import characters, smollm2_file
    from lplab.models import RoundedCache, smollm2
    from lplab.models.chat import answer
    from lplab.training import bits_report, quantize_for_inference

    try:
        smollm2_file()
    except FileNotFoundError as missing:
        print(missing)
        return
    print("Reading the model …", flush=True)
    model, tokenizer = smollm2()
    if recipe != NOTHING:
        print("Rounding 210 matrices …", flush=True)
        ids = torch_tokens(tokenizer, characters(), calibration_tokens(recipe))
        model = quantize_for_inference(model, recipe, calibration=ids)
        print(str(bits_report(model)).splitlines()[0], flush=True)
    said = ""
    for text in answer(model, tokenizer, question, cache=None if cache is None else RoundedCache(cache)):
        print(text.removeprefix(said), end="", flush=True)
        said = text
    print()


def torch_tokens(tokenizer: Any, text: str, count: int, length: int = 128) -> Any:
    """The first tokens of a text in passages, for calibration: int64 [count / length, length]."""
    import torch

    return torch.tensor(tokenizer.encode(text[: 12 * count]).ids[:count]).view(-1, length)


# ---- what the tests compare ------------------------------------------------------------------------------------------


def facts() -> figures.DataTable:
    """The numbers of the text that stand in no table, each computed."""
    x = language_model_recording().layers[few.DOWN].inputs
    stream = language_model_recording()
    token, channel = _largest()
    survivors = np.argwhere(np.abs(x) > float(np.abs(x).max()) / 127 / 2)
    before = few.BLOCK
    loss = rounded_answers()[NOTHING].loss
    known = {
        "shape of the input": f"{x.shape[0]} × {x.shape[1]} = {x.size:,}",
        "its largest number": f"{float(np.abs(x).max()):,.0f} at token {token}, channel {channel}",
        "its median": f"{float(np.median(np.abs(x))):.3f}",
        "numbers that survive": f"{len(survivors)}, all of token {', '.join(map(str, sorted({int(t) for t, _ in survivors})))}",
        "largest of the residual stream before block 12": f"{float(stream.first_token[before].max()):,.0f} in channel {int(stream.first_token[before].argmax())}",
        "its median there": f"{float(stream.medians[before]):.1f}",
        "loss of the unrounded model (bits a token)": f"{loss:.2f}",
        "so a chance of one in": f"{2**loss:.0f}",
        "and of one that knows nothing (bits a token)": f"{KNOWS_NOTHING:.1f}",
    }
    return figures.DataTable({"what": list(known), "value": list(known.values())}, caption="Numbers of the text.")


def checked_numbers() -> Folded:
    """What the tests of the course compare: the table behind the veil, and the numbers of the text."""
    return Folded(what_you_saw(), facts(), line="The numbers of this lab")


def checked_answers() -> Folded:
    """What the tests of the course compare: the answers to the questions above the explorer."""
    shown = explorer()
    answers = [question.answer(shown.state_at(**question.position)) for question in QUESTIONS]
    return Folded("\n".join(answers), line="The answers to the questions above the explorer")
