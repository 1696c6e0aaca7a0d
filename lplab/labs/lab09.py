"""Lab 09, Send what matters: its tables, and the questions about its explorer."""

from __future__ import annotations

from functools import cache

import numpy as np

from lplab import datasets, figures
from lplab.compression import Lossless
from lplab.figures.adacomp_bins import MAX_HEIGHT
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, guided
from lplab.number_text import percent
from lplab.recordings import adacomp_recording
from lplab.widgets import ResidualExplorer
from lplab.widgets.explorers.residual_explorer import BY_KIND, ResidualState, layer_history, ratio_text, shown_bins

PERCENT = 0.01  # of all elements: the threshold of one for all layers


# ---- tables ----------------------------------------------------------------------------------------------------------


def rates() -> figures.DataTable:
    """What each layer sends with bins of 50 and 500, and how many times smaller that is in four ways to count.

    >>> rates().columns["paper"][0] > rates().columns["wire, 64 learners"][0]
    True
    """
    recorded = adacomp_recording()
    each = [recorded.history(layer) for layer in recorded.layers]
    counted, many = [c.compression_ratios() for c in each], [c.compression_ratios(learners=64) for c in each]
    return figures.DataTable(
        {
            "layer": list(recorded.layers),
            "sent": [float(c.share.mean()) for c in each],
            "sent of a bin": [f"{c.sent.mean() * c.bin / c.size:.1f} of {c.bin}" for c in each],
            "paper": [c.paper for c in counted],
            "message": [c.payload for c in counted],
            "wire, 4 learners": [c.wire for c in counted],
            "wire, 64 learners": [c.wire for c in many],
        },
        caption="Share that is sent, and how many times smaller it is than the gradient, counted in four ways.",
        formats={
            "sent": ".1%",
            "paper": ".0f",
            "message": ".0f",
            "wire, 4 learners": ".0f",
            "wire, 64 learners": ".1f",
        },
    )


def one_threshold() -> figures.DataTable:
    """What each of six layers of a Transformer sends if the largest 1 % of their gradients are sent.

    >>> one_threshold().columns["sent"][1] < 0.01 < one_threshold().columns["sent"][-1]
    True
    """
    captured = datasets.captured()
    names = captured.select(model="transformer", step=50, role="weight_gradient")
    layers = {name.split("/")[2]: np.abs(captured[name]) for name in names}
    sizes = np.concatenate([layer.ravel() for layer in layers.values()])
    threshold = np.sort(sizes)[-int(len(sizes) * PERCENT)]
    return figures.DataTable(
        {
            "layer": list(layers),
            "elements": [layer.size for layer in layers.values()],
            "sent": [float((layer >= threshold).mean()) for layer in layers.values()],
        },
        caption="A Transformer in training step 50: one threshold for six layers, which lets the largest 1 % pass.",
        formats={"sent": ".2%"},
    )


@cache
def thresholds() -> figures.DataTable:
    """One training with the soft and the hard threshold, with top-k, and without compression.

    >>> thresholds().columns["threshold"][-1]
    'none: all is sent'
    """
    recorded = adacomp_recording()
    rows = []
    for bin, factor in ((None, 2.0), (50, 1.0), (None, 1.0), (5000, 2.0), (500, 1.0)):
        each = [recorded.history(layer, bin, factor) for layer in recorded.layers]
        sent = sum(float(c.sent.mean()) for c in each)
        agreeing = sum(float(c.agreeing.mean()) for c in each)
        loss = float(recorded.losses(bin, factor)[-20:].mean())
        name = f"{'soft' if factor == 2 else 'hard'}, bins of {f'{bin:,}' if bin else BY_KIND}"
        rows.append(
            (name, f"{sum(recorded.sizes) / sent:.0f}", percent(agreeing / sent), loss, recorded.error(bin, factor))
        )
    names = {
        "top 1 %": "largest 1 % of a layer",
        "top 1 %, no residue": "largest 1 %, no residual",
        "dense": "none: all is sent",
    }
    for other, name in names.items():
        losses, error = recorded.other(other)
        rows.append((name, "1" if other == "dense" else "100", "", float(losses[-20:].mean()), error))
    heads = ("threshold", "one of … is sent", "agree", "training loss", "wrong")
    columns = {head: [row[i] for row in rows] for i, head in enumerate(heads)}
    caption = "240 steps: how much is sent, and how much of it agrees with the gradient of its step."
    return figures.DataTable(columns, caption=caption, formats={"training loss": ".2f", "wrong": ".1%"})


def message_bits() -> figures.DataTable:
    """Bits an element of the convolution in three codes, for six lengths of a bin.

    >>> message_bits().columns["message"][0] > 5 * message_bits().columns["entropy"][0]
    True
    """
    bins = (1, 5, 20, 50, 100, 500)
    each = [adacomp_recording().history("convolution", bin) for bin in bins]
    return figures.DataTable(
        {
            "bin": list(bins),
            "sent": [float(c.share.mean()) for c in each],
            "message": [32 / c.compression_ratios().payload for c in each],
            "entropy": [32 / c.compression_ratios().bound for c in each],
            "all symbols": [1.6] * len(bins),
        },
        caption="Convolution: bits for each element of the layer, sent or not.",
        formats={"sent": ".1%", "message": ".2f", "entropy": ".2f", "all symbols": ".1f"},
    )


def zipped() -> figures.DataTable:
    """How many times smaller zlib makes real gradients.

    >>> all(1 < plain < 1.2 for plain in zipped().columns["zlib"])
    True
    """
    captured = datasets.captured()
    columns: dict[str, list[object]] = {name: [] for name in ("network", "zlib", "bytes shuffled")}
    for model in captured.models:
        names = captured.select(model=model, step=captured.steps_of(model)[1], role="weight_gradient")
        g = np.concatenate([captured[name].ravel() for name in names])
        plain, shuffled = (g.nbytes / len(Lossless("zlib", 6, shuffle).encode(g)) for shuffle in (False, True))
        for name, value in zip(columns, (model, plain, shuffled), strict=True):
            columns[name].append(value)
    caption = "How many times smaller zlib makes gradients."
    return figures.DataTable(columns, caption=caption, formats={"zlib": ".2f", "bytes shuffled": ".2f"})


# ---- the explorer ----------------------------------------------------------------------------------------------------


def explorer() -> ResidualExplorer:
    """The recorded trainings where the prediction asks: the dense layer under AdaComp's own bins."""
    return ResidualExplorer(layer="dense", moment=3)


def guided_explorer() -> GuidedExplorer:
    """The explorer below its questions."""
    return guided(explorer(), QUESTIONS)


def share(state: ResidualState) -> float:
    """The share of the state's layer that is sent, over all steps."""
    return float(layer_history(state, state.layer).share.mean())


def held(state: ResidualState) -> float:
    """The residual of the state's layer, in gradients, over all steps."""
    return float(layer_history(state, state.layer).residual_ratio.mean())


def loss(state: ResidualState) -> float:
    """The mean training loss of the last 20 steps."""
    return float(adacomp_recording().losses(*state.run)[-20:].mean())


def _longer_bins(state: ResidualState) -> str:
    short = state.changed(bin=50)
    return (
        f"Less is sent, and more waits. With bins of 50 the convolution sends {percent(share(short))} and its "
        f"residual is as long as {held(short):.1f} gradients. With bins of 500 it sends {percent(share(state))} and "
        f"holds {held(state):.1f} gradients. In a longer bin a smaller share of the elements comes near the largest "
        "one, so more must wait."
    )


def _no_bins(state: ResidualState) -> str:
    return (
        f"It sends {percent(share(state))} and not everything. A bin of one element compares |H| with its own |G|. "
        "Both long grey strokes have the pink mark of |H| below their end, so these elements wait. Their new gradient "
        "points against G. Then |H| is smaller than |G|, if the gradient is not more than twice as long."
    )


def _dense_counts(state: ResidualState) -> str:
    ratios = layer_history(state, state.layer).compression_ratios()
    return (
        f"The paper counts only the elements that are sent ({ratio_text(ratios.paper)}). A message that can be "
        f"decoded also holds the scale and says which bins are empty ({ratio_text(ratios.payload)}). With four "
        "learners each one sends its message three times, to each of the others. Uncompressed gradients are added on "
        "their way, so each learner sends only one and a half of them. That is why about half of the saving is left "
        f"({ratio_text(ratios.wire)})."
    )


QUESTIONS = (
    GuidedQuestion(
        "This is the dense layer of your guess. The table counts how many times smaller the same messages are: the elements "
        "that are sent, a whole message that a receiver can decode, and what each of four learners sends to the others. "
        "Half of the saving is lost on the way. What takes it away?",
        {},
        _dense_counts,
        lambda state: (lambda c: c.paper > c.payload and 0.45 < c.wire / c.payload < 0.55)(
            layer_history(state, state.layer).compression_ratios()
        ),
        controls=("layer", "table"),
        figure="history",
        guess=("the scale and the empty bins", "one message for each other learner"),
    ),
    GuidedQuestion(
        "Choose the layer *convolution*. Move *bin* to 50, and then to 500. How long is the residual with "
        "bins of 500 on average, in gradients?",
        {"layer": "convolution", "bin": 500},
        _longer_bins,
        lambda state: share(state) < share(state.changed(bin=50)) and held(state) > held(state.changed(bin=50)),
        controls=("layer", "bin"),
        figure="history",
        guess="gradients",
    ),
    GuidedQuestion(
        "Set *bin* to 1, the second position of the slider. Now every element is alone in its bin, and is the"
        " largest of it. Is everything sent? Set *step* to 237, and find two grey strokes that reach above "
        "the green line.",
        {"layer": "convolution", "bin": 1, "moment": 237},
        _no_bins,
        lambda state: 0.5 < share(state) < 1 and _held_back_point_against(state) and _long_ones_that_wait(state) == 2,
        controls=("layer", "bin", "moment"),
        figure="bins",
        guess=("all is sent", "some wait"),
    ),
)


def _held_back_point_against(state: ResidualState) -> bool:
    """Whether each element of the recorded window that is not sent has a gradient against G, or is zero."""
    window = adacomp_recording().window(state.layer, state.moment, *state.run)
    waits = ~window.sent
    return bool((window.gradient[waits] * window.total[waits] <= 0).all())


def _long_ones_that_wait(state: ResidualState) -> int:
    """How many elements in the lower figure wait with |G| from S to the end of its axis, and |H| clearly below |G|."""
    window = adacomp_recording().window(state.layer, state.moment, *state.run)
    part = shown_bins(window.sent, window.bin)
    total, boosted = (np.abs(window.residual + k * window.gradient)[part] / window.scale for k in (1, 2))
    long = ~window.sent[part] & (total > 1)
    return int(long.sum()) if (total[long] - boosted[long] > 0.5).all() and total[long].max() < MAX_HEIGHT else 0


GUIDED = ((explorer, QUESTIONS),)
