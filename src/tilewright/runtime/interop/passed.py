"""torch tensors passed to launches: one cached wrapper per place, for every tensor there.

Reading a tensor's attributes costs about as much as a launch, so a wrapper (a handle with its
timeline) is found by address, dtype, shape and strides. It keeps no tensor: an operation keeps its
tensors until it is submitted, and checks them again then. After that torch's allocator keeps the
memory from reuse, or the stream keeps the tensor. Memory that the allocator reuses hits the wrapper
of the earlier tensor, and with it the launches bound to it.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from tilewright.errors import InternalError, LaunchError
from tilewright.native import in_c, know_objects, slots_in_c
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop.array import find_place
from tilewright.runtime.interop.foreign import MOVED, RANGES, ArrayPlace, ForeignStorage, Group
from tilewright.runtime.interop.torch_tensors import (
    TORCH,
    TorchLibrary,
    find_memory,
    hand_back,
    is_torchs_own,
    locate,
    why_not_written,
    why_too_small,
)
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.ops.work import LaunchWork
from tilewright.runtime.order.critical import critical
from tilewright.runtime.order.timeline import Timeline

__all__ = ["LAYOUTS", "WRAPPERS", "PassedStorage", "find_wrapper", "wrapped"]

_MANY = 16384  # wrappers; a full table is cleared
_TORCH = TorchLibrary(None)
# Keyed by address, dtype, shape and strides, as torch has them, and whether the tensor is on a GPU,
# whose addresses may equal the host's.
WRAPPERS: dict[tuple[Any, ...], Tensor] = {}
# The same wrappers, keyed by the layout that DLPack gives. C alone reads and fills this table.
LAYOUTS: dict[bytes, Tensor] = {}
_kinds: set[type] = set()  # types of tensors that have wrappers


@slots_in_c
class PassedStorage(ForeignStorage):
    """The memory at a place, for every tensor that is passed there."""

    __slots__ = ("itemsize", "memory", "reach", "told")

    is_counted = False  # it keeps no array
    producer: TorchLibrary
    memory: ref[Any]  # torch's storage of the last tensor kept here
    told: Stream | None  # stream that the allocator was last told of

    def __init__(self, device: Device, place: ArrayPlace, first: int, memory: Any) -> None:
        super().__init__(device, _TORCH, place, first)
        self.memory, self.told = ref(memory), None
        self.itemsize, self.reach = place.form.itemsize, place.form.reach

    @property
    def has_memory(self) -> bool:
        """Whether torch's storage of the last tensor here still exists."""
        return self.memory() is not None

    def find_timeline(self) -> Timeline:
        """The timeline of the range, without failures of tensors that are gone."""
        group = self.timeline
        if group.stream is None and isinstance(group, Group) and not self.has_memory:
            RANGES.end(group)
        return super().find_timeline()

    def check_there(self, array: Any = None) -> None:
        """Refuse a tensor that was moved or shrunk since the operation was built."""
        if array is None:
            raise InternalError("a wrapper is used without its tensor")
        if array.data_ptr() != self.first:
            raise self.refusal(MOVED)
        needed = array.storage_offset() * self.itemsize + self.reach
        if array.untyped_storage().nbytes() < needed and self.reach:
            reason = why_too_small(array, self.first, self.origin.template.region.high)
            raise self.refusal(reason or MOVED)

    def why_not_written(self, array: Any = None) -> str | None:
        """The tensor's reason; a place without a tensor has none."""
        return None if array is None else why_not_written(array)

    def note_write(self, array: Any = None) -> None:
        """Raise the version of the tensor."""
        if not array.is_inference():
            TORCH.raise_versions((array,))

    def kept(self, array: Any) -> ForeignStorage:
        """The same memory, as a storage that keeps its tensor. Called in a critical section."""
        return ForeignStorage(self.device, TorchLibrary(array), self.origin, self.first)

    def keep(self, array: Any, stream: Stream) -> None:
        """Keep the memory from reuse until the work on a stream has completed.

        torch's allocator orders memory by the stream of its allocation, which need not be the
        current one; it is told of a stream once per storage of torch.
        """
        memory = array.untyped_storage()
        is_same = self.memory() is memory
        if is_same and self.told is stream:
            return
        is_told = hand_back(array, (stream,))
        if not is_told:
            stream.keep(array, self.nbytes)
        self.told = stream if is_told else None
        if not is_same:
            self.memory = ref(memory)

    @staticmethod
    def take(
        tensors: tuple[Any, ...], arrays: tuple[Any, ...], work: LaunchWork, stream: Stream
    ) -> None:
        """Check and keep the tensors of a launch that are torch's, and raise written versions.

        As `check_there`, `keep` and `note_write` do for each, in one call.
        """
        for number in work.foreign:
            array, storage = arrays[number], tensors[number].storage
            memory = array.untyped_storage()
            needed = array.storage_offset() * storage.itemsize + storage.reach
            if array.data_ptr() != storage.first or memory.nbytes() < needed:
                storage.check_there(array)
            if storage.told is not stream or storage.memory() is not memory:
                storage.keep(array, stream)
        for number in work.written:
            if not arrays[number].is_inference():
                TORCH.raise_versions((arrays[number],))


@in_c("wrapped")
def wrapped(array: Any) -> Tensor | None:
    """The wrapper of a tensor, for a launch; None if its type is not one of torch's own."""
    kind = array.__class__
    if kind not in _kinds:
        if not is_torchs_own(kind):
            return None
        _kinds.add(kind)
    try:
        key = array.data_ptr(), array.dtype, array.shape, array.stride(), array.is_cuda
    except RuntimeError:  # a tensor without memory, or not strided: refused by `locate`
        return _make(array, None)
    found = WRAPPERS.get(key)
    return _make(array, key) if found is None or array.is_neg() else found


@in_c("find_wrapper")
def find_wrapper(array: Any) -> Tensor | None:
    """The wrapper of a tensor; None also for a refused tensor, which is refused by the cold path.

    A wrapper that exists is found without another call.
    """
    kind = array.__class__
    try:
        if kind in _kinds and not array.is_neg():
            found = WRAPPERS.get(
                (array.data_ptr(), array.dtype, array.shape, array.stride(), array.is_cuda)
            )
            if found is not None:
                return found
        return wrapped(array)
    except (LaunchError, RuntimeError):
        return None


def _make(array: Any, key: tuple[Any, ...] | None) -> Tensor:
    device, form, address = locate(array)
    memory, _ = find_memory(array, form)
    place = find_place(_TORCH, device, form, address)
    storage = critical(device, "passing an array", PassedStorage, device, place, address, memory)
    made = Tensor(storage, form.dtype, place.layout, place.template)
    if key is not None and not form.is_empty:  # an empty tensor may have any address, on any device
        if len(WRAPPERS) >= _MANY:
            _forget_all()
        WRAPPERS[key] = made
    return made


def _forget_all() -> None:
    """Drop all wrappers. Their ranges are dropped after the last use."""
    forgotten = list(WRAPPERS.values())
    WRAPPERS.clear()
    LAYOUTS.clear()
    for device in {wrapper.device for wrapper in forgotten}:
        groups = {one.storage.timeline for one in forgotten if one.device is device}
        critical(device, "passing an array", _remember_all, groups)


def _remember_all(groups: set[Timeline]) -> None:
    for group in groups:
        if isinstance(group, Group):
            RANGES.remember(group)


know_objects({"TORCH": TORCH, "passed": globals()})
