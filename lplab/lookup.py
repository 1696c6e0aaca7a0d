"""Names that users type: the entry meant, or an error that lists the closest names, or says what it is called here."""

from __future__ import annotations

import opcode
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

T = TypeVar("T")
FEW = 12  # names that an error lists

# Names that people look for and lplab does not have, by package or class: what does it here. Each text has a call of a
# public name, with its arguments, or a command in backquotes; tests/test_wrong_names.py looks whether they exist.
NAMES_ELSEWHERE: dict[str, dict[str, str]] = {
    "lplab": {
        "quantize": "formats.get(name).quantize(x) rounds numbers, training.quantize_model(model, recipe) a model",
    },
    "lplab.formats": {
        "list_formats": "names() lists the formats",
        "quantize": "get(name).quantize(x) rounds numbers to a format",
        "stochastic_round": "get(name).quantize(x, rounding='stochastic', seed=7) rounds up or down by chance",
    },
    "lplab.arithmetic": {
        "chunked_sum": "sum(x, accumulator, chunk=64) sums in chunks",
    },
    "lplab.quantizers": {
        "DynamicLossScaler": "DynamicLossScale() is the loss scale that halves after an overflow",
        "QuantizedKVCache": "KIVI() rounds a KV cache",
    },
    "lplab.compression": {
        "compress": "exchange(compressor, gradients, states) runs one step of all learners",
    },
    "lplab.compression.Compressor": {
        "compress": "a message depends on the other learners, too: compression.exchange(compressor, gradients, states) "
        "runs one step of all of them; what was not sent remains in the states",
        "decompress": "a message is averaged with those of the other learners: compression.exchange(compressor, "
        "gradients, states) returns the average",
    },
    "lplab.datasets": {
        "fetch": "mnist() and cifar10() fetch images on first use, the command `lplab fetch` a language model and "
        "Fashion-MNIST",
        "load_digits": "digits() returns images and labels",
    },
    "lplab.training": {
        "bits_per_weight": "bits_report(model) counts the bits of each weight",
        "calibrate": "quantize_for_inference(model, format, calibration=batches) calibrates and rounds a model, "
        "retune_batchnorm(model, inputs) measures its batch norms again",
        "list_recipes": "recipes.names() lists the recipes",
        "quantize_weights": "quantize_for_inference(model, format) rounds the weights of a model",
        "train": "Trainer(model, data, recipe).run(count) trains a model",
    },
    "lplab.models": {
        "generate": "Llama(shape).write(ids) goes on with a text",
    },
    "lplab.parallel": {
        "DiLoCo": "LocalSteps(model, batches) are learners that take many steps of their own and then meet",
        "compression_hook": "ddp_hook(model, compressor) compresses the gradients of DistributedDataParallel",
        "fsdp_hook": "FSDPHook(model) gives FSDP few bits for weights and gradients",
        "save_checkpoint": "LocalSteps(model, batches).state_dict() is a checkpoint of learners that meet, "
        "ddp_hook(model, compressor).state_dict() one of a hook",
    },
    "lplab.hardware": {
        "all_reduce_time": "network.all_reduce_seconds(algorithm, ranks, nbytes, link) is the time of an all-reduce",
        "carbon": "footprint.carbon(kwh, region) turns kilowatt hours into kilograms of CO2e",
        "get_chip": "accelerators.get(name) is a chip",
        "step_time": "simulate(workload, cluster) gives the seconds of a step",
        "training_energy": "footprint.energy(source) gives the joules of a simulated step, "
        "footprint.bill(watts=300, hours=24) the kilowatt hours of a training",
    },
    "lplab.claims": {
        "run": "run_claim(claim) measures a claim, also by its name",
        "verdict": "judge(claim, numbers) gives the verdict on a claim, stored(claim) its numbers",
    },
    "lplab.exercises": {
        "grade_folder": "the command `lplab grade` grades a folder of submissions",
    },
}


def refuse_wrong_names(package: str) -> None:
    """Let a package say the right name when it is asked for a wrong one; each package calls this behind ``__all__``.

    A function named ``__getattr__`` in the package would do the same, but with it type checkers believe that every name
    exists.
    """
    module = sys.modules[package]

    def refuse(name: str) -> Any:
        raise package_error(package, name, module.__all__)

    module.__getattr__ = refuse  # type: ignore[method-assign]


def package_error(package: str, name: str, names: Iterable[str]) -> AttributeError | ImportError:
    """What a package's ``__getattr__`` raises: :func:`wrong_name`, as ImportError for ``from package import name``.

    Python would make "cannot import name" of the AttributeError, without what is said here. Where a new Python has
    another instruction, that text is what stays, and tests/test_wrong_names.py fails.
    """
    error, asking = wrong_name(package, name, names), sys._getframe(2)
    is_import = asking.f_lasti >= 0 and asking.f_code.co_code[asking.f_lasti] == opcode.opmap.get("IMPORT_FROM")
    if is_import and f"{package}.{name}" not in sys.modules:
        return ImportError(str(error), name=package)
    return error


def wrong_name(owner: str, name: str, names: Iterable[str]) -> AttributeError:
    """The error for a name that a package or a class does not have: what it is called here, or the closest.

    Args:
        owner: the package or class, as in ``NAMES_ELSEWHERE``.
        name: what was asked for.
        names: what there is.

    >>> wrong_name("lplab.formats", "list_formats", ["get", "names"])
    AttributeError('lplab.formats has no `list_formats`: names() lists the formats')
    >>> wrong_name("lplab.formats", "nmaes", ["get", "names"])
    AttributeError('lplab.formats has no `nmaes`: did you mean names?')
    """
    hint = NAMES_ELSEWHERE.get(owner, {}).get(name)
    if hint is None and not name.startswith("_"):  # Python and its tools ask for many names with underscores
        close, listed = closest_names(name, names, cutoff=0.5), list(names)
        every = f"it has {', '.join(listed)}" if len(listed) <= FEW else f"dir({owner}) lists its {len(listed)} names"
        hint = f"did you mean {' or '.join(close)}?" if close else every
    return AttributeError(f"{owner} has no `{name}`{f': {hint}' if hint else ''}")


def lookup(table: Mapping[str, T], name: object, what: str) -> T:
    """The entry of this name; capitals, hyphens, spaces and underscores make no difference.

    Raises:
        ValueError: there is none; the message names the closest, or all.

    >>> lookup({"h100": 1, "a100": 2}, "H100", "chip")
    1
    >>> lookup({"h100": 1, "a100": 2}, "h10", "chip")
    Traceback (most recent call last):
    ...
    ValueError: there is no chip 'h10'; did you mean h100 or a100?
    """
    if name in table:
        return table[name]  # type: ignore[index]
    wanted = _normalized(str(name))
    for key in table:
        if _normalized(key) == wanted:
            return table[key]
    close = closest_names(name, table, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(table)}"
    raise ValueError(f"there is no {what} {name!r}; {hint}")


def canonical_name(names: Iterable[str], name: object, what: str) -> str:
    """A name as ``names`` has it; capitals, hyphens, spaces and underscores make no difference.

    Raises:
        ValueError: as :func:`lookup`.

    >>> canonical_name(["parameter_server"], "Parameter-Server", "algorithm")
    'parameter_server'
    """
    return lookup({own: own for own in names}, name, what)


def closest_names(name: object, names: Iterable[str], limit: int = 3, cutoff: float = 0.4) -> list[str]:
    """The names most similar to ``name``, best first.

    Args:
        name: what was asked for.
        names: the allowed names.
        limit: how many to return at most.
        cutoff: the least similarity (``difflib.SequenceMatcher.ratio``), from 0 to 1.

    >>> closest_names("E4M3-fn", ["e4m3", "e4m3fn", "posit8_1"])
    ['e4m3fn', 'e4m3']
    """
    by_key = {_normalized(own): own for own in names}
    return [by_key[key] for key in get_close_matches(_normalized(str(name)), by_key, limit, cutoff)]


def _normalized(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")
