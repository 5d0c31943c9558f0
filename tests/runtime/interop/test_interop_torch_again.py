"""torch tensors passed again and again, on a GPU on paper: quick, and held to every rule.

The memory is torch's own on the CPU, and counts as the GPU's. The first call of a kernel is cold,
the second planned, the third with the same tensors bound to their addresses.
"""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusing import refuse
from torch_doubles import SIZE, Allocator, way

import tilewright as tw
from tilewright import f32
from tilewright.kernel import Kernel

torch = pytest.importorskip("torch", reason="needs torch")


def launches(lib, number, stream=None):
    return [("launch", stream or lib.stream, "plain_add")] * number


# --- quick ----------------------------------------------------------------------------------------


def test_the_same_tensors_are_bound_and_wait_for_nothing(lib, monkeypatch):
    Allocator(monkeypatch)
    z, x, y = lib.bound()
    x.fill_(3)
    for _ in range(50):
        lib.launch(z, x, y).submit()
    assert (
        lib.driver.calls("launch", "record", "wait", "query", "create_event")
        == [("launch", lib.stream, "plain_add", 1)] * 50
    )
    lib.finish()
    assert z.tolist() == [8.0] * SIZE


def test_other_tensors_are_planned(lib):
    lib.bound()
    z, x, y = lib.trio()
    operation = lib.launch(z, x[:], y)
    assert way(operation) == "plan"
    operation.submit()
    lib.finish()
    assert z.tolist() == [7.0] * SIZE
    assert lib.order() == launches(lib, 1)


def test_our_tensors_among_theirs(lib, cuda):
    _, x, y = lib.trio()
    z = tw.zeros(SIZE, f32)
    for _ in range(3):
        lib.add(z.partition(SIZE), x, y).submit()
    lib.driver.log.clear()
    operation = lib.add(z.partition(SIZE), x, y)
    assert way(operation) == "bound"
    operation.submit()
    assert lib.order() == launches(lib, 1)
    tw.fill(z, 1).submit()  # on our own stream, behind theirs
    ours = cuda.stream.queue.handle
    assert ("wait", ours, lib.stream) in lib.order()


def test_an_output_that_is_new_every_time(lib):
    _, x, y = lib.bound()
    for number in range(200):
        x.fill_(number)
        z = torch.zeros(SIZE)
        lib.launch(z, x, y).submit()
        lib.finish()
        assert z.tolist() == [number + 5.0] * SIZE


# --- what must be seen all the same ---------------------------------------------------------------


def test_a_view_that_overlaps_an_output_is_refused(lib):
    z, _, y = lib.bound(2 * SIZE)
    for other in (z, z[:], z.view(2, SIZE).view(-1)):
        with refuse("z is written by this launch and also read by it as x", tw.BorrowError):
            lib.launch(z, other, y)
    both = torch.arange(4.0 * SIZE)
    half = both[: 2 * SIZE]
    for _ in range(3):
        lib.launch(half, both[2 * SIZE :], y).submit()
    with refuse("z is written by this launch and also read by it as x", tw.BorrowError):
        lib.launch(half, both[SIZE : 3 * SIZE], y)
    lib.finish()
    assert torch.equal(half, both[2 * SIZE :] + 5)


def test_a_built_operation_holds_every_view_of_the_memory(lib):
    z, x, y = lib.bound()
    operation = lib.launch(z, x, y)
    assert way(operation) == "bound"
    other = torch.zeros(SIZE)
    for again in (
        lambda: lib.launch(z, x, y),
        lambda: lib.launch(other, z[:], y),
        lambda: lib.launch(x, other, y),
    ):
        with refuse("their order is not stated", tw.BorrowError):
            again()
    lib.launch(other, x, y).submit()  # two readers do not mind each other
    operation.submit()
    lib.launch(x, z, y).submit()
    assert lib.order() == launches(lib, 3)
    lib.finish()
    assert x.tolist() == [12.0] * SIZE


def test_a_resized_tensor_is_looked_at_anew(lib):
    z, x, y = lib.bound()
    for tensor in (z, x, y):
        tensor.resize_(1 << 12)
        tensor.fill_(3)
    operation = lib.launch(z, x, y)
    assert way(operation) == "plan"
    operation.submit()
    lib.finish()
    assert z.tolist() == [6.0] * (1 << 12)
    z.resize_(8)
    with refuse("since x is read like z` (x.shape[0] = 4096, z.shape[0] = 8)", tw.LaunchError):
        lib.launch(z, x, y)


@pytest.mark.parametrize("how", ["set_", "data"])
def test_a_tensor_with_other_memory_is_looked_at_anew(lib, how):
    z, x, y = lib.bound()
    before, other = z[:], torch.full((SIZE,), 9.0)
    if how == "set_":
        z.set_(other)
    else:
        z.data = other
    lib.launch(z, x, y).submit()
    before.fill_(1)
    lib.finish()
    assert other.tolist() == z.tolist() == [7.0] * SIZE
    assert before.tolist() == [1.0] * SIZE
    assert lib.order() == launches(lib, 1)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("how", ["resize_", "set_", "data"])
def test_a_tensor_that_moves_before_the_submission(lib, how, which):
    tensors = lib.bound()
    operation = lib.launch(*tensors)
    moved, other = tensors[which], torch.zeros(1 << 16)
    if how == "resize_":
        moved.resize_(1 << 16)
    elif how == "set_":
        moved.set_(other)
    else:
        moved.data = other
    with refuse("has been moved or resized since: pass the array again after that", tw.BorrowError):
        operation.submit()
    assert lib.order() == []


def test_other_strides_on_the_same_memory(lib):
    z, x, y = lib.bound(2 * SIZE)
    x.as_strided_((2 * SIZE,), (0,))
    operation = lib.launch(z, x, y)
    assert way(operation) == "cold"
    operation.close()


def test_an_identity_that_comes_back(lib):
    z, _, y = lib.bound()
    seen = set()
    for number in range(50):
        x = torch.full((SIZE,), float(number))
        seen.add(id(x))
        lib.launch(z, x, y).submit()
        lib.finish()
        assert z.tolist() == [number + 5.0] * SIZE
        del x
    assert len(seen) < 50  # or nothing was tried


def test_another_current_stream(lib):
    z, x, y = lib.bound()
    lib.launch(z, x, y).submit()
    lib.driver.log.clear()
    first, lib.stream = lib.stream, lib.driver.create_stream()
    lib.launch(z, x, y).submit()
    assert lib.order() == [
        ("record", first), ("wait", lib.stream, first), *launches(lib, 1)
    ]  # fmt: skip
    lib.driver.log.clear()
    lib.launch(z, x, y).submit()
    lib.launch(z, x, y).submit()
    assert lib.order() == launches(lib, 2)


def test_a_stream_that_is_named(lib, cuda):
    z, x, y = lib.bound()
    ours = cuda.new_stream()
    here = ours.queue.handle
    lib.launch(z, x, y).submit(ours)
    assert lib.order() == [
        ("record", lib.stream), ("wait", here, lib.stream),
        ("launch", here, "plain_add"),
        ("record", here), ("wait", lib.stream, here),
    ]  # fmt: skip


def test_what_requires_grad(lib):
    z, x, y = lib.bound()
    z.requires_grad_()
    with refuse("z is written by plain_add, but the torch tensor requires grad", tw.BorrowError):
        lib.launch(z, x, y)
    with torch.no_grad():
        lib.launch(z, x, y).submit()
    x.requires_grad_()
    z.requires_grad_(False)
    lib.launch(z, x, y).submit()
    assert lib.order() == launches(lib, 2)


def test_a_write_raises_the_version_of_all_views(lib):
    z, x, y = lib.bound()
    before, view, read = z._version, z[:], x._version
    operation = lib.launch(z, x, y)
    assert z._version == before
    operation.submit()
    assert (z._version, view._version, x._version) == (before + 1, before + 1, read)
    cut = tw.partition(z[:], SIZE)  # the tensor that was cut is gone
    lib.add(cut, x, y).submit()
    assert view._version == before + 2


def test_a_recording_takes_the_launch_and_nothing_else(lib):
    z, x, y = lib.bound()
    lib.driver.synchronize_stream(lib.stream)
    tw.synchronize()
    lib.driver.log.clear()
    lib.stream.capturing = True
    lib.launch(z, x, y).submit()
    assert [entry[0] for entry in lib.driver.log] == ["launch"]
    lib.stream.capturing = False
    lib.launch(z, x, y).submit()
    assert lib.order() == launches(lib, 2)


def test_our_own_launches_on_a_stream_that_is_recorded(lib, cuda):
    z, x, y = (tw.zeros(SIZE, f32) for _ in range(3))
    theirs = cuda.adopt_stream(lib.number(0))
    for _ in range(4):
        lib.add(z.partition(SIZE), x, y).submit(theirs)
    tw.synchronize()
    lib.driver.log.clear()
    lib.stream.capturing = True
    issued = theirs.issued
    lib.add(z.partition(SIZE), x, y).submit(theirs)
    assert [entry[0] for entry in lib.driver.log] == ["launch"]
    assert theirs.issued == issued  # it runs whenever torch says
    w = tw.zeros(SIZE, f32)
    with refuse("has no memory yet, and none can be allocated", tw.LaunchError):
        tw.zip(lib.add(w.partition(SIZE), x, y)).submit(theirs)


def test_a_library_that_works_on_a_stream_of_ours(lib, cuda):
    lib.stream = cuda.stream.queue.handle
    z, x, y = lib.bound()
    before = z._version
    for _ in range(3):
        lib.launch(z, x, y).submit()
    assert z._version == before + 3
    operation = lib.launch(z, x, y)
    x.data = torch.zeros(SIZE)
    with refuse("has been moved or resized since", tw.BorrowError):
        operation.submit()
    assert lib.order() == launches(lib, 3)


@pytest.mark.parametrize("kind", ["cold", "bound"])
def test_memory_in_flight_outlives_its_tensor(lib, kind):
    z, x, y = lib.bound() if kind == "bound" else lib.trio()
    for _ in range(3):
        tw.synchronize()
    memory = [weakref.ref(one.untyped_storage()) for one in (z, x, y)]
    lib.launch(z, x, y).submit()
    del z, x, y
    gc.collect()
    assert None not in [one() for one in memory]
    lib.finish()
    for _ in range(3):
        tw.synchronize()
    assert [one() for one in memory] == [None] * 3


def test_a_submitted_operation_keeps_no_tensor(lib, monkeypatch):
    Allocator(monkeypatch)
    z, x, y = lib.bound()
    operation = lib.launch(z, x, y).giving(None).submit()
    tensor = weakref.ref(x)
    del x
    gc.collect()
    assert tensor() is None
    operation.sync()


def test_a_tensor_that_was_given_other_memory_keeps_none(lib):
    tensors = lib.bound()
    for _ in range(3):
        tw.synchronize()
    memory = [weakref.ref(one.untyped_storage()) for one in tensors]
    for tensor in tensors:
        tensor.data = torch.zeros(SIZE)
    assert [one() for one in memory] == [None] * 3


def test_a_moved_handle_leaves_the_tensor_as_it_was(lib):
    z, x, y = lib.bound()
    tw.move(tw.partition(z, SIZE).tensor)
    lib.launch(z, x, y).submit()
    lib.finish()
    assert z.tolist() == [7.0] * SIZE


def test_parameters_of_modules(lib):
    z, x, _ = lib.bound()
    weight = torch.nn.Parameter(torch.full((SIZE,), 4.0))
    for expected in ("plan", "bound", "bound"):
        operation = lib.launch(z, x, weight)
        assert way(operation) == expected
        operation.submit()
    lib.finish()
    assert z.tolist() == [6.0] * SIZE


# --- whichever way --------------------------------------------------------------------------------

ACTIONS = st.tuples(
    st.integers(0, 2),  # whose current stream
    st.permutations(range(5)),  # tensors; the last are ours
    st.sampled_from(("launch", "launch", "launch", "view", "named", "close")),
)


def act(lib, streams, tensors, action):
    current, order, how = action
    lib.stream = streams[current]
    z, x, y = (tensors[number] for number in order[:3])
    if how == "view":
        z, x = z[:], x[:]
    operation = lib.launch(z, x, y)
    if how == "close":
        operation.close()
    elif how == "named":
        operation.submit(tw.Device("cuda").stream)
    else:
        operation.submit()


@pytest.mark.usefixtures("streams_do_not_look")
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(plan=st.lists(ACTIONS, min_size=1, max_size=25))
def test_the_driver_sees_what_it_would_see_of_cold_launches(lib, cuda, plan):
    def run(quick):
        kernel = lib.add
        with pytest.MonkeyPatch.context() as patch:
            if not quick:
                patch.setattr(type(kernel), "__call__", Kernel.__call__)
                patch.setattr(type(kernel._launches), "again", lambda *_: None)
            tw.synchronize()
            streams = [lib.driver.create_stream() for _ in range(3)]
            tensors = [torch.arange(SIZE) * 1.0 + n for n in range(3)]
            tensors += [tw.full((SIZE,), n, f32) for n in (10.0, 20.0)]
            for tensor in tensors[3:]:
                tw.fill(tensor, 3).sync()
            lib.driver.log.clear()
            for action in plan:
                act(lib, streams, tensors, action)
            log = [(entry[0], *map(relative(streams), entry[1:3])) for entry in lib.order()]
            lib.finish()
            return log, [t.tolist() for t in tensors[:3]], [t.numpy().tolist() for t in tensors[3:]]

    assert run(True) == run(False)


def relative(streams):
    return lambda one: streams.index(one) if one in streams else str(one)
