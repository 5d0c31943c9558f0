"""torch tensors whose memory becomes smaller than they say, on a GPU on paper.

The first call of a kernel is cold, the second planned, the third with the same tensors bound. In
each the memory is made smaller between build and submission, at the very address where it was, so
that nothing but its size can tell.
"""

from __future__ import annotations

import pytest
from refusing import refuse
from torch_doubles import SIZE, way

import tilewright as tw

torch = pytest.importorskip("torch", reason="needs torch")

pytestmark = pytest.mark.skipif(
    not hasattr(torch.UntypedStorage, "_swap_data_ptr_"),
    reason="this torch cannot exchange the memory of a storage",
)

NEEDED, LEFT = 4 * SIZE, 8


class Shrunk:
    """A tensor's storage with fewer bytes at the same address; the rest is kept from others."""

    def __init__(self, tensor):
        storage = tensor.untyped_storage()
        self.storage, self.whole = storage, torch.UntypedStorage(0)
        place = storage.data_ptr()
        self.whole._swap_data_ptr_(storage)
        self.part = torch._C._construct_storage_from_data_pointer(place, tensor.device, LEFT)
        storage._swap_data_ptr_(self.part)
        assert (tensor.data_ptr(), storage.nbytes()) == (place, LEFT)

    def grow(self):
        torch.UntypedStorage(0)._swap_data_ptr_(self.storage)
        self.storage._swap_data_ptr_(self.whole)


def resized(error=tw.BorrowError):
    text = f"reaches over {NEEDED} bytes of its storage, which has {LEFT}: the storage was resized"
    return refuse(text, error)


def build(lib, kind):
    """An operation that is built in one of the ways, and its tensors."""
    if kind == "cold":
        tensors = lib.trio()
    elif kind == "bound":
        tensors = lib.bound()
    else:
        lib.bound()
        tensors = lib.trio()
    operation = lib.launch(*tensors)
    assert way(operation) == kind
    return operation, tensors


WAYS = ["cold", "plan", "bound"]


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("kind", WAYS)
def test_memory_that_shrinks_before_the_submission(lib, kind, which):
    operation, tensors = build(lib, kind)
    versions = [one._version for one in tensors]
    Shrunk(tensors[which])
    with resized():
        operation.submit()
    assert lib.order() == []
    assert [one._version for one in tensors] == versions


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("kind", WAYS)
def test_memory_that_is_too_small_when_it_is_passed(lib, kind, which):
    operation, tensors = build(lib, kind)
    operation.close()
    lib.driver.log.clear()
    Shrunk(tensors[which])
    for _ in range(2):
        with resized((tw.BorrowError, tw.LaunchError)):
            lib.launch(*tensors).submit()
    assert lib.order() == []


def test_memory_that_is_whole_again(lib):
    operation, tensors = build(lib, "bound")
    operation.close()
    shrunk = Shrunk(tensors[1])
    with resized():
        lib.launch(*tensors).submit()
    shrunk.grow()
    lib.launch(*tensors).submit()
    lib.finish()
    assert tensors[0].tolist() == [7.0] * SIZE


@pytest.mark.parametrize("which", [0, 1])
def test_a_tensor_given_other_memory_at_the_place_that_it_left(lib, which):
    """The tensor begins where it did, and its old storage is whole again, elsewhere."""
    operation, tensors = build(lib, "bound")
    tensor = tensors[which]
    old = tensor.untyped_storage()
    shrunk = Shrunk(tensor)
    smaller = torch.UntypedStorage(0)
    smaller._swap_data_ptr_(old)
    old.resize_(NEEDED)
    tensor.set_(smaller, 0, (LEFT // 4,), (1,))
    assert tensor.data_ptr() == shrunk.whole.data_ptr()
    with resized():
        operation.submit()
    assert lib.order() == []


@pytest.mark.parametrize("which", [0, 1, 2])
def test_memory_that_shrinks_under_a_graph(lib, which):
    tensors = lib.trio()
    with tw.graph() as graph:
        graph.record(lib.launch(*tensors))
    graph.launch().submit()
    lib.finish()
    shrunk = Shrunk(tensors[which])
    lib.driver.log.clear()
    with resized():
        graph.launch().submit()
    assert lib.driver.calls("launch_graph") == []
    shrunk.grow()
    graph.launch().submit()
    lib.finish()
    assert tensors[0].tolist() == [7.0] * SIZE


def test_a_view_needs_what_lies_in_front_of_it(lib):
    _, x, y = lib.bound()
    whole = torch.zeros(2 * SIZE)
    operation = lib.launch(whole[SIZE:], x, y)
    shrunk = Shrunk(whole)
    needed = 2 * NEEDED
    with pytest.raises(tw.BorrowError, match=f"reaches over {needed} bytes of its storage, which"):
        operation.submit()
    shrunk.grow()
    lib.launch(whole[SIZE:], x, y).submit()
    lib.finish()
    assert whole.tolist() == [0.0] * SIZE + [7.0] * SIZE


def test_an_empty_tensor_needs_no_memory(lib):
    empty = torch.zeros(SIZE)
    empty.untyped_storage().resize_(0)
    handle = tw.from_dlpack(empty[SIZE:])
    assert handle.shape == (0,)
    with pytest.raises(tw.LaunchError, match="reaches over 64 bytes of its storage, which has 0"):
        tw.from_dlpack(empty)
