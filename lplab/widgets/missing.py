"""A package that cannot be imported here, such as PyTorch in a browser: the line that says so."""

import importlib.util


def missing_line(package: str, purpose: str = "") -> str:
    """One line for the reader of a lab, in place of what needs the package.

    >>> missing_line("torch")
    'torch cannot be imported here, and this needs it. The rest of the lab does without it.'
    """
    return f"{package} cannot be imported here, and this needs it{purpose}. The rest of the lab does without it."


def missing_package(error: BaseException) -> str:
    """The package whose absence raised an error, or led to it; "" for any other error.

    >>> missing_package(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")), missing_package(OSError())
    ('torch', '')
    """
    cause = error if isinstance(error, ModuleNotFoundError) else error.__cause__
    name = cause.name if isinstance(cause, ModuleNotFoundError) else None
    package = (name or "").partition(".")[0]
    return "" if package == "lplab" else package


def can_be_imported(package: str) -> bool:
    """Whether a package is there; it is not imported.

    >>> can_be_imported("numpy"), can_be_imported("no_such_package")
    (True, False)
    """
    return importlib.util.find_spec(package) is not None
