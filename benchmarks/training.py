"""What a step of training costs under a recipe, as ratios to two yardsticks timed in the same run.

``python -m benchmarks training`` (``--quick`` for a taste; ``--models transformer --recipes hfp8_2019`` for a part).
The candidate is ``Trainer.one_step``, with everything that a user gets. The yardsticks are

* **bare loop**: PyTorch in float32 without lplab: forward, loss, backward, optimizer. The bars are set against it.
* **our fp32**: the same trainer under the recipe "fp32", which rounds nothing: what the rounding alone costs.

Steps of all three alternate, and a ratio is that of the shortest times: what disturbs a step only makes it longer. The
quartiles are those of the ratios of neighbouring times. On one thread the clock counts CPU seconds, which a busy
machine stretches less than the wall clock does, but not evenly: other processes that share the caches slow
rounding, which is memory-bound, more than matrix products. On two threads it is the wall clock, which is meaningful
only on an idle machine. Peers (QPyTorch, microxcaling) do the same job where they can be imported. The exit code is
1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from lplab import datasets
from lplab.arithmetic import Accumulator
from lplab.training import Recipe, Recorder, SequenceBatches, recipes, tasks

MODELS = {"transformer": 1, "resnet": 2, "cnn": 6, "mlp": 20, "lstm": 2}  # steps in a row: long enough for the clock
_PUBLISHED = {"hfp8_2019": 1.4, "int4_fp4_2020": 1.7}
BARS: dict[str, dict[str, float]] = {
    "transformer": {**_PUBLISHED, "luq_2022": 2.0},
    "resnet": _PUBLISHED,
    "cnn": _PUBLISHED,
    "lstm": {"hfp8_2019": 2.0, "int4_fp4_2020": 2.0},
}
"""What a step may cost in units of the bare loop, by model and recipe."""
SUMS_BAR = 10.0  # every addition of every product rounded, forward and backward, in chunks of 64
RECORDING_BARS = {1: 2.0, 10: 1.1}
WARM_UP = 20
REPETITIONS, QUICK = 60, 15
Step = Callable[[], object]


@dataclass(frozen=True)
class Candidate:
    """A step to time, beside which other steps, and what it may cost in units of the first (None: no promise)."""

    model: str
    work: str
    make: Callable[[], Step]
    yardsticks: tuple[Callable[[], Step], ...]
    bar: float | None = None
    rounds: int = 0  # steps in a row; 0 for what suits the model


@dataclass(frozen=True)
class Result:
    """Ratios of the shortest times to the yardsticks, quartiles of the first one's, and its shortest milliseconds."""

    model: str
    work: str
    threads: int
    ratio: float
    low: float
    high: float
    to_our_fp32: float | None
    yardstick_ms: float
    bar: float | None

    @property
    def verdict(self) -> str:
        """How the ratio stands to the bar."""
        return "" if self.bar is None else ("within" if self.ratio <= self.bar else "MISSED")


class CharLSTM(nn.Module):
    """Two layers of LSTM over characters [batch, time]; logits [batch, time, vocabulary]."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 64)
        self.lstm = nn.LSTM(64, 128, num_layers=2, batch_first=True)
        self.head = nn.Linear(128, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logits."""
        return self.head(self.lstm(self.embedding(x))[0])


def task_of(name: str) -> tasks.Task:
    """A task by name; "lstm" is the Transformer's text, 32 characters at a time, for an LSTM."""
    if name != "lstm":
        return tasks.get(name)
    ids, vocabulary = datasets.character_ids()

    def model(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return CharLSTM(len(vocabulary))

    def data(batch: int, seed: int) -> SequenceBatches:
        return SequenceBatches(ids, length=32, batch=batch, seed=seed)

    return tasks.Task("lstm", "a novel's characters", model, data, lambda: data(64, 0)(0), batch=16, lr=0.1)


def plain(name: str, change: Callable[[nn.Module], nn.Module] = lambda model: model) -> Step:
    """A step of torch's own, of a task by name; ``change`` may put the model under a peer's quantizers."""
    task = task_of(name)
    model, data = change(task.model(0)), task.data(task.batch, 0)
    optimizer_class: Any = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[task.optimizer]
    optimizer = optimizer_class(model.parameters(), lr=task.lr, **dict(task.options))
    count = iter(range(2**62))

    def step() -> float:
        inputs, targets = data(next(count))
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        loss.backward()
        value = loss.item()
        optimizer.step()
        return value

    return step


def ours(name: str, recipe: str | Recipe, every: int = 0) -> Step:
    """A step of the trainer; ``every``: how often a recorder samples all tensors, 0 for never."""
    recorder = Recorder(every=every) if every else None
    return task_of(name).trainer(recipe, recorder=recorder).one_step


def candidates(models: Sequence[str], chosen: Sequence[str]) -> Iterator[Candidate]:
    """Recipes on models, recording, and peers."""
    for model in models:
        for recipe in chosen:
            bar = BARS.get(model, {}).get(recipe)
            yardsticks = partial(plain, model), partial(ours, model, "fp32")
            yield Candidate(model, recipe, partial(ours, model, recipe), yardsticks, bar)
    if "cnn" in models:
        yardsticks = partial(plain, "cnn"), partial(ours, "cnn", "fp32")
        exact = partial(ours, "cnn", recipes.get("fp8_2018", accumulator=Accumulator("dlfloat16", chunk=64)))
        yield Candidate("cnn", "fp8_2018, sums in 1-6-9", exact, yardsticks, SUMS_BAR, rounds=2)
    for model in [model for model in ("transformer", "resnet") if model in models]:
        for every, bar in RECORDING_BARS.items():
            work = "hfp8_2019, recorded" if every == 1 else f"… every {every}th step"
            bare = (partial(ours, model, "hfp8_2019"),)
            yield Candidate(model, work, partial(ours, model, "hfp8_2019", every), bare, bar, rounds=10)
    for peer, change in peers() if "transformer" in models else ():
        yield Candidate("transformer", peer, partial(plain, "transformer", change), (partial(plain, "transformer"),))


def peers() -> Iterator[tuple[str, Callable[[nn.Module], nn.Module]]]:
    """Peers that train in FP8 formats; those that are missing are named."""
    known = {"qtorch": ("QPyTorch", with_qtorch), "mx": ("microxcaling", with_microxcaling)}
    for module, (name, change) in known.items():
        if find_spec(module) is None:
            print(f"{name} left out: no module {module!r} (it is timed where it can be imported)", file=sys.stderr)
        else:
            yield name, change


def with_qtorch(model: nn.Module) -> nn.Module:
    """QPyTorch on the operands and gradients of all linear layers: 1-4-3 forward, 1-5-2 backward."""
    from qtorch import FloatingPoint
    from qtorch.quant import Quantizer

    ahead, back = FloatingPoint(exp=4, man=3), FloatingPoint(exp=5, man=2)
    rounder = Quantizer(ahead, back, "nearest", "nearest")

    class Rounded(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return rounder(functional.linear(rounder(x), rounder(self.weight), self.bias))

    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.__class__ = Rounded
    return model


def with_microxcaling(model: nn.Module) -> nn.Module:
    """Microsoft's MX emulation on all linear layers: FP8 elements in blocks of 32, forward and backward."""
    from mx import Linear, finalize_mx_specs

    elements = {"w_elem_format": "fp8_e4m3", "a_elem_format": "fp8_e4m3", "block_size": 32, "bfloat": 16}
    specs = finalize_mx_specs({**elements, "custom_cuda": False, "quantize_backprop": True})
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                changed = Linear(child.in_features, child.out_features, child.bias is not None, mx_specs=specs)
                changed.load_state_dict(child.state_dict())
                setattr(parent, name, changed)
    return model


def measure(candidate: Candidate, threads: int, repetitions: int) -> Result:
    """Time yardsticks and candidate in turn; first some steps without counting, which also load the loops."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    works = [make() for make in (*candidate.yardsticks, candidate.make)]
    count = candidate.rounds or MODELS[candidate.model]
    for work in works:
        for _ in range(max(WARM_UP, count)):
            work()
    times = np.empty((repetitions, len(works)))
    for repetition, place in np.ndindex(times.shape):
        start = clock()
        for _ in range(count):
            works[place]()
        times[repetition, place] = (clock() - start) / count
    return _result(candidate, threads, times)


def _result(candidate: Candidate, threads: int, times: np.ndarray) -> Result:
    """From the seconds of a step [repetitions, works], the candidate last."""
    ratios, neighbours = times[:, -1].min() / times.min(0), times[:, -1] / times[:, 0]
    low, high = np.quantile(neighbours, (0.25, 0.75))
    to_fp32 = float(ratios[1]) if len(candidate.yardsticks) > 1 else None
    numbers = float(ratios[0]), float(low), float(high), to_fp32, 1e3 * float(times[:, 0].min())
    return Result(candidate.model, candidate.work, threads, *numbers, candidate.bar)


def show(result: Result) -> None:
    """One line of the table."""
    spread, bar = f"{result.low:.2f}–{result.high:.2f}", "" if result.bar is None else f"{result.bar:.1f}"
    fp32 = "" if result.to_our_fp32 is None else f"{result.to_our_fp32:.2f}"
    print(
        f"{result.model:12} {result.work:24} {result.threads:7} {result.ratio:11.2f} {spread:>11} {fp32:>10} "
        f"{result.yardstick_ms:8.1f} {bar:>5}  {result.verdict}",
        flush=True,
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="benchmarks training", description="Steps under a recipe as ratios to the plain step. Example: --quick"
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, fewer recipes")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), help="default: all")
    parser.add_argument("--recipes", nargs="+", choices=recipes.names(), help="default: all")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="default: 1 2")
    parser.add_argument("--json", metavar="FILE", help="write the results there, too, beside what it already holds")
    options = parser.parse_args()
    print("\nA step of training (recorded: × the same step without recording; peers: × the bare loop)\n")
    names = f"{'model':12} {'recipe':24} {'threads':>7}"
    print(f"{names} {'× bare loop':>11} {'quartiles':>11} {'× our fp32':>10} {'bare ms':>8} {'bar':>5}")
    barred = dict.fromkeys(recipe for model in options.models for recipe in BARS.get(model, ()))
    chosen = options.recipes or (["fp32", *barred] if options.quick else recipes.names())
    results = []
    for candidate in candidates(options.models, chosen):
        for threads in options.threads:
            results.append(measure(candidate, threads, QUICK if options.quick else REPETITIONS))
            show(results[-1])
    if options.json:
        file = Path(options.json)
        known = json.loads(file.read_text("utf-8")) if file.exists() else {}
        file.write_text(json.dumps({**known, "training": [asdict(r) for r in results]}, indent=1), "utf-8")
    return int(any(r.verdict == "MISSED" for r in results))


if __name__ == "__main__":
    sys.exit(main())
