"""lplab: learn low-precision deep learning by doing it.

The floors, from the ground up: :mod:`lplab.formats` (which numbers a format can hold), :mod:`lplab.arithmetic` (sums
and products carried out in a format), :mod:`lplab.quantizers` (how a tensor meets a format), :mod:`lplab.compression`
(gradients in fewer bits), :mod:`lplab.hardware` (seconds, joules and bytes), :mod:`lplab.datasets` (data to learn from,
offline), :mod:`lplab.recordings` (recorded trainings), :mod:`lplab.models`, :mod:`lplab.training`,
:mod:`lplab.parallel` (many learners), :mod:`lplab.claims` (published claims, measured again), :mod:`lplab.figures`
(data in, figure out), :mod:`lplab.widgets` (controls around figures), :mod:`lplab.exercises`. Each is imported when it
is first used, so that ``import lplab`` stays fast.

Code that uses lplab may rely on the names in ``__all__`` of these packages, which the reference lists. The error for
any other name says the closest, or what lplab calls what others have under that name (:mod:`lplab.lookup`). All other
modules and names are internal and may change: :mod:`lplab.cli` (use the command ``lplab``), :mod:`lplab.labs` (the
functions of the notebooks), and the modules inside the packages.

>>> import lplab
>>> lplab.formats.get("e4m3fn").quantize(0.3)
0.3125
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers, which do not see __getattr__
    from lplab import (
        arithmetic,
        claims,
        compression,
        datasets,
        exercises,
        figures,
        formats,
        hardware,
        models,
        parallel,
        quantizers,
        recordings,
        training,
        widgets,
    )

__version__ = "0.1.0"
__all__ = [
    "arithmetic",
    "claims",
    "compression",
    "datasets",
    "exercises",
    "figures",
    "formats",
    "hardware",
    "models",
    "parallel",
    "quantizers",
    "recordings",
    "training",
    "widgets",
]


def __getattr__(name: str) -> Any:
    """Import a submodule on first use (PEP 562)."""
    if name in __all__:
        try:
            return import_module(f"lplab.{name}")
        except ModuleNotFoundError as error:
            missing = str(error.name).partition(".")[0]
            hint = f"lplab.{name} needs {missing}, which is not installed: pip install 'lplab[lab]'"
            raise ModuleNotFoundError(hint, name=error.name) from error
    from lplab.lookup import package_error  # on a mistake alone: `import lplab` stays fast

    raise package_error("lplab", name, __all__)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
