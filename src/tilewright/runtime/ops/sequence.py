"""Sequences: launches known beforehand, in order on one stream.

A sequence replaces a chain and holds the same tensors until it is submitted: those of its first
step. It is submitted in one critical section, in which it holds all of its tensors; its launches
are single operations without borrows of their own.
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
from tilewright.runtime.order.borrow import Borrow, BorrowedWork
from tilewright.runtime.order.critical import critical, insist
from tilewright.runtime.order.deferred import DeferredCall
from tilewright.runtime.order.timeline import Use

__all__ = ["Launch", "SequenceOp", "build_sequence"]

T = TypeVar("T")


class Launch(NamedTuple):
    """One launch of a sequence."""

    work: LaunchWork
    tensors: tuple[Handle, ...]
    uses: tuple[Use, ...]
    arrays: tuple[Any, ...]  # torch tensors behind wrappers


class SequenceOp(SingleOp[T]):
    """Several launches: made by `build_sequence`."""

    __slots__ = ("_borrow", "_ends", "_held", "_launches", "_site")

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    else:
        __init__ = object.__init__  # `build` sets all attributes

    _borrow: Borrow
    _launches: tuple[LaunchOp[Any], ...]
    _held: int  # number of launches in the first step
    _ends: Ends
    _site: CallSite

    def build(
        self, launches: tuple[Launch, ...], held: int, result: Any, depth: int
    ) -> SequenceOp[Any]:
        """Hold the tensors of the first launches, for the user's call `depth` frames up."""
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
        return Borrow.of(BorrowedWork(self.label, roles), tensors, uses, self._site)

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
        """The line that built it."""
        return self._site

    @property
    def ends(self) -> Ends:
        """The fences of its launches."""
        return self._ends

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The programs that its launches run."""
        return tuple(program for one in self._launches for program in one.programs)

    def storages(self) -> Iterable[Storage]:
        """The storages of all its tensors."""
        return (storage for one in self._launches for storage in one.storages())

    def compile(self) -> Self:
        """Do nothing: the launches are compiled already."""
        return self

    def prepare(self, stream: Stream) -> None:
        """Allocate and initialise its tensors."""
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
        """Collect the fences of the launches."""
        for one in self._launches:
            fence = one.fence
            if fence is not None:
                self._ends.add(fence)
                self._stream, self._count = fence.stream, fence.count

    def _end_interrupted(self, stream: Stream, error: BaseException) -> None:
        """Record interrupted launches: if one has begun, the sequence fails as a whole.

        All of them count as submitted if the last one does, as for a single launch.
        """
        launches = self._launches
        if launches[-1].fence is not None:
            self._end()
        elif any(one.is_begun for one in launches):
            for one in launches:
                one.refuse(stream, error)

    def give_back(self) -> None:
        """Release the borrow. The device's lock is held."""
        self._borrow.release()
        self._borrow.forget()
        for one in self._launches:
            one.give_back()
        self._launches = ()

    def last_fences(self) -> tuple[Any, ...]:
        """The fences after which all its work has completed."""
        return tuple(self._ends.fences.values())

    def put_part(self, stream: Stream, ends: Ends) -> T:
        """Put the launches on a stream as part of another operation."""
        result = super().put_part(stream, ends)
        ends.include(self._ends)
        return result

    def __del__(self) -> None:
        # No lock: the collector may run this at any point.
        if getattr(self, "_state", None) in (State.BUILT, State.TAKEN):
            self.device.deferred.append(DeferredCall(partial(_drop, self._borrow)))
            self.warn_if_never_run()


def _drop(borrow: Borrow) -> None:
    """Release the borrow of a built sequence that was dropped."""
    borrow.release()
    borrow.forget()


def build_sequence(
    launches: tuple[Launch, ...], held: int, result: Any, depth: int
) -> SequenceOp[Any]:
    """An operation for several launches, for the user's call `depth` frames up.

    The first `held` launches are its first step, whose tensors it holds until it is submitted.
    """
    return SequenceOp().build(launches, held, result, depth + 1)
