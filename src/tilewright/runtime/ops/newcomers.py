"""Operations that are ready, on tensors that no launch has had before.

All that `ready` asks when one is submitted was asked when it was built, if nothing has happened in
between: where its tensors are at home, and that nobody holds them. What has happened is counted by
the device's epoch.
"""

from __future__ import annotations

from typing import Self, TypeVar

from tilewright.runtime.devices.context import UNUSUAL
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.ops.lifecycle import State
from tilewright.runtime.ops.ready import ReadyOp
from tilewright.runtime.ops.ready_work import begin_all

__all__ = ["NewcomerOp"]

T = TypeVar("T")
_BUILT = State.BUILT  # members of an enumeration are slow to find


class NewcomerOp(ReadyOp[T]):
    """A ready operation of which any tensor may be new; all of them are ours."""

    __slots__ = ("_epoch", "has_fresh", "home")

    home: Stream | None  # of all tensors, when it was built
    has_fresh: bool  # but for those that have no bytes yet, and nothing to put into them
    _epoch: int  # of the device then

    def _look_and_hold(self) -> None:
        """Begin to hold the tensors, if nothing stands against it. The lock is held."""
        device, claim = self.device, self._claim
        epoch = device.epoch
        if (
            device.latest is None
            and not device.is_barred
            and self._ready.each.look(self, claim[1])
            and device.latest is None  # nor has a finaliser built any meanwhile
            and device.epoch == epoch
        ):
            self._epoch = epoch
            device.latest = claim
            return
        self.home = None
        super()._look_and_hold()

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the operation to a stream without waiting."""
        home = self.home
        if home is None or not home.is_plain or UNUSUAL.said:
            return super().submit(stream)
        device, claim = self.device, self._claim
        usual = None if device.current.said else device.default
        with device.lock:
            if device.notes:
                device.settle_notes()
            if home.has_loose_ends:
                home.settle(ask=False)
            if (
                device.latest is claim
                and home
                is (stream if stream is not None else self._chosen or usual or device.stream)
                and self._epoch == device.epoch
                and self._state is _BUILT
                and not (self.has_fresh and self._begin(home))
            ):
                self.launch_at(home)
                return self
        return super().submit(stream)

    def _begin(self, home: Stream) -> bool:
        """Give bytes to those that have none; whether that has led to anything else."""
        try:
            are_at_home = begin_all(self._claim[1], home)
        except BaseException as error:
            self.abandon(error)
            raise
        return not are_at_home or self.device.latest is not self._claim

    def leave_at(self, stream: Stream) -> None:
        """Leave a region and a count on every storage. The lock is held."""
        leave, tensors = self._ready.each.leave, self._claim[1]
        is_home = self.home is stream
        if not is_home or not leave(tensors, self._count, self.device, self._epoch, stream):
            super().leave_at(stream)  # as a finaliser has done something meanwhile
