"""``lplab quantize``: a few numbers rounded to a format, with their codes and errors."""

import argparse
import json
import math
import re
from typing import Any

from lplab.cli.command import BadInputError, add_command, bad_values
from lplab.cli.formats import format_value

NO_CODE = "-  (the format has no code for it)"


def add_quantize(commands: Any) -> None:
    """Add ``lplab quantize``."""
    text = "round numbers to a format, and show their codes and errors; the numbers of a block format share a block"
    example = "lplab quantize e4m3fn 0.1 -3 --rounding up"
    parser = add_command(commands, run_quantize, "quantize", text, example)
    parser.add_argument("format", metavar="FORMAT", help="a name of lplab formats, or q4.12 and the like")
    parser.add_argument(
        "numbers",
        metavar="NUMBER",
        nargs="+",
        type=as_number,
        help="such as 0.1, -3, 1e-3, inf or nan; read as a float64",
    )
    text = "default: nearest_even; a name that does not exist, such as ?, is answered with all of them"
    parser.add_argument("--rounding", default="nearest_even", metavar="NAME", help=text)
    parser.add_argument("--seed", type=int, metavar="N", help="of stochastic rounding; by default another each time")
    parser.add_argument("--json", action="store_true", help="print JSON")
    # argparse itself takes -3 for a number, but -1e-3, in some versions, and -inf for options
    parser._negative_number_matcher = re.compile(r"-(\.?\d|inf|nan)", re.IGNORECASE)


def as_number(text: str) -> float:
    """A number as Python reads it; what is none is bad input.

    >>> as_number("1e-3")
    0.001
    """
    try:
        return float(text)
    except ValueError:
        hint = f"not a number: {text!r}; write the format first, then numbers such as 0.1 or 1e-3, a space between them"
        raise argparse.ArgumentTypeError(hint) from None


def run_quantize(args: argparse.Namespace) -> int:
    """Print each number with its rounded value, code and errors; for a block format the scales, too."""
    from lplab import formats
    from lplab.formats.counter_rng import seed_to_int

    if args.seed is not None and args.rounding != "stochastic":
        raise BadInputError("--seed is the seed of --rounding stochastic; other roundings have no chance in them")
    seed = seed_to_int(args.seed) if args.rounding == "stochastic" else None  # values and codes get the same bits
    with bad_values():
        number_format = formats.get(args.format)
        values = number_format.quantize(args.numbers, args.rounding, seed).tolist()
        if isinstance(number_format, formats.BlockFormat):
            codes, scales = block_codes(number_format, args.numbers, values, args.rounding, seed)
        else:
            codes, scales = [code_of(number_format, value) for value in values], None
    found = {
        "format": number_format.label,
        "rounding": args.rounding,
        "seed": seed,
        **({} if scales is None else scales),
        "numbers": [record(*each) for each in zip(args.numbers, values, codes, strict=True)],
    }
    if args.json:
        print(json.dumps(strict(found), indent=1))
        return 0
    print(number_format)
    print_row("rounding", args.rounding if seed is None else f"{args.rounding}, seed {seed}")
    if scales is not None:
        print_row("block", block_text(number_format, len(values)))
        print_row("scale", ", ".join(map(scale_text, scales["scales"])))
        if any(math.isnan(each["scale"]) for each in scales["scales"]):
            print_row("", "a block is NaN if a number in it is NaN or infinite, or beyond the range of its arithmetic")
        if number_format.tensor_scale:
            print_row("tensor scale", format_value(scales["tensor_scale"]))
    element = number_format if scales is None else number_format.element
    fields = ", ".join(name for name, _ in element.bit_fields())
    in_twos_complement = isinstance(element, formats.IntFormat | formats.FixedFormat | formats.PositFormat)
    for each in found["numbers"]:
        print()
        print_row("number", each["number"])
        print_row("result", each["result"])
        negative = "; two's complement, as the number is negative" * (in_twos_complement and each["result"] < 0)
        print_row("code", f"{each['code']}  ({fields}{negative})" if each["code"] else NO_CODE)
        print_row("error", format_value(each["error"]))
        print_row("relative error", format_value(each["relative_error"]))
    return 0


def code_of(fmt: Any, value: float) -> str | None:
    """The code of a value of the format, a space between the fields; None of NaN where the format has no code for it.

    >>> from lplab import formats
    >>> code_of(formats.get("e4m3fn"), 0.1015625), code_of(formats.get("int8"), math.nan)
    ('0 0011 101', None)
    """
    from lplab.formats.coding import bits_text

    return None if math.isnan(value) and not fmt.has_nan else bits_text(fmt.encode(value), fmt)


def block_codes(
    fmt: Any, numbers: list[float], values: list[float], rounding: str, seed: int | None
) -> tuple[list[Any], dict[str, Any]]:
    """The codes of the elements; the scales of the blocks with their codes, and that of the tensor.

    There are none of a block that became NaN, if the format has no code for it.
    """
    from lplab.formats.coding import bits_text

    size = math.prod(fmt.tile)
    lost = [any(map(math.isnan, values[k : k + size])) for k in range(0, len(values), size)]
    try:
        codes = fmt.encode(numbers, rounding, seed)
        lost = [False] * len(lost)
    except ValueError:  # quantize has taken the numbers, so what is missing are the codes of blocks that became NaN
        kept = [0.0 if lost[k // size] else number for k, number in enumerate(numbers)]
        codes = fmt.encode(kept, rounding, seed)  # zeros do not change the scale of the tensor
    scales = [
        {"scale": math.nan, "code": None} if is_lost else {"scale": value, "code": bits_text(code, fmt.scale)}
        for value, code, is_lost in zip(
            fmt.scale.decode(codes.scales).tolist(), codes.scales.tolist(), lost, strict=True
        )
    ]
    elements = [
        None if lost[k // size] else bits_text(code, fmt.element) for k, code in enumerate(codes.elements.tolist())
    ]
    return elements, {"scales": scales, "tensor_scale": codes.tensor_scale}


def record(number: float, result: float, code: str | None) -> dict[str, Any]:
    """One number as it was read, its rounded value, code and errors; an error is None where it is not defined.

    >>> record(0.5, 0.75, "0 1")["error"], record(0.5, 0.75, "0 1")["relative_error"]
    (0.25, 0.5)
    >>> record(math.inf, 448.0, "0 1111 110")["relative_error"], record(0.0, 0.0, "0 0")["relative_error"]
    (None, None)
    """
    error = result - number
    is_relative = number != 0 and math.isfinite(number)
    return {
        "number": number,
        "result": result,
        "code": code,
        "error": None if math.isnan(error) else error,
        "relative_error": error / abs(number) if is_relative and not math.isnan(error) else None,
    }


def block_text(fmt: Any, count: int) -> str:
    """How the numbers that were given fill blocks.

    >>> from lplab import formats
    >>> block_text(formats.get("mxfp4"), 3)
    '3 numbers make one short block; a full block has 32. The scale is computed from these 3'
    >>> block_text(formats.get("mxfp4"), 40)
    '40 numbers, more than the 32 of a block: 2 blocks with a scale each'
    """
    size = math.prod(fmt.tile)
    if count > size:
        return f"{count} numbers, more than the {size} of a block: {-(-count // size)} blocks with a scale each"
    if count == size:
        return f"{count} numbers, which is one block"
    make, these = ("number makes", "this one") if count == 1 else ("numbers make", f"these {count}")
    return f"{count} {make} one short block; a full block has {size}. The scale is computed from {these}"


def scale_text(scale: dict[str, Any]) -> str:
    """A scale and its code.

    >>> scale_text({"scale": 0.25, "code": "01111101"})
    '0.25 (01111101)'
    """
    return f"{format_value(scale['scale'])} ({scale['code'] or 'no code'})"


def strict(value: Any) -> Any:
    """NaN and infinities as text, "nan", "inf" and "-inf": JSON has no numbers for them.

    >>> strict({"numbers": [1.0, -math.inf]})
    {'numbers': [1.0, '-inf']}
    """
    if isinstance(value, dict):
        return {key: strict(each) for key, each in value.items()}
    if isinstance(value, list):
        return [strict(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def print_row(key: str, value: Any) -> None:
    """One line, as ``lplab formats NAME`` has them."""
    print(f"  {key:<22}{value}")
