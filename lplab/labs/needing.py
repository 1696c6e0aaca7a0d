"""What a lab shows in place of something that needs a package which cannot be imported here."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

from lplab.exercises.notebook import Text


def needing(package: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of a function of a lab: without the package, the function returns a line that says what is missing.

    The package is looked for at each call, and imported by the function alone. In a browser there is no PyTorch.

    >>> @needing("no_such_package")
    ... def own_training():
    ...     return 3
    >>> own_training()
    This needs no_such_package, which cannot be imported here. The rest of the lab does without it.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def shown(*args: Any, **options: Any) -> Any:
            if can_be_imported(package):
                return function(*args, **options)
            return Text(f"This needs {package}, which cannot be imported here. The rest of the lab does without it.")

        return shown

    return decorate


def can_be_imported(package: str) -> bool:
    """Whether a package is there; it is not imported.

    >>> can_be_imported("numpy"), can_be_imported("no_such_package")
    (True, False)
    """
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False
