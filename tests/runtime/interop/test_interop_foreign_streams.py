"""Arrays of other libraries on a GPU that exists on paper: on whose stream, in which order."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import runtime_names as tw
from foreign_doubles import CudaArray, DlpackArray, Library, N, NamedStream
from refusing import refuse

from tilewright.backends.cuda.stream import AdoptedQueue
from tilewright.dtypes import bf16, f8e4m3fn, f8e5m2, f16, f32, numpy_dtype
from tilewright.errors import BorrowError
from tilewright.runtime.graphs.graph import graph as tw_graph
from tilewright.runtime.interop.dlpack import look_into
from tilewright.runtime.interop.imports import from_dlpack


def order(driver):
    """Records, waits and launches since the log was cleared."""
    return [entry[:3] for entry in driver.calls("record", "wait", "launch")]


# --- whose stream ---------------------------------------------------------------------------------


def test_an_operation_runs_on_the_librarys_stream(driver, library, build):
    z = library.array(at=1)
    build(z, library.array(2.0)).submit()
    assert order(driver) == [("launch", library.stream, "add_one")]
    driver.synchronize_stream(library.stream)
    assert (z.values == 3).all()


def test_the_current_stream_is_that_of_the_submission(driver, library, build):
    operation = build(library.array(at=1), library.array())
    library.stream = driver.create_stream()
    operation.submit()
    assert order(driver) == [("launch", library.stream, "add_one")]


def test_on_another_stream_theirs_waits_before_and_after(driver, cuda, library, build):
    ours, theirs = cuda.new_stream(), library.stream
    here = ours.queue.handle
    build(library.array(at=1), library.array()).submit(ours)
    assert order(driver) == [
        ("record", theirs), ("wait", here, theirs),
        ("launch", here, "add_one"),
        ("record", here), ("wait", theirs, here),
    ]  # fmt: skip


def test_two_libraries(driver, library, build):
    other = Library(driver, 0x6000_0000_0000)
    build(library.array(at=1), other.array()).submit()
    here, there = library.stream, other.stream
    assert order(driver) == [
        ("record", there), ("wait", here, there),
        ("launch", here, "add_one"),
        ("record", here), ("wait", there, here),
    ]  # fmt: skip


def test_our_stream_and_their_number_are_one_stream(driver, cuda, library, build):
    library.stream = cuda.stream.queue.handle
    build(library.array(at=1), tw.zeros(N)).submit()
    assert driver.calls("wait") == []


def test_our_tensors_are_ordered_with_theirs(driver, cuda, library, build):
    x, ours = tw.zeros(N), cuda.stream.queue.handle
    build(x, tw.ones(N)).submit()
    driver.log.clear()
    build(library.array(at=1), x).submit()
    assert order(driver) == [
        ("record", ours), ("wait", library.stream, ours),
        ("launch", library.stream, "add_one"),
    ]  # fmt: skip


def test_a_download_comes_after_the_library(driver, cuda, library):
    tensor = from_dlpack(library.array(4.0))
    assert (tensor.numpy() == 4).all()
    assert ("wait", cuda.stream.queue.handle, library.stream) in driver.calls("wait")


def test_an_interface_without_a_stream_asks_for_no_order(driver, cuda, library, build):
    build(library.array(at=1, version=2), library.array(version=2)).submit()
    assert order(driver) == [("launch", cuda.stream.queue.handle, "add_one")]


def test_the_per_thread_stream_is_refused(driver, library, build, monkeypatch):
    operation = build(library.array(at=1), library.array())
    monkeypatch.setattr(driver, "stream_number", lambda _: 2)
    with refuse("is another stream in every thread"):
        operation.submit()
    operation.close()


def test_the_legacy_stream_has_two_numbers(cuda):
    with cuda.lock:
        assert cuda.adopt_stream(0) is cuda.adopt_stream(1)


def test_overlapping_arrays_and_read_only_ones(library, build):
    with refuse("also read by it", BorrowError):
        build(library.array(), library.array())
    with refuse("is read-only", BorrowError):
        build(library.array(at=1, read_only=True), library.array())


def test_masks_and_strange_dtypes(library):
    class Strange(CudaArray):
        changes = {}

        @property
        def __cuda_array_interface__(self):
            return {**super().__cuda_array_interface__, **self.changes}

    for changes, text in (
        ({"mask": object()}, "has a mask, which a kernel would not see"),
        ({"typestr": "|V2"}, "the CUDA array interface has no names for bf16 and f8"),
        ({"typestr": ">f4"}, "holds >f4, for which there is no dtype"),
        ({"strides": (-4,)}, "runs backwards"),
        ({"strides": (6,)}, "no whole elements of 4 bytes"),
        ({"data": (0x5000_0000_0001, False)}, "begin at multiples of 4"),
        ({"data": (0, False)}, "has elements and no memory"),
    ):
        array = library.array()
        array.__class__, Strange.changes = Strange, changes
        with refuse(text):
            from_dlpack(array)


def test_stream_objects_of_others_are_taken(driver, cuda, library, build):
    named = NamedStream(driver, library.stream)
    build(tw.zeros(N), tw.ones(N)).submit(named)
    assert order(driver) == [("launch", library.stream, "add_one")]
    assert cuda.adopt(named) is cuda.adopt(named)
    with tw.stream(cuda.adopt(named)):
        build(tw.zeros(N), tw.ones(N)).submit()
    assert len(order(driver)) == 2
    with refuse("a stream has `__cuda_stream__`, and str has not"):
        cuda.adopt("mine")


def test_our_streams_are_given_to_others(driver, cuda):
    version, number = cuda.stream.__cuda_stream__()
    assert (version, number) == (0, driver.stream_number(cuda.stream.queue.handle))


def test_cpu_streams_are_no_cuda_streams(cpu):
    with pytest.raises(TypeError, match="is no CUDA stream"):
        cpu.stream.__cuda_stream__()
    with refuse("the CPU has no streams of other libraries"):
        cpu.adopt(type("Stream", (), {"__cuda_stream__": lambda _: (0, 7)})())


def test_copies_and_fills_of_their_memory(driver, cuda, library):
    x, z = library.array(2.0), library.array(at=1)
    tw.fill(x, 5).submit()
    assert tw.copy(z, x).submit().sync() is z  # in the form in which it came
    ours = tw.copy(tw.zeros(N), z).sync()
    assert (x.values.tolist(), z.values.tolist()) == ([5.0] * N, [5.0] * N)
    assert ours.numpy().tolist() == from_dlpack(z).clone().numpy().tolist() == [5.0] * N
    library.array(7.0)
    part = from_dlpack(x)[2:4]
    tw.copy(ours[:2], part).sync()
    tw.fill(part, 1).sync()
    assert ours.numpy().tolist() == [7.0] * 2 + [5.0] * (N - 2)
    assert x.values.tolist() == [7.0, 7.0, 1.0, 1.0] + [7.0] * (N - 4)
    with refuse("is read-only", BorrowError):
        tw.fill(library.array(read_only=True), 0)


# --- DLPack with streams --------------------------------------------------------------------------


def test_a_capsule_is_asked_for_our_stream(driver, cuda, library, build):
    exporter = DlpackArray(library.array(2.0))
    x = from_dlpack(exporter)
    ours = cuda.stream.queue.handle
    assert exporter.streams == [driver.stream_number(ours)]
    other, driver.patient = cuda.new_stream(), True  # the library's work is not done yet
    build(tw.zeros(N), x).submit(other)
    assert ("wait", other.queue.handle, ours) in driver.calls("wait")


@pytest.mark.parametrize("dtype", [f16, bf16, f8e4m3fn, f8e5m2])
def test_narrow_floats_have_their_names(driver, cuda, library, dtype):
    array = library.array()
    values = np.array([0, 1, -2, 0.5] * 2).astype(numpy_dtype(dtype))
    driver.memory[array.address][: values.nbytes] = values.view(np.uint8)
    x = from_dlpack(DlpackArray(array, dtype))
    assert (x.dtype, x.address) == (dtype, array.address)
    assert x.numpy().tobytes() == values.tobytes()
    ours = tw.from_numpy(values)
    ours.numpy()
    said = look_into(ours.__dlpack__(stream=-1, max_version=(1, 1)))
    assert (said.kind, said.dtype, said.address) == (2, dtype, ours.address)


def test_an_export_makes_their_stream_wait(driver, cuda, library, build):
    z, ours = tw.zeros(N), cuda.stream.queue.handle
    build(z, tw.ones(N)).submit()
    driver.log.clear()
    capsule = z.__dlpack__(stream=driver.stream_number(library.stream), max_version=(1, 1))
    assert order(driver) == [("record", ours), ("wait", library.stream, ours)]
    said = look_into(capsule)
    assert (said.kind, said.number, said.address) == (2, 0, z.address)
    with refuse("is in use", BorrowError):
        z.numpy()
    driver.log.clear()
    del capsule
    build(z, tw.ones(N)).submit()
    assert order(driver)[:2] == [("record", library.stream), ("wait", ours, library.stream)]


def test_a_consumer_may_see_to_the_order_itself(driver, library, build):
    z = tw.zeros(N)
    build(z, tw.ones(N)).submit()
    driver.log.clear()
    capsule = z.__dlpack__(stream=-1)
    assert order(driver) == []
    assert look_into(capsule) is not None


def test_no_stream_is_the_legacy_one(driver, cuda, build):
    z = tw.zeros(N)
    build(z, tw.ones(N)).submit()
    capsule = z.__dlpack__()
    assert driver.calls("wait")[-1][2] is cuda.stream.queue.handle
    assert look_into(capsule) is not None
    del capsule
    with refuse("without a copy", BufferError):
        z.__dlpack__(copy=True)


def test_an_export_to_two_streams_ends_on_both(driver, cuda):
    x = tw.full(N, 1, f32)
    x.numpy()
    theirs = [driver.create_stream() for _ in range(2)]
    exported = x.export()
    capsules = [exported.__dlpack__(stream=driver.stream_number(one)) for one in theirs]
    for one in theirs:
        driver.copy(x.address, x.address, 4, one)  # they still work on it
    del capsules, exported
    driver.log.clear()
    tw.fill(x, 2).submit()
    assert {entry[1] for entry in driver.calls("record")} == set(theirs)
    assert len(driver.calls("wait")) == 2


def test_a_replay_comes_after_an_array_that_was_imported_again(driver, cuda, library):
    array, z = DlpackArray(library.array(2.0)), tw.full(N, 0, f32)
    with tw_graph() as recorded:
        recorded.record(tw.copy(z, from_dlpack(array)))
    for _ in range(2):
        recorded.launch().submit()
    ready = cuda.new_stream()
    driver.patient = True
    with tw.stream(ready):
        again = from_dlpack(array)  # that stream waits for the library now
    driver.log.clear()
    recorded.launch().submit()
    assert ("record", ready.queue.handle) in driver.calls("record")
    assert again.numpy().tolist() == [2.0] * N


def test_the_cuda_array_interface_is_on_the_export(driver, cuda, library, build):
    z = tw.zeros(N)
    assert not hasattr(z, "__cuda_array_interface__")
    side = cuda.new_stream()
    build(z, tw.ones(N)).submit(side)
    driver.log.clear()
    exported = z.export()
    interface = exported.__cuda_array_interface__
    assert interface["data"] == (z.address, False)
    assert interface["stream"] == cuda.stream.queue.number
    assert interface["typestr"] == "<f4"
    assert tw.zeros(N, bf16).export().__cuda_array_interface__["typestr"] == "<u2"
    assert ("wait", cuda.stream.queue.handle, side.queue.handle) in driver.calls("wait")
    with refuse("is in use", BorrowError):
        z.numpy()
    del exported
    assert (z.numpy() == 2).all()


# --- graphs of ours -------------------------------------------------------------------------------


def test_a_replay_runs_in_the_librarys_order(driver, cuda, library, build):
    with tw_graph() as graph:
        graph.record(build(library.array(at=1), library.array(2.0)))
    driver.log.clear()
    graph.launch().submit()
    assert driver.calls("wait") == []
    ours = cuda.new_stream()
    graph.launch().submit(ours)
    waits = driver.calls("wait")
    assert waits[0] == ("wait", ours.queue.handle, library.stream)
    assert waits[-1] == ("wait", library.stream, ours.queue.handle)
    library.stream.capturing = True
    with refuse("cannot be recorded into a CUDA graph of another library"):
        graph.launch().submit()
    library.stream.capturing = False


def test_only_streams_of_others_are_adopted_and_the_default_one_is_never_recorded(cuda, driver):
    other = cuda.adopt_stream(driver.stream_number(driver.create_stream()))
    assert [one.queue.is_adopted for one in (cuda.stream, other)] == [False, True]
    assert [one.is_plain for one in (cuda.stream, other)] == [True, False]
    asked = SimpleNamespace(stream_number=lambda number: number, is_capturing=lambda _: True)
    for number, recorded in ((1, False), (77, True)):
        queue = AdoptedQueue(asked, None, number)
        assert queue.may_be_recorded is queue.is_capturing() is recorded
