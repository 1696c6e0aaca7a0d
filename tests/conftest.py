"""What holds for every test: the network is closed, random tests repeat themselves, the browser is known."""

import os

import hypothesis
import pytest

# pytest-socket (see pyproject.toml) closes the network in this process; kernels, pip and browsers started by
# the tests are other processes: they get a proxy that is not there.
for name in ("http_proxy", "https_proxy", "all_proxy"):
    os.environ[name] = os.environ[name.upper()] = "http://127.0.0.1:9"
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost,::1"

# The same examples on every run and machine; no deadline, since the first call may compile.
hypothesis.settings.register_profile("lplab", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.load_profile("lplab")


@pytest.fixture(scope="session")
def browser_path() -> str:
    """Path of the Chromium-like browser that start.py found; the test is skipped where there is none."""
    path = os.environ.get("LPLAB_BROWSER", "")
    if not path:
        pytest.skip("no Chromium, Chrome or Edge found (LPLAB_BROWSER is not set)")
    return path
