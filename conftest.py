"""What holds for every test: the network is closed, random tests repeat themselves, nobody's progress is touched."""

import contextlib
import gc
import importlib.util
import os
import signal
import tempfile
from pathlib import Path

import hypothesis
import pytest

# Collection makes some million objects that stay, and looking through them for garbage takes a quarter of its time.
gc.disable()

pytest_plugins = [
    "tests.plugins.order",
    "tests.plugins.summary",
    "tests.plugins.cpu_time",
    "tests.plugins.cuda",
    "tests.labs.unsolved",
]

# pytest-socket (see pyproject.toml) closes the network in this process; kernels, pip and browsers started by
# the tests are other processes: they get a proxy that is not there.
for name in ("http_proxy", "https_proxy", "all_proxy"):
    os.environ[name] = os.environ[name.upper()] = "http://127.0.0.1:9"
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost,::1"

# Cores belong to the workers of pytest-xdist; tests of threads set a number of their own.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# A job in the background is started deaf to Ctrl-C, and so is what it starts; some tests interrupt themselves.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every run and machine; no deadline, since the first call may compile.
hypothesis.settings.register_profile("lplab", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.load_profile("lplab")

# Checks in tests and in the kernels that they start are nobody's progress, and their checkpoints nobody's.
_folder = tempfile.TemporaryDirectory(prefix="lplab-tests-")
os.environ["LPLAB_PROGRESS"] = os.path.join(_folder.name, "progress.json")
os.environ["LPLAB_CHECKPOINTS"] = os.path.join(_folder.name, "checkpoints")


# The kernels for a GPU cannot be imported without Triton, which `start.py test --all` alone installs.
collect_ignore: list[Path] = []
if importlib.util.find_spec("triton") is None:
    kernels = [*Path(__file__).parent.glob("lplab/*/gpu/*.py"), *Path(__file__).parent.glob("lplab/*/gpu_*.py")]
    collect_ignore = [path for path in kernels if path.name != "__init__.py"]


def pytest_collection_finish() -> None:
    """From here on garbage is collected, but not looked for among the tests themselves."""
    gc.freeze()
    gc.enable()


def pytest_collect_file(file_path: Path) -> None:
    """Import a file's package before the file. pytest would set the package's attribute to the module, and where the
    two share a name, as `lplab.figures.adacomp_bins` does with its function, what the package says is the function.
    """  # noqa: D205
    inside = file_path.parent.relative_to(Path(__file__).parent).parts
    if inside and inside[0] == "lplab":
        with contextlib.suppress(ImportError):  # pytest tells of it, when it imports the file
            importlib.import_module(".".join(inside))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """An example of a docstring begins with nobody's progress: which tests the process ran before does not matter."""
    if isinstance(item, pytest.DoctestItem):
        Path(os.environ["LPLAB_PROGRESS"]).unlink(missing_ok=True)
