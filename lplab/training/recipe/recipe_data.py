"""A recipe as data, such as JSON has it: dictionaries, lists, numbers and text, with no code in it; and back.

A role (see :mod:`lplab.training.recipe.recipe`) is the name of a format, or a dictionary::

    {"format": "nvfp4", "rounding": "stochastic", "hadamard": 16, "signs": "nvfp4"}

and the format is a name of the catalogue, or blocks of one of its formats::

    {"element": "e2m1", "block": 32, "scale": "e8m0", "scale_rule": "floor"}

A role that is left out is not rounded; ``weight_dx`` and ``activation_dw`` are then rounded as the forward product's.
What a recipe may say is in :data:`RECIPE_KEYS`, what a role may say in :data:`RULE_KEYS`, and what blocks may say in
:data:`BLOCK_KEYS`. Data that came from somebody else cannot harm: names are looked up in fixed tables, and every
size has a limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lplab.checks import check_int
from lplab.formats import BlockFormat, FixedFormat, FloatFormat, get, names
from lplab.formats.rounding import ROUNDINGS, Rounding, as_rounding
from lplab.lookup import closest_names
from lplab.quantizers import NVFP4_SIGNS, Amax, Hadamard, PreScaled
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import BACKWARD_OPERANDS, ROLES, LayerRules, Recipe, Switch

OPERANDS = (*ROLES[:4], *BACKWARD_OPERANDS)
"""The roles that data may name: the operands of the three products of a layer."""
EXCEPTIONS = ("first", "last", "late", "product", "embedding")
"""The kinds of layers that data may make exceptions of."""
RULE_KEYS = {
    "format": "a name of lplab.formats.names(), or a dictionary of blocks",
    "rounding": "a name of lplab.formats.ROUNDINGS; nearest_even by default",
    "scaling": "amax: one float32 scale for the tensor, from its largest magnitude; for formats without blocks",
    "hadamard": "how many neighbours are transformed together: a power of two from 2 to 128; for blocks",
    "signs": "of the transform: nvfp4 for those of NVIDIA, the seed of random ones, or a list of 1 and -1",
    "pre_scale": "0.75: numbers are multiplied with it before rounding, so that none is clipped; for e2m1 under floor",
}
BLOCK_KEYS = {
    "element": "the format of the elements, by name",
    "block": "numbers along the axis of the product's sum that share a scale, 2 to 1024; or a tile as [rows, columns]",
    "scale": "e8m0, the default: powers of two; fp32; or e4m3fn together with tensor_scale",
    "scale_rule": "of powers of two, a name of lplab.formats.SCALE_RULES; floor by default",
    "tensor_scale": "true: one more float32 scale for the tensor",
    "name": "for tables and figures",
}
RECIPE_KEYS = {
    "name": "for tables and figures",
    "weight": "W in the forward product, y = x · Wᵀ; float32 if left out",
    "activation": "x in the forward product; float32 if left out",
    "output_gradient_dx": "dy in the product dx = dy · W; float32 if left out",
    "output_gradient_dw": "dy in the product dW = dyᵀ · x; float32 if left out",
    "weight_dx": "W in the product dx = dy · W; if left out, W as the forward product rounded it",
    "activation_dw": "x in the product dW = dyᵀ · x; if left out, x as the forward product rounded it",
    "exceptions": f"other rules for some kinds of layers: {', '.join(EXCEPTIONS)}",
    "late_share": "which share of the layers, counted from the end, is late: 0 to 1",
    "switch": "a change in the course of the training: at, after which share of it, and to, the keys that change",
}
SWITCH_KEYS = ("at", "to")
MAX_HADAMARD = 128  # papers have 16 to 64; axes are filled up to it with zeros, which takes time on short ones
PRE_SCALE = 0.75  # that of MXFP4's backward pass; other factors take ten times as long, as no fast path has them
MAX_NAME = 60  # characters of a name
MAX_TEXT = 20_000  # characters of a recipe in JSON; the published ones have fewer than 2,000


def parse_json(text: str) -> Any:
    """The content of a JSON text of at most :data:`MAX_TEXT` characters; ValueError with one line if it has none.

    >>> parse_json('{"weight": "e4m3fn"')
    Traceback (most recent call last):
    ...
    ValueError: a recipe must be JSON: expecting ',' delimiter (line 1, column 20)
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"a recipe has at most {MAX_TEXT:,} characters of JSON, got {len(text):,}")
    try:
        return json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:]
        # What Python writes in another way, as in a dictionary that was copied from a notebook.
        hints = {
            "'": "JSON has double quotes in place of single ones",
            "True": "JSON writes true",
            "False": "JSON writes false",
            "None": "JSON writes null",
        }
        hint = next((f"; {words}" for sign, words in hints.items() if text.startswith(sign, error.pos)), "")
        raise ValueError(f"a recipe must be JSON: {what} (line {error.lineno}, column {error.colno}){hint}") from None
    except RecursionError:
        raise ValueError("a recipe must be JSON that is not nested so deeply") from None


def recipe_from_data(data: Any) -> Recipe:
    """The recipe that data describe.

    Args:
        data: a dictionary with keys among :data:`RECIPE_KEYS`. ``exceptions`` has a rule for all operands, or a
            dictionary of roles, for each kind of :data:`EXCEPTIONS`. ``switch`` is ``{"at": 0.8, "to": {...}}``, where
            ``to`` is such a dictionary again and names only what changes.

    Raises:
        ValueError: whatever is wrong, in one line that begins with where it is.

    >>> recipe_from_data({"weight": "nvfp4", "exceptions": {"last": "bf16"}}).exceptions["last"].activation
    QuantSpec('bf16')
    >>> recipe_from_data({"weight": {"format": "nvpf4"}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: weight: format: unknown format 'nvpf4'; closest: nvfp4, ...
    >>> recipe_from_data({"weights": "nvfp4"})
    Traceback (most recent call last):
    ...
    ValueError: the recipe: unknown key 'weights'; closest: weight, weight_dx
    """
    check_keys("the recipe", data, tuple(RECIPE_KEYS))
    recipe = _recipe(data, "")
    if "switch" not in data or data["switch"] is None:
        return recipe
    switch = data["switch"]
    check_keys("switch", switch, SWITCH_KEYS)
    for key in SWITCH_KEYS:
        if key not in switch:
            raise ValueError(f"switch: {key!r} is missing")
    allowed = [key for key in RECIPE_KEYS if key != "switch"]
    check_keys("switch: to", switch["to"], allowed)
    changed = {key: value for key, value in data.items() if key != "switch"} | switch["to"]
    other = _recipe(changed, "switch: to")
    with errors_at("switch"):
        return recipe.replace(switch=Switch(switch["at"], other))


def data_from_recipe(recipe: Recipe) -> dict[str, Any]:
    """The data of a recipe; :func:`recipe_from_data` makes the same recipe of them, but for its source.

    Raises:
        ValueError: the recipe has a part that data cannot describe, such as a learned clip or an update.

    >>> from lplab.training import recipes
    >>> data_from_recipe(recipes.get("deepseek_2024"))["output_gradient_dx"]["format"]
    {'element': 'e4m3fn', 'block': 128, 'scale': 'fp32', 'name': 'e4m3fn 1 × 128'}
    """
    data: dict[str, Any] = {"name": recipe.name} if recipe.name else {}
    where = recipe.name or "the recipe"
    if not recipe.update.is_identity or recipe.update.master_weight is not None or recipe.loss_scale != 1.0:
        raise ValueError(f"{where}: data describe neither an update of weights nor a loss scale")
    data |= _data_of_layer(recipe, where)
    if recipe.exceptions:
        for kind in recipe.exceptions:
            if kind not in EXCEPTIONS:
                raise ValueError(f"{where}: data describe no exception of the kind {kind!r}")
        data["exceptions"] = {
            kind: _data_of_layer(rules, f"{where}: {kind}") for kind, rules in recipe.exceptions.items()
        }
    data |= {"late_share": recipe.late_share} if recipe.late_share else {}
    if recipe.switch is not None:
        data["switch"] = {"at": recipe.switch.at, "to": _differences(data, data_from_recipe(recipe.switch.to))}
    return data


# ---- from data to a recipe -------------------------------------------------------------------------------------------


def _recipe(data: Mapping[str, Any], where: str) -> Recipe:
    """The recipe without its switch."""
    prefix = f"{where}: " if where else ""
    name = _text(f"{prefix}name", data.get("name", ""))
    exceptions = {} if data.get("exceptions") is None else data["exceptions"]
    check_keys(f"{prefix}exceptions", exceptions, EXCEPTIONS)
    made = {kind: _layer(f"{prefix}exceptions: {kind}", rules) for kind, rules in exceptions.items()}
    with errors_at(where):
        return Recipe(
            name=name,
            **_roles(prefix, data),
            exceptions=made,
            late_share=_number(f"{prefix}late_share", data.get("late_share", 0.0)),
        )


def _layer(where: str, data: Any) -> LayerRules:
    """The rules of an exception: a rule for all operands, or a dictionary of roles."""
    with errors_at(where):
        if isinstance(data, str) or (isinstance(data, dict) and "format" in data):
            rule = _rule("", data)
            # One rule for all: the operands of the backward pass need a rule of their own only where a product
            # rounds its own operands.
            again = dict.fromkeys(BACKWARD_OPERANDS, rule) if rule.axis == "contraction" else {}
            return LayerRules(**dict.fromkeys(ROLES[:4], rule), **again)
        check_keys("", data, OPERANDS)
        return LayerRules(**_roles("", data))


def _roles(prefix: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return {role: _rule(f"{prefix}{role}", data[role]) for role in OPERANDS if data.get(role) is not None}


def _rule(where: str, data: Any) -> QuantSpec:
    """The rule of one role."""
    with errors_at(where):
        if isinstance(data, str):
            data = {"format": data}
        check_keys("", data, tuple(RULE_KEYS))
        if "format" not in data:
            raise ValueError("'format' is missing")
        format, rounding = _format(data["format"]), _rounding(data.get("rounding"))
        if not isinstance(format, BlockFormat):
            _refuse(data, ("hadamard", "signs", "pre_scale"), f"{format.label} has no blocks")
            return QuantSpec(format, rounding, scaling=_scaling(data.get("scaling")))
        _refuse(data, ("scaling",), f"{format.label} has scales of its own")
        transform = _hadamard(data)
        if data.get("pre_scale") is None:
            return QuantSpec(format, rounding, axis="contraction", transform=transform)
        if data["pre_scale"] != PRE_SCALE or format.element != get("e2m1") or format.scale_rule != "floor":
            raise ValueError(
                f"pre_scale is {PRE_SCALE} for blocks of e2m1 under the rule floor, or left out, "
                f"got {shown(data['pre_scale'])} for {format.label}"
            )
        quantizer = PreScaled(format, PRE_SCALE, rounding)
        return QuantSpec(quantizer=quantizer, axis="contraction", transform=transform)


def _format(data: Any) -> Any:
    with errors_at("format"):
        if isinstance(data, str):
            return _named(data)
        check_keys("", data, tuple(BLOCK_KEYS))
        for key in ("element", "block"):
            if key not in data:
                raise ValueError(f"{key!r} is missing")
        element = _named(data["element"])
        if isinstance(element, FloatFormat) and element.saturating is not True:
            element = replace(element, saturating=True)
        block = data["block"]
        return BlockFormat(
            element,
            scale=_named(data.get("scale", "e8m0")),
            block_size=tuple(block) if isinstance(block, list) else block,
            scale_rule=_choice("scale_rule", data.get("scale_rule", "floor")),
            tensor_scale=_flag("tensor_scale", data.get("tensor_scale", False)),
            name=_text("name", data.get("name", "")),
        )


def _named(name: Any) -> Any:
    """A format of the catalogue. Fixed point of any width is left out: its tables have no limit."""
    if not isinstance(name, str):
        raise ValueError(f"a format is a name, got {shown(name)}")
    try:
        format = get(name)
    except ValueError:
        close = closest_names(name[:MAX_NAME], names())
        hint = f"; closest: {', '.join(close)}" if close else ""
        raise ValueError(f"unknown format {shown(name)}{hint}") from None
    if isinstance(format, FixedFormat) and name not in names():
        raise ValueError(f"of fixed point the catalogue's formats are allowed, got {shown(name)}")
    return format


def _rounding(name: Any) -> Rounding:
    if name is None:
        return Rounding()
    if not isinstance(name, str) or name not in ROUNDINGS:
        raise ValueError(f"rounding: {shown(name)} is none of {', '.join(ROUNDINGS)}")
    return as_rounding(name)


def _scaling(name: Any) -> Amax | None:
    if name not in (None, "amax"):
        raise ValueError(f"scaling must be 'amax' or left out, got {shown(name)}")
    return Amax() if name else None


def _hadamard(data: Mapping[str, Any]) -> Hadamard | None:
    if data.get("hadamard") is None:
        _refuse(data, ("signs",), "signs belong to a transform, and there is no 'hadamard'")
        return None
    signs = data.get("signs")
    if signs == "nvfp4":
        signs = NVFP4_SIGNS
    elif isinstance(signs, list) and len(signs) <= MAX_HADAMARD and all(sign in (1, -1) for sign in signs):
        signs = tuple(signs)
    elif signs is not None and (isinstance(signs, bool) or not isinstance(signs, int)):
        raise ValueError(f"signs must be 'nvfp4', a seed, or a list of 1 and -1, got {shown(signs)}")
    with errors_at("hadamard"):
        return Hadamard(check_int("size", data["hadamard"], 2, MAX_HADAMARD), signs)


def _choice(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be text, got {shown(value)}")
    return value


def _flag(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{what} must be true or false, got {shown(value)}")
    return value


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_NAME or not all(map(str.isprintable, value)):
        raise ValueError(f"{what} must be text of at most {MAX_NAME} characters in one line, got {shown(value)}")
    return value


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{what} must be a number from 0 to 1, got {shown(value)}")
    return value


def _refuse(data: Mapping[str, Any], keys: tuple[str, ...], reason: str) -> None:
    for key in keys:
        if data.get(key) is not None:
            raise ValueError(f"{key!r} makes no sense here: {reason}")


def check_keys(where: str, data: Any, allowed: tuple[str, ...] | list[str]) -> None:
    """Refuse data that are no dictionary, or one with a key that is not allowed: ValueError with one line.

    >>> check_keys("switch", {"too": {}}, ("at", "to"))
    Traceback (most recent call last):
    ...
    ValueError: switch: unknown key 'too'; closest: to, at
    """
    prefix = f"{where}: " if where else ""
    if not isinstance(data, dict):
        raise ValueError(f"{prefix}a dictionary is needed, got {shown(data)}")
    for key in data:
        if key not in allowed:
            close = closest_names(str(key)[:MAX_NAME], allowed)
            hint = f"closest: {', '.join(close)}" if close else f"allowed: {', '.join(allowed)}"
            raise ValueError(f"{prefix}unknown key {shown(key)}; {hint}")


@contextmanager
def errors_at(where: str) -> Iterator[None]:
    """Errors within the block begin with where they are, and are ValueErrors of one line."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        text = " ".join(str(error).split())
        raise ValueError(f"{where}: {text}" if where else text) from None


def shown(value: Any) -> str:
    """A value as an error shows it: not longer than a line."""
    text = repr(value) if not isinstance(value, dict | list) or len(value) <= 8 else f"{len(value)} entries"
    return text if len(text) <= MAX_NAME else text[:MAX_NAME] + "…"


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"a recipe names each key once, and {shown(key)} is there twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"a recipe has finite numbers alone, got {name}")


# ---- from a recipe to data -------------------------------------------------------------------------------------------


def _data_of_layer(rules: LayerRules, where: str) -> dict[str, Any]:
    if rules.accumulator is not None:
        raise ValueError(f"{where}: data describe no accumulator")
    for role in ROLES:
        if role not in OPERANDS and not getattr(rules, role).is_identity:
            raise ValueError(f"{where}: data describe operands alone, and {role} is rounded, too")
    given = {role: rule for role in OPERANDS if (rule := getattr(rules, role)) is not None}
    return {role: _data_of_rule(rule, f"{where}: {role}") for role, rule in given.items() if _says(role, rule)}


def _says(role: str, rule: QuantSpec) -> bool:
    """Whether a rule has to stand there: a role that is left out is not rounded, or rounded as the forward operand."""
    return role in BACKWARD_OPERANDS or not rule.is_identity


def _data_of_rule(rule: QuantSpec, where: str) -> Any:
    """The shortest data of a rule: the name of its format, or a dictionary."""
    data: dict[str, Any] = {}
    rounding, format = rule.rounding, rule.format
    if rule.quantizer is not None:
        if not isinstance(rule.quantizer, PreScaled):
            raise ValueError(f"{where}: data describe no {type(rule.quantizer).__name__}")
        rounding, format = rule.quantizer.rounding, rule.quantizer.format
        if rule.quantizer.factor != PRE_SCALE:
            raise ValueError(f"{where}: data describe no other factor than {PRE_SCALE}")
        data["pre_scale"] = rule.quantizer.factor
    if rounding != Rounding(rounding.mode):
        raise ValueError(f"{where}: data describe a rounding by its name alone, not {rounding!r}")
    if rounding.mode != "nearest_even":
        data["rounding"] = rounding.mode
    if rule.scaling is not None:
        if rule.scaling != Amax():
            raise ValueError(f"{where}: data describe no {rule.scaling!r}")
        data["scaling"] = "amax"
    if isinstance(format, BlockFormat) and rule.axis != "contraction":
        raise ValueError(f"{where}: data describe blocks along the axis of the product's sum alone")
    if rule.transform is not None:
        signs = rule.transform.signs
        shown = "nvfp4" if signs == NVFP4_SIGNS else list(signs) if isinstance(signs, tuple) else signs
        data |= {"hadamard": rule.transform.size} | ({} if signs is None else {"signs": shown})
    named = _data_of_format(format, where)
    return {"format": named, **data} if data or isinstance(named, dict) else named


def _data_of_format(format: Any, where: str) -> Any:
    name = getattr(format, "name", "") or format.label
    if name in names() and get(name) == format:
        return name
    if not isinstance(format, BlockFormat) or format.scale is None:
        raise ValueError(f"{where}: {format.label} is no format of the catalogue")
    element, scale = _name_of(format.element, where), _name_of(format.scale, where)
    size = format.block_size
    data = {"element": element, "block": list(size) if isinstance(size, tuple) else size}
    data |= {"scale": scale} if scale != "e8m0" else {}
    data |= {"scale_rule": format.scale_rule} if format.scale_rule != "floor" else {}
    data |= {"tensor_scale": True} if format.tensor_scale else {}
    return data | ({"name": format.name} if format.name else {})


def _name_of(format: Any, where: str) -> str:
    """The name of an element or a scale; elements saturate, whatever the catalogue says of the format alone."""
    name = getattr(format, "name", "")
    if name in names():
        known = get(name)
        if known == format or (isinstance(known, FloatFormat) and replace(known, saturating=True) == format):
            return name
    raise ValueError(f"{where}: {format.label} is no format of the catalogue")


def _differences(base: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What the second recipe says that the first does not; None for what it leaves out."""
    keys = [key for key in RECIPE_KEYS if key in base or key in other]
    return {key: other.get(key, _nothing(key)) for key in keys if key != "switch" and base.get(key) != other.get(key)}


def _nothing(key: str) -> Any:
    blank: dict[str, Callable[[], Any]] = {"name": str, "exceptions": dict, "late_share": float}
    return blank[key]() if key in blank else None
