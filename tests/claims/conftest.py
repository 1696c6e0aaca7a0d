"""What tests of claims share."""

import pytest

from tests.claims.measured_again import MeasuringProcess


@pytest.fixture(scope="session")
def measured_and_stored():
    """One measurement as ``lplab claims run`` takes it, and as it is stored: a function of claim, point and seed."""
    process = MeasuringProcess()
    yield process.measured_and_stored
    process.close()
