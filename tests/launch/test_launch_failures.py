"""An index that leaves its axis in the kernel: raised by every observer, and nothing is lost."""

import re

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, M, N

HERE = "test_launch_failures.py"


@tw.kernel
def gather(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    i = ids.partition(1)[z.index[0]].item()
    z.store(x.partition(B)[i])


@tw.kernel
def copy(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))


X = np.arange(64, dtype=np.float32)


def launch(*ids: int, z: tw.Tensor | None = None) -> tuple[tw.DeviceOp, tw.Tensor]:
    z = tw.full((16 * len(ids),), -1.0, f32) if z is None else z
    return gather(z.partition(16), tw.from_numpy(X), tw.from_numpy(np.array(ids, np.int32))), z


def test_the_message_says_where_and_what():
    operation, _ = launch(0, 3, 9, 1)
    with pytest.raises(tw.OutOfBoundsError) as failure:
        operation.sync()
    line = next(
        number
        for number, text in enumerate(gather.source.file.lines, start=1)
        if "x.partition(B)[i]" in text
    )
    assert f"{HERE}:{line}:" in str(failure.value)
    wanted = (
        "index 9 is outside axis 0 of `x`, which has 4 tiles of 16; the kernel read the nearest"
    )
    assert wanted in str(failure.value)
    assert str(failure.value).endswith("in block (2,) of kernel `gather`")


def test_the_nearest_tile_is_read_and_the_others_are_right():
    operation, z = launch(2, 9, -5, 1)
    with pytest.raises(tw.OutOfBoundsError, match=r"index (9|-5) is outside"):
        operation.sync()
    copy(z.partition(16), tw.zeros((64,), f32)).sync()  # overwriting all of it clears it
    operation, z = launch(2, 3, 0, 1)
    operation.sync()
    np.testing.assert_array_equal(z.numpy(), X.reshape(4, 16)[[2, 3, 0, 1]].reshape(-1))


def observe_by_sync(operation, _):
    operation.sync()


def observe_by_reading(operation, tensor):
    operation.submit()
    tensor.numpy()


def observe_by_stream(operation, tensor):
    operation.submit()
    tensor.device.stream.sync()


def observe_by_synchronize(operation, _):
    operation.submit()
    tw.synchronize()


@pytest.mark.parametrize(
    "observe", [observe_by_sync, observe_by_reading, observe_by_stream, observe_by_synchronize]
)
def test_every_observer_raises_and_the_next_launch_works(observe):
    operation, z = launch(0, 77)
    with pytest.raises(tw.OutOfBoundsError, match="index 77 is outside axis 0 of `x`"):
        observe(operation, z)
    again, z = launch(1, 0)
    again.sync()
    np.testing.assert_array_equal(z.numpy(), np.concatenate([X[16:32], X[:16]]))


def test_a_failed_tensor_is_refused_until_it_is_overwritten():
    operation, z = launch(0, 77)
    with pytest.raises(tw.OutOfBoundsError):
        operation.sync()
    with pytest.raises(tw.OutOfBoundsError, match="index 77"):
        z.numpy()
    target = tw.zeros((32,), f32)
    with pytest.raises(tw.OutOfBoundsError, match="index 77"):
        copy(target.partition(16), z).sync()
    copy(z.partition(16), tw.ones((32,), f32)).sync()
    assert (z.numpy() == 1).all()


def test_what_was_queued_behind_counts_as_failed():
    target = tw.zeros((32,), f32)
    copy(target.partition(16), tw.ones((32,), f32)).sync()  # loaded before the stream is held
    launch(0, 1)[0].sync()
    operation, z = launch(0, 77)
    hold = z.device.stream.hold()
    operation.submit()
    copy(target.partition(16), z).submit()
    hold.release()
    with pytest.raises(tw.OutOfBoundsError, match="index 77"):
        target.numpy()


@pytest.mark.parametrize("order", [(0, 1), (~0, 1), (~1, 0)])
def test_a_store_outside_is_skipped(order):
    @tw.kernel
    def scatter(z: Mut[i32, BM, BN], ids: Ref[i32, M]) -> None:
        parts = z.partition(1, BN)
        i = ids.partition(1)[z.index[0]].item()
        parts.store(tw.full((1, BN), 7, i32), i, 0)

    z = tw.zeros((8, 4), i32)
    ids = np.array([2, 4], np.int32)
    operation = scatter(z.partition(4, 4, order=order), tw.from_numpy(ids))
    with pytest.raises(tw.OutOfBoundsError) as failure:
        operation.sync()
    text = str(failure.value)
    assert "index 4 is outside axis 0 of this block's piece of `z`, which has 4 parts of 1" in text
    block = (0, 1) if order[1] == 0 else (1, 0)
    assert f"the kernel skipped the write, in block {block} of kernel `scatter`" in text
    fresh = tw.zeros((8, 4), i32)
    scatter(fresh.partition(4, 4), tw.from_numpy(np.array([2, 3], np.int32))).sync()
    wanted = np.zeros((8, 4), np.int32)
    wanted[[2, 7]] = 7
    np.testing.assert_array_equal(fresh.numpy(), wanted)


def test_a_divisor_of_zero_divides_by_one_and_reports():
    @tw.kernel
    def divided(z: Mut[i32, B], x: Ref[i32, N]) -> None:
        z.store(100 // x.load_like(z))

    z = tw.zeros((4,), i32)
    operation = divided(z.partition(4), tw.from_numpy(np.array([1, 2, 0, 5], np.int32)))
    with pytest.raises(
        tw.KernelFailure, match=r"division by zero in block \(0,\) of kernel `divided`"
    ):
        operation.sync()
    divided(z.partition(4), tw.from_numpy(np.array([1, 2, 4, 5], np.int32))).sync()
    np.testing.assert_array_equal(z.numpy(), [100, 50, 25, 20])


@pytest.mark.parametrize(
    "form", [form for form in tw.ReportForm if form is not tw.ReportForm.NONE], ids=str
)
def test_every_form_of_report_says_the_same(form):
    @tw.kernel(report=form)
    def summed(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
        xs, places = x.partition(B), ids.partition(1)
        total = tw.zeros((B,), f32)
        for k in range(places.num_tiles(0)):
            total += xs[places[k].item()]
        z.store(total)

    x, z = tw.from_numpy(X), tw.zeros((16,), f32)
    summed(z.partition(16), x, tw.from_numpy(np.array([0, 1, 3], np.int32))).sync()
    np.testing.assert_array_equal(z.numpy(), X[:16] + X[16:32] + X[48:])
    failing = summed(z.partition(16), x, tw.from_numpy(np.array([0, 4, 3], np.int32)))
    with pytest.raises(tw.OutOfBoundsError) as failure:
        failing.sync()
    assert re.search(
        r"index 4 is outside axis 0 of `x`, which has 4 tiles of 16", str(failure.value)
    )
    assert "block (0,)" in str(failure.value)
