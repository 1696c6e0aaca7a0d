"""The scripts of the data folder as modules."""

import importlib.util
import sys
from types import ModuleType

from lplab import datasets


def script(name: str) -> ModuleType:
    """Import a script of the data folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, datasets.data_folder() / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
