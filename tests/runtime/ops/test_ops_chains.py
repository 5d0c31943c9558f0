"""Operations made of operations: order, one run, errors to every holder, borrows given back."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
import warnings

import numpy as np
import pytest
import runtime_names as tw
from gpu_functions import add_one_kernel
from runtime_doubles import copy, operation, put, reads, updates, writes

from tilewright.errors import BorrowError, LaunchError, OutOfBoundsError
from tilewright.runtime.devices.stream import RoundRobin, SingleStream
from tilewright.runtime.ops.lifecycle import State

pytestmark = pytest.mark.usefixtures("device")


def add_one(z, label="add_one"):
    return operation(label, lambda array: np.add(array, 1, out=array), updates(z))


def failing(z, message="index 9"):
    return operation(
        "failing", lambda _: None, updates(z), failure=lambda: OutOfBoundsError(message)
    )


def replay_of(z, value):
    with tw.graph() as graph:
        graph.record(put(z, value))
    return graph.launch()


def bound_launch(z, _):
    kernel = add_one_kernel()
    for _ in range(3):
        kernel(z.partition(1)).sync()
    return kernel(z.partition(1))


# --- then, map, inspect ---


def test_steps_run_in_order_on_one_stream(device):
    z, other = tw.zeros(4), device.new_stream()
    chain = put(z, 1).then(lambda r: add_one(r[0])).then(lambda r: add_one(r[0]))
    before = other.issued
    (result,) = chain.sync_on(other)
    assert result is z
    assert other.issued == before + 4  # the tensor's bytes, and three steps
    assert z.numpy().tolist() == [3.0] * 4


def test_another_result_can_be_given():
    z = tw.zeros(4)
    launch = put(z, 1)
    assert launch.giving("of a launch") is launch
    assert launch.sync() == "of a launch"
    with pytest.raises(LaunchError, match="runs once and was submitted already"):
        launch.giving("too late")
    chain = put(z, 2).then(lambda r: add_one(r[0])).giving("of a chain")
    assert chain.sync() == "of a chain"
    assert z.numpy().tolist() == [3.0] * 4


def test_a_function_gets_handles_and_map_changes_the_result():
    z = tw.zeros((2, 3))
    seen = []
    shape = put(z, 1).inspect(lambda r: seen.append(r[0].shape)).map(lambda r: r[0].shape).sync()
    assert shape == (2, 3)
    assert seen == [(2, 3)]


def test_ten_thousand_steps_run_and_are_dropped():
    z = tw.zeros(1)
    chain = put(z, 0)
    for _ in range(10_000):
        chain = chain.then(lambda r: add_one(r[0]))
    chain.sync()
    assert z.numpy().tolist() == [10_000.0]
    never = put(z, 0)
    for _ in range(10_000):
        never = never.map(lambda r: r)
    never.close()
    del never
    gc.collect()


def test_a_function_may_give_a_chain_and_so_on():
    z = tw.zeros(1)

    def count(left):
        step = add_one(z)
        return step.then(lambda _: count(left - 1)) if left else step

    count(3_000).sync()
    assert z.numpy().tolist() == [3_001.0]


@pytest.mark.parametrize("made", [put, replay_of, bound_launch])
def test_what_is_taken_cannot_be_run_by_itself(made):
    z = tw.zeros(1)
    put(z, 0).sync()  # the device has its default stream, and the tensor its sole one
    first = made(z, 1)
    chain = first.map(lambda r: r)
    for use in (first.submit, first.sync, lambda: first.then(add_one)):
        with pytest.raises(LaunchError, match="is part of another operation: run that one"):
            use()
    chain.sync()
    with pytest.raises(LaunchError, match="runs once and was submitted already"):
        chain.submit()
    with pytest.raises(LaunchError, match="has handed its result over already"):
        chain.sync()


def test_then_wants_an_operation_and_one_of_this_device():
    z = tw.zeros(1)
    with pytest.raises(LaunchError, match=r"gave tuple, and `then` runs an operation: use `map`"):
        put(z, 1).then(lambda r: r).submit()
    elsewhere = tw.zeros(1, device="cpu:1")
    with pytest.raises(LaunchError, match="gave an operation on cpu:1, but a chain runs on one"):
        put(z, 1).then(lambda _: put(elsewhere, 1)).submit()
    put(elsewhere, 2).sync()  # the result of the step has given its borrow back


@pytest.mark.parametrize(
    ("wait", "named"),
    [
        (lambda z: z.numpy(), r"numpy\(\)"),
        (lambda z: z.item(), r"numpy\(\)"),
        (lambda z: z.wait(), r"tensor\.wait\(\)"),
        (lambda z: np.from_dlpack(z), "an export"),
        (lambda z: add_one(z).sync(), "add_one"),
        (lambda z: z.device.stream.sync(), r"stream\.sync\(\)"),
        (lambda z: z.device.synchronize(), r"synchronize\(\)"),
        (lambda _: tw.synchronize(), r"synchronize\(\)"),
    ],
)
def test_a_step_cannot_wait(device, wait, named):
    if named == "an export" and not device.name.startswith("cpu"):
        pytest.skip("exports of a GPU's memory let a stream wait, and not the host")
    z = tw.zeros(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the operation that was not synced
        with pytest.raises(
            LaunchError, match=rf"^{named} waits for the device, and this is a step"
        ):
            put(z, 1).map(lambda _: wait(z)).submit()
        gc.collect()
    assert z.numpy().tolist() == [1.0]  # operations before the step have run


def test_plain_submissions_of_a_step_use_the_stream_of_the_chain(device):
    z, other = tw.zeros(1), device.new_stream()
    put(z, 1).map(lambda _: add_one(z).submit()).sync_on(other)
    assert device.stream.issued == 0
    assert z.numpy().tolist() == [2.0]


def test_a_built_chain_holds_the_borrows_of_its_first_operation():
    z = tw.zeros(1)
    chain = put(z, 1, "first").map(lambda r: r)
    with pytest.raises(BorrowError, match=r"first, built at .*holds z for writing"):
        z.numpy()
    chain.close()
    z.numpy()


def test_a_dropped_chain_says_so_once_and_gives_its_borrows_back():
    z = tw.zeros(1)
    chain = put(z, 1, "first").map(lambda r: r)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del chain
        gc.collect()
    (warning,) = told
    assert re.match(r"operation first, built at .*, was never run", str(warning.message))
    assert z.numpy().tolist() == [0.0]


# --- errors ---


def test_an_exception_in_a_step_is_kept_and_raised_to_every_holder():
    z = tw.zeros(1)
    chain = put(z, 1).map(lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        chain.submit()
    assert chain.state is State.FAILED
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            chain.sync()
    assert z.numpy().tolist() == [1.0]


def test_the_end_of_a_chain_raises_what_a_step_failed_with():
    z, y = tw.zeros(1), tw.zeros(1)
    chain = put(z, 1).then(lambda r: failing(r[0])).then(lambda _: put(y, 5))
    with pytest.raises(OutOfBoundsError, match="index 9"):
        chain.sync()
    assert chain.state is State.FAILED
    assert y.numpy().tolist() == [5.0]  # behind it, and independent of it
    with pytest.raises(OutOfBoundsError, match="index 9"):
        z.numpy()
    put(z, 2).sync()
    assert z.numpy().tolist() == [2.0]


def test_what_comes_after_a_refusal_in_a_zip_gives_its_borrows_back():
    z, y = tw.zeros(1), tw.zeros(1)

    class Refusing:
        def enqueue(self, stream):
            raise LaunchError("no")

    refused = tw.make_operation("refused", z.device, (writes(z),), Refusing(), z)
    both = tw.zip_operations(refused, put(y, 1))
    with pytest.raises(LaunchError, match="no"):
        both.submit()
    put(y, 3).sync()
    assert y.numpy().tolist() == [3.0]


# --- zip, unzip, first, last, value ---


def test_zip_gives_all_results_and_takes_plain_values():
    z, y = tw.zeros(1), tw.zeros(1)
    both = tw.zip_operations(put(z, 1), 7, put(y, 2))
    assert both.sync() == ((z,), 7, (y,))
    assert (z.numpy() + y.numpy()).tolist() == [3.0]
    assert tw.value(3).map(lambda n: n + 1).sync() == 4


def test_zip_takes_operations_one_by_one():
    z, y = tw.zeros(1), tw.zeros(1)
    listed = [put(z, 1), put(y, 2)]
    for given in (listed, tuple(listed)):
        with pytest.raises(LaunchError, match=r"which would not run: `tw\.zip\(\*operations\)`"):
            tw.zip_operations(given)
    tw.zip_operations(*listed).sync()
    assert (z.item(), y.item()) == (1, 2)
    assert tw.zip_operations([3], put(z, 4)).sync()[0] == [3]  # a value like any other


def test_zip_takes_all_or_none():
    z, y = tw.zeros(1), tw.zeros(1)
    first, second = put(z, 1), put(y, 2)
    second.submit()
    with pytest.raises(LaunchError, match="runs once and was submitted already"):
        tw.zip_operations(first, second)
    first.sync()
    elsewhere = put(tw.zeros(1, device="cpu:1"), 1)
    with pytest.raises(LaunchError, match="the parts of a zip run on one stream"):
        tw.zip_operations(put(z, 1).submit(), elsewhere)
    elsewhere.close()


def test_unzip_runs_the_operation_once_whatever_comes_first():
    x, z = tw.ones(4), tw.zeros(4)
    runs = []
    both = operation("both", lambda a, b: (runs.append(1), np.copyto(a, b))[0], writes(z), reads(x))
    left, right = both.unzip()
    assert right.sync() is x
    assert left.sync() is z
    assert runs == [1]
    assert put(z, 2).first().sync() is z
    assert copy(z, x).last().sync() is x


def test_unzip_asks_for_the_number_where_it_is_not_known():
    z = tw.zeros(1)
    chain = put(z, 1).map(lambda _: (1, 2, 3))
    with pytest.raises(LaunchError, match=r"does not say how many results it has: unzip\(2\)"):
        chain.unzip()
    assert [part.sync() for part in chain.unzip(3)] == [1, 2, 3]


def test_a_diamond_runs_its_source_once():
    z = tw.zeros(1)
    shared = put(z, 1).then(lambda r: add_one(r[0])).shared()
    left, right = shared.map(lambda r: r[0].shape), shared.map(lambda r: r[0].dtype)
    assert tw.zip_operations(left, right).sync() == ((1,), tw.zeros(1).dtype)
    assert z.numpy().tolist() == [2.0]


# --- shared ---


def test_a_shared_operation_gives_all_its_users_the_same():
    z = tw.zeros(1)
    shared = add_one(z).shared()
    results = [shared.sync() for _ in range(3)]
    assert all(result is results[0] for result in results)
    assert shared.submit().shared() is shared
    assert z.numpy().tolist() == [1.0]


def test_a_shared_operation_raises_its_error_to_all_its_users():
    z = tw.zeros(1)
    shared = put(z, 1).map(lambda _: 1 / 0).shared()
    for use in (shared.sync, shared.map(lambda r: r).sync, shared.submit):
        with pytest.raises(ZeroDivisionError):
            use()
    failed = failing(z).shared()
    for use in (failed.sync, failed.map(lambda r: r).sync, failed.sync):
        with pytest.raises(OutOfBoundsError, match="index 9"):
            use()


def test_users_of_a_shared_operation_on_other_streams_wait_for_it(device):
    z, y = tw.zeros(1), tw.zeros(1)
    first, second = device.new_stream(), device.new_stream()
    hold = first.hold()
    shared = put(z, 5).shared()
    shared.map(lambda r: r).submit(first)
    reader = shared.then(lambda r: copy(y, r[0])).submit(second)
    assert not reader.done
    hold.release()
    reader.sync()
    assert y.numpy().tolist() == [5.0]


def test_threads_that_share_an_operation_run_it_once():
    z = tw.zeros(1)
    shared = add_one(z).shared()
    start = threading.Barrier(8)

    def use():
        start.wait()
        shared.map(lambda r: r).sync()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert z.numpy().tolist() == [1.0]


def test_a_shared_operation_that_needs_itself_is_refused():
    z = tw.zeros(1)
    box = []
    box.append(put(z, 1).then(lambda _: box[0].map(lambda r: r)).shared())
    with pytest.raises(LaunchError, match="needs its own result"):
        box[0].sync()


# --- where ---


def test_schedule_takes_the_next_stream_of_a_policy(device):
    z = [tw.zeros(1) for _ in range(4)]
    policy = RoundRobin(device, 2)
    streams = [policy.next_stream() for _ in range(2)]
    for tensor in z:
        put(tensor, 1).schedule(policy).submit()
    assert [stream.issued for stream in streams] == [4, 4]
    single = SingleStream(streams[0])
    put(z[0], 2).schedule(single).sync()
    assert streams[0].issued == 5
    with pytest.raises(LaunchError, match="a policy needs a stream at least, not 0"):
        RoundRobin(device, 0)

    class Alternating:  # an object with `next_stream` is a policy
        def next_stream(self):
            streams.reverse()
            return streams[0]

    device.policy = Alternating()  # for what is awaited
    for tensor in z:
        asyncio.run(_awaited(put(tensor, 4)))
    assert [stream.issued for stream in streams] == [7, 6]
    op = put(z[0], 3)
    with pytest.raises(LaunchError, match="cannot be submitted to a stream of cpu:1"):
        op.schedule(RoundRobin(tw.Device("cpu:1"), 1))
    op.close()


async def _awaited(op):
    return await op


def test_repr_says_how_far_it_is_and_never_waits(device):
    z = tw.zeros(1)
    hold = device.stream.hold()
    first = put(z, 1, "first")
    chain = first.map(lambda r: r)
    assert "part of another operation" in repr(first)
    assert repr(chain).endswith("built>")
    chain.submit()
    assert repr(chain).endswith("submitted>")
    hold.release()
    chain.sync()
    assert repr(chain).endswith("completed>")
