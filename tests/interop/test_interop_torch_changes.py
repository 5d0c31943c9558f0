"""torch tensors that change in place between launches: a launch has the wrapper of their place."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from interop_kernels import copy

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, M, N
from tilewright.errors import LaunchError
from tilewright.runtime.interop.passed import wrapped

torch = pytest.importorskip("torch", reason="needs torch")

CHANGES = {
    "transposed": lambda t: t.t_(),
    "turned round": lambda t: t.transpose_(0, 1),
    "one more axis": lambda t: t.unsqueeze_(0),
    "smaller": lambda t: t.resize_(2, 6),
    "one axis": lambda t: t.resize_(24),
    "larger": lambda t: t.resize_(1 << 12, 4),
    "other strides": lambda t: t.as_strided_((4, 6), (0, 1)),
    "other memory": lambda t: t.set_(torch.zeros(4, 6)),
    "other data": lambda t: setattr(t, "data", torch.zeros(4, 6)),
    "another shape of the same data": lambda t: setattr(t, "data", t.detach().view(6, 4)),
    "another dtype of the same data": lambda t: setattr(t, "data", t.detach().view(torch.int32)),
    "memory of another size": lambda t: t.untyped_storage().resize_(1 << 16),
}


def wrapper_of(tensor):
    wrapper = wrapped(tensor)
    for _ in range(5):
        assert wrapped(tensor) is wrapper
    return wrapper


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_tensor_has_another_wrapper(change):
    tensor = torch.arange(24.0).reshape(4, 6)
    before = wrapper_of(tensor)
    place = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
    CHANGES[change](tensor)
    if place == (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype):
        pytest.skip("the allocator has made room without moving it")
    after = wrapper_of(tensor)
    assert after is not before
    assert (after.address, after.shape) == (tensor.data_ptr(), tuple(tensor.shape))
    assert after.strides == tensor.stride()


def test_contents_grad_and_modes_leave_the_wrapper():
    tensor = torch.arange(24.0).reshape(4, 6)
    wrapper = wrapper_of(tensor)
    tensor.add_(1)
    tensor.requires_grad_()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert wrapped(tensor) is wrapper
    assert wrapped(tensor[:]) is wrapper
    assert wrapped(torch.nn.Parameter(tensor.detach())) is wrapper


def test_tensors_of_other_classes_have_no_wrapper():
    """Their own reader says what they are; they are taken as other arrays are."""

    class Labelled(torch.Tensor):
        pass

    tensor = torch.ones(4096).as_subclass(Labelled)
    assert wrapped(tensor) is None
    z = tw.zeros((4096,), f32)
    copy(z.partition(1024), tensor).sync()
    assert z.numpy().sum() == 4096


def test_a_negation_is_not_taken_for_the_tensor_that_it_negates():
    tensor = torch.arange(24.0).reshape(4, 6)
    wrapper_of(tensor)
    tensor.data = torch._neg_view(tensor.detach())
    assert tensor.is_neg()
    for _ in range(2):
        with pytest.raises(LaunchError, match="is a negation that torch has not computed"):
            wrapped(tensor)


def test_an_empty_tensor_is_not_taken_for_one_of_another_device():
    """Both lie at address 0."""
    host, meta = torch.empty(0, 4), torch.empty(0, 4, device="meta")
    assert host.data_ptr() == meta.data_ptr() == 0
    for _ in range(2):
        assert wrapped(host).shape == (0, 4)
        with pytest.raises(LaunchError, match="lives on meta, where kernels do not run"):
            wrapped(meta)


@pytest.mark.parametrize("times", [0, 3])
def test_an_inference_tensor_is_written(times):
    """It has no version to raise."""
    with torch.inference_mode():
        z = torch.zeros(4096)
    x = torch.ones(4096)
    for _ in range(times):
        copy(tw.partition(z, 1024), torch.zeros(4096)).sync()
    copy(tw.partition(z, 1024), x).sync()
    assert z.sum() == 4096
    with torch.inference_mode():
        copy(tw.partition(z, 1024), torch.full((4096,), 2.0)).sync()
    assert z.sum() == 2 * 4096


@tw.kernel
def pick(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    tw.require(ids.shape[0] == tw.cdiv(z.shape[0], B))
    i = ids.partition(1)[z.index[0]].item()
    z.store(x.partition(B)[i])


@pytest.mark.parametrize("times", [0, 3])
def test_failed_contents_are_those_of_the_tensor_alone(times):
    """Its views have them, too; a tensor that comes to the same memory later has not."""
    memory, ids = np.zeros(4096, np.float32), torch.zeros(4, dtype=torch.int32)
    x, z = torch.ones(4096), torch.from_numpy(memory)
    other = torch.zeros(4096)
    for _ in range(times):
        pick(tw.partition(z, 1024), x, ids).sync()
        copy(tw.partition(other, 1024), z).sync()
        copy(tw.partition(other[:1024], 1024), z[:1024]).sync()
    with pytest.raises(tw.OutOfBoundsError, match="is outside axis 0 of `x`"):
        pick(tw.partition(z, 1024), x, ids + 9).sync()
    for part in (z, z[:1024], z):
        with pytest.raises(tw.OutOfBoundsError, match="is outside axis 0 of `x`"):
            copy(tw.partition(other[: len(part)], 1024), part).sync()
    del z, part
    gc.collect()
    z = torch.from_numpy(memory)
    z.fill_(3)
    for part in (z, z[:1024], z):
        copy(tw.partition(other[: len(part)], 1024), part).sync()
        assert other[0] == 3
