"""Holes are looked for on the CPU device, which reports what is undefined and watches for races."""

from collections.abc import Iterator

import pytest

import tilewright as tw


@pytest.fixture(autouse=True)
def _watched_cpu() -> Iterator[None]:
    with tw.device("cpu"), tw.race_check():
        yield
