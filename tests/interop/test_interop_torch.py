"""torch tensors on the CPU as arguments, and what autograd learns of them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from interop_kernels import add, copy, copy_matrix

import tilewright as tw
from tilewright import f32
from tilewright.runtime.interop.torch_tensors import TORCH_DTYPES

torch = pytest.importorskip("torch", reason="needs torch")


def refuse(text: str, error: type[Exception] = tw.LaunchError):
    return pytest.raises(error, match=re.escape(text))


@pytest.mark.parametrize("n", [0, 1, 7, 1009])
def test_tensors_are_read_and_written_in_place(n):
    x, y, z = torch.arange(n, dtype=torch.float32), torch.ones(n), torch.zeros(n)
    add(tw.partition(z, 16), x, y).sync()
    assert torch.equal(z, x + 1)


@pytest.mark.parametrize("name", TORCH_DTYPES)
def test_every_dtype(name):
    dtype = getattr(torch, name)
    bits = torch.tensor([0, 1, 1, 0] * 8, dtype=torch.uint8)
    x, z = bits.view(dtype), torch.zeros(32, dtype=torch.uint8).view(dtype)
    copy(tw.partition(z, 4), x).sync()
    assert torch.equal(z.view(torch.uint8), bits)
    assert tw.from_dlpack(x).dtype is TORCH_DTYPES[name]


def test_views_with_any_strides():
    x = torch.arange(24 * 40, dtype=torch.float32).reshape(24, 40)
    for view in (x.T, x[3:19, 5:16], x[::2, ::3], x[:1].expand(24, 40), x[:, 3:4]):
        z = torch.zeros(view.shape)
        copy_matrix(tw.partition(z, 8, 8), view).sync()
        assert torch.equal(z, view)


def test_columns_of_one_tensor_are_apart():
    both = torch.zeros(16, 32)
    both[:, 16:] = torch.rand(16, 16)
    copy_matrix(tw.partition(both[:, :16], 8, 8), both[:, 16:]).sync()
    assert torch.equal(both[:, :16], both[:, 16:])
    with refuse("also read by it as x", tw.BorrowError):
        copy_matrix(tw.partition(both[:, :16], 8, 8), both[:, 15:31])


def test_numpy_and_torch_views_of_the_same_memory_know_each_other():
    t = torch.zeros(64)
    with refuse("also read by it as x", tw.BorrowError):
        copy(tw.partition(t, 16), t.numpy())


def test_a_write_raises_the_version():
    x, weight = torch.ones(8), torch.ones(8, requires_grad=True)
    loss = (x * weight).sum()
    before = x._version
    operation = copy(tw.partition(x, 8), torch.zeros(8))
    assert x._version == before
    operation.sync()
    assert x._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_reading_leaves_the_version():
    x, z = torch.ones(8), torch.zeros(8)
    before = x._version
    copy(tw.partition(z, 8), x).sync()
    assert x._version == before


def test_what_requires_grad_is_written_under_no_grad_only():
    parameter = torch.nn.Parameter(torch.zeros(8))
    with refuse("z is written by copy, but the torch tensor requires grad", tw.BorrowError):
        copy(tw.partition(parameter, 8), torch.ones(8))
    cut = tw.partition(parameter, 8)
    with torch.no_grad():
        copy(cut, torch.ones(8)).sync()
    assert parameter.detach().sum() == 8
    copy(tw.partition(torch.zeros(8), 8), parameter).sync()


def test_inference_tensors_have_no_version():
    with torch.inference_mode():
        z = torch.zeros(8)
        copy(tw.partition(z, 8), torch.ones(8)).sync()
    assert z.sum() == 8


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (torch.zeros(4).to_sparse(), "is laid out as torch.sparse_coo: pass t.to_dense()"),
        (torch.zeros(4, device="meta"), "lives on meta, where kernels do not run"),
        (torch.zeros(4, dtype=torch.complex64), "holds torch.complex64"),
        (torch.zeros(4, dtype=torch.complex64).conj().imag, "pass t.resolve_neg()"),
        (torch._efficientzerotensor(4), "has elements and no memory"),
        (torch.zeros(16, dtype=torch.uint8)[1:9].view(torch.int8).view(torch.uint8), None),
    ],
)
def test_what_cannot_be_taken_is_refused(tensor, text):
    if text is None:
        assert tw.from_dlpack(tensor).shape == (8,)
        return
    with refuse(text):
        tw.from_dlpack(tensor)


def test_fake_tensors_are_refused():
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode():
        tensor = torch.zeros(4)
    with refuse("is a FakeTensor, which stands for other tensors"):
        tw.from_dlpack(tensor)


def test_vmapped_tensors_are_refused():
    def take(row):
        tw.from_dlpack(row)

    with refuse("has no memory of its own"):
        torch.vmap(take)(torch.zeros(3, 3))


@pytest.mark.parametrize("move", ["resize_", "set_", "data"])
def test_a_moved_tensor_is_noticed_before_anything_runs(move):
    z, other = torch.zeros(8), torch.zeros(1 << 16)
    handle = tw.from_dlpack(z)
    operation = copy(handle.partition(8), tw.ones((8,), f32))
    if move == "resize_":
        z.resize_(1 << 16)
    elif move == "set_":
        z.set_(other)
    else:
        z.data = other
    with refuse("has been moved or resized since", tw.BorrowError):
        operation.sync()
    with refuse("has been moved or resized since", tw.BorrowError):
        handle.numpy()
    assert not other.any()


def test_a_freed_tensor_lives_on_in_its_handle():
    handle = tw.from_dlpack(torch.arange(1 << 16, dtype=torch.float32))
    torch.zeros(1 << 16)
    assert np.array_equal(handle.numpy(), np.arange(1 << 16, dtype=np.float32))


def test_what_is_raised_on_new_tensors_is_heard_of():
    """A stream of the CPU may raise, so no tensor is at home there, however new it is."""
    stream = tw.Device("cpu").stream

    def fail():
        raise MemoryError("in the middle of a kernel")

    for _ in range(4):
        z, x = torch.zeros(8), torch.ones(8)
        operation = copy(tw.partition(z, 8), x)
        stream.queue.put(fail)
        with pytest.raises(MemoryError, match="in the middle"):
            operation.sync()
