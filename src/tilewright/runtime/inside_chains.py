"""Whether a function runs as a step of a chain, where nothing may wait for the device.

A step sees handles: the work behind them has been put on the stream and has perhaps not even
started. A wait there would stop the chain in the middle of being submitted. Plain calls in a step
use the stream of the chain.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Protocol, Self

from tilewright.errors import LaunchError
from tilewright.runtime.surroundings import Before

if TYPE_CHECKING:
    from tilewright.runtime.device import Device
    from tilewright.runtime.stream import Stream

__all__ = ["Inside", "is_inside_chain", "refuse_waiting"]


class Named(Protocol):
    """A chain, by name and device."""

    @property
    def name(self) -> str:
        """How messages call it."""

    @property
    def device(self) -> Device:
        """Where it runs."""


_chain: ContextVar[Named | None] = ContextVar("chain", default=None)


class Inside:
    """Around the steps of a chain; it may be left and entered again in between."""

    __slots__ = ("_chain", "_chain_before", "_said", "_stream_before")

    def __init__(self, chain: Named, stream: Stream) -> None:
        self._chain = chain
        self._said = chain.device.current.saying(stream)
        self._chain_before: Token[Named | None] | None = None
        self._stream_before: Before[Stream] | None = None

    def enter(self) -> None:
        """A step runs from here on."""
        self._chain_before = _chain.set(self._chain)
        self._stream_before = self._chain.device.current.set(self._said)

    def leave(self) -> None:
        """No step runs from here on."""
        if self._chain_before is not None and self._stream_before is not None:
            _chain.reset(self._chain_before)
            self._chain.device.current.reset(self._stream_before)
            self._chain_before = self._stream_before = None

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def is_inside_chain() -> bool:
    """Whether this runs as a step of a chain."""
    return _chain.get() is not None


def refuse_waiting(what: str) -> None:
    """Refuse something that waits for the device, by name, if a chain is being submitted."""
    chain = _chain.get()
    if chain is not None:
        raise LaunchError(
            f"{what} waits for the device, and this is a step of {chain.name} which is being"
            " submitted: a step sees handles, not values; return the operation, and read when the"
            " chain has been synced"
        )
