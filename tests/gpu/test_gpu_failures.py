"""A check that fails on the GPU is reported with its place, and the process goes on."""

import functools
import inspect

import numpy as np
import pytest
from gpu_kernels import CPU, GPU, add, poisoned

import tilewright as tw
from tilewright import Mut, Ref, ReportForm, f32, i32
from tilewright.dims import B, M, N

pytestmark = pytest.mark.gpu

REPORTING = (ReportForm.IN_PLACE, ReportForm.AT_END, ReportForm.AUDIT)


def pick(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    i = ids.partition(1)[z.index[0]].item()
    z.store(x.partition(B)[i])


def pick_sum(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    xs, steps = x.partition(B), ids.partition(1)
    total = tw.zeros((B,), f32)
    for k in range(steps.num_tiles(0)):
        total = total + xs[steps[k].item()]
    z.store(total)


def quotient(z: Mut[i32, B], x: Ref[i32, N], y: Ref[i32, N]) -> None:
    z.store(x.load_like(z) // y.load_like(z))


@functools.cache
def reporting(function, form):
    """A kernel that reports in a form, made once: it keeps what it has compiled."""
    return tw.kernel(report=form)(function)


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def tensors(device, *arrays):
    return [tw.from_numpy(array, device=device) for array in arrays]


def launch(function, form, device, shape, *arrays, tile=128, dtype=np.float32):
    """A launch that has not been run, and its output."""
    kernel = reporting(function, form)
    z, *inputs = tensors(device, poisoned(shape, dtype), *arrays)
    return kernel(z.partition(tile), *inputs), z


def check_device_works():
    """The next launch, and a read, on the same stream."""
    x = np.arange(1000, dtype=np.float32)
    a, z = tensors(GPU, x, poisoned(1000, np.float32))
    add(z.partition(128), a, a).sync()
    np.testing.assert_array_equal(z.numpy(), 2 * x)


@pytest.fixture
def x():
    return np.random.default_rng(1).random(512, dtype=np.float32)


@pytest.mark.parametrize("form", REPORTING)
@pytest.mark.parametrize(("bad", "block"), [(4, 2), (9, 0), (-1, 3), (2**31 - 1, 1), (-(2**31), 2)])
def test_an_index_out_of_range_is_reported_with_its_place(form, x, bad, block):
    ids = np.array([0, 3, 1, 2], dtype=np.int32)
    ids[block] = bad
    operation, z = launch(pick, form, GPU, 512, x, ids)
    with pytest.raises(tw.OutOfBoundsError) as raised:
        operation.sync()
    text = str(raised.value)
    assert f"test_gpu_failures.py:{line_of(pick, 'x.partition')}" in text
    assert f"index {bad} is outside axis 0 of `x`, which has 4 tiles of 128" in text
    assert f"block ({block},) of kernel `pick`" in text
    with pytest.raises(tw.OutOfBoundsError):
        z.numpy()
    check_device_works()


@pytest.mark.parametrize("form", ReportForm)
def test_valid_indices_are_silent(form, x):
    ids = np.array([0, 3, 1, 2], dtype=np.int32)
    operation, z = launch(pick, form, GPU, 512, x, ids)
    operation.sync()
    np.testing.assert_array_equal(z.numpy(), x.reshape(4, 128)[ids].ravel())


def test_without_a_report_the_nearest_tile_is_read(x):
    ids = np.array([-7, 3, 99, 1], dtype=np.int32)
    operation, z = launch(pick, ReportForm.NONE, GPU, 512, x, ids)
    operation.sync()
    np.testing.assert_array_equal(z.numpy(), x.reshape(4, 128)[[0, 3, 3, 1]].ravel())


@pytest.mark.parametrize("form", REPORTING)
def test_one_of_many_failures_is_reported(form):
    """Every block fails; the record is that of one of them, and all of it is that block's."""
    blocks = 3000
    values = np.arange(blocks * 128, dtype=np.float32)
    ids = (blocks + 10 + np.arange(blocks)).astype(np.int32)
    operation, _ = launch(pick, form, GPU, blocks * 128, values, ids)
    with pytest.raises(tw.OutOfBoundsError) as raised:
        operation.sync()
    text = str(raised.value)
    block = int(text.partition("block (")[2].partition(",")[0])
    assert f"index {blocks + 10 + block} is outside" in text
    check_device_works()


@pytest.mark.parametrize("form", REPORTING)
@pytest.mark.parametrize("position", [0, 5, 31])
def test_a_failure_inside_a_loop_is_reported(form, x, position):
    ids = np.tile(np.arange(4, dtype=np.int32), 8)
    ids[position] = 77
    operation, _ = launch(pick_sum, form, GPU, 128, x, ids)
    with pytest.raises(tw.OutOfBoundsError, match="index 77 is outside axis 0 of `x`"):
        operation.sync()
    check_device_works()


@pytest.mark.parametrize("form", REPORTING)
def test_the_cpu_backend_says_the_same(form, x):
    ids = np.array([0, 3, 12, 2], dtype=np.int32)
    texts = []
    for device in (GPU, CPU):
        operation, _ = launch(pick, form, device, 512, x, ids)
        with pytest.raises(tw.OutOfBoundsError) as raised:
            operation.sync()
        texts.append(str(raised.value))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("form", REPORTING)
def test_what_was_computed_from_a_failure_counts_as_failed(form, x):
    ids = np.array([0, 3, 12, 2], dtype=np.int32)
    operation, z = launch(pick, form, GPU, 512, x, ids)
    operation.submit()
    other = tw.from_numpy(poisoned(512, np.float32), device=GPU)
    with pytest.raises(tw.OutOfBoundsError, match="index 12"):
        add(other.partition(128), z, z).sync()
    check_device_works()


def test_a_thousand_checked_launches_reuse_their_records(x):
    ids = np.array([0, 3, 1, 2], dtype=np.int32)
    kernel = tw.kernel(pick)
    z, a, steps = tensors(GPU, poisoned(512, np.float32), x, ids)
    for _ in range(1000):
        kernel(z.partition(128), a, steps).submit()
    np.testing.assert_array_equal(z.numpy(), x.reshape(4, 128)[ids].ravel())


@pytest.mark.parametrize("form", REPORTING)
def test_a_zero_divisor_divides_as_one_and_is_reported(form):
    top = np.arange(-512, 512, dtype=np.int32)
    bottom = np.where(np.arange(1024) % 7 == 3, 0, 5).astype(np.int32)
    operation, _ = launch(quotient, form, GPU, 1024, top, bottom, dtype=np.int32)
    with pytest.raises(tw.KernelFailure, match="division by zero"):
        operation.sync()
    operation, z = launch(quotient, form, GPU, 1024, top, np.full_like(top, -7), dtype=np.int32)
    operation.sync()
    np.testing.assert_array_equal(z.numpy(), top // -7)
    check_device_works()
