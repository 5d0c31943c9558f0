"""Whether a function runs as a step of a chain, where nothing may wait for the device.

A step sees handles: the work behind them has been put on the stream and has perhaps not even
started. A wait there would stop the chain in the middle of being submitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tilewright.errors import LaunchError

__all__ = ["inside_chain", "is_inside_chain", "refuse_waiting"]

_chain: ContextVar[str] = ContextVar("chain", default="")


@contextmanager
def inside_chain(name: str) -> Iterator[None]:
    """A step of the chain of this name runs inside."""
    token = _chain.set(name)
    try:
        yield
    finally:
        _chain.reset(token)


def is_inside_chain() -> bool:
    """Whether this runs as a step of a chain."""
    return bool(_chain.get())


def refuse_waiting(what: str) -> None:
    """Refuse something that waits for the device, by name, if a chain is being submitted."""
    chain = _chain.get()
    if chain:
        raise LaunchError(
            f"{what} waits for the device, and this is a step of {chain} which is being submitted:"
            " a step sees handles, not values; return the operation, and read when the chain has"
            " been synced"
        )
