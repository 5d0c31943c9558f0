"""Streams of a GPU are made ahead: to make one beside work in flight may wait for all of it."""

import pytest

import tilewright as tw
from tilewright import f32


@pytest.fixture
def rooms(driver, monkeypatch):
    """For how many more the driver was asked to have room."""
    asked = []
    monkeypatch.setattr(driver, "make_room", asked.append)
    return asked


@pytest.fixture
def waits(driver, monkeypatch):
    """For each stream that the driver makes, whether the GPU had anything to do."""
    seen, make = [], driver.create_stream

    def create_stream():
        seen.append(any(stream.tasks for stream in driver.streams))
        return make()

    monkeypatch.setattr(driver, "create_stream", create_stream)
    return seen


def test_a_stream_beside_work_in_flight_is_there_already(waits, cuda):
    x = tw.empty((4,), f32)
    tw.fill(x, 1.0).submit()
    streams = [cuda.new_stream() for _ in range(16)]
    assert len({stream.queue.number for stream in streams}) == 16
    assert waits, "the GPU was opened with some"
    assert not any(waits)
    x.wait()


def test_more_than_were_made_ahead_take_the_room_that_is_left(waits, rooms, cuda):
    """One by one: to make room again might wait."""
    opened_with = len(waits)
    streams = [cuda.new_stream() for _ in range(opened_with)]
    assert len(waits) == opened_with
    streams += [cuda.new_stream() for _ in range(2)]
    assert len(waits) == opened_with + 2
    assert len(rooms) == 1
    assert len({stream.queue.number for stream in streams}) == opened_with + 2
