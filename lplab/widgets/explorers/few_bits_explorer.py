"""A language model in few bits, live: the map of a tensor, the error of a layer, and what the whole model writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import log2
from typing import Any, ClassVar

import numpy as np

from lplab import figures
from lplab.number_text import percent
from lplab.quantizers import KIVI, Hadamard, LayerInput, WeightGrid, gptq_round, input_hessian, smoothing_factors
from lplab.quantizers.kv_cache import AXES
from lplab.quantizers.layer_inputs import OUTLIER
from lplab.recordings.language_model import BLOCK, language_model_recording
from lplab.recordings.rounded_answers import (
    CACHE_BITS,
    GROUPS,
    INPUT_BITS,
    NOTHING,
    QUESTION,
    REPAIRS,
    SCALES,
    WEIGHT_BITS,
    RoundedAnswer,
    cache_recipe,
    calibration_tokens,
    inputs_recipe,
    rounded_answers,
    weights_recipe,
)
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Buttons, Choice, ExplorerState, control

WEIGHTS, INPUTS, CACHE = "weights", "inputs", "cache"
PARTS = {"weights alone": WEIGHTS, "weights and inputs": INPUTS, "keys and values": CACHE}
ATTENTION, DOWN = "blocks.12.attention", "blocks.11.mlp"
QUERIES, KEYS, VALUES, DOWN_INPUT, NORMED = "queries", "keys", "values", "down", "attention"
TENSORS: dict[str, dict[str, str]] = {  # by part: labels and values
    WEIGHTS: {f"of queries, block {BLOCK}": QUERIES, f"of values, block {BLOCK}": VALUES},
    INPUTS: {"input of down, block 11": DOWN_INPUT, f"input of queries, block {BLOCK}": NORMED},
    CACHE: {f"keys, block {BLOCK}": KEYS, f"values, block {BLOCK}": VALUES},
}
PLAIN, SPLIT, SMOOTH, ROTATE = REPAIRS
METHODS: dict[str, dict[str, str]] = {
    WEIGHTS: {"to nearest": "rtn", "GPTQ": "gptq"},
    INPUTS: {"as they are": PLAIN, "split": SPLIT, "smooth": SMOOTH, "rotate": ROTATE},
    CACHE: {"to nearest": "rtn"},
}
BITS = {WEIGHTS: WEIGHT_BITS, INPUTS: INPUT_BITS, CACHE: CACHE_BITS}
GROUP = 32  # numbers that share a scale in a cache, and weights of 4 bits
SHOWN = 48, 64  # rows and columns of the map
TRANSFORM = Hadamard(64)
HEADS_SHARING = 3  # heads of queries that read one head of keys
VOCABULARY = 49_152  # tokens of SmolLM2
KNOWS_NOTHING = log2(VOCABULARY)  # bits a token that a model loses to which all tokens are equally likely
LOSSES = (5.0, 16.0)  # ends of the axis of losses: up to that of a model that knows nothing


@dataclass(frozen=True)
class FewBitsState(ExplorerState):
    """The value of every control.

    Attributes:
        part: what is rounded: "weights", "inputs" (with the weights) or "cache".
        tensor: what the map shows, a value of ``TENSORS[part]``.
        bits: a value of ``BITS[part]``.
        method: a value of ``METHODS[part]``.
        group: weights of a row that share a scale, "32" or "row"; for "weights" alone.
        per: what has one scale, a "token" or the whole "tensor"; for "inputs" alone.
        keys, values: whether a "channel" or a "token" has scales of its own; for "cache" alone.

    >>> FewBitsState().recipe
    'w8a8:group=row,kind=symmetric,per=tensor'
    """

    part: str = control(INPUTS, Choice("rounded", PARTS))
    tensor: str = control(DOWN_INPUT, Choice("shown", lambda state: TENSORS[state.part], css="lp-long-list"))
    bits: int = control(8, Buttons("bits", lambda state: BITS[state.part]))
    method: str = control(PLAIN, Choice("method", lambda state: METHODS[state.part]))
    group: str = control("32", Buttons("scale for", {f"{GROUP} weights": "32", "a row": "row"}))
    per: str = control("tensor", Buttons("scale for a", SCALES))
    keys: str = control("channel", Buttons("keys by", AXES))
    values: str = control("token", Buttons("values by", AXES))

    def changed(self, **changes: Any) -> FewBitsState:
        """The state after changes; where another part is rounded, what it does not have becomes its first value.

        >>> FewBitsState().changed(part="cache").recipe
        'cache of 2 bits: keys by channel, values by token'
        """
        part = changes.get("part", self.part)
        if part != self.part and part in list(PARTS.values()):
            first = {
                "tensor": next(iter(TENSORS[part].values())),
                "bits": BITS[part][0 if part != CACHE else -1],
                "method": next(iter(METHODS[part].values())),
            }
            changes = first | changes
        return replace(self, **changes)

    @property
    def recipe(self) -> str:
        """The name of its recording."""
        if self.part == WEIGHTS:
            return weights_recipe(self.bits, self.group, self.method)
        if self.part == INPUTS:
            return inputs_recipe(self.bits, self.method, self.per)
        return cache_recipe(self.bits, self.keys, self.values)

    @property
    def code(self) -> str:
        """Python that rounds the whole model, writes with it, and gives its loss on the novel; it needs the model."""
        lines = ["model, tokenizer = smollm2()", "text = characters()"]
        take = "torch.tensor(tokenizer.encode(text[{}]).ids[:{}]).view(-1, 128)"
        test = take.format("len(text) // 2 :][:9000", 1024)
        if self.part == CACHE:
            rule = f"KIVI({self.bits}, {GROUP}, 0, keys={self.keys!r}, values={self.values!r})"
            lines += [
                f"rule = {rule}",
                f"*_, said = answer(model, tokenizer, {QUESTION!r}, cache=RoundedCache(rule))",
                "print(said)",
                f"test = {test}",
                "print(bits_a_token(model, test, RoundedCache(rule, exact_new=False)))",
            ]
        else:
            count = calibration_tokens(self.recipe)
            lines += [
                f"calibration = {take.format(f':{9 * count}', count)}",
                f'model = quantize_for_inference(model, "{self.recipe}", calibration=calibration)',
                f"*_, said = answer(model, tokenizer, {QUESTION!r})",
                "print(said)",
                f"test = {test}",
                "print(bits_a_token(model, test))",
            ]
        return "\n".join(lines)


PRESETS: dict[str, dict[str, Any]] = {
    "LLM.int8()": {"part": INPUTS, "tensor": DOWN_INPUT, "bits": 8, "method": SPLIT, "per": "token"},
    "SmoothQuant": {"part": INPUTS, "tensor": DOWN_INPUT, "bits": 8, "method": SMOOTH, "per": "token"},
    "GPTQ": {"part": WEIGHTS, "tensor": QUERIES, "bits": 3, "method": "gptq", "group": "32"},
    "KIVI": {"part": CACHE, "tensor": KEYS, "bits": 2, "method": "rtn", "keys": "channel", "values": "token"},
}


# ---- one tensor, one layer -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RoundedTensor:
    """What a state makes of its tensor.

    Attributes:
        before: what is rounded, [rows, columns]: smoothed or rotated numbers, where a method does that first.
        after: what it becomes.
        tile: rows and columns that share a scale.
        error: of what is computed from it, as a share of its norm, mean of the tokens: the layer's output; for keys the
            scores, for values their attended sums.
    """

    before: np.ndarray
    after: np.ndarray
    tile: tuple[int, int]
    error: float

    @property
    def zeroed(self) -> float:
        """The share of the numbers that becomes zero."""
        return float(np.mean((self.after == 0) & (self.before != 0)))


@lru_cache(maxsize=64)
def rounded(state: FewBitsState) -> RoundedTensor:
    """Round the tensor of a state.

    >>> round(rounded(FewBitsState()).zeroed, 5), round(rounded(FewBitsState(per="token")).zeroed, 3)
    (0.99999, 0.098)
    """
    return {WEIGHTS: _rounded_weights, INPUTS: _rounded_inputs, CACHE: _rounded_cache}[state.part](state)


def layer(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and weights of a recorded layer: float32 [tokens, inputs], [outputs, inputs].

    >>> [each.shape for each in layer("down")]
    [(256, 1536), (576, 1536)]
    """
    recorded = language_model_recording().layers[DOWN if name == DOWN_INPUT else ATTENTION]
    weight = {DOWN_INPUT: "down", VALUES: "v"}.get(name, "q")
    return recorded.inputs, recorded.weights[weight]


def _off(exact: np.ndarray, approximate: np.ndarray) -> float:
    """How far the outputs of a token are off, as a share of their norm: the mean of all tokens, which count alike.

    >>> _off(np.array([[1000.0, 0.0], [1.0, 0.0]]), np.array([[1000.0, 0.0], [0.0, 0.0]]))
    0.5
    """
    norm = np.linalg.norm
    return float((norm(approximate - exact, axis=-1) / norm(exact, axis=-1)).mean())


@cache
def _hessian(name: str) -> np.ndarray:
    """The Hessian of the inputs of every second token; the others tell the error."""
    return np.asarray(input_hessian(layer(name)[0][::2]))


def _rounded_weights(state: FewBitsState) -> RoundedTensor:
    x, w = layer(state.tensor)
    grid = WeightGrid(state.bits, None if state.group == "row" else int(state.group))
    after = grid.quantize(w) if state.method == "rtn" else gptq_round(w, _hessian(state.tensor), grid)
    seen = x[1::2]
    return RoundedTensor(w, after, (1, grid.group or w.shape[1]), _off(seen @ w.T, seen @ after.T))


def _rounded_inputs(state: FewBitsState) -> RoundedTensor:
    x, w = layer(state.tensor)
    exact = x @ w.T
    grid = WeightGrid(8, None, "symmetric") if state.bits == 8 else WeightGrid(state.bits, GROUP)
    factors = transform = None
    if state.method == SMOOTH:
        factors = smoothing_factors(np.abs(x).max(0), np.abs(w).max(0)).astype(np.float32)
        w = w * factors
    elif state.method == ROTATE:
        transform = TRANSFORM
        w = transform.apply(w)
    outlier = OUTLIER if state.method == SPLIT else None
    changes: dict[str, Any] = {"factors": factors, "hadamard": transform}
    before = LayerInput(None, **changes).quantize(x)
    after = LayerInput(state.bits, state.per, outlier=outlier, **changes).quantize(x)
    tile = (1, x.shape[1]) if state.per == "token" else x.shape
    return RoundedTensor(before, after, tile, _off(exact, after @ grid.quantize(w).T))


def _rounded_cache(state: FewBitsState) -> RoundedTensor:
    recorded = language_model_recording()
    axis = state.keys if state.tensor == KEYS else state.values
    before = getattr(recorded, state.tensor)
    after = KIVI(state.bits, GROUP, 0).rounded(before, axis)
    tile = (GROUP, 1) if axis == "channel" else (1, GROUP)
    scores = recorded.queries @ _shared(recorded.keys).swapaxes(-1, -2) / np.sqrt(recorded.keys.shape[-1])
    if state.tensor == KEYS:
        rounded_scores = recorded.queries @ _shared(after).swapaxes(-1, -2) / np.sqrt(after.shape[-1])
        error = _off(np.tril(scores), np.tril(rounded_scores))
    else:
        future = np.triu(np.ones(scores.shape[-2:], bool), 1)
        weights = np.exp(np.where(future, -np.inf, scores - scores.max(-1, keepdims=True)))
        weights /= weights.sum(-1, keepdims=True)
        error = _off(weights @ _shared(before), weights @ _shared(after))
    return RoundedTensor(before[0], after[0], tile, error)


def _shared(heads: np.ndarray) -> np.ndarray:
    """Heads of keys or values, each for the heads of queries that read it."""
    return np.repeat(heads, HEADS_SHARING, axis=0)


def window(state: FewBitsState) -> tuple[slice, slice]:
    """Rows and columns of the map: around the largest number of the tensor, in whole blocks of 64 columns.

    >>> window(FewBitsState())
    (slice(0, 48, None), slice(1216, 1280, None))
    """
    x = layer(state.tensor)[0] if state.part == INPUTS else rounded(state).before
    row, column = np.unravel_index(np.abs(x).argmax(), x.shape)
    rows, columns = (
        min(int(place) // size * size, length - size)
        for place, size, length in zip((row, column), SHOWN, x.shape, strict=True)
    )
    return slice(rows, rows + SHOWN[0]), slice(columns, columns + SHOWN[1])


# ---- the whole model -------------------------------------------------------------------------------------------------


def recorded(state: FewBitsState) -> RoundedAnswer:
    """What the whole model writes and loses in a state."""
    return rounded_answers()[state.recipe]


def cost(state: FewBitsState) -> float:
    """By how much the loss rises in a state, in bits a token."""
    return recorded(state).loss - rounded_answers()[NOTHING].loss


def label_of(state: FewBitsState) -> str:
    """What a state rounds, in a few words.

    >>> label_of(FewBitsState()), label_of(FewBitsState().changed(part="cache"))
    ('8 bits, as they are, a scale for the tensor', '2 bits, keys by channel, values by token')
    """
    if state.part == CACHE:
        return f"{state.bits} bits, keys by {state.keys}, values by {state.values}"
    method = next(label for label, value in METHODS[state.part].items() if value == state.method)
    if state.part == WEIGHTS:
        return (
            f"{state.bits} bits, {method}, a scale for {f'{state.group} weights' if state.group != 'row' else 'a row'}"
        )
    return f"{state.bits} bits, {method}, a scale for {'a token' if state.per == 'token' else 'the tensor'}"


def beside(state: FewBitsState) -> dict[str, FewBitsState]:
    """The states that a figure compares with this one, by a short name: other methods or axes with as many bits."""
    if state.part == CACHE:
        return {
            f"keys by {keys}, values by {values}": state.changed(keys=keys, values=values)
            for keys in AXES
            for values in AXES
        }
    if state.part == INPUTS:
        return {label: state.changed(method=method) for label, method in METHODS[INPUTS].items()}
    return {
        f"{label}, {f'{group} weights' if group != 'row' else 'a row'}": state.changed(method=method, group=group)
        for label, method in METHODS[WEIGHTS].items()
        for group in GROUPS
    }


def map_figure(state: FewBitsState) -> Any:
    """A part of the tensor, number by number."""
    quantized, (rows, columns) = rounded(state), window(state)
    what = next(label for label, value in TENSORS[state.part].items() if value == state.tensor)
    names = {WEIGHTS: ("output", "input"), INPUTS: ("token", "channel"), CACHE: ("token", "channel")}[state.part]
    fig = figures.error_map(
        quantized.before[rows, columns],
        quantized.after[rows, columns],
        (min(quantized.tile[0], SHOWN[0]), min(quantized.tile[1], SHOWN[1])),
        rows=names[0],
        columns=f"{names[1]} (from {columns.start} on)" if columns.start else names[1],
        name=f"{what}, {state.bits} bits",
        title=f"{percent(quantized.zeroed)} of this tensor become zero"
        if state.part == INPUTS
        else f"{state.bits} bits: this tensor is off by {percent(_off(quantized.before, quantized.after))}",
    )
    return fig


def error_figure(state: FewBitsState) -> Any:
    """The error of the layer's output, beside other methods or axes."""
    if state.part == CACHE:
        name = "keys" if state.tensor == KEYS else "values"
        states = {f"{name} by {axis}": state.changed(**{state.tensor: axis}) for axis in AXES}
        what = "the scores" if state.tensor == KEYS else "the attended sum"
        chosen = f"{name} by {state.keys if state.tensor == KEYS else state.values}"
    else:
        states, what = beside(state), "the layer's output"
        chosen = next(name for name, each in states.items() if each == state)
    return figures.output_errors({name: rounded(each).error for name, each in states.items()}, chosen, what=what)


def text_figure(state: FewBitsState) -> Any:
    """What the whole model writes, and its loss beside that of other methods or axes."""
    states = beside(state)
    chosen = next(name for name, each in states.items() if each == state)
    return figures.written_text(
        recorded(state).text,
        {name: recorded(each).loss for name, each in states.items()},
        chosen,
        unrounded=rounded_answers()[NOTHING].loss,
        limits=LOSSES,
        title=f"Loss {recorded(state).loss:.2f} bits a token, {cost(state):.2f} more than unrounded",
    )


def summary(state: FewBitsState) -> str:
    """What is rounded, what it costs, and what the weights take."""
    tensor, answer = rounded(state), recorded(state)
    lost = (
        f" That is more than the {KNOWS_NOTHING:.1f} of a model that knows nothing, so it no longer compares methods."
        if answer.loss > KNOWS_NOTHING
        else ""
    )
    bits = f" Its rounded matrices have {answer.bits_a_weight:.2f} bits a weight." if answer.bits_a_weight < 16 else ""
    return (
        f"{label_of(state)}: {percent(tensor.zeroed)} of this tensor become zero, and what is computed from it is off "
        f"by {percent(tensor.error)}. The whole model, rounded so, loses {answer.loss:.2f} bits a token on the novel, "
        f"{cost(state):+.2f} against unrounded.{lost}{bits}"
    ).replace("-", "−")


class FewBitsExplorer(Explorer):
    """A recorded language model in few bits behind eight controls: what is rounded, which tensor is shown, and how.

    Args:
        **position: fields of `FewBitsState`: ``part``, ``tensor``, ``bits``, ``method``, ``group``, ``per``, ``keys``,
            ``values``. Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> FewBitsExplorer().figures["map"].layout.meta["title"]
    '>99.9 % of this tensor become zero'
    """

    imports = (
        "import torch",
        "from lplab.datasets import characters",
        "from lplab.models import RoundedCache, bits_a_token, smollm2",
        "from lplab.models.chat import answer",
        "from lplab.quantizers import KIVI",
        "from lplab.training import quantize_for_inference",
    )
    state_class, preset_fields = FewBitsState, PRESETS
    side: ClassVar = {
        "Recipes": ("presets",),
        "What is rounded": ("part", "tensor", "bits"),
        "How": ("method", "group", "per", "keys", "values"),
    }
    figure_names: ClassVar = {
        "map": "A part of the tensor, number by number",
        "error": "The error of the layer's output",
        "text": "What the model writes, and its loss",
    }

    def _off(self, state: FewBitsState) -> dict[str, str]:
        """What changes nothing for this part."""
        wanted = {"group": WEIGHTS, "per": INPUTS, "keys": CACHE, "values": CACHE}
        labels = {part: label for label, part in PARTS.items()}
        off = {name: f"only where {labels[part]} are rounded" for name, part in wanted.items() if part != state.part}
        if len(METHODS[state.part]) == 1:
            off["method"] = f"{labels[state.part]} have one method here"
        return off

    def _figures(self, state: FewBitsState) -> dict[str, Any]:
        return {"map": map_figure(state), "error": error_figure(state), "text": text_figure(state)}

    def _summary(self, state: FewBitsState) -> str:
        return summary(state)
