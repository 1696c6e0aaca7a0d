"""What a lab shows in place of something that needs a package which cannot be imported here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lplab.exercises.notebook import Text
from lplab.widgets.missing import can_be_imported, missing_line


def needing(package: str, purpose: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of a function of a lab: without the package, the function returns a line that says what is missing.

    The package is looked for at each call, and imported by the function alone. In a browser there is no PyTorch.

    Args:
        package: its name in an import.
        purpose: the end of a sentence, where the function could do without the package, such as " to end in seconds".

    >>> @needing("no_such_package")
    ... def own_training():
    ...     return 3
    >>> own_training()
    no_such_package cannot be imported here, and this needs it. The rest of the lab does without it.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def shown(*args: Any, **options: Any) -> Any:
            return function(*args, **options) if can_be_imported(package) else Text(missing_line(package, purpose))

        return shown

    return decorate
