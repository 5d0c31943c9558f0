"""torch tensors that change in place between launches: their handles are looked at every time."""

from __future__ import annotations

import pytest
from tilewright.runtime.interop.passed_arrays import passed_before

from tilewright.errors import LaunchError
from tilewright.runtime.interop import passed_arrays, torch_tensors
from tilewright.runtime.interop.array import find_form
from tilewright.runtime.interop.imports import adopted

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


@pytest.fixture(params=[True, False], ids=["asked at once", "asked one by one"])
def way_to_ask(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(torch_tensors, "_guards", lambda: None)
    passed_arrays.PASSED.clear()
    monkeypatch.setattr(passed_arrays._latest, "known", (None, None, None, None))
    for find in (torch_tensors.find_torch_form, find_form):  # forms have guards
        find.cache_clear()


def handle_of(tensor):
    handle = adopted(tensor)
    for _ in range(5):
        assert passed_before(tensor) is handle
    return handle


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_tensor_is_not_taken_for_what_it_was(way_to_ask, change):
    tensor = torch.arange(24.0).reshape(4, 6)
    before = handle_of(tensor)
    place = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
    CHANGES[change](tensor)
    if place == (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype):
        pytest.skip("the allocator has made room without moving it")
    assert passed_before(tensor) is None
    after = adopted(tensor)
    assert after is not before
    assert (after.address, after.shape) == (tensor.data_ptr(), tuple(tensor.shape))
    assert after.strides == tensor.stride()


def test_contents_and_grad_change_nothing(way_to_ask):
    tensor = torch.arange(24.0).reshape(4, 6)
    handle = handle_of(tensor)
    tensor.add_(1)
    assert passed_before(tensor) is handle
    tensor.requires_grad_()
    assert passed_before(tensor) is handle
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert passed_before(tensor) is handle
    assert passed_before(tensor[:]) is None


def test_a_guard_is_asked_as_soon_as_there_is_one():
    tensor = torch.zeros(7, 11)
    handle = handle_of(tensor)
    guard = passed_arrays.PASSED[id(tensor)][3]
    assert guard is handle.storage.origin.form.guard is not None
    assert guard(tensor)
    assert not guard(torch.zeros(11, 7))


def test_a_negation_is_not_taken_for_what_it_negates(way_to_ask):
    tensor = torch.arange(24.0).reshape(4, 6)
    handle_of(tensor)
    tensor.data = torch._neg_view(tensor.detach())
    assert tensor.is_neg()
    assert passed_before(tensor) is None
    with pytest.raises(LaunchError, match="is a negation that torch has not computed"):
        adopted(tensor)


def test_made_and_used_in_any_mode(way_to_ask):
    with torch.inference_mode():
        tensor = torch.zeros(4, 6)
        handle = handle_of(tensor)
    assert passed_before(tensor) is handle
    assert passed_before(torch.zeros(4, 6)) is None


@pytest.mark.parametrize(
    "blind", ["strides", "dtype", "device", "negation", "layout", "everything"]
)
def test_a_guard_that_sees_too_little_is_not_used(monkeypatch, blind):
    """It is another library's own, so it is tried before it is trusted."""

    class Blind:
        def __init__(self, tensor, **_):
            self.shape, self.strides, self.dtype = tensor.shape, tensor.stride(), tensor.dtype
            self.device = tensor.device

        def check(self, tensor):
            return blind == "everything" or (
                tensor.shape == self.shape
                and (blind == "device" or tensor.device == self.device)
                and (blind == "negation" or not tensor.is_neg())
                and (blind == "layout" or tensor.layout is torch.strided)
                and (tensor.layout is not torch.strided or self._has_strides(tensor))
                and (blind == "dtype" or tensor.dtype is self.dtype)
            )

        def _has_strides(self, tensor):
            return blind == "strides" or tensor.stride() == self.strides

    torch_tensors._guards.cache_clear()
    monkeypatch.setattr(torch._C._dynamo.guards, "TensorGuards", Blind)
    try:
        assert torch_tensors.find_guard(torch.zeros(3)) is None
    finally:
        torch_tensors._guards.cache_clear()
