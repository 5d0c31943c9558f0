"""Sequences: launches that are known beforehand, one behind the other on one stream.

A sequence holds one borrow for all of its tensors and is submitted as one critical section; its
launches are single operations that hold nothing themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.call_site import Site, user_frame
from tilewright.runtime.ops.launch import LaunchOp
from tilewright.runtime.ops.lifecycle import Ends, State
from tilewright.runtime.ops.single import SingleOp
from tilewright.runtime.ops.work import LaunchWork
from tilewright.runtime.order.access import Handle
from tilewright.runtime.order.borrow import Borrow, Role, uses_of
from tilewright.runtime.order.critical import critical
from tilewright.runtime.order.insisting import insist
from tilewright.runtime.order.timeline import Use

__all__ = ["Launch", "SequenceOp", "build_sequence"]

T = TypeVar("T")


class Launch(NamedTuple):
    """One launch of a sequence."""

    work: LaunchWork
    tensors: tuple[Handle, ...]
    arrays: tuple[Any, ...]  # torch tensors that wrappers stand for


class _Borrowing(NamedTuple):
    """All launches of a sequence, as one borrow describes them."""

    label: str
    roles: tuple[Role, ...]


class SequenceOp(SingleOp[T]):
    """Several launches: made by `build_sequence`."""

    __slots__ = ("_borrow", "_ends", "_launches", "_site")

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    else:
        __init__ = object.__init__  # `build` sets everything

    _borrow: Borrow
    _launches: tuple[LaunchOp[Any], ...]
    _ends: Ends
    _site: Site

    def build(self, launches: tuple[Launch, ...], result: Any, depth: int) -> SequenceOp[Any]:
        """Hold the tensors of all launches, for a call that is so many calls up, or further."""
        first = launches[0].work
        device = first.device
        self._state = State.CLOSED
        self.label, self.device = first.label, device
        self._chosen = self._outcome = None
        self._result = result
        self._count = 0
        self._ends = Ends()
        frame = user_frame(depth)
        self._site = site = Site(frame.f_code, frame.f_lasti)
        made: list[LaunchOp[Any]] = []
        uses: list[Use] = []
        tensors: list[Handle] = []
        roles: list[Role] = []
        for work, some, arrays in launches:
            its_uses = uses_of(some, work.roles)
            made.append(LaunchOp().build_part(work, some, its_uses, arrays, site))
            uses += its_uses
            tensors += some
            roles += work.roles
        self._launches = tuple(made)
        work_of_all = _Borrowing(first.label, tuple(roles))
        self._borrow = borrow = Borrow.of(work_of_all, tuple(tensors), tuple(uses), site)
        with device.lock:
            device.check_open()
            device.settle_deferred()
            try:
                critical(device, self.label, borrow.acquire, device)
                self._state = State.BUILT
            except BaseException:
                borrow.release()
                raise
        return self

    @property
    def site(self) -> Site:
        """Where it was built."""
        return self._site

    @property
    def ends(self) -> Ends:
        """Where its launches end."""
        return self._ends

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The programs that its launches run."""
        return tuple(program for one in self._launches for program in one.programs)

    def storages(self) -> Iterable[Storage]:
        """The memory of all its tensors."""
        return (tensor.storage for tensor in self._borrow.tensors)

    def compile(self) -> Self:
        """Nothing: that was done before."""
        return self

    def choose_stream(self, stream: Stream | None) -> Stream:
        """The stream to use: by default that of the library whose arrays these are."""
        self.check_built()
        return super().choose_stream(stream)

    def prepare(self, stream: Stream) -> None:
        """Give tensors their bytes and first contents."""
        for one in self._launches:
            one.prepare(stream)

    def put(self, stream: Stream) -> None:
        """Put all launches on a stream."""
        try:
            for one in self._launches:
                one.put(stream)
            self._end()
        except BaseException as error:
            insist(partial(self._end_interrupted, stream, error))
            raise

    def _end(self) -> None:
        """End where the launches end."""
        for one in self._launches:
            fence = one.fence
            if fence is not None:
                self._ends.add(fence)
                self._stream, self._count = fence.stream, fence.count

    def _end_interrupted(self, stream: Stream, error: BaseException) -> None:
        """Record launches that an exception has interrupted: one that has begun fails as a whole.

        All of them count if the last one does, as for a single launch.
        """
        launches = self._launches
        if launches[-1].fence is not None:
            self._end()
        elif any(one.is_begun for one in launches):
            for one in launches:
                one.refuse(stream, error)

    def give_back(self) -> None:
        """Give the borrow back. The device's lock is held."""
        self._borrow.release()
        self._borrow.forget()
        for one in self._launches:
            one.give_back()
        self._launches = ()

    def last_fences(self) -> tuple[Any, ...]:
        """The fences behind which nothing of it is left."""
        return tuple(self._ends.fences.values())

    def put_part(self, stream: Stream, ends: Ends) -> T:
        """Put the launches on a stream as part of another operation."""
        result = super().put_part(stream, ends)
        ends.include(self._ends)
        return result

    def __del__(self) -> None:
        # No lock here: the collector may run this anywhere.
        if getattr(self, "_state", None) in (State.BUILT, State.TAKEN):
            self.device.deferred.append(_Dropped(self._borrow))
            self.warn_if_never_run()


class _Dropped(NamedTuple):
    """A built sequence that was dropped."""

    borrow: Borrow
    may_be_repeated: bool = True

    def settle(self) -> None:
        """Give its borrow back."""
        self.borrow.release()
        self.borrow.forget()


def build_sequence(launches: tuple[Launch, ...], result: Any, depth: int) -> SequenceOp[Any]:
    """An operation for several launches, for a call that is so many calls up."""
    return SequenceOp().build(launches, result, depth + 1)
