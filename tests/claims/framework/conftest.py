"""What tests of ``lplab claims run`` share."""

import pytest

from lplab.claims.framework import portable


@pytest.fixture
def already_portable(monkeypatch):
    """As in the process that ``lplab claims run`` starts: the measurements of a test happen in this one."""
    monkeypatch.setenv(portable.ACTIVE, portable.NAME)
