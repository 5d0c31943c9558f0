"""Launches run on the CPU device, also where there is a GPU, unless `--device` says another one."""

import pytest

import tilewright as tw


@pytest.fixture(autouse=True)
def on_the_device(device_name):
    with tw.device(device_name):
        yield


@pytest.fixture
def on_the_cpu(device_name):
    """For a test with arrays of NumPy, which are memory of the CPU."""
    if device_name != "cpu":
        pytest.skip("an array of NumPy is memory of the CPU")
