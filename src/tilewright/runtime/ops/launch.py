"""Launches, copies, fills: built, submitted and recorded by one path.

A built operation holds a borrow. A submission is one critical section: the stream waits for
conflicting uses on other streams, the backend gets the work, and the operation's uses move to the
new count. If the stream is the sole one of all tensors, there is nothing to wait for. On a capture
stream, which records a graph, the work is kept instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from sys import _getframe
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from tilewright.errors import BorrowError
from tilewright.native import in_c, know_objects, slots_in_c
from tilewright.runtime.devices.context import INTERCEPTED
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.recording import Tape, block_is_open, refuse_recorded
from tilewright.runtime.interop.streams import (
    check_recordable,
    in_their_order,
    keep_recorded,
    library_streams,
)
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.call_site import CallSite, user_frame_above
from tilewright.runtime.ops.inside_chains import refuse_waiting
from tilewright.runtime.ops.lifecycle import State
from tilewright.runtime.ops.single import SingleOp
from tilewright.runtime.ops.work import DeviceWork, LaunchWork, OnceWork
from tilewright.runtime.order.access import Access, Handle, check_accesses
from tilewright.runtime.order.borrow import Borrow, uses_of
from tilewright.runtime.order.critical import critical, insist, reentered
from tilewright.runtime.order.deferred import DeferredCall
from tilewright.runtime.order.failure import Check, Outcome
from tilewright.runtime.order.timeline import Use

__all__ = ["LaunchOp", "make_operation"]

T = TypeVar("T")
U = TypeVar("U")
# Looking up members of an enumeration is slow.
_BUILT, _TAKEN, _CLOSED = State.BUILT, State.TAKEN, State.CLOSED
_SUBMITTED, _COMPLETED, _RECORDED = State.SUBMITTED, State.COMPLETED, State.RECORDED


@slots_in_c
class LaunchOp(SingleOp[T]):
    """One piece of work on some tensors: `LaunchOp().build(…)`."""

    __slots__ = ("_arrays", "_borrow", "_uses", "_work")

    _work: LaunchWork
    _borrow: Borrow
    _uses: tuple[Use, ...] | None  # of a sequence that does not hold all its tensors yet
    _arrays: tuple[Any, ...]  # torch tensors behind wrappers, by the number of the tensor

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    else:
        __init__ = object.__init__  # `build` sets all attributes, which saves a Python call

    @in_c("LaunchOp.build")
    def build(
        self,
        work: LaunchWork,
        tensors: tuple[Handle, ...],
        uses: tuple[Use, ...],
        result: Any,
        arrays: tuple[Any, ...] = (),
        depth: int = 2,
    ) -> LaunchOp[Any]:
        """Hold the tensors, for the user's call `depth` frames up or further."""
        self.label, self._state = work.label, _CLOSED
        self.device = device = work.device
        self._chosen = self._outcome = self._uses = None
        self._result, self._count = result, 0
        self._work, self._arrays = work, arrays
        try:
            frame = _getframe(depth)
        except ValueError:  # a thread began with the call itself
            frame = _getframe(0)
        code = frame.f_code
        if code is not work.caller:
            frame = user_frame_above(frame)
            work.caller = code = frame.f_code
        self._borrow = borrow = Borrow()
        borrow.work, borrow.tensors, borrow.uses = work, tensors, uses
        borrow.code, borrow.instruction = code, frame.f_lasti
        if work.written:
            self.check_written()
        with device.lock:
            if device.busy is not None:
                raise reentered(device)
            try:
                if device.deferred or device.forked:
                    device.check_open()
                    device.settle_deferred()
                device.busy = self.label
                for use in uses:
                    timeline = use.timeline
                    if timeline.held is None and timeline.stream is not None:
                        timeline.held = borrow
                    elif timeline.held is not borrow:
                        borrow.acquire(device)
                        break
                self._state = _BUILT
            except BaseException:
                borrow.release()
                raise
            finally:
                device.busy = None
        return self

    def with_later(self, uses: tuple[Use, ...]) -> LaunchOp[T]:
        """This sequence, which holds the uses of all its launches once it is submitted."""
        self._uses = uses
        return self

    @property
    def borrow(self) -> Borrow:
        """Its tensors and their uses."""
        return self._borrow

    @property
    def site(self) -> CallSite:
        """The line that built it."""
        return self._borrow.site

    @property
    def work(self) -> LaunchWork:
        """The work of the operation."""
        return self._work

    @property
    def tensors(self) -> tuple[Handle, ...]:
        """The tensors that it holds; none once it has been submitted or closed."""
        return self._borrow.tensors

    @property
    def result(self) -> Any:
        """The result, until it is handed over."""
        return self._result

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The tensors and their roles; empty once it has been submitted or closed."""
        tensors = self._borrow.tensors
        return tuple([Access(t, *role) for t, role in zip(tensors, self._work.roles, strict=False)])

    def storages(self) -> Iterable[Storage]:
        """The storages of its tensors."""
        return (tensor.storage for tensor in self._borrow.tensors)

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The programs that it runs."""
        return self._work.programs

    def giving(self, result: U) -> LaunchOp[U]:
        """This operation, before it runs, with another result."""
        self.check_built()
        self._result = cast("Any", result)
        return cast("LaunchOp[U]", self)

    def compile(self) -> Self:
        """Compile all programs that the launch needs."""
        if not self._work.is_compiled:
            self._work.compile()
            self.note_compiled()
            if self._has_done_all:  # other operations may compile with the same tensors
                with self.device.lock:
                    self._borrow.release()
        return self

    @in_c("LaunchOp.submit")
    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the operation to a stream (by default the current one) without waiting."""
        device, work = self.device, self._work
        if self._state is not _BUILT:  # `put_once` runs parts of other operations as well
            self.check_built()
        chosen, theirs = stream if stream is not None else self._chosen, None
        if chosen is None:
            current = device.current.get() if device.current.values else None
            if work.foreign and not isinstance(current, Tape):
                chosen = theirs = self._torch_stream()
            else:
                chosen = current or device.default
        if chosen is None or chosen.__class__ is not Stream or chosen.device is not device:
            chosen = self.choose_stream(stream)
        try:
            if not work.is_compiled:
                self.compile()
            if not chosen.may_be_sole:
                chosen.make_room()
            self.put_once(chosen, theirs)
        except BaseException as error:
            self.abandon(error)
            raise
        return self

    @in_c("LaunchOp.put_once")
    def put_once(  # noqa: C901, PLR0912, PLR0915 (calls are slow)
        self, stream: Stream, theirs: Stream | None = None
    ) -> None:
        """Put the work on a stream, unless another call has done so.

        `theirs` is the current stream of torch, if the caller has asked for it.
        """
        device, work, borrow = self.device, self._work, self._borrow
        with device.lock:
            if device.busy or device.deferred or device.forked or stream.has_loose_ends:
                self.make_way(stream)
            if self._uses is not None:
                critical(device, self.label, self._hold_all)
            uses, foreign, is_put = borrow.uses, work.foreign, False
            may_skip = self._follows(stream, theirs) if foreign else stream.is_plain
            if not (may_skip and uses) or work.check or INTERCEPTED.values:
                self.put_in_order(stream)
                return
            for use in uses:
                if use.timeline.stream is not stream:
                    self.put_in_order(stream)
                    return
            # The stream is the sole one of all tensors: there is nothing to wait for, and no use
            # can fail.
            try:
                device.busy = self.label
                if foreign:
                    storage: Any = borrow.tensors[foreign[0]].storage
                    storage.take(borrow.tensors, self._arrays, work, stream)
                try:
                    work.launch(stream, borrow.tensors)
                    is_put, self._stream = True, stream
                    stream.queue.marked = self._count = count = stream.issued + 1
                    stream.issued = count
                    for use in uses:
                        timeline = use.timeline
                        if use.stream is stream:
                            use.count = count
                        else:
                            timeline.put_on_sole(use, stream, count)
                        if timeline.held is borrow:
                            timeline.held = None
                        else:
                            timeline.release(borrow)
                    borrow.tensors, borrow.uses, self._arrays, self._state = (), (), (), _SUBMITTED
                    if not work.is_compiled:  # of one operation: it refers to storages
                        work.let_go()
                except BaseException as error:
                    self._end_interrupted(stream, (), error, is_put=is_put, is_begun=True)
                    raise
            finally:
                device.busy = None

    def _hold_all(self) -> None:
        """Hold the tensors of later launches as well, before the first one is put on a stream."""
        if self._uses is not None:
            self._borrow.uses = self._uses
            self.check_written()
            self._borrow.hold(self.device)
            self._uses = None

    def give_back(self) -> None:
        """Release the borrow. The device's lock is held."""
        borrow = self._borrow
        borrow.release()
        borrow.tensors, borrow.uses, self._arrays, self._uses = (), (), (), None
        self._work.let_go()

    def conclude(self) -> None:
        """Look up how it ended; without an outcome it cannot have failed."""
        if self._outcome is None and self._count:
            self._state = _COMPLETED
        else:
            super().conclude()

    def sync(self) -> T:
        """Submit if it has not been submitted, wait, and hand the result over."""
        refuse_waiting(self.label)
        if self._state is _BUILT:
            self.submit_awaited()
        if self._state is _SUBMITTED and self._outcome is None and self._count:
            self._stream.wait(self._count)
            self._state = _COMPLETED
            return self.hand_over()
        return super().sync()

    def prepare(self, stream: Stream) -> None:
        """Allocate and initialise its tensors."""
        for use in self._borrow.uses:
            if use.timeline.stream is not stream:
                break
        else:
            return
        if isinstance(stream, Tape) or (not stream.is_plain and stream.queue.is_capturing()):
            return
        for tensor in self._borrow.tensors:
            if tensor.storage.is_unmade:
                tensor.storage.materialise(stream)

    def put(self, stream: Stream) -> None:
        """Put the work on a stream and record its uses; the caller releases the borrow."""
        work = self._work
        if stream.is_plain:
            if INTERCEPTED.values and block_is_open():
                self._refuse_recorded()
            if not work.foreign:
                self._run(stream)
                return
        elif isinstance(stream, Tape):
            self._record_on(stream)
            return
        elif stream.queue.is_capturing():
            self._capture(stream)
            return
        elif INTERCEPTED.values and block_is_open():
            self._refuse_recorded()
        theirs = self.library_streams_used()
        if theirs and theirs != (stream,):
            with in_their_order(stream, theirs):
                self._run_foreign(stream)
        else:
            self._run_foreign(stream)

    def _follows(self, stream: Stream, theirs: Stream | None) -> bool:
        """Whether all arrays are torch's, whose current stream this is, without a capture."""
        if (theirs or self._torch_stream()) is not stream:
            return False
        return stream.is_plain or not stream.queue.is_capturing()

    def _torch_stream(self) -> Stream | None:
        """The current stream of torch, if all arrays of other libraries are its tensors."""
        arrays, foreign, tensors = self._arrays, self._work.foreign, self._borrow.tensors
        if not tensors or not arrays:
            return None
        for number in foreign:
            if arrays[number] is None:
                return None
        storage: Any = tensors[foreign[0]].storage
        stream: Stream | None = storage.producer.current_stream(self.device)
        return stream

    def _tell_libraries(self, stream: Stream) -> None:
        """Keep arrays that libraries may free too early, and report writes."""
        work, tensors = self._work, self._borrow.tensors
        for number in work.foreign:
            array, storage = self._array(number), tensors[number].storage
            if array is not None:
                storage.keep(array, stream)
            if number in work.written:
                storage.note_write(array)

    def _array(self, number: int) -> Any:
        """The torch tensor behind a wrapper; None for any other tensor."""
        return self._arrays[number] if self._arrays else None

    def library_streams_used(self) -> tuple[Stream, ...]:
        """The current streams of the libraries whose arrays are used."""
        tensors, foreign = self._borrow.tensors, self._work.foreign
        if not foreign:
            return ()
        first: Any = tensors[foreign[0]].storage
        producer = first.producer
        if producer.has_one_stream:
            for number in foreign:
                storage: Any = tensors[number].storage
                if storage.producer is not producer:
                    break
            else:
                current = producer.current_stream(self.device)
                return () if current is None else (current,)
        return library_streams(self.storages())

    def _run_foreign(self, stream: Stream) -> None:
        """Run work on arrays of other libraries, which are checked and told of writes before.

        A signal handler may raise after the driver's call: arrays are kept by then.
        """
        self._check_arrays()
        self._tell_libraries(stream)
        self._run(stream)

    def _check_arrays(self) -> None:
        """Refuse the operation if a library has moved or shrunk an array since it was built."""
        tensors = self._borrow.tensors
        for number in self._work.foreign:
            tensors[number].storage.check_there(self._array(number))

    def check_written(self) -> None:
        """Refuse to build an operation with an output that its library forbids to write now."""
        work, tensors, arrays = self._work, self._borrow.tensors, self._arrays
        for number in work.written:
            array = arrays[number] if arrays else None
            if array is not None and not array.requires_grad:
                continue  # torch, the library of all these arrays, forbids no other write
            reason = tensors[number].storage.why_not_written(array)
            if reason is not None and number < len(self._borrow.uses):
                what = Access(tensors[number], *work.roles[number]).describe()
                raise BorrowError(f"{what} is written by {self.label}, but {reason}")

    def _record_on(self, tape: Tape) -> None:
        """Record the work as nodes of a graph, which keep the arrays of wrappers."""
        self._check_arrays()
        tensors = tuple(
            [
                tensor if self._array(number) is None else tensor.kept(self._array(number))
                for number, tensor in enumerate(self._borrow.tensors)
            ]
        )
        for work, some in self._work.nodes(tensors):
            accesses = tuple([Access(t, *role) for t, role in zip(some, work.roles, strict=True)])
            tape.add(work.label, self.site, accesses, work.work_on(some), work.check)

    def _run(self, stream: Stream) -> None:
        """Order the work, put it on a stream, and record its uses."""
        borrow = self._borrow
        borrow.order(stream)
        causes = tuple(borrow.upstream())
        tail, is_put = stream.queue.tail, False
        try:
            self._work.launch(stream, borrow.tensors)
            is_put = True
            self._record(stream, causes)
        except BaseException as error:
            is_begun = stream.queue.tail is not tail
            self._end_interrupted(stream, causes, error, is_put=is_put, is_begun=is_begun)
            raise

    def _record(self, stream: Stream, causes: tuple[Outcome, ...]) -> None:
        """Record the uses of work that has been put on a stream."""
        if not self._count:
            count = stream.advance()
            self._outcome = stream.watch(count, self._work.check, causes)
            self._stream, self._count = stream, count
        self._borrow.record(stream, self._count, self._outcome)

    def _end_interrupted(
        self,
        stream: Stream,
        causes: tuple[Outcome, ...],
        error: BaseException,
        *,
        is_put: bool,
        is_begun: bool,
    ) -> None:
        """Record interrupted work: after the driver's call it counts as submitted."""
        if isinstance(error, Exception) or (not is_put and is_begun):
            self._count = 0
            self._outcome = self._borrow.record_refused(stream, error)  # perhaps in part
        elif is_put:
            insist(partial(self._record, stream, causes))

    def _capture(self, stream: Stream) -> None:
        """Put the work into a graph that another library captures; no use is recorded."""
        accesses = self.accesses
        check_recordable(self.label, accesses, self._work.check, stream)
        self._check_arrays()
        self._work.launch(stream, self._borrow.tensors)
        keep_recorded(accesses, stream)
        for number in self._work.written:
            accesses[number].tensor.storage.note_write(self._array(number))

    def _refuse_recorded(self) -> None:
        used = [(tensor.storage, tensor.region) for tensor in self._borrow.tensors]
        refuse_recorded(used, self.name)

    @in_c("LaunchOp.__del__")
    def __del__(self) -> None:
        # No lock: the collector may run this at any point.
        try:
            state = self._state
        except AttributeError:
            return  # torch's compiler makes objects without calling their constructor
        if state is _BUILT or state is _TAKEN:
            if not self._has_done_all:  # a compiled operation without memory holds nothing
                work = partial(_drop, self._borrow, self._work)
                self.device.deferred.append(DeferredCall(work))
            self.warn_if_never_run()


def _drop(borrow: Borrow, work: LaunchWork) -> None:
    """Release the borrow of a built operation that was dropped."""
    borrow.release()
    borrow.forget()
    work.let_go()


def make_operation(
    label: str,
    device: Device,
    accesses: tuple[Access, ...],
    work: DeviceWork,
    result: T,
    *,
    failure: Check | None = None,
) -> LaunchOp[T]:
    """An operation with work of its own, which holds its tensors from here on."""
    check_accesses(accesses, label, device)
    once = OnceWork(label, device, accesses, work, failure)
    tensors = tuple([access.tensor for access in accesses])
    return LaunchOp().build(once, tensors, uses_of(tensors, once.roles), result)


know_objects(
    {
        "BUILT": _BUILT, "TAKEN": _TAKEN, "CLOSED": _CLOSED, "SUBMITTED": _SUBMITTED,
        "INTERCEPTED": INTERCEPTED, "user_frame_above": user_frame_above,
    }
)  # fmt: skip
