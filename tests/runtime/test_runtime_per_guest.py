"""What a launch asks of arrays of other libraries, one question at a time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tilewright.runtime.devices.device import LEGACY_STREAM
from tilewright.runtime.interop import torch_functions
from tilewright.runtime.interop.foreign import Producer
from tilewright.runtime.ops.per_guest import find_guests

STREAM, ADDRESS = 0x700, 0x1000


class Array:
    """A tensor of torch's."""

    def __init__(self, address=ADDRESS, *, requires_grad=False):
        self.address, self.requires_grad = address, requires_grad

    def data_ptr(self):
        return self.address


class Passed:
    """Gives the array, as long as it is there."""

    needed = 64

    def __init__(self, array, written=("alias",), *, kept=None, nbytes=64):
        self.given, self.written = array, written
        self.array = Array() if kept is None else kept
        self.memory = SimpleNamespace(nbytes=lambda: nbytes)
        self.noted = 0

    def __call__(self):
        return self.given

    def note_write(self):
        self.noted += 1


def a_tensor(producer, first=ADDRESS):
    return SimpleNamespace(storage=SimpleNamespace(producer=producer, first=first))


OURS = SimpleNamespace(storage=SimpleNamespace())  # is not asked anything


def a_stream(*, number=STREAM, is_plain=True, is_capturing=False):
    queue = SimpleNamespace(number=number, is_capturing=lambda: is_capturing)
    return SimpleNamespace(queue=queue, is_plain=is_plain)


@pytest.fixture
def raised(monkeypatch):
    """A torch that works on one stream; the versions that were raised."""
    versions = []
    monkeypatch.setattr(torch_functions.TORCH, "current_number", lambda ordinal: STREAM + ordinal)
    monkeypatch.setattr(torch_functions.TORCH, "raise_versions", versions.append)
    return versions


GUESTS = find_guests((0, 2), (0,))
DEVICE = SimpleNamespace(ordinal=0)


def follows(first, second, stream=None, device=DEVICE):
    return GUESTS.may_follow(stream or a_stream(), device, (first, OURS, second))


def test_none_of_them_is_none():
    assert find_guests((), ()) is None


def test_all_is_as_it_was(raised):
    assert follows(a_tensor(Passed(Array())), a_tensor(Passed(Array(), ("read",))))
    assert raised == [("alias",)]


@pytest.mark.parametrize("written", [(), None], ids=["of inference", "for the first time"])
def test_a_version_that_is_not_known(raised, written):
    z = Passed(Array(), written)
    assert follows(a_tensor(z), a_tensor(Passed(Array())))
    assert (raised, z.noted) == ([], 1)


MOVED = {
    "moved": lambda: Passed(Array(ADDRESS + 64)),
    "gone": lambda: Passed(None),
    "in other memory": lambda: Passed(Array(), kept=Array(ADDRESS + 64)),
    "shrunk": lambda: Passed(Array(), nbytes=63),
    "of another library": lambda: Producer(None),
}


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("how", MOVED)
def test_an_array_that_is_not_there(raised, how, at):
    tensors = [a_tensor(Passed(Array())), a_tensor(Passed(Array()))]
    tensors[at] = a_tensor(MOVED[how]())
    assert not follows(*tensors)
    assert raised == []


def test_an_empty_array_of_another_library_is_nowhere(raised):
    assert not follows(a_tensor(Passed(Array())), a_tensor(Producer(None), first=0))


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (a_stream(), True),
        (a_stream(number=STREAM + 1), False),
        (a_stream(is_plain=False), True),
        (a_stream(is_plain=False, is_capturing=True), False),
    ],
    ids=["the current one", "another one", "that may be recorded", "that is"],
)
def test_the_stream(raised, stream, expected):
    tensors = a_tensor(Passed(Array())), a_tensor(Passed(Array()))
    assert follows(*tensors, stream) is expected
    assert len(raised) == expected


def test_the_stream_is_that_of_the_device(raised):
    tensors = a_tensor(Passed(Array())), a_tensor(Passed(Array()))
    second = SimpleNamespace(ordinal=1)
    assert not follows(*tensors, a_stream(), second)
    assert follows(*tensors, a_stream(number=STREAM + 1), second)


def test_the_default_stream_has_a_number_of_its_own(raised, monkeypatch):
    monkeypatch.setattr(torch_functions.TORCH, "current_number", lambda _: 0)
    tensors = a_tensor(Passed(Array())), a_tensor(Passed(Array()))
    assert follows(*tensors, a_stream(number=LEGACY_STREAM))


@pytest.mark.parametrize(
    ("producer", "expected"),
    [
        (Passed(Array()), True),
        (Passed(Array(requires_grad=True)), False),
        (Passed(None), False),
        (Producer(None), False),
    ],
    ids=["a plain one", "with grad", "gone", "of another library"],
)
def test_what_may_be_written(producer, expected):
    read = a_tensor(Passed(Array(requires_grad=True)))
    assert GUESTS.may_write((a_tensor(producer), OURS, read)) is expected


def test_nothing_that_is_written_may_be():
    assert find_guests((0,), ()).may_write((a_tensor(Passed(None)),))
