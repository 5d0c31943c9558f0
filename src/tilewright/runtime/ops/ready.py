"""Operations whose work was looked at before: to build and to submit one is all that is left.

Nothing is decided here that `work` does not decide. Where the tensors are not at home, or anything
else is out of the ordinary, the operation gets a ticket and goes the way of every other. Most never
need one: they are submitted before anybody else asks for their tensors. So the device alone knows
the *claim* of the operation built last (`latest`), and storages hear of its borrows when somebody
looks; the ticket is left with the device (`told`) until the operation itself asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from sys import _getframe
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from tilewright.errors import LaunchError
from tilewright.runtime.devices.context import UNUSUAL
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.call_site import Site, user_frame_above
from tilewright.runtime.ops.inside_chains import refuse_waiting
from tilewright.runtime.ops.lifecycle import GONE, Ends, Gone, State
from tilewright.runtime.ops.ready_work import (
    NEVER,
    Claim,
    DroppedClaim,
    Lent,
    ReadyWork,
    begin_all,
    make_ticket,
    may_be_at_home,
)
from tilewright.runtime.ops.work import Work, WorkOp
from tilewright.runtime.order.access import Handle
from tilewright.runtime.order.failure import Check, Fence
from tilewright.runtime.order.tickets import Ticket

__all__ = ["ReadyOp"]

T = TypeVar("T")
# Members of an enumeration are slow to find.
_BUILT, _TAKEN, _CLOSED = State.BUILT, State.TAKEN, State.CLOSED
_SUBMITTED, _COMPLETED = State.SUBMITTED, State.COMPLETED


class ReadyOp(WorkOp[T]):
    """An operation with work that is ready: `ReadyOp().build(…)`."""

    __slots__ = ("_claim", "_count", "_held", "_ready", "_stream")

    _ready: ReadyWork
    _claim: Claim
    _held: Ticket | None  # if anybody had to know, and it has asked
    _stream: Stream  # where it was submitted, if nobody had
    _count: int

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    else:
        __init__ = object.__init__  # `build` sets everything: that saves Python a call

    def build(
        self, ready: ReadyWork, tensors: tuple[Handle, ...], result: Any, depth: int = 2
    ) -> ReadyOp[Any]:
        """Begin to hold some tensors, for a call that is so many calls up, or further."""
        self._state = _CLOSED
        self.label = ready.label
        self.device = device = ready.device
        self._chosen = None
        self._result = result
        self._ready = ready
        self._held = None
        self._count = 0
        try:
            frame = _getframe(depth)
        except ValueError:  # a thread began with the call itself
            frame = _getframe(0)
        code = frame.f_code
        if code is not ready.caller:
            frame = user_frame_above(frame)
            ready.caller = code = frame.f_code
        self._claim = claim = (ready, tensors, code, frame.f_lasti)
        try:
            with device.lock:
                if ready.epoch == device.epoch and device.latest is None:
                    device.latest = claim
                else:
                    self._look_and_hold()
                self._state = _BUILT
        except BaseException:
            self._give_up()
            raise
        return self

    def _give_up(self) -> None:
        """Hold nothing: it could not be built, or a signal has raised meanwhile."""
        with self.device.lock:
            self._state = _CLOSED
            self.give_back()

    def _look_and_hold(self) -> None:
        """Begin to hold the tensors, if nothing stands against it. The lock is held."""
        device = self.device
        if device.is_barred:
            device.check_open()
        if device.notes:
            device.settle_notes()
        if device.latest is not None:
            device.tell_latest()
        epoch = device.epoch
        for tensor in self._claim[1]:
            storage = tensor.storage
            if storage.borrows or (storage.home is None and not storage.is_fresh):
                self.ticket.acquire(device)
                return
        if device.latest is None and device.epoch == epoch:
            device.latest = self._claim
        else:  # a finaliser has done something meanwhile
            self.ticket.acquire(device)

    @property
    def ticket(self) -> Ticket:
        """Made when somebody has to know. The lock is held."""
        if self._held is None:
            told = self.device.told.get(id(self._claim))
            self._held = make_ticket(self._claim) if told is None else told
            self.device.told.pop(id(self._claim), None)  # last, if this breaks off in between
        return self._held

    @property
    def claim(self) -> Claim:
        """What it holds: its work, and the tensors that it is for."""
        return self._claim

    @property
    def result(self) -> T | Gone:
        """What it will give, as long as nobody has it."""
        return self._result

    def storages(self) -> Iterable[Storage]:
        """The memory of its tensors; to ask for it makes no ticket."""
        return (tensor.storage for tensor in self._claim[1])

    @property
    def site(self) -> Site:
        """Where it was built."""
        return Site(*self._claim[2:])

    @property
    def work(self) -> Work:
        """The work for these tensors."""
        return self._ready.work_on(self._claim[1])

    @property
    def check(self) -> Check | None:
        """Says how it failed, once it has ended."""
        return self._ready.check

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The program that it will run."""
        return (self._ready.program,)

    @property
    def fence(self) -> Fence | None:
        """Where it ends."""
        if self._count:
            return Fence(self._stream, self._count, None)
        return None if self._held is None else super().fence

    def compile(self) -> Self:
        """Nothing: that was done before."""
        return self

    def drop(self) -> None:
        """Leave a note to give the borrows back. No lock is held."""
        self.device.notes.append(DroppedClaim(self._claim, self._held))

    def give_back(self) -> None:
        """Give the borrows back. The lock is held."""
        if self.device.latest is self._claim:
            self.device.latest = None
        else:
            super().give_back()
        self._forget()
        self._ready.let_go()

    def _forget(self) -> None:
        """Refer to no tensor any more."""
        ready, _, code, instruction = self._claim
        if self.device.told:
            self.device.told.pop(id(self._claim), None)
        self._claim = (ready, (), code, instruction)

    def conclude(self) -> None:
        """Look how it ended; what was put at home cannot fail."""
        if self._count:
            self._state = _COMPLETED
        else:
            super().conclude()

    def hand_over(self) -> T:
        """The result, once; whoever has it keeps the tensors now."""
        result = super().hand_over()
        self._forget()
        return result

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the operation to a stream without waiting."""
        device, ready = self.device, self._ready
        guests, usual = ready.guests, None if device.current.said else device.default
        if guests is not None:
            usual = ready.stream  # if that is still where the library works
        chosen = stream if stream is not None else self._chosen or usual or self.usual_stream()
        with device.lock:
            try:
                if self._state is _BUILT:
                    if ready.stream is chosen and chosen.has_loose_ends:
                        chosen.settle(
                            ask=False
                        )  # before anything is asked: it may end other things
                    if not (
                        ready.epoch == device.epoch
                        and ready.stream is chosen
                        and not UNUSUAL.said
                        and not device.notes
                        and (
                            chosen.is_plain
                            if guests is None
                            else guests.may_follow(chosen, device, self._claim[1])
                        )
                    ):
                        if self._put_where_it_goes(stream):
                            return self
                    else:
                        # The same with nothing to ask: a call of it would cost as much as this.
                        try:
                            ready.launch(chosen, ())
                            self._stream = chosen
                            chosen.queue.marked = self._count = count = chosen.issued + 1
                            chosen.issued = count
                            for (
                                fence
                            ) in ready.fences:  # nobody who shares one is built: in this epoch
                                fence.count = count
                            if ready.epoch == device.epoch:
                                device.latest = None
                            else:  # a finaliser has done something meanwhile, in the loop perhaps
                                self.leave_at(chosen)
                                self.release_claim()
                        except BaseException as error:
                            self.leave_refused(chosen, error)
                            raise
                        self._state = _SUBMITTED
                        return self
            except BaseException as error:
                self.abandon(error)
                raise
        return super().submit(stream)

    def sync(self) -> T:
        """Submit if that has not been done, wait, and hand the result over."""
        refuse_waiting(self.label)
        if self._state is _BUILT:
            self.submit()
        if self._count and self._state is _SUBMITTED:
            self._stream.wait(self._count)  # at home, where there is one end and no other
            self._state = _COMPLETED
            return self.hand_over()
        return super().sync()

    def _put_where_it_goes(self, stream: Any) -> bool:
        """Launch, if there is nothing else to do; if there is anything odd, the long way asks."""
        try:
            home = stream if stream is not None else self._chosen or self.usual_stream()
        except LaunchError:
            return False
        is_ours = isinstance(home, Stream) and home.device is self.device
        return is_ours and not self.device.is_barred and self._put_at_home(home)

    def launch_at(self, stream: Stream, epoch: int = NEVER) -> None:
        """Launch at home, with nothing left to ask. The lock is held.

        In the epoch that is given, all fences stand where they have to. The borrows stay until they
        are there: a finaliser may build something meanwhile.
        """
        device, ready = self.device, self._ready
        try:
            ready.launch(stream, self._claim[1])
            self._stream = stream
            stream.queue.marked = self._count = count = stream.issued + 1
            stream.issued = count
            if epoch == device.epoch:
                for fence in ready.fences:
                    if fence.count < count:  # or a finaliser has launched behind this
                        fence.count = count
            if epoch != device.epoch:  # perhaps since the loop
                self.leave_at(stream)
            self.release_claim()
        except BaseException as error:
            self.leave_refused(stream, error)
            self.abandon(error)
            raise
        self._state = _SUBMITTED

    def leave_at(self, stream: Stream) -> None:
        """Leave the fences of a launch at home. The lock is held."""
        # A finaliser may have launched behind this one, and moved the same fences on.
        self._ready.settle_in(stream, stream.issued, self._claim[1])

    def release_claim(self) -> None:
        """Give the borrows back of what has been launched. The lock is held."""
        if self.device.latest is self._claim:
            self.device.latest = None
        else:
            self.ticket.release()
            self._held = None

    def leave_refused(self, stream: Stream, error: BaseException) -> None:
        """Leave the fence of what may have been launched, or not as a whole. The lock is held."""
        self._count = 0
        self.ticket.leave_refused(stream, error)
        if self.device.latest is self._claim:
            self.device.latest = None

    def usual_stream(self) -> Stream:
        """Where it goes if nobody says anything else."""
        return self.device.stream

    def put(self, stream: Stream) -> None:
        """As any other, where it is not at home."""
        if not self._put_at_home(stream):
            self.device.tell_latest()  # this one, if nobody has asked: a ticket is known to all
            super().put(stream)

    def put_part(self, stream: Stream, ends: Ends) -> T:
        """Put the work on a stream as part of another operation."""
        with self.device.lock:
            try:
                state = self._state
                if (state is _BUILT or state is _TAKEN) and self._put_at_home(stream):
                    ends.reach(stream, self._count)
                    result, self._result = cast("T", self._result), GONE
                    return result
            except BaseException as error:
                self.abandon(error)
                raise
        return super().put_part(stream, ends)

    def offer(self) -> Lent:
        """All that it has, before it is lent. The lock is held."""
        return Lent(self.ticket, self._claim, self._result)

    def lend(self) -> None:
        """Let somebody else run it, who has what was offered. The lock is held."""
        self._held, self._result = None, GONE
        self._forget()

    def take_back(self, lent: Lent) -> None:
        """Be an operation of its own again. The lock is held."""
        self._held, self._claim, self._result = lent

    def end_at_home(self, stream: Stream, count: int) -> None:
        """It was launched by whoever it was lent to. The lock is held."""
        self._stream = stream
        self._count = count
        self._state = _SUBMITTED  # last: whoever sees it asks for its end, and holds no lock

    def _put_at_home(self, stream: Stream) -> bool:
        """Launch, if there is nothing else to do. The device's lock is held."""
        device, ready, tensors = self.device, self._ready, self._claim[1]
        device.settle_notes()  # outputs of earlier launches, which nobody has any more
        if stream.has_loose_ends:
            stream.settle(ask=False)
        epoch = device.epoch
        # In the same epoch nothing has happened since the last launch but that this one was built.
        is_calm = ready.epoch == epoch and ready.stream is stream
        is_settled = is_calm or (ready.stream is stream and ready.is_settled(tensors))
        if not is_calm and not self._is_at_home(stream, is_settled):
            return False
        is_unusual = UNUSUAL.said and UNUSUAL.get()
        is_unusual = is_unusual or (not stream.is_plain and stream.queue.is_capturing())
        if is_unusual or not (is_settled or begin_all(tensors, stream)):
            return False
        self.launch_at(stream, epoch if is_settled else NEVER)
        if not is_calm:
            ready.epoch = ready.calm_epoch(tensors)
        return True

    def _is_at_home(self, stream: Stream, is_settled: bool) -> bool:
        """Whether it only has to be launched there; what is settled is known to be at home."""
        if self._ready.check is not None or self.device.forked:
            return False
        tensors = self._claim[1]
        return bool(tensors) and (is_settled or may_be_at_home(tensors, stream))
