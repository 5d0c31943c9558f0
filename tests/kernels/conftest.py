"""Everything here runs on the CPU device, also where there is a GPU.

What is computed is tested twice: with the tiles that the CPU chooses, and with those of a GPU, so
that every way a GPU takes is run here too.
"""

import pytest

import tilewright as tw

CUT = {
    "attention",
    "norms",
    "pointwise",
    "reductions",
    "rotary",
    "scatter",
    "softmax",
}  # modules


def pytest_generate_tests(metafunc):
    # Hypothesis wants one caller of a test that it draws the examples of.
    is_drawn = getattr(metafunc.function, "is_hypothesis_test", False)
    if metafunc.module.__name__.removeprefix("test_kernels_") in CUT and not is_drawn:
        metafunc.parametrize("on_the_cpu", ["cpu", "sm_120"], indirect=True)


@pytest.fixture(autouse=True)
def on_the_cpu(request, monkeypatch):
    """The CPU device; a parameter is the target whose tiles are chosen."""
    with tw.device("cpu") as device:
        monkeypatch.setattr(device, "target", getattr(request, "param", device.target))
        yield
