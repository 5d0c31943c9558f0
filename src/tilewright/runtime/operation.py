"""DeviceOp: a lazy, run-once unit of work on a device.

Built, it holds borrows; submitted, it has a place in a stream and its borrows have turned into
fences; then it completes or fails. A submission (checks, inserted waits, the backend's call, new
fences) is one step under the device's lock, so fences are always in launch order. Not for chains,
graphs or asyncio: they are built on top of this.
"""

from __future__ import annotations

import warnings
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from tilewright.errors import LaunchError
from tilewright.runtime.access import Access, acquire, check_accesses, release
from tilewright.runtime.device import Device
from tilewright.runtime.failures import Check, Fence, Outcome
from tilewright.runtime.sites import Site, user_site
from tilewright.runtime.storage import Holder
from tilewright.runtime.stream import Stream

__all__ = ["DeviceOp", "State", "Work"]

T = TypeVar("T")


class Work(Protocol):
    """What an operation does when it is submitted.

    A work may also have `compile()`: everything that can be done before the submission. It is
    called before the device's lock is taken, and may be called twice.
    """

    def enqueue(self, stream: Stream) -> None:
        """Put the work on a stream. The device's lock is held and all bytes are allocated."""


class State(Enum):
    """How far an operation is."""

    BUILT = "built"
    SUBMITTED = "submitted"
    COMPLETED = "completed"
    CLOSED = "closed"
    FAILED = "failed"


class DeviceOp(Generic[T]):
    """One operation. `result` is handed over once, by `sync`."""

    __slots__ = (
        "__weakref__",
        "_accesses",
        "_check",
        "_error",
        "_fence",
        "_holder",
        "_result",
        "_state",
        "_work",
        "device",
        "label",
        "site",
    )

    def __init__(
        self,
        label: str,
        device: Device,
        accesses: tuple[Access, ...],
        work: Work,
        result: T,
        *,
        failure: Check | None = None,
    ) -> None:
        self._state = State.CLOSED  # until all borrows are held, there is nothing to give back
        self.label = label
        self.device = device
        self.site: Site = user_site()
        self._accesses = accesses
        self._work: Work | None = work
        self._result: list[T] = [result]
        self._check = failure
        self._fence: Fence | None = None
        self._error: BaseException | None = None
        check_accesses(accesses, label, device)
        with device.lock:
            device.check_usable()
            device.settle_notes()
            _find_doubts(accesses)
            self._holder = acquire(accesses, label, self.site)
            self._state = State.BUILT

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The tensors it uses and how; empty once it has been submitted or closed."""
        return self._accesses

    @property
    def state(self) -> State:
        """How far it is, as far as is known without asking the device."""
        return self._state

    @property
    def done(self) -> bool:
        """Whether it has ended, one way or another. Never blocks."""
        fence = self._fence
        if fence is not None and self._state is State.SUBMITTED and fence.has_passed:
            self._conclude(fence)
        return self._state not in (State.BUILT, State.SUBMITTED)

    def compile(self) -> Self:
        """Do everything but the launch."""
        prepare = getattr(self._work, "compile", None)
        if prepare is not None:
            prepare()
        return self

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the operation to a stream (by default the current one) without waiting."""
        self._check_built()
        chosen = self.device.stream if stream is None else stream
        if chosen.device is not self.device:
            raise LaunchError(
                f"{self._name} runs on {self.device.name}, where its tensors are, and cannot be"
                f" submitted to a stream of {chosen.device.name}"
            )
        try:
            self.compile()
            with self.device.lock:
                self._check_built()
                self._submit(chosen)
        except BaseException as error:
            self._abandon(error)
            raise
        return self

    def _submit(self, stream: Stream) -> None:
        self.device.check_usable()
        self.device.settle_notes()
        stream.settle(ask=False)
        accesses, work, check = self._accesses, self._work, self._check
        self._release()
        assert work is not None, "a built operation has its work"
        self._fence = _run(accesses, work, check, stream)
        self._state = State.SUBMITTED

    def _abandon(self, error: BaseException) -> None:
        """Remember why the submission failed; another thread may have submitted meanwhile."""
        with self.device.lock:
            if self._state is State.BUILT:
                self._release()
                self._state, self._error = State.FAILED, error

    def sync(self) -> T:
        """Submit if that has not been done, wait, and hand the result over."""
        if self._state is State.BUILT:
            self.submit()
        if self._state is State.CLOSED:
            raise LaunchError(f"{self._name} was closed and cannot be run")
        fence = self._fence
        if fence is not None:
            if self._state is State.SUBMITTED:
                fence.stream.wait(fence.count)
                self._conclude(fence)
            if self._state is State.FAILED and fence.outcome is not None:
                fence.outcome.surface()
        if self._error is not None:
            raise self._error.with_traceback(None)
        if not self._result:
            raise LaunchError(f"{self._name} has handed its result over already")
        return self._result.pop()

    def close(self) -> None:
        """Give the borrows back without running; nothing happens to a submitted operation."""
        with self.device.lock:
            if self._state is State.BUILT:
                self._release()
                self._state = State.CLOSED

    @property
    def _name(self) -> str:
        return f"operation {self.label}, built at {self.site},"

    def _check_built(self) -> None:
        if self._state is State.CLOSED:
            raise LaunchError(f"{self._name} was closed and cannot be run")
        if self._state is not State.BUILT:
            raise LaunchError(f"{self._name} runs once and was submitted already: build another")

    def _release(self) -> None:
        release(self._accesses, self._holder)
        self._accesses, self._work, self._check = (), None, None

    def _conclude(self, fence: Fence) -> None:
        with self.device.lock:
            fence.stream.settle()
            failed = fence.outcome is not None and fence.outcome.error is not None
            self._state = State.FAILED if failed else State.COMPLETED

    def __repr__(self) -> str:
        return f"<{self.label} on {self.device.name}, built at {self.site}: {self._state.value}>"

    def __del__(self) -> None:
        # No lock here: the collector may run this anywhere.
        if self._state is State.BUILT:
            self.device.notes.put(_Dropped(self._accesses, self._holder))
            warnings.warn_explicit(
                f"operation {self.label}, built at {self.site}, was never run",
                RuntimeWarning,
                self.site.code.co_filename,
                self.site.line,
                registry=_warned,
            )


_warned: dict[Any, Any] = {}


class _Dropped(NamedTuple):
    """A built operation that was dropped."""

    accesses: tuple[Access, ...]
    holder: Holder

    def settle(self) -> None:
        """Give its borrows back."""
        release(self.accesses, self.holder)


def _find_doubts(accesses: tuple[Access, ...]) -> list[Outcome]:
    """Operations in flight that these accesses read from; raises if one has failed."""
    doubts: list[Outcome] = []
    for access in accesses:
        if access.mode.reads:
            doubts += access.tensor.storage.doubts(access.tensor.region)
    return doubts


def _run(accesses: tuple[Access, ...], work: Work, check: Check | None, stream: Stream) -> Fence:
    for access in accesses:
        access.tensor.storage.materialise(stream)
        access.tensor.storage.order(stream, access.tensor.region, writes=access.mode.writes)
    causes = _find_doubts(accesses)
    try:
        work.enqueue(stream)
    except BaseException as error:
        # Part of the work may be on the stream already: order it, and trust nothing it wrote.
        count = stream.advance()
        cause = error if isinstance(error, Exception) else LaunchError("the launch was interrupted")
        _leave_fences(accesses, Fence(stream, count, Outcome.refused(stream, count, cause)))
        raise
    count = stream.advance()
    fence = Fence(stream, count, stream.watch(count, check, causes))
    _leave_fences(accesses, fence)
    return fence


def _leave_fences(accesses: tuple[Access, ...], fence: Fence) -> None:
    for access in accesses:
        storage = access.tensor.storage
        record = storage.record_write if access.mode.writes else storage.record_read
        record(access.tensor.region, fence)
