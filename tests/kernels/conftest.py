"""Everything here runs on the CPU device, also where there is a GPU."""

import pytest

import tilewright as tw


@pytest.fixture(autouse=True)
def on_the_cpu():
    with tw.device("cpu"):
        yield
