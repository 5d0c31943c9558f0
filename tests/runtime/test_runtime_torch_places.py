"""Memory that a library gives out again and again: launches are found by where an array lies."""

from __future__ import annotations

import gc

import pytest
from torch_doubles import SIZE, set_up, way

import tilewright as tw

torch = pytest.importorskip("torch", reason="needs torch")


@pytest.fixture
def lib(driver, cuda, monkeypatch):
    made = set_up(driver, monkeypatch)
    yield made
    made.finish()


def test_memory_that_comes_back_is_prepared(lib):
    """As it does in every step of a loop; the objects are new."""
    _, x, y = lib.prepared()
    place = torch.zeros(SIZE)
    for expected in ("planned", "hosted", "hosted", "hosted"):
        operation = lib.launch(place[:], x, y)
        assert way(operation) == expected
        operation.submit()
        gc.collect()
    assert lib.order() == [("launch", lib.stream, "plain_add")] * 4
    assert place._version == 4
    lib.finish()
    assert place.tolist() == [7.0] * SIZE


def test_memory_that_comes_back_as_something_else(lib):
    _, x, y = lib.prepared(2 * SIZE)
    place = torch.zeros(4 * SIZE)
    wanted = x + y
    for _ in range(4):
        for view in (place[: 2 * SIZE], place[SIZE : 3 * SIZE], place[2 * SIZE :]):
            lib.launch(view, x, y).submit()
            lib.finish()
            assert torch.equal(view, wanted)
        del view
        gc.collect()


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_memory_that_comes_back_on_another_stream(lib, is_forgotten):
    """A prepared launch is found again, and leaves its fences where they are looked for now."""
    _, x, y = lib.prepared()
    place, others = torch.zeros(SIZE), [torch.zeros(SIZE) for _ in range(2)]
    for _ in range(4):
        lib.launch(place[:], x, y).submit()
    gc.collect()
    if is_forgotten:
        lib.finish()
        for _ in range(3):
            tw.synchronize()
    first, lib.stream = lib.stream, lib.driver.create_stream()
    lib.driver.log.clear()
    operation = lib.launch(place[:], x, y)
    assert way(operation) == "hosted"
    operation.submit()
    second, before = lib.stream, lib.order()
    assert (("wait", second, first) in before) is not is_forgotten
    lib.stream = lib.driver.create_stream()
    lib.driver.log.clear()
    lib.launch(others[0], place[:], y).submit()
    assert ("wait", lib.stream, second) in lib.order()
