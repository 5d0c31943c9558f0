"""Streams on which another library records a CUDA graph, on a GPU that exists on paper.

Operations are recorded there, and nothing else may come near: an event, a wait, memory that is got
or freed would be part of the recording.
"""

from __future__ import annotations

import asyncio
import gc

import pytest
import runtime_names as tw
from foreign_doubles import N
from refusing import refuse

from tilewright.runtime.interop.imports import from_dlpack


@pytest.fixture
def recording(driver, library):
    library.stream.capturing = True
    yield library
    library.stream.capturing = False


def test_operations_are_recorded(driver, recording, build):
    driver.log.clear()
    operation = build(recording.array(at=1), recording.array()).submit()
    assert [entry[0] for entry in driver.log] == ["launch"]
    assert driver.log[0][1] is recording.stream
    operation.sync()
    assert operation.done
    for _ in range(200):  # notes and fences neither pile up nor ask
        build(recording.array(at=1), recording.array()).submit()
    assert {entry[0] for entry in driver.log} == {"launch"}


def test_only_there(cuda, recording, build):
    with refuse("is being recorded into a CUDA graph"):
        build(recording.array(at=1), recording.array()).submit(cuda.new_stream())
    with refuse("is being recorded into a CUDA graph"):
        from_dlpack(recording.array()).numpy()


def test_nothing_is_allocated(recording, build):
    with refuse("x has no memory yet, and none can be allocated"):
        build(recording.array(at=1), tw.zeros(N)).submit()


def test_nothing_is_waited_for(driver, library, build):
    x = tw.zeros(N)
    build(x, tw.ones(N)).submit()
    library.stream.capturing = True
    with refuse("x is still in use on default stream"):
        build(library.array(at=1), x).submit()
    library.stream.capturing = False


def test_our_memory_is_kept_for_good(driver, cuda, library, build):
    x = tw.zeros(N)
    x.numpy()
    library.stream.capturing = True
    build(library.array(at=1), x).submit()
    library.stream.capturing = False
    driver.log.clear()
    del x
    gc.collect()
    cuda.synchronize()
    assert driver.calls("free") == []


def test_checks_are_not_recorded(recording, build):
    with refuse("its failure would be lost"):
        build(recording.array(at=1), recording.array(), failure=lambda: None).submit()


def test_nothing_is_exported_to_a_recording(driver, cuda, recording):
    z = tw.zeros(N)
    with refuse("on which a graph is recorded", BufferError):
        z.__dlpack__(stream=driver.stream_number(recording.stream))


# --- our memory that was used there before --------------------------------------------------------


@pytest.fixture
def used(driver, cuda, library, build):
    """A tensor of ours that the library's stream still reads when it is recorded."""
    x = tw.ones(N)
    x.numpy()
    build(library.array(at=1), x).submit()
    library.stream.capturing = True
    driver.log.clear()
    yield x
    library.stream.capturing = False


def test_what_was_dropped_is_freed_when_the_recording_has_ended(driver, cuda, library, build):
    kept = [tw.ones(N) for _ in range(2)]
    for one in kept:
        build(library.array(at=1), one).submit()
    tw.fill(kept[1], 2).submit()  # it was used elsewhere, too
    library.stream.capturing = True
    driver.log.clear()
    addresses = {one.address for one in kept}
    kept.clear()
    del one
    tw.zeros(N).numpy()
    assert not driver.calls("free")
    library.stream.capturing = False
    cuda.synchronize()
    tw.zeros(N).numpy()
    cuda.synchronize()
    with cuda.lock:
        cuda.empty_free_lists()
    assert addresses <= {address for _, _, address in driver.calls("free")}


def test_it_is_not_waited_for(driver, cuda, library, used):
    text = "and nothing can be waited for until that has ended"
    with refuse(text):
        tw.fill(used, 1).submit()
    assert used.numpy().tolist() == [1.0] * N  # two readers
    library.stream.capturing = False
    tw.fill(used, 3).submit()  # it is not held
    assert used.numpy().tolist() == [3.0] * N


def test_it_is_not_awaited(driver, cuda, library, build):
    operation = build(library.array(at=1), tw.ones(N)).submit()
    driver.patient = True
    library.stream.capturing = True

    async def wait():
        await operation

    with refuse("nothing can be waited for"):
        asyncio.run(wait())
    library.stream.capturing = False
    driver.patient = False
    operation.sync()
