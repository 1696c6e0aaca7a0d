"""What the library computes, as hashes: whoever writes an algorithm anew sees at once which result has changed.

    python -m tests.golden                       compare this checkout with tests/golden.json; name what differs
    python -m tests.golden formats compressors   these families alone
    python -m tests.golden --record              write tests/golden.json anew, because a result had to change
    python -m tests.golden trainings learners --file /tmp/before.json --record    into another file

A hash says that something changed, not what is right: that is for the oracles. Formats, blocks, sums, quantizers and
compressors have the same bits on every processor, so their hashes lie in tests/golden.json. The last bits of trainings
and learners depend on the processor: record them before a change in a file outside the checkout, and compare there.
"""

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lplab import arithmetic
from lplab import compression as C
from lplab import formats as F
from lplab import quantizers as Q
from lplab.compression.lockstep import collective_result, steps_of
from tests.compression.test_every_compressor import ALL as COMPRESSORS
from tests.formats import probes

FILE = Path(__file__).with_name("golden.json")
DTYPES = ("float16", "float32", "float64")
ROUNDINGS = {mode: F.Rounding(mode) for mode in F.ROUNDINGS if mode != "stochastic"} | {
    f"stochastic, {variant}, {bits} bits": F.Rounding("stochastic", bits, variant)
    for variant, bits in (("A", 16), ("B", 16), ("C", 16), ("C", 4), ("C", 24))
}
SEEDS = (0, 1, 2**31 - 1)
STEPS, WORLD = 20, 4
KINDS = {C.Broadcast: "broadcast", C.AllReduce: "sum", C.AllGather: "gather"}  # in the hashes, whatever they are called

OWN_FORMATS = {  # beside the catalogue, so that each field of a format has more than one value
    "float 5-2, fn": F.FloatFormat(5, 2, specials="fn"),
    "float 4-3, fn, infinite": F.FloatFormat(4, 3, specials="fn", saturating=False),
    "float 4-3, saturating": F.FloatFormat(4, 3, saturating=True),
    "float 4-3, no subnormals": F.FloatFormat(4, 3, subnormals=False),
    "float 4-3, bias 11": F.FloatFormat(4, 3, bias=11, specials="none"),
    "float 8-7, saturating": F.FloatFormat(8, 7, saturating=True),
    "float 3-12": F.FloatFormat(3, 12),
    "float 2-0": F.FloatFormat(2, 0, specials="none"),
    "float 1-6": F.FloatFormat(1, 6, specials="none"),
    "float 5-10, dlfloat": F.FloatFormat(5, 10, subnormals=False, specials="dlfloat"),
    "float 8-21": F.FloatFormat(8, 21),
    "float 10-20": F.FloatFormat(10, 20),
    "radix 4, 4-3": F.FloatFormat(4, 3, radix=4),
    "radix 4, 3-1": F.FloatFormat(3, 1, radix=4, specials="none"),
    "q1.7": F.FixedFormat(1, 7),
    "q8.8": F.FixedFormat(8, 8),
    "q6.20": F.FixedFormat(6, 20),
    "int3": F.IntFormat(3),
    "int8, asymmetric": F.IntFormat(8, symmetric=False),
    "int16": F.IntFormat(16),
    "thirds": F.CodebookFormat((-1.0, -1 / 3, 1 / 3, 1.0)),
    "uneven": F.CodebookFormat((-2.5, -0.3, 0.0, 0.1, 0.11, 7.0, float("nan"), 9.0)),
}
ELEMENTWISE = {name: F.get(name) for name in probes.ELEMENTWISE} | OWN_FORMATS
BLOCKED = {name: F.get(name) for name in probes.BLOCKED} | {
    f"{name}, {rule}": replace(F.get(name), scale_rule=rule)
    for name in ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp4", "mxint8")
    for rule in F.SCALE_RULES
    if rule != F.get(name).scale_rule
}
BLOCKED |= {
    "e2m1 in tiles of 16 × 16": F.BlockFormat(F.get("e2m1"), block_size=(16, 16)),
    "e4m3fn in tiles of 3 × 5, rceil": F.BlockFormat(F.get("e4m3fn"), block_size=(3, 5), scale_rule="rceil"),
    "nvfp4 in tiles of 16 × 16": replace(F.get("nvfp4"), block_size=(16, 16)),
    "e4m3fn, scales of float32": F.BlockFormat(F.get("e4m3fn"), scale=F.get("fp32"), block_size=128),
    "e4m3fn, scales of float32, tiles of 128 × 128": F.BlockFormat(F.get("e4m3fn"), F.get("fp32"), (128, 128)),
}


class Hash:
    """The hash of arrays, tensors, texts and numbers, in the order in which they come; any NaN equals any NaN."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()

    def add(self, *values: Any) -> "Hash":
        """Add values: kind, shape and bits of an array, the representation of anything else."""
        for value in values:
            if not isinstance(value, np.ndarray) and hasattr(value, "detach"):
                value = value.detach().resolve_neg().cpu().numpy()
            if isinstance(value, np.ndarray):
                value = np.ascontiguousarray(value)
                if value.dtype.kind == "f":
                    value = np.where(np.isnan(value), np.array(np.nan, value.dtype), value)
                self._sum.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
            else:
                self._sum.update(repr(value).encode())
        return self

    def text(self) -> str:
        """Twelve digits: a chance of 10⁻¹⁴ that a change is not seen."""
        return self._sum.hexdigest()[:12]


# ---- families: each yields names and hashes --------------------------------------------------------------------------


def formats() -> Iterator[tuple[str, str]]:
    """Values and codes of every format in every rounding, for all dtypes and seeds; tensors are like arrays."""
    import torch

    for name, fmt in ELEMENTWISE.items():
        inputs = [
            np.concatenate([_thinned(probes.boundary(fmt, dtype)), _thinned(probes.common(dtype))]) for dtype in DTYPES
        ]
        bfloat16 = torch.from_numpy(inputs[1]).bfloat16()
        codes = Hash().add(*(fmt.encode(x[np.isfinite(x)]) for x in inputs))
        yield f"{name}, codes", (codes.add(fmt.codebook()) if fmt.bits <= 20 else codes).text()
        for mode, rounding in ROUNDINGS.items():
            found = Hash()
            for seed in SEEDS if rounding.is_stochastic else (None,):
                found.add(*(fmt.quantize(x, rounding, seed) for x in inputs))
                found.add(fmt.quantize(bfloat16, rounding, seed).float())
            yield f"{name}, {mode}", found.text()


def _thinned(x: np.ndarray, count: int = 3000) -> np.ndarray:
    return x[:: -(-len(x) // count)]


def blocks() -> Iterator[tuple[str, str]]:
    """Values, scales and codes of block formats in every scale rule, along each axis."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((37, 71)) * 2.0 ** rng.integers(-40, 40, (37, 1))
    x[rng.random(x.shape) < 0.1] = 0
    x[3], x[5, 64:] = 0, np.inf
    for name, fmt in BLOCKED.items():
        found = Hash()
        for axis in (0, 1):
            for dtype in DTYPES:
                with np.errstate(over="ignore"):
                    y = x.astype(dtype)
                for rounding in ROUNDINGS.values():
                    found.add(fmt.quantize(y, rounding, 1 if rounding.is_stochastic else None, axis=axis))
            if fmt.tile[0] == 1:
                found.add(*fmt.encode(np.nan_to_num(x, posinf=1.0).astype(np.float32), axis=axis))
        yield name, found.text()


def sums() -> Iterator[tuple[str, str]]:
    """Sums and products in registers of several formats, with and without chunks."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 5, 150), (150, 12)))
    small = F.get("e4m3fn").quantize(a), F.get("e4m3fn").quantize(b)
    for name in ("dlfloat16", "bf16", "fp16", "e5m2", "q4.12", "posit16_1", "int8"):
        for mode in ("nearest_even", "toward_zero", "down", "stochastic"):
            found, seed = Hash(), 1 if mode == "stochastic" else None
            for settings in ({}, {"chunk": 64}, {"chunk": 7, "outer": "fp32"}, {"fma": False}):
                accumulator = arithmetic.Accumulator(name, rounding=mode, **settings)
                found.add(arithmetic.matmul(a, b, accumulator, seed=seed))
                found.add(arithmetic.matmul(*small, accumulator, seed=seed))
                found.add(arithmetic.sum(a, accumulator, axis=-1, seed=seed))
            found.add(arithmetic.kahan_sum(a, name, -1, rounding=mode, seed=seed))
            found.add(arithmetic.pairwise_sum(a, name, -1, rounding=mode, seed=seed))
            yield f"{name}, {mode}", found.text()


def quantizers() -> Iterator[tuple[str, str]]:
    """Scales, clips and what becomes of a tensor under each of them, for arrays and for tensors."""
    import torch

    rng = np.random.default_rng(2)
    x = (rng.standard_normal((24, 64)) * 2.0 ** rng.integers(-6, 6, (24, 1))).astype(np.float32)
    dy = rng.standard_normal(x.shape).astype(np.float32)
    scalings = {
        "amax": Q.Amax(),
        "amax, powers of two": Q.Amax(power_of_two=True),
        "percentile": Q.Percentile(99.0),
        "least squares": Q.MinMSE(),
    }
    for name in ("int4", "int8", "e4m3fn", "e2m1"):
        for label, scaling in scalings.items():
            found = Hash()
            for axis in (None, 0, 1):
                for mode in ("nearest_even", "stochastic"):
                    quantizer = Q.Quantizer(name, scaling, mode, axis=axis)
                    seed = 3 if mode == "stochastic" else None
                    found.add(quantizer.quantize(x, seed=seed), quantizer.quantize(torch.from_numpy(x), seed=seed))
            yield f"{name}, {label}", found.text()
    for bits in (2, 3, 4):
        sawb = [Q.sawb_clip(x, bits, axis=axis) for axis in (None, 0)]
        yield f"sawb, {bits} bits", Hash().add(*sawb, Q.SAWB(bits).quantize(x), Q.SAWB(bits, axis=0).quantize(x)).text()
        pact = [Q.pact_forward(x, 1.7, bits), *Q.pact_backward(x, 1.7, dy)]
        yield f"pact, {bits} bits", Hash().add(*pact).text()
        lsq = [Q.lsq_forward(x, 0.3, bits), *Q.lsq_backward(x, 0.3, dy, bits), Q.lsq_step(x, bits)]
        yield f"lsq, {bits} bits", Hash().add(*lsq).text()
    for module in (Q.PACT(alpha=1.7), Q.LSQ()):
        leaf = torch.from_numpy(x).requires_grad_()
        y = module(leaf)
        y.backward(torch.from_numpy(dy))
        parameters = [p for parameter in module.parameters() for p in (parameter, parameter.grad)]
        yield f"module {type(module).__name__}", Hash().add(y, leaf.grad, *parameters).text()
    for samples in (1, 2):
        luq = Q.LUQ(samples)
        yield (
            f"luq, {samples} samples",
            Hash().add(luq.quantize(dy, seed=1), luq.quantize(torch.from_numpy(dy), seed=1)).text(),
        )
    scale = Q.GradScale()
    found = Hash()
    for factor in (1.0, 8.0, 0.01, 0.01):
        found.add(*scale.two_phase(dy * np.float32(factor)), scale.update())
    yield "gradscale and two phases", found.text()
    hadamard = Q.Hadamard(16, Q.NVFP4_SIGNS)
    yield "hadamard", Hash().add(hadamard.apply(x), hadamard.apply(torch.from_numpy(x), axis=0)).text()


def compressors() -> Iterator[tuple[str, str]]:
    """Messages, averages and states of every compressor over 20 steps of four learners, for arrays and for tensors."""
    import torch

    shapes = {"(37, 41)": (37, 41), "(33000,)": (33000,)}
    for name, compressor in COMPRESSORS.items():
        if name in ("powersgd", "demo"):  # no product of matrices has the same bits everywhere
            continue
        for label, shape in shapes.items():
            found = Hash()
            for of_kind in (np.asarray, torch.from_numpy):
                for request in _requests(compressor, shape, of_kind):
                    found.add(request)
            yield f"{name}, {label}", found.text()


def _requests(compressor: C.Compressor, shape: tuple[int, ...], of_kind: Callable[[np.ndarray], Any]) -> Iterator[Any]:
    """All that learners send, receive and keep, in the order of steps and ranks."""
    from lplab.compression.tensors import tensor_state

    rng = np.random.default_rng(4)
    states = [
        compressor.init(shape) if of_kind is np.asarray else tensor_state(compressor, shape, "cpu")
        for _ in range(WORLD)
    ]
    for step in range(STEPS):
        heavy = rng.standard_normal((WORLD, *shape)) * np.exp2(rng.integers(-4, 4, (WORLD, *shape)))
        gradients = np.where(rng.random(heavy.shape) < 0.125, 0, heavy).astype(np.float32)
        contexts = [C.Context(rank, WORLD, step, "w", seed=5) for rank in range(WORLD)]
        runs = [steps_of(compressor, of_kind(g), s, c) for g, s, c in zip(gradients, states, contexts, strict=True)]
        result, averages = None, []
        while not averages:
            requests = []
            for run in runs:
                try:
                    requests.append(run.send(result))
                except StopIteration as stop:
                    averages.append(stop.value)
            for request in requests:
                yield KINDS[type(request)]
                yield request.values if isinstance(request, C.AllReduce) else request.payload
            result = collective_result(requests) if requests else None
        yield from averages
        for state in states:
            state.commit()
            yield from (array for _, array in sorted(state.arrays().items()))


def trainings() -> Iterator[tuple[str, str]]:
    """Losses and the whole state after 20 steps of some nets under every recipe."""
    from lplab.training import recipes, tasks

    for task in ("mlp", "digits_resnet", "lstm", "transformer"):
        for recipe in recipes.names():
            trainer = tasks.get(task).trainer(recipe)
            losses = [step.loss for step in trainer.steps(STEPS)]
            yield f"{task}, {recipe}", Hash().add(losses, *_leaves(trainer.state_dict())).text()


def learners() -> Iterator[tuple[str, str]]:
    """Reports and weights of 20 steps of four learners with every compressor."""
    from lplab.parallel.run_settings import RunSettings
    from lplab.parallel.simulated import SimulatedRun

    for name in C.names():
        for engine in ("loop", "stacked"):
            run = SimulatedRun(RunSettings("mlp", name, learners=WORLD, steps=STEPS), engine)
            yield f"{name}, {engine}", Hash().add(*run, *_leaves(run.weights)).text()


def _leaves(tree: Any) -> Iterator[Any]:
    """Arrays, tensors and plain values of nested dictionaries and lists, with their names."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from _leaves(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from _leaves(value)
    else:
        yield tree


EVERYWHERE = (formats, blocks, sums, quantizers, compressors)  # their bits do not depend on the processor
FAMILIES = {family.__name__: family for family in (*EVERYWHERE, trainings, learners)}


def measured(names: list[str]) -> dict[str, dict[str, str]]:
    """The hashes of these families now."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {name: dict(FAMILIES[name]()) for name in names}


def differences(before: dict[str, dict[str, str]], now: dict[str, dict[str, str]]) -> list[str]:
    """What has another hash, is gone, or is new, one line each."""
    lines = []
    for family, hashes in now.items():
        known = before.get(family, {})
        for name in {**known, **hashes}:
            if known.get(name) != hashes.get(name):
                what = "is gone" if name not in hashes else "is new" if name not in known else "has changed"
                lines.append(f"{family}: {name} {what}")
    return lines


def main() -> int:
    """The command; 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help=f"of {', '.join(FAMILIES)}; by default those of the file's kind")
    parser.add_argument("--file", type=Path, default=FILE, help="the hashes; by default tests/golden.json")
    parser.add_argument("--record", action="store_true", help="write the file")
    given = parser.parse_args()
    if unknown := set(given.families) - set(FAMILIES):
        parser.error(f"unknown family {', '.join(sorted(unknown))}; allowed: {', '.join(FAMILIES)}")
    before = json.loads(given.file.read_text("utf-8")) if given.file.exists() else {}
    now = measured(given.families or list(before) or [family.__name__ for family in EVERYWHERE])
    if given.record:
        given.file.write_text(json.dumps(before | now, indent=0, ensure_ascii=False) + "\n", "utf-8")
    lines = differences(before, now)
    print(*lines, f"{sum(map(len, now.values()))} results, {len(lines)} differ", sep="\n")
    return int(bool(lines) and not given.record)


if __name__ == "__main__":
    sys.exit(main())
