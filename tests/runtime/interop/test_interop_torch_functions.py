"""Functions of torch are looked for once, when a launch first calls them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tilewright.runtime.interop import torch_tensors


@pytest.fixture
def torch(monkeypatch):
    """A torch that has nothing inside."""
    made = SimpleNamespace()
    monkeypatch.setattr(torch_tensors, "find_torch", lambda: made)
    return made


def test_the_number_of_a_stream_is_asked_of_what_makes_no_object(torch):
    torch._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: 100 + ordinal)
    functions = torch_tensors._Torch()
    assert functions.current_number(2) == 102


def test_or_of_the_stream_itself(torch):
    stream = SimpleNamespace(cuda_stream=7)
    torch.cuda = SimpleNamespace(current_stream=lambda ordinal: [None, stream][ordinal])
    functions = torch_tensors._Torch()
    assert [functions.current_number(1) for _ in range(2)] == [7, 7]


def test_versions_are_raised_all_at_once(torch):
    raised = []
    torch._C = SimpleNamespace(_increment_version=raised.append)
    functions = torch_tensors._Torch()
    functions.raise_versions(("a", "b"))
    functions.raise_versions(("c",))
    assert raised == [(), ("a", "b"), ("c",)]


def _refuse_several(tensors):
    if isinstance(tensors, tuple):
        raise TypeError("a tensor is expected")


@pytest.mark.parametrize("inside", [None, SimpleNamespace(_increment_version=_refuse_several)])
def test_or_one_by_one(torch, inside):
    raised = []
    torch._C = inside
    torch.autograd = SimpleNamespace(graph=SimpleNamespace(increment_version=raised.append))
    functions = torch_tensors._Torch()
    functions.raise_versions(("a", "b"))
    functions.raise_versions(("c",))
    assert raised == ["a", "b", "c"]
