"""Tensors that were made for launches and that nobody has any more, for the next launch like them.

An output that is made for every call of a function costs two calls of the driver, and objects that
are made and dropped. So a stream keeps the last few it has seen, by what they are like, and hands
one out again when nobody else has it: no handle, no view, no operation, no graph, no export. Python
counts references, so that is a question of two numbers, and whatever we do not know of counts as
somebody who has it. The tensor then is what one would be that the driver had given the same memory:
its last use was on this stream, which is its home, so the next one here comes behind it.

What is kept is bounded, and goes back to its pool when there is too little memory, when somebody
asks how much is in use, and when a pool is trimmed. Only streams that run what is put on them, with
nobody recording it, keep anything.
"""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING
from weakref import getweakrefcount

from tilewright.runtime.facets import Facet
from tilewright.runtime.moulds import Mould
from tilewright.runtime.tensor import Tensor, cast_tensor

if TYPE_CHECKING:
    from tilewright.runtime.pool import Pool
    from tilewright.runtime.stream import Stream

__all__ = ["Spares", "have_tensor"]

_ALIKE = 8  # tensors that are kept of one shape
_SHAPES = 128
_BYTES = 256 << 20  # of all that is kept
_LARGEST = 32 << 20  # to use so many bytes takes much longer than to get them


def _count_alone() -> int:
    """What Python counts for an object that a variable alone has."""
    probe = object()
    return getrefcount(probe)


_ALONE = _count_alone()
_ALONE_BUT_ONE = _ALONE + 1  # and one other object


class _Shelf(list[Tensor]):
    """Tensors that are alike."""

    __slots__ = ("nbytes",)

    nbytes: int  # of each


class Spares:
    """What one stream keeps. Everything happens under the device's lock."""

    __slots__ = ("shelves",)

    def __init__(self) -> None:
        self.shelves: dict[Facet, _Shelf] = {}

    def put(self, tensor: Tensor) -> None:
        """Keep a tensor that is being made, in place of the one that is kept for longest."""
        shelf = self.shelves.get(tensor.facet)
        if shelf is None:
            shelf = self.shelves[tensor.facet] = _Shelf()
            shelf.nbytes = tensor.nbytes
        shelf.append(tensor)
        if len(shelf) > _ALIKE:
            del shelf[0]
            return
        while len(self.shelves) > _SHAPES or self._nbytes > _BYTES:
            del self.shelves[next(iter(self.shelves))]  # the one that was begun first

    def take(self, facet: Facet, stream: Stream, pool: Pool) -> Tensor | None:
        """One that nobody has any more; the first, so that calls in a loop find theirs again."""
        shelf = self.shelves.get(facet)
        if shelf is None:
            return None
        for number in range(len(shelf)):  # to enumerate them would count as one that has it
            tensor = shelf[number]
            if getrefcount(tensor) == _ALONE_BUT_ONE and not getweakrefcount(tensor):
                is_moved = type(tensor) is not Tensor
                if not is_moved:
                    storage = tensor.storage
                    is_alone = getrefcount(storage) == _ALONE_BUT_ONE or _has_but_its_parts(tensor)
                    if not is_alone or storage.borrows:
                        continue  # somebody has a view
                    if storage.home is stream and storage.pool is pool:
                        return tensor
                del shelf[number]  # it is not to be had here any more
                break
        return None

    @property
    def _nbytes(self) -> int:
        return sum(len(shelf) * shelf.nbytes for shelf in self.shelves.values())


def have_tensor(mould: Mould) -> Tensor:
    """A tensor for a launch to write: one that nobody has any more, or else a new one."""
    device = mould.device
    stream = device.stream if device.current.said else device.default
    if stream is None or not stream.is_plain or not stream.may_be_home:
        return cast_tensor(mould)
    pool, lock = device.pool, device.lock
    lock.acquire()  # costs a third of `with`
    try:
        spares = stream.spares
        found = None if spares is None else spares.take(mould.look.facet, stream, pool)
    finally:
        lock.release()
    return _made(mould, stream) if found is None else found


def _has_but_its_parts(tensor: Tensor) -> bool:
    """Whether nobody but whoever asks has its memory, but for parts of it that nobody else has."""
    storage, parts = tensor.storage, tensor.parts
    for part in parts.values():
        if type(part) is not Tensor or part.parts or getweakrefcount(part):
            return False
        if getrefcount(part) != _ALONE_BUT_ONE:
            return False
    return bool(parts) and getrefcount(storage) == _ALONE_BUT_ONE + 1 + len(parts)


def _made(mould: Mould, stream: Stream) -> Tensor:
    """A new one, which is kept from now on."""
    tensor = cast_tensor(mould)
    if mould.nbytes <= _LARGEST:
        with mould.device.lock:
            if stream.spares is None:
                stream.spares = Spares()
            stream.spares.put(tensor)
    return tensor
