"""Chains of launches that are all ready, put on their stream in one go.

A chain builds its next operation when the last one is on the stream. If all of them are known when
it is made, each was launched before with the same tensors, and those are at home with nobody to
hold them, then what is left are the driver's calls, one behind the other on one stream, which
orders them. Anything else makes it the chain that it stands for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import islice
from types import CodeType
from typing import Any, Self, TypeVar, cast

from tilewright.runtime.devices.context import UNUSUAL
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.ops.call_site import Site
from tilewright.runtime.ops.chain_steps import Step
from tilewright.runtime.ops.lifecycle import GONE, Ends, State, Steps
from tilewright.runtime.ops.operation import Chain, DeviceOp
from tilewright.runtime.ops.ready import ReadyOp
from tilewright.runtime.ops.ready_work import Claim, RepeatedWork, make_ticket, write_down
from tilewright.runtime.order.access import Handle
from tilewright.runtime.order.tickets import Ticket

__all__ = ["Launched", "Series"]

T = TypeVar("T")
_BUILT, _SUBMITTED = State.BUILT, State.SUBMITTED  # members of an enumeration are slow to find
# Ready work, and the tensors that it was launched with before.
Launched = tuple[RepeatedWork, tuple[Handle, ...]]


class _Whole:
    """Stands for the work in the claim of a series that is being launched.

    In place of tensors, the claim has the launches that were begun so far. What it holds is given
    back when their fences are there, so it costs next to nothing where no finaliser looks.
    """

    def tell(self, claim: tuple[Any, Sequence[Launched], CodeType, int]) -> None:
        """Write the borrows of all that was begun where others look. The lock is held."""
        _, begun, code, instruction = claim
        first = begun[0][0]
        roles = tuple(role for ready, _ in begun for role in ready.roles)
        tensors = tuple(tensor for _, some in begun for tensor in some)
        ticket = Ticket(first.label, Site(code, instruction), roles, tensors)
        write_down(first.device, claim, ticket)


_WHOLE = _Whole()


class Series(Chain[T]):
    """A chain whose first operation is built, and whose launches are all ready."""

    __slots__ = ("_given", "_launches", "_make_steps")

    def __init__(  # and nothing of a chain's: most need none of that
        self,
        source: ReadyOp[Any],
        launches: Sequence[Launched],
        steps: Callable[[], list[Step]],
        given: T,
    ) -> None:
        source.take()
        self.label, self.device = source.label, source.device
        self._chosen = None
        self._result = GONE
        self._ends = Ends()
        self._is_compiled = True
        self._lock = threading.RLock()
        self._source = source
        self._todo = []
        self._launches: Sequence[Launched] = launches  # that of the source is the first
        self._make_steps: Callable[[], list[Step]] | None = steps  # what a chain does behind it
        self._given = given
        self._site = source.site
        self._state = _BUILT

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the operation to a stream without waiting."""
        device = self.device
        usual = None if device.current.said else device.default
        chosen = stream if stream is not None else self._chosen or usual or device.stream
        with device.lock:
            is_calm = self._state is _BUILT and self._is_calm(chosen)
            if is_calm and chosen.has_loose_ends:
                chosen.settle(ask=False)  # and whatever ends with that may do something
                is_calm = self._state is _BUILT and self._is_calm(chosen)
            if is_calm and self._launch(chosen):
                return self
        return super().submit(stream)

    def _is_calm(self, stream: Stream) -> bool:
        """Whether nothing is to be done but to launch. The device's lock is held."""
        device, source = self.device, self._source
        if UNUSUAL.said or device.notes or device.is_barred or not isinstance(source, ReadyOp):
            return False
        if not self._launches:  # it runs as a chain, by another thread
            return False
        if device.latest is not source.claim:  # somebody had to know of it
            return False
        for ready, tensors in self._launches:
            if ready.epoch != device.epoch or ready.stream is not stream:
                for tensor in tensors:
                    storage = tensor.storage
                    if storage.home is not stream or storage.borrows:
                        return False
        return stream.is_plain

    def _launch(self, stream: Stream) -> bool:
        """Launch all and move their fences on, if nobody has looked. The device's lock is held."""
        device, source, launches = self.device, self._source, self._launches
        assert isinstance(source, ReadyOp), "a series that has not run has its source"
        first, begun = launches[0], [launches[0]]
        claim = source.claim
        whole = cast("Claim", (_WHOLE, begun, claim[2], claim[3]))
        epoch = device.epoch
        if device.latest is not claim:  # a finaliser has, since that was asked
            return False
        device.latest = whole
        self._source, self._launches = None, ()
        try:
            first[0].launch(stream, first[1])
            for one in islice(launches, 1, None):
                begun.append(one)  # so that whoever looks knows of it
                if device.epoch != epoch:  # and then the others are not known to be calm
                    begun.pop()
                    break
                one[0].launch(stream, one[1])
            self._leave(stream, source, begun)
            self._release(whole)
        except BaseException as error:
            self._stop(stream, source, begun, error)
            self._release(whole)
            raise
        self._go_on(stream, launches[len(begun) :])
        self._result, self._state = self._given, _SUBMITTED
        return True

    def _release(self, whole: Claim) -> None:
        """Give back what the launches have held while they were made."""
        device = self.device
        if device.latest is whole:
            device.latest = None
            return
        told = device.told.pop(id(whole), None)
        if told is not None:
            told.release()

    def _go_on(self, stream: Stream, left: Sequence[Launched]) -> None:
        """Launch what is left one by one, as a chain does."""
        try:
            for ready, tensors in left:
                ReadyOp[Any]().build(ready, tensors, None, depth=3).put_part(stream, self._ends)
        except BaseException as error:
            self.abandon(error)
            raise

    def _stop(
        self, stream: Stream, source: ReadyOp[Any], begun: Sequence[Launched], error: BaseException
    ) -> None:
        """The last one that was begun could not be launched: those before it run."""
        *launched, (ready, tensors) = begun
        if launched:
            self._leave(stream, source, launched)
            refused = make_ticket((ready, tensors, *source.claim[2:]))
            refused.leave_refused(stream, error)
            refused.forget()
        else:
            source.leave_refused(stream, error)
        source.abandon(error)  # unless it runs
        self.abandon(error)

    def _leave(self, stream: Stream, source: ReadyOp[Any], launched: Sequence[Launched]) -> None:
        """Leave the fences of what has been launched."""
        count, epoch = stream.advance(len(launched)), self.device.epoch
        for ready, tensors in launched:
            is_calm = ready.epoch == epoch and ready.stream is stream
            if is_calm or (ready.stream is stream and ready.is_settled(tensors)):
                for fence in ready.fences:
                    if fence.count < count:  # or a finaliser has launched behind these
                        fence.count = count
            else:
                ready.settle_in(stream, count, tensors)
            if not is_calm:
                ready.epoch = ready.calm_epoch(tensors)
        if epoch != self.device.epoch:  # fences may have gone since they were looked at
            for ready, tensors in launched:
                ready.settle_in(stream, stream.issued, tensors)
        source.end_at_home(stream, count)
        self._ends.reach(stream, count)

    @property
    def todo(self) -> list[Step]:
        """The steps of the chain that it stands for."""
        if self._make_steps is not None:
            self._todo, self._make_steps = [*self._make_steps(), *self._todo], None
        return self._todo

    def run(self, stream: Stream, ends: Ends) -> Steps[T]:
        """Run as a chain, unless another thread has launched everything meanwhile."""
        with self.device.lock:
            if self._source is None:
                self.check_built()
            self._launches = ()
        self._todo = self.todo
        return super().run(stream, ends)

    def _chained(self, step: Step) -> DeviceOp[Any]:
        self._todo = self.todo
        return super()._chained(step)
