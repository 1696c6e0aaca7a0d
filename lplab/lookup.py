"""Names that users type: the entry meant, or an error that lists the closest names, or says what it is called here."""

from __future__ import annotations

import inspect
import opcode
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache, wraps
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
FEW = 12  # names that an error lists

# Names that people look for and lplab does not have, by package or class: what does it here. Each text has a call of a
# public name (for a class, of a method of its own, too), with its arguments, or a command in backquotes;
# tests/test_wrong_names.py looks whether they exist.
_NEIGHBOURS = "quantize(x, rounding='down') and quantize(x, rounding='up') are the values on either side of a number x"
_CODES = "encode(x) gives codes, bit_fields() the parts of a code"
_LIMITS = "describe() lists eps, max, min, smallest_normal and smallest_subnormal, which mean the same in numpy.finfo"
_JUDGE = "claims.judge(claim) gives the verdict, claims.stored(claim) the numbers"
_RUN = "claims.run_claim(claim) measures what is missing, claims.measure(claim, point, seed) one point"
_ROUND = "quantize(x) rounds a tensor; the values are scaled back already"
_CONVERT = "training.quantize_model(model, recipe) gives the layers of a model the roundings of a recipe"
_TRAIN = "training.Trainer(model, data, recipe).run(count) trains a model by a recipe"
NAMES_ELSEWHERE: dict[str, dict[str, str]] = {
    "lplab": {
        "quantize": "formats.get(name).quantize(x) rounds numbers, training.quantize_model(model, recipe) a model",
    },
    "lplab.formats": {
        "list_formats": "names() lists the formats",
        "quantize": "get(name).quantize(x) rounds numbers to a format",
        "stochastic_round": "get(name).quantize(x, rounding='stochastic', seed=7) rounds up or down by chance",
    },
    "lplab.formats.Format": {
        "astype": "quantize(x) rounds numbers to values of the format",
        "round": "quantize(x) rounds numbers to values of the format",
        "nextafter": _NEIGHBOURS,
        "neighbors": _NEIGHBOURS,
        "neighbours": _NEIGHBOURS,
        "spacing": _NEIGHBOURS,
        "ulp": _NEIGHBOURS,
        "binary": _CODES,
        "bit_pattern": _CODES,
        "to_bits": _CODES,
        "dequantize": "decode(codes) gives the values of codes",
        "from_bits": "decode(codes) gives the values of codes",
        "epsilon": _LIMITS,
        "finfo": _LIMITS,
        "lowest": _LIMITS,
        "smallest": _LIMITS,
        "tiny": _LIMITS,
    },
    "lplab.arithmetic": {
        "chunked_sum": "sum(x, accumulator, chunk=64) sums in chunks",
    },
    "lplab.quantizers": {
        "DynamicLossScaler": "DynamicLossScale() is the loss scale that halves after an overflow",
        "QuantizedKVCache": "KIVI() rounds a KV cache",
    },
    "lplab.quantizers.Quantizer": {
        "dequantize": _ROUND,
        "fake_quantize": _ROUND,
        "forward": _ROUND,
        "encode": "quantize(x) returns values, formats.get(name).encode(x) codes",
    },
    "lplab.compression": {
        "compress": "exchange(compressor, gradients, states) runs one step of all learners",
        "compression_ratio": "compression_ratios(transfers, numel, world) counts in three ways what a compressor's "
        "plan says that it sends",
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
    "lplab.training.Recipe": {
        "apply": _CONVERT,
        "quantize": _CONVERT,
        "report": "training.recipe_report(model) says how each tensor of a quantized model is rounded",
        "run": _TRAIN,
        "train": _TRAIN,
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
        "table": "row(claim) is the record of a claim, the command `lplab claims table` prints all of them",
        "verdict": "judge(claim) gives the verdict on a claim, stored(claim) its numbers, both also by its id",
    },
    "lplab.claims.Claim": {
        "numbers": _JUDGE,
        "results": _JUDGE,
        "verdict": _JUDGE,
        "run": _RUN,
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


def refuse_calls(module: str, text: str) -> None:
    """Let a module that is called, or asked for ``module[key]``, say what does this; Python only says what it is not.

    Args:
        module: its full name.
        text: what the error says; tests/test_wrong_names.py looks whether the calls in it exist.
    """

    class ModuleThatRefusesCalls(ModuleType):
        def __call__(self, *values: Any, **settings: Any) -> Any:
            raise TypeError(f"{module} is a module, and modules are not called: {text}")

        def __getitem__(self, key: Any) -> Any:
            raise TypeError(f"{module} is a module, and modules have no entries: {text}")

        def __reduce__(self) -> Any:
            return import_module, (module,)  # cloudpickle knows only modules of Python's own class

    sys.modules[module].__class__ = ModuleThatRefusesCalls


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


def refuse_wrong_attributes(owner: str) -> Callable[[Any, str], Any]:
    """A ``__getattr__`` for a class: it says what does here what a name of ``NAMES_ELSEWHERE`` does elsewhere.

    All other names get Python's own error. Type checkers must not see it: they would believe that every name exists.

    Args:
        owner: the class, as in ``NAMES_ELSEWHERE``.

    >>> class Format:
    ...     __getattr__ = refuse_wrong_attributes("lplab.formats.Format")
    >>> Format().round
    Traceback (most recent call last):
    ...
    AttributeError: lplab.formats.Format has no `round`: quantize(x) rounds numbers to values of the format
    """

    def refuse(self: Any, name: str) -> Any:
        if name in NAMES_ELSEWHERE[owner]:
            raise wrong_name(owner, name, ())
        return object.__getattribute__(self, name)  # raises Python's own error

    return refuse


class NamedSettings:
    """A base class for settings: a wrong keyword is refused with the right ones; Python names the wrong one alone.

    Signature, help and pickled form stay those of the subclass's own ``__init__``.

    >>> class Rule(NamedSettings):
    ...     def __init__(self, density=0.01):
    ...         self.density = density
    >>> Rule(ratio=0.1)
    Traceback (most recent call last):
    ...
    TypeError: Rule has no setting 'ratio'; it has density
    """

    if not TYPE_CHECKING:  # type checkers look at __init__ alone

        def __new__(cls, *values: Any, **settings: Any) -> Any:
            """Refuse the first keyword that ``__init__`` does not take."""
            if cls.__init__ is object.__init__:  # it ignores what a class with its own __new__ is given
                return super().__new__(cls, *values, **settings)
            names = _parameters(cls.__init__)
            if names is not None:
                _refuse_others(cls, settings, names[1:])
            return super().__new__(cls)


def named_settings(*more: Callable[..., Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function that hands ``**settings`` on answer a wrong keyword with its own names and those of the others.

    Args:
        *more: where the function hands them on; names without a default are not among them, as it fills them itself.

    >>> @named_settings(sorted)
    ... def lowest(values, *, count=1, **settings):
    ...     return sorted(values, **settings)[:count]
    >>> lowest([2, 1, 3], reverse=True)
    [3]
    >>> lowest([2, 1, 3], number=2)
    Traceback (most recent call last):
    ...
    TypeError: lowest has no setting 'number'; it has values, count, key, reverse
    """

    def with_names(function: Callable[P, T]) -> Callable[P, T]:
        own = [each.name for each in _taken(function) if each.kind is not each.VAR_KEYWORD]
        handed_on = [each.name for other in more for each in _taken(other) if each.default is not each.empty]
        names = tuple(dict.fromkeys([*own, *handed_on]))

        @wraps(function)
        def checked(*values: P.args, **settings: P.kwargs) -> T:
            _refuse_others(function, settings, names)
            return function(*values, **settings)

        return checked

    return with_names


def _taken(function: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    return inspect.signature(function).parameters.values()


@cache
def _parameters(init: Callable[..., None]) -> tuple[str, ...] | None:
    """The names that an ``__init__`` takes; None if it takes any."""
    taken = _taken(init)
    return None if any(each.kind is each.VAR_KEYWORD for each in taken) else tuple(each.name for each in taken)


def _refuse_others(owner: Callable[..., Any], settings: Iterable[str], names: Iterable[str]) -> None:
    for name in settings:
        if name not in names:
            raise TypeError(no_setting(owner, name, names))


def no_setting(owner: Callable[..., Any], name: str, names: Iterable[str]) -> str:
    """What an error says of a setting that a class or a function does not have: which it has.

    >>> no_setting(int, "bits", [])
    "int has no setting 'bits'; it has none"
    """
    return f"{owner.__name__} has no setting {name!r}; it has {', '.join(names) or 'none'}"


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
