"""torch tensors that launches get: one wrapper for each place, whichever tensor lies there.

To look at a tensor costs about as much as a launch, so a wrapper, a handle and its timeline, is
found by address, dtype, shape and strides. It keeps no tensor: an operation keeps those that it was
given until it is submitted, and looks at them again then. Memory that comes back from torch's
allocator finds the wrapper of the tensor before, and with it the launches that were bound to it.
"""

from __future__ import annotations

import atexit
from typing import Any

from tilewright.errors import InternalError
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop.array import find_place
from tilewright.runtime.interop.foreign import MOVED, ForeignStorage
from tilewright.runtime.interop.ranges import RANGES, Group
from tilewright.runtime.interop.torch_functions import TORCH
from tilewright.runtime.interop.torch_tensors import (
    TorchLibrary,
    find_memory,
    hand_back,
    is_torchs_own,
    locate,
    why_not_written,
    why_too_small,
)
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.order.critical import critical

__all__ = ["WRAPPERS", "PassedStorage", "wrap", "wrapped"]

_MANY = 16384  # wrappers; with more, all are forgotten
_TORCH = TorchLibrary(None)
# By address, dtype, shape and strides, as torch has them.
WRAPPERS: dict[tuple[Any, ...], Tensor] = {}
_kinds: set[type] = set()  # of tensors that have wrappers
atexit.register(WRAPPERS.clear)  # modules are taken apart later, and finalisers need them


class PassedStorage(ForeignStorage):
    """The memory at a place, for whichever tensor lies there in a launch."""

    __slots__ = ()

    is_counted = False  # it keeps no array
    producer: TorchLibrary

    def check_there(self, array: Any = None) -> None:
        """Refuse a tensor that was moved or shrunk since the operation was built."""
        if array is None:
            raise InternalError("a wrapper is used without its tensor")
        if array.data_ptr() != self.first:
            raise self.refusal(MOVED)
        form = self.origin.form
        needed = array.storage_offset() * form.itemsize + form.reach
        if array.untyped_storage().nbytes() < needed and form.reach:
            reason = why_too_small(array, self.first, self.origin.template.region.high)
            raise self.refusal(reason or MOVED)

    def why_not_written(self, array: Any = None) -> str | None:
        """The reason of the tensor."""
        return why_not_written(array)

    def note_write(self, array: Any = None) -> None:
        """Raise the version of the tensor."""
        if not array.is_inference():
            TORCH.raise_versions((array,))

    def keep(self, array: Any, stream: Stream, theirs: Stream | None) -> None:
        """Keep the memory from others until a stream is done with it.

        torch orders memory by its own streams, so on the current one there is nothing to do.
        """
        if stream is theirs:
            return
        if theirs is None or not hand_back(array, (stream,)):
            stream.keep(array, self.nbytes)

    def __del__(self) -> None:
        # No lock and no driver here: the collector may run this anywhere.
        group = getattr(self, "timeline", None)
        if isinstance(group, Group):
            self.device.deferred.append(_Forgotten(group))


class _Forgotten:
    """Deferred work: a range whose wrapper was forgotten."""

    __slots__ = ("group",)

    may_be_repeated = True

    def __init__(self, group: Group) -> None:
        self.group = group

    def settle(self) -> None:
        """Take the range out of the table, if nothing uses it."""
        last = self.group.last()
        if isinstance(last, Group):
            RANGES.end(last)


def wrapped(array: Any) -> Tensor | None:
    """The wrapper of a tensor, for a launch; None if it is none of torch's own."""
    kind = array.__class__
    if kind not in _kinds:
        if not is_torchs_own(kind):
            return None
        _kinds.add(kind)
    return wrap(array)


def wrap(array: Any) -> Tensor:
    """The wrapper of a torch tensor."""
    try:
        key = array.data_ptr(), array.dtype, array.shape, array.stride()
    except RuntimeError:  # a tensor without memory, or that is not strided: `locate` says so
        return _make(array, None)
    found = WRAPPERS.get(key)
    if found is None or array.is_neg():
        return _make(array, key)
    group = found.storage.timeline
    if group.__class__ is Group and group.table is None:
        storage: Any = found.storage
        critical(found.device, "passing an array", storage.join_group)
    return found


def _make(array: Any, key: tuple[Any, ...] | None) -> Tensor:
    device, form, address = locate(array)
    find_memory(array, form)
    place = find_place(_TORCH, device, form, address)
    storage = critical(device, "passing an array", PassedStorage, device, _TORCH, place, address)
    made = Tensor(storage, form.dtype, place.layout, place.template)
    if key is not None:
        if len(WRAPPERS) >= _MANY:
            WRAPPERS.clear()
        WRAPPERS[key] = made
    return made
