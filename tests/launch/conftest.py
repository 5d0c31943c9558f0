"""Launches run on the CPU device, also where there is a GPU, unless `--device` says another one."""

import pytest

import tilewright as tw


@pytest.fixture(autouse=True)
def on_the_device(device_name):
    with tw.device(device_name):
        yield
