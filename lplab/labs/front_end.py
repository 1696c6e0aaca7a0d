"""What a lab needs in a notebook service before it runs: Colab and Kaggle.

A lab that `lplab release --for colab` (or kaggle) has written calls :func:`prepare` in its first cell. In JupyterLab,
Notebook, VS Code and Voila nothing is needed, and nothing is done.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path

import ipywidgets
from IPython import get_ipython

from lplab.widgets.controls import display_as_data

DRIVE = Path("/content/drive/MyDrive")  # where Colab mounts a student's drive
KAGGLE = Path("/kaggle/working")  # what Kaggle keeps with a saved version of the notebook


def prepare() -> str:
    """Make widgets work and progress last where the notebook runs; returns what a student should know about progress.

    - *Colab* draws widgets of other packages once a setting is on, and only those that come as display data: each
      widget that is the last expression of a cell is shown as such.
    - Both services give their machine away after some hours. Progress goes to the mounted drive in Colab, to the
      working folder in Kaggle, unless LPLAB_PROGRESS names a file.

    >>> prepare()
    ''
    """
    if on_colab():
        importlib.import_module("google.colab.output").enable_custom_widget_manager()
        shell = get_ipython()
        if shell is not None:
            shell.display_formatter.ipython_display_formatter.for_type(
                ipywidgets.Widget, lambda widget: display_as_data(widget, repr(widget))
            )
        if "LPLAB_PROGRESS" in os.environ:
            return ""
        if DRIVE.is_dir():
            return _keep_in(DRIVE / "lplab")
        return (
            "Your progress is kept until Colab takes this machine back. To keep it in your Google Drive, run "
            "`from google.colab import drive; drive.mount('/content/drive')` and then this cell again."
        )
    if "KAGGLE_KERNEL_RUN_TYPE" in os.environ and "LPLAB_PROGRESS" not in os.environ and KAGGLE.is_dir():
        return _keep_in(KAGGLE) + " It lasts if you choose Save Version, or download the file."
    return ""


def on_colab() -> bool:
    """Whether this kernel runs in Colab."""
    return "google.colab" in sys.modules or "COLAB_RELEASE_TAG" in os.environ


def _keep_in(folder: Path) -> str:
    file = folder / "progress.json"
    os.environ["LPLAB_PROGRESS"] = str(file)
    return f"Your progress is kept in {file}."
