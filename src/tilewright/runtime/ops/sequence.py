"""Sequences: launches that are known beforehand, one behind the other on one stream.

A sequence stands for a chain and holds what that does until it is submitted: the tensors of its
first step. It is submitted in one critical section, in which it holds all of its tensors; its
launches are single operations that hold nothing themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.call_site import CallSite, user_frame
from tilewright.runtime.ops.launch import LaunchOp
from tilewright.runtime.ops.lifecycle import Ends, State
from tilewright.runtime.ops.single import SingleOp
from tilewright.runtime.ops.work import LaunchWork
from tilewright.runtime.order.access import Handle
from tilewright.runtime.order.borrow import Borrow, Role
from tilewright.runtime.order.critical import critical
from tilewright.runtime.order.insisting import insist

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

    __slots__ = ("_borrow", "_ends", "_held", "_launches", "_site")

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    else:
        __init__ = object.__init__  # `build` sets everything

    _borrow: Borrow
    _launches: tuple[LaunchOp[Any], ...]
    _held: int  # launches of the first step
    _ends: Ends
    _site: CallSite

    def build(
        self, launches: tuple[Launch, ...], held: int, result: Any, depth: int
    ) -> SequenceOp[Any]:
        """Hold the tensors of the first launches, for a call that is so many calls up."""
        first = launches[0].work
        device = first.device
        self._state = State.CLOSED
        self.label, self.device = first.label, device
        self._chosen = self._outcome = None
        self._result = result
        self._count = 0
        self._held = held
        self._ends = Ends()
        frame = user_frame(depth)
        self._site = site = CallSite(frame.f_code, frame.f_lasti)
        self._launches = made = tuple([LaunchOp().build_part(*one, site) for one in launches])
        self._borrow = borrow = self._borrow_of(made[:held])
        with device.lock:
            device.check_open()
            device.settle_deferred()
            try:
                critical(device, self.label, self._hold, borrow, made[:held])
                self._state = State.BUILT
            except BaseException:
                borrow.release()
                raise
        return self

    def _borrow_of(self, launches: tuple[LaunchOp[Any], ...]) -> Borrow:
        """One borrow for some launches."""
        parts = [one.borrow for one in launches]
        roles = tuple([role for part in parts for role in part.work.roles])
        tensors = tuple([tensor for part in parts for tensor in part.tensors])
        uses = tuple([use for part in parts for use in part.uses])
        return Borrow.of(_Borrowing(self.label, roles), tensors, uses, self._site)

    def _hold(self, borrow: Borrow, launches: tuple[LaunchOp[Any], ...]) -> None:
        for one in launches:
            one.check_written()
        borrow.acquire(self.device)

    def _hold_all(self) -> None:
        """Hold the tensors of later launches as well, before the first one is put on a stream."""
        launches = self._launches
        if len(launches) > self._held:
            whole = self._borrow_of(launches)
            self._borrow.release()
            self._borrow = whole
            self._hold(whole, launches[self._held :])

    @property
    def site(self) -> CallSite:
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
        return (storage for one in self._launches for storage in one.storages())

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
        self._hold_all()
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
            self.device.deferred.append(_DroppedSequence(self._borrow))
            self.warn_if_never_run()


class _DroppedSequence(NamedTuple):
    """A built sequence that was dropped."""

    borrow: Borrow
    may_be_repeated: bool = True

    def settle(self) -> None:
        """Give its borrow back."""
        self.borrow.release()
        self.borrow.forget()


def build_sequence(
    launches: tuple[Launch, ...], held: int, result: Any, depth: int
) -> SequenceOp[Any]:
    """An operation for several launches, for a call that is so many calls up.

    So many of them are its first step, whose tensors it holds until it is submitted.
    """
    return SequenceOp().build(launches, held, result, depth + 1)
