"""The corpus runs on the CPU; each call is held against one with all checks in the kernel."""

import pytest

import tilewright as tw


@pytest.fixture(autouse=True)
def on_the_cpu(checked_twice):
    with tw.device("cpu"):
        yield
