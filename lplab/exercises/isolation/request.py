"""What is asked of a run of student code: the answer, its limits, and the arguments of each call, as data of JSON."""

import json
from collections.abc import Sequence
from typing import Any

from lplab.exercises.isolation.answers import Answer
from lplab.exercises.isolation.outcome import Limits
from lplab.exercises.isolation.wire import UnserializableError, encode_argument


def encode_calls(
    answer: Answer, calls: Sequence[tuple], limits: Limits, allowed: Sequence[str]
) -> tuple[dict[str, Any], list[list[Any]]]:
    """The request, and for each call its encoded arguments; ValueError if an argument cannot be sent.

    >>> encode_calls(Answer("f = abs", "f"), [(-0.0, "one")], Limits(), ["math"])[1]
    [[-0.0, 'one']]
    """
    request = {
        "source": answer.source,
        "name": answer.name,
        "allowed": list(allowed),
        "cpu_seconds": limits.cpu_seconds,
        "memory_mb": limits.memory_mb,
    }
    forms = []
    for number, arguments in enumerate(calls, 1):
        try:
            forms.append([encode_argument(argument) for argument in arguments])
        except UnserializableError as error:
            raise ValueError(f"call {number} has an argument that cannot be sent: {error}") from None
    return request, forms


def as_bytes(request: dict[str, Any], forms: Sequence[list[Any]]) -> bytes:
    """The lines that ``child.py`` reads."""
    return "".join(json.dumps(line) + "\n" for line in [request, *forms]).encode("ascii") + b"\n"
