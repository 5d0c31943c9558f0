"""What is measured here is the measuring: on the CPU, also where there is a GPU."""

from collections.abc import Iterator

import pytest

import tilewright as tw


@pytest.fixture(autouse=True)
def _on_the_cpu() -> Iterator[None]:
    with tw.device("cpu"):
        yield
