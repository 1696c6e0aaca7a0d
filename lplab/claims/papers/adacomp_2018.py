"""Chen et al. 2018 (AdaComp): convolutions 40 times smaller, other layers 200 times, by the paper's counting.

Accuracy is asked of the two networks for pictures; that of the LSTM, which needs a longer training, by
:mod:`~lplab.claims.papers.adacomp_2018_language`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.parity import ParityRow
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, median_and_range, within_noise
from lplab.compression import AdaComp, AllGather, Compressor, Context, Dense, LayerInfo, LayerState
from lplab.compression.compressor import Request, Steps
from lplab.compression.ratios import adacomp_paper_ratio, entropy_bound, wire_bytes
from lplab.compression.wire import adacomp_wire
from lplab.compression.wrappers import WrappedCompressor

FC, CONV, LSTM = "fully connected", "convolutional", "LSTM"
TASKS = {FC: ("mlp", 300, 500), CONV: ("digits_resnet", 200, 50), LSTM: ("lstm", 500, 500)}  # task, steps, bin
PUBLISHED = {FC: 200, CONV: 40, LSTM: 200}
LEARNERS = 4
_WAITS = [bin / 5 / steps for _, steps, bin in (TASKS[FC], TASKS[CONV])]
BATCHES, LAYERS = (16, 50), (3, 10)  # as the tasks have them: lowest and highest; of the networks for pictures
WINDOW = 0.1  # of the steps: over so many the training loss is averaged

POINTS: tuple[Point, ...] = tuple({"family": f, "method": m} for f in TASKS for m in ("dense", "adacomp"))

claim = ClaimBuilder(
    id="adacomp_2018",
    title="AdaComp: 40 times smaller convolutions and 200 times smaller other layers, pictures as accurate",
    paper=cite("adacomp_2018"),
    where="abstract; the counting of section 3 (recalled)",
    statement="Gradients of convolutions become about 40 times smaller, those of fully connected and recurrent layers "
    "about 200 times, without noticeable loss of accuracy.",
    published="40 times with bins of 50 and 200 times with bins of 500, which are 5 elements a bin at 8 and 16 bits "
    "each (the abstract, read; the counting, recalled)",
    experiment=f"{LEARNERS} learners in one process train three linear layers and a residual net on the digits (300 "
    "and 200 steps, SGD with momentum) and an LSTM of two layers on characters (500 steps, Adam). Every message is "
    "decoded and counted; tensors below 1,024 elements are sent whole and are left out of the ratios. The accuracy of "
    "the LSTM is judged after a longer training, in adacomp_2018_language.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=310,
    limits="Small networks and short trainings: an element that waits 100 steps waits a fifth of the whole training. "
    "Our notes on the algorithm are second-hand; the doubtful points are switches of lplab.compression.AdaComp. The "
    "ratios are of one direction: after the average messages of several learners are no longer three-valued.",
    parity=(
        ParityRow("elements of a bin: convolutions", 50, "recalled", small=TASKS[CONV][2]),
        ParityRow("elements of a bin: other layers", 500, "recalled", small=TASKS[FC][2]),
        ParityRow(
            "layers with weights of the networks for pictures",
            (8, 50),
            "AlexNet to ResNet-50, recalled",
            small=LAYERS,
            why="Both networks train in seconds.",
        ),
        ParityRow(
            "examples of a learner in a step",
            None,
            "down to one with 128 learners, recalled; the usual number is not in our notes",
            small=(min(BATCHES) / LEARNERS, max(BATCHES) / LEARNERS),
        ),
        ParityRow(
            "steps that an element waits if each is sent equally often (5 of a bin), over all steps",
            None,
            "the number of steps is not in our notes",
            small=(min(_WAITS), max(_WAITS)),
        ),
    ),
    no_larger_run="Ratios and accuracy of pictures show at this size. What does not is the recurrent network after "
    f"{TASKS[LSTM][1]} steps: its longer trainings are the claim adacomp_2018_language.",
)


@dataclass
class Counted:
    """What AdaComp's messages hold, added up over steps, learners and layers; each message is decoded.

    Args:
        infos: the layers by name.
    """

    infos: dict[str, LayerInfo]
    bins: int = 0
    sent: int = 0
    empty: int = 0
    elements: int = 0
    payload: int = 0
    bits: float = 0.0
    longest: dict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))

    def note(self, context: Context, request: Request) -> None:
        """Count one message."""
        if not isinstance(request, AllGather):
            return
        info = self.infos[context.layer]
        bin = AdaComp().for_layer(info)._bin()  # type: ignore[attr-defined]
        message = adacomp_wire.decode(request.payload, info.numel, bin)
        self.bins += -(-info.numel // bin)
        self.sent += message.indices.size
        self.empty += message.empty_bins
        self.elements += info.numel
        self.payload += request.payload.size
        self.bits += info.numel * entropy_bound(message.indices.size / info.numel)
        place = (context.step, context.layer)
        self.longest[place] = max(self.longest[place], request.payload.size)

    def numbers(self, bin: int) -> dict[str, float]:
        """The four compression ratios against float32, elements a bin and the share of empty bins."""
        wire = sum(wire_bytes("all_gather", size, LEARNERS) for size in self.longest.values())
        dense = sum(wire_bytes("all_reduce", 4 * self.infos[layer].numel, LEARNERS) for _, layer in self.longest)
        values = {
            "sent_per_bin": self.sent / self.bins,
            "empty": self.empty / self.bins,
            "paper": adacomp_paper_ratio(bin, self.sent / self.bins),
            "payload": 4 * self.elements / self.payload,
            "wire": dense / wire,
            "entropy": 32 * self.elements / self.bits,
        }
        return {name: round(value, 4) for name, value in values.items()}


@dataclass(frozen=True)
class RecordingCompressor(WrappedCompressor):
    """A compressor that calls ``note`` with every request of every learner.

    >>> from lplab.compression import exchange
    >>> seen = []
    >>> recorded = RecordingCompressor(Dense(), lambda context, request: seen.append(type(request).__name__))
    >>> exchange(recorded, [np.ones(2, np.float32)] * 2, [recorded.init((2,))] * 2).tolist(), seen
    ([1.0, 1.0], ['AllReduce', 'AllReduce'])
    """

    note: Callable[[Context, Request], Any]

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """The compressor with the settings of the layer, which calls ``note``, too."""
        return RecordingCompressor(self.compressor.for_layer(layer), self.note)

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """The steps of the compressor, with each request given to ``note``."""
        run, answer = self.compressor.steps(gradient, state, context), None
        while True:
            try:
                request = run.send(answer)
            except StopIteration as stop:
                return stop.value
            self.note(context, request)
            answer = yield request


def run(family: str, method: str, seed: int, steps: int) -> dict[str, float]:
    """Train a family with four learners; the numbers that are stored.

    >>> result = run("fully connected", "adacomp", seed=0, steps=3)
    >>> result["payload"] < result["paper"], result["wire"] < result["payload"] < result["entropy"]
    (True, True)
    """
    from lplab.claims.framework.learner_trainings import train
    from lplab.parallel import layer_infos
    from lplab.training import tasks

    name, _, bin = TASKS[family]
    task = tasks.get(name)
    counted = Counted(layer_infos(task.model(seed)))
    compressor = Dense() if method == "dense" else RecordingCompressor(AdaComp(), counted.note)
    finished = train(task, compressor, LEARNERS, steps, seed, batch=task.batch // LEARNERS * LEARNERS)
    window = max(1, round(WINDOW * steps))
    early = np.mean(finished.losses[steps // 2 - window : steps // 2]) / np.log(2) if steps >= 4 else 0.0
    return {
        **finished.numbers(),
        "train_loss_half": round(float(early), 6),
        **({} if method == "dense" else counted.numbers(bin)),
    }


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once."""
    return run(point["family"], point["method"], seed, TASKS[point["family"]][1])


def _of(results: Results, family: str, number: str, method: str = "adacomp") -> np.ndarray:
    return results.values(number, family=family, method=method)


@claim.criterion("At least the published ratios, by the paper's counting")
def _ratios_hold(results: Results) -> CheckResult:
    """Rows T12 and T13, and the measured elements a bin."""
    exact = adacomp_paper_ratio(50, 5) == 40 and adacomp_paper_ratio(500, 5) == 200
    measured = {f: _of(results, f, "paper") for f in TASKS}
    each = [
        f"{family} {median_and_range(measured[family], 0)} times "
        f"({median_and_range(_of(results, family, 'sent_per_bin'), 1)} elements in each bin of {TASKS[family][2]})"
        for family in TASKS
    ]
    return CheckResult(
        exact and all(measured[f].min() >= PUBLISHED[f] for f in TASKS),
        "As the paper counts, 5 elements a bin are 40 times (bin 50) and 200 times (bin 500). Here: "
        f"{join_words(each)}.",
    )


def _as_good_as_dense(family: str) -> Any:
    def check(results: Results) -> CheckResult:
        loss, base = _of(results, family, "loss"), _of(results, family, "loss", "dense")
        errors = [float(np.median(_of(results, family, "error", m))) for m in ("adacomp", "dense")]
        return CheckResult(
            within_noise(loss, base),
            f"{family[0].upper()}{family[1:]}: test loss {median_and_range(loss, 3)} bits, uncompressed "
            f"{median_and_range(base, 3)}; {errors[0]:.1f} % wrong, uncompressed {errors[1]:.1f} %.",
        )

    return check


claim.criterion("Fully connected: as good as uncompressed")(_as_good_as_dense(FC))
claim.criterion("Convolutional: as good as uncompressed")(_as_good_as_dense(CONV))


@claim.explanation("Four compression ratios that must not be mixed")
def _never_one_ratio(results: Results) -> CheckResult:
    """Beside the paper's counting: decodable payload, bytes on the wire, the entropy bound."""
    each, longest = [], []
    ordered = True
    for family in TASKS:
        paper, payload, wire, bound = (_of(results, family, n) for n in ("paper", "payload", "wire", "entropy"))
        ordered &= bool((wire < payload).all() and (payload < paper).all() and (payload < bound).all())
        values = (f"{np.median(x):.0f}" for x in (paper, payload, wire, bound))
        longest.append(float(np.median(2 / LEARNERS * payload / wire)))  # over the mean: equal ones keep 2/n
        text = "{}: {} as the paper counts, {} as bytes that can be decoded, {} on the wire, {} by the entropy bound"
        each.append(text.format(family, *values))
    return CheckResult(
        ordered,
        f"Times smaller than float32, with {LEARNERS} learners (the wire: a gather to all others against a ring "
        f"all-reduce; it fills all messages of a step up to the longest, which is {min(longest):.1f} to "
        f"{max(longest):.1f} times as long as their mean). {'; '.join(each)}.",
    )


@claim.explanation("Some bins send nothing")
def _some_bins_are_empty(results: Results) -> CheckResult:
    """Ambiguity A1: a bin may send nothing."""
    shares = {f: 100 * _of(results, f, "empty") for f in TASKS}
    text = [f"{median_and_range(share, 0)} % ({family})" for family, share in shares.items()]
    return CheckResult(
        all(share.min() > 0 for share in shares.values()), f"Bins that send nothing: {join_words(text)}."
    )


@claim.explanation("The LSTM is late, and the gap gets smaller")
def _late_not_lost(results: Results) -> CheckResult:
    """The LSTM is behind by some steps: what is kept back comes late, and the gap gets smaller."""
    half, end = (_of(results, LSTM, n) - _of(results, LSTM, n, "dense") for n in ("train_loss_half", "train_loss"))
    steps, wait = TASKS[LSTM][1], 500 / np.median(_of(results, LSTM, "sent_per_bin"))
    return CheckResult(
        bool((end < half).all() and (half > 0).all()),
        f"The LSTM's training loss is behind the uncompressed one by {median_and_range(half)} bits after {steps // 2} "
        f"steps and still by {median_and_range(end)} after {steps}: an element waits for about {wait:.0f} steps, much "
        "of so short a training.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Compression ratios and losses."""
    parts = []
    for family in TASKS:
        paper, payload = (float(np.median(_of(results, family, n))) for n in ("paper", "payload"))
        losses = (float(np.median(_of(results, family, "loss", m))) for m in ("adacomp", "dense"))
        ours, base = losses
        parts.append(
            f"{family} {paper:.0f} times as the paper counts, {payload:.0f} as bytes, median loss {ours:.3f} bits "
            f"(uncompressed {base:.3f})"
        )
    return "; ".join(parts)


claim.draw(
    "times smaller, as the paper counts", lambda results: {f: _of(results, f, "paper") for f in TASKS}, PUBLISHED
)
claim.draw(
    "test loss, bits",
    lambda results: {
        name: _of(results, f, "loss", *method) for f in TASKS for name, method in ((f, ()), (f"{f}, dense", ("dense",)))
    },
)

claim.compared(
    theirs_on="pictures, speech and text, several networks",
    ours_on="8 × 8 digits, two networks; characters, an LSTM",
    rows=({"fully connected": "fully connected", "convolutional": "convolutional", "LSTM": "LSTM"},),
)
claim.found(claim.criteria[0].test, holds="at least the paper's ratios", fails="below the paper's ratios")
claim.found(
    claim.criteria[1].test, claim.criteria[2].test, holds="pictures as accurate", fails="pictures not as accurate"
)
claim.found(_late_not_lost, holds="text is behind after 500 steps", fails="text is not simply late", limits=True)

ADACOMP_2018 = claim.build()
