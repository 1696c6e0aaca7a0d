"""Tests marked ``cuda`` run where PyTorch reaches a GPU, and are skipped with a reason elsewhere."""

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a marked test on a machine without a GPU."""
    if item.get_closest_marker("cuda") is not None:
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip(f"needs a GPU; torch {torch.__version__} reaches none")
