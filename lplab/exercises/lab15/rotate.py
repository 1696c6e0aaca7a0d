"""Exercise 15.4: a residual stream is rotated, and its layers compute what they did before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from lplab.exercises.checks.close import TOLERANCE
from lplab.exercises.checks.numbers import sequence_text, table_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShapes
from lplab.exercises.student_figures import NotReady, as_array, read_results, student_figure
from lplab.quantizers import WeightGrid, random_rotation, rotate_reader


def rotate(embedding, gain, w_in, w_out, q, layer_norm):
    """Embedding, w_in and w_out of a model whose stream is x @ q; its norm has no gain and subtracts no mean."""
    if layer_norm:
        embedding = embedding - embedding.mean(axis=1, keepdims=True)
        w_out = w_out - w_out.mean(axis=0)
    return embedding @ q, (w_in * gain) @ q, q.T @ w_out


EMBEDDING_MEAN, OUT_MEAN = "embedding - embedding.mean(axis=1, keepdims=True)", "w_out - w_out.mean(axis=0)"
RESULT = "embedding @ q, (w_in * gain) @ q, q.T @ w_out"


def matrix(*rows: Sequence[float]) -> np.ndarray:
    """A matrix as float64."""
    return np.array(rows, np.float64)


def model(seed: int, tokens: int, stream: int, hidden: int, layer_norm: bool) -> Args:
    """A small model and a rotation of its stream."""
    rng = np.random.default_rng(seed)
    embedding, w_in = 1 + rng.normal(size=(tokens, stream)), rng.normal(size=(hidden, stream))
    gain, w_out = rng.uniform(0.25, 2, stream), 0.5 + rng.normal(size=(stream, hidden))
    return embedding, gain, w_in, w_out, np.linalg.qr(rng.normal(size=(stream, stream)))[0], layer_norm


def cases() -> list[Args]:
    """Streams of two to twelve channels, with as many hidden numbers and others, with both norms."""
    shapes = ((1, 2, 1), (2, 2, 2), (3, 4, 4), (4, 3, 7), (5, 8, 2), (2, 12, 12))
    return [model(seed, *shape, layer_norm) for seed, shape in enumerate(shapes) for layer_norm in (False, True)]


def larger() -> list[Args]:
    """Models with a channel that is a thousand times as large as the others, and a Hadamard rotation."""
    found: list[Args] = []
    for layer_norm in (False, True):
        embedding, gain, w_in, w_out, _, _ = model(40, 20, 64, 48, layer_norm)
        embedding[:, 7] *= 1000
        found.append((embedding, gain, w_in, w_out, random_rotation(64, seed=4), layer_norm))
    return found


def normed(x: np.ndarray, layer_norm: bool) -> np.ndarray:
    """x divided by its root mean square over the channels, for LayerNorm after its mean was subtracted."""
    x = x - x.mean(-1, keepdims=True) if layer_norm else x
    return x / np.sqrt((x**2).mean(-1, keepdims=True))


def twice(embedding: np.ndarray, gain: Any, w_in: np.ndarray, w_out: np.ndarray, layer_norm: bool) -> np.ndarray:
    """What the layer reads the second time, if a model runs it twice: [tokens, hidden]."""
    x = embedding + np.maximum((normed(embedding, layer_norm) * gain) @ w_in.T, 0) @ w_out.T
    return (normed(x, layer_norm) * gain) @ w_in.T


def computes_the_same(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether the model reads the same numbers in its second layer, and no channel stands out any more."""
    for args, (embedding, w_in, w_out) in zip(calls, results, strict=True):
        old, gain, old_in, old_out, _, layer_norm = args
        before, after = twice(old, gain, old_in, old_out, layer_norm), twice(embedding, 1.0, w_in, w_out, False)
        off = float(np.abs(after - before).max() / np.abs(before).max())
        if not off <= 1e-9:
            return Finding(f"A larger model computes something else: numbers in its second layer are off by {off:.2g} of the largest.", args)
        if not np.abs(embedding).max() < 0.3 * np.abs(old).max():
            return Finding("The large channel of a larger model still stands out: its stream is not rotated.", args)
    return None


def show(args: Args) -> str:
    """Small models in full."""
    embedding, gain, w_in, w_out, q, layer_norm = args
    if embedding.size > 4 or w_in.size > 4:
        tokens, stream = embedding.shape
        return f"a model of {tokens} {'token' if tokens == 1 else 'tokens'}, {stream} channels and {len(w_in)} hidden numbers, layer_norm = {layer_norm}"
    tables = [table_text(each) for each in (embedding, w_in, w_out)]
    return f"embedding = {tables[0]}, gain = {sequence_text(gain)}, w_in = {tables[1]}, w_out = {tables[2]}, q = {table_text(q)}, layer_norm = {layer_norm}"


def why(args: Args, expected: Any) -> str:
    """What the norm sees."""
    if args[5]:
        return "LayerNorm subtracts the mean over the channels. A rotation changes this mean, unless nothing that is written has one."
    return "RMSNorm divides by the root mean square over the channels, which a rotation leaves as it is."


SAME, TURN = np.eye(2), matrix((0, 1), (-1, 0))
ONE = np.ones(2)

ROTATE = Exercise(
    id="15.4",
    version=1,
    title="Rotate a residual stream",
    goal="Goal 4: rotate a model",
    minutes=15,
    difficulty=2,
    statement=r"""
        The stream of a token begins as a row x of `embedding` [tokens, stream]. A layer computes $h=f(w_{in}\,(\text{norm}(x)\cdot\text{gain}))$ with `w_in` [hidden, stream] and a `gain` for each channel. Then it adds $w_{out}\,h$ to x, with `w_out` [stream, hidden].

        Now every x is to become `x @ q`, for an orthogonal matrix `q` ($q^T q=1$). Write `rotate(embedding, gain, w_in, w_out, q, layer_norm)` that returns the new `embedding`, `w_in` and `w_out`. With them, h must be as before. The new norm is RMSNorm, which divides x by its root mean square over the channels, and it has **no gain**.

        If `layer_norm` is True, the old norm is LayerNorm, which first subtracts from x its mean over the channels. So take this mean out of everything that is written to the stream, before you rotate.
    """,
    reference=rotate,
    form=SameShapes((("embedding", 0), ("w_in", 2), ("w_out", 3))),
    signed_zero=False,
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example((matrix((1, 2)), ONE, matrix((3, 4)), matrix((5,), (6,)), TURN, False), "A turn by 90°: x @ q makes (−2, 1) of (1, 2). w_in reads the turned stream, and w_out writes to it, so both turn in the same way."),
        Example((matrix((1, 2)), np.array([2.0, 1.0]), matrix((3, 4)), matrix((5,), (6,)), SAME, False), "q changes nothing. The gain goes into w_in, whose first weight reads a channel with gain 2."),
        Example((matrix((1, 2)), np.array([2.0, 1.0]), matrix((3, 4)), matrix((5,), (6,)), TURN, False), "The gain belongs to the channels before the turn. First it goes into w_in, then w_in turns."),
        Example((matrix((1, 3)), ONE, matrix((3, 4)), matrix((5,), (7,)), SAME, True), "The token has the mean 2 over its channels, and (5, 7) has the mean 6. Both are taken out."),
        Example((matrix((1, 3)), ONE, matrix((3, 4)), matrix((5,), (7,)), SAME, False), "RMSNorm subtracts no mean, so none is taken out."),
        Example((matrix((1, 3), (6, 2)), ONE, matrix((3, 4), (1, 1)), matrix((5, 0), (7, 2)), TURN, True), "Two tokens, each with a mean of its own. Each column of w_out is what one hidden number writes, so it has a mean of its own, too."),
    ),
    boundary=cases,
    properties=(Property("a larger model computes what it did before, and no channel of its stream stands out", larger, computes_the_same),),
    mistakes=(
        mistake("w_in turns by the transpose of q", "(w_in * gain) @ q", "(w_in * gain) @ q.T"),
        mistake("w_out turns by q, not by its transpose: columns of the stream turn from the left", "q.T @ w_out", "q @ w_out"),
        mistake("w_out turns on the side of its input", "q.T @ w_out", "w_out @ q", raises="ValueError"),
        mistake("everything turns by the transpose of q", RESULT, "embedding @ q.T, (w_in * gain) @ q.T, q @ w_out"),
        mistake("the embedding is not rotated", "return embedding @ q", "return embedding"),
        mistake("w_in is not rotated", "(w_in * gain) @ q", "w_in * gain"),
        mistake("w_out is not rotated: it writes to the stream as it was", "q.T @ w_out", "w_out"),
        mistake("the gain is lost", "w_in * gain", "w_in"),
        mistake("the gain acts after the turn, on other channels", "(w_in * gain) @ q", "(w_in @ q) * gain"),
        mistake("w_in is divided by the gain", "w_in * gain", "w_in / gain"),
        mistake("the gain goes into the embedding, too", "return embedding @ q", "return (embedding * gain) @ q"),
        mistake("all turn, but the gain is lost, and LayerNorm's mean is forgotten", "if layer_norm", "if False", "w_in * gain", "w_in"),
        mistake("one mean for all tokens, and one for all that w_out writes", EMBEDDING_MEAN, "embedding - embedding.mean()", OUT_MEAN, "w_out - w_out.mean()"),
        mistake("LayerNorm is taken for RMSNorm: no mean is taken out", "if layer_norm", "if False"),
        mistake("the mean is taken out for RMSNorm, too", "if layer_norm", "if True"),
        mistake("the mean is taken out of the embedding only, while w_out still writes one", OUT_MEAN, "w_out"),
        mistake("the mean is taken out of w_out only, while the embedding still has one", EMBEDDING_MEAN, "embedding"),
        mistake("the embedding loses the mean over the tokens, not over the channels", EMBEDDING_MEAN, "embedding - embedding.mean(axis=0)"),
        mistake("w_out loses the mean over the hidden numbers, not over the channels", OUT_MEAN, "w_out - w_out.mean(axis=1, keepdims=True)"),
        mistake("the mean is taken out after the turn, when it is another one", EMBEDDING_MEAN, "embedding - (embedding @ q).mean(axis=1, keepdims=True) * q.sum(axis=1)", OUT_MEAN, "w_out - np.outer(q.sum(axis=1), (q.T @ w_out).mean(axis=0))"),
    ),
    hints=(
        "Take one token x = (1, 2) and w_in = (3, 4). It reads 1 · 3 + 2 · 4 = 11. Turned by 90°, x is (−2, 1). Which two weights read 11 from that?",
        "A row of the stream turns by x @ q, and so does everything that lies along the stream as a row. w_out writes columns to the stream. In numpy, q.T @ w_out turns each of its columns as x @ q turns a row.",
        "Think of three steps. For LayerNorm, each token of the embedding loses its own mean over the channels, and each column of w_out does. Then the gain, one number for each channel, goes into the columns of w_in. Then all three turn. Which of them have the stream along their rows?",
    ),
)


# ---- a stream of a language model, rounded ---------------------------------------------------------------------------

BITS = (3, 4, 5, 6, 8)
TOKENS, OUTPUTS = 64, 48
NAMES = ("not rotated", "rotated, RMSNorm", "rotated, but LayerNorm")


@student_figure("Here the error of a layer that reads a rotated stream, as your {name} makes it, will be drawn")
def draw_rotation(function: Callable[..., Any]) -> Any:
    """A live figure of the error of a layer whose inputs have few bits, from a stream as it was and rotated.

    The third curve takes LayerNorm for RMSNorm: it rotates without taking the mean out.

    Args:
        function: takes embedding, gain, w_in, w_out, q and whether the norm is LayerNorm; returns the first, third and
            fourth of them, rotated.
    """
    from lplab import figures

    calls = [(*recorded(), q, False) for q in (np.eye(recorded()[0].shape[1]), rotation())]
    results = read_results(function, calls, ROTATE.form, three_arrays)
    if any([part.shape for part in parts] != [recorded()[place].shape for place in (0, 2, 3)] for parts in results):
        raise NotReady("it does not return arrays with the shapes of embedding, w_in and w_out")
    yours = [results[0], results[1], results[1]]
    return figures.compared_curves(
        list(map(str, BITS)),
        library_errors(),
        {name: errors(x, w, layer_norm=name == NAMES[2]) for name, (x, w, _) in zip(NAMES, yours, strict=True)},
        what="error of the layer (%)",
        name="A language model's stream",
        along="bits of the inputs",
    )


def three_arrays(result: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three arrays of a result; ValueError if there are not three."""
    embedding, w_in, w_out = result
    return as_array(embedding), as_array(w_in), as_array(w_out)


@cache
def rotation() -> np.ndarray:
    """A rotation of the stream of SmolLM2: float64 [576, 576]."""
    return random_rotation(recorded()[0].shape[1], seed=15)


@cache
def recorded() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the stream of SmolLM2 before block 12, the gain of the norm behind them, weights that read and that write.

    The recording has the norm's output. The gain is what makes it of the stream, by least squares over the tokens.
    """
    from lplab.recordings import language_model_recording

    made = language_model_recording()
    layers, stream = made.layers, made.stream.astype(np.float64)
    n = normed(stream, False)
    gain = (layers["blocks.12.attention"].inputs * n).sum(0) / (n * n).sum(0)
    w_in, w_out = layers["blocks.12.attention"].weights["q"], layers["blocks.11.mlp"].weights["down"]
    return stream[:TOKENS], gain, w_in[:OUTPUTS].astype(np.float64), w_out[:, :OUTPUTS].astype(np.float64)


def errors(x: np.ndarray, w: np.ndarray, layer_norm: bool = False) -> np.ndarray:
    """How far a layer with inputs in few bits is off, in percent of its norm, by the number of bits; one scale a token.

    With LayerNorm, it is compared with what LayerNorm gives without a rotation.
    """
    stream, gain, w_in, _ = recorded()
    exact, inputs = (normed(stream, layer_norm) * gain) @ w_in.T, normed(x, layer_norm)
    rounded = [WeightGrid(bits, None, "symmetric").quantize(inputs) @ w.T for bits in BITS]
    return np.array([100 * float(np.linalg.norm(each - exact) / np.linalg.norm(exact)) for each in rounded])


@cache
def library_errors() -> dict[str, np.ndarray]:
    """The errors with the library's rotation: float64 [bits], by the names of the curves."""
    stream, gain, w_in, _ = recorded()
    plain = stream, w_in * gain
    turned = rotate_reader(stream, rotation()), rotate_reader(w_in * gain, rotation())
    return {name: errors(*each, layer_norm=name == NAMES[2]) for name, each in zip(NAMES, (plain, turned, turned), strict=True)}
