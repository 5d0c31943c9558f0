"""Calls with the same handles as before: their launch is found, and nothing is looked at again.

What was found about a call hangs on the handle of its output, and goes with it. Of the operands
it knows the views, weakly: those live as long as the handles that the caller gives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple
from weakref import ref

import tilewright as tw
from tilewright.kernels.views import kept
from tilewright.tune import Config

__all__ = ["Launch", "Repeat", "calls_of", "remember", "repeated"]

MOST = 256  # calls that are remembered of one output


class Launch(NamedTuple):
    """One launch of a kernel, of which everything is decided."""

    kernel: tw.Kernel
    cuts: tuple[Any, ...]  # the outputs, which refer to handles of their own
    operands: tuple[tw.Tensor, ...]
    constants: dict[str, Any]

    def build(self) -> tw.DeviceOp[Any]:
        """The operation."""
        return self.kernel(*self.cuts, *self.operands, **self.constants)


class Repeat(NamedTuple):
    """A launch that can be made again, as long as its configuration is the one to take."""

    kernel: tw.Kernel
    cuts: tuple[Any, ...]
    operands: tuple[ref[tw.Tensor], ...]
    constants: dict[str, Any]
    config: Config
    choose: Callable[[], Config]

    def build(self) -> tw.DeviceOp[Any] | None:
        """The operation; None if something is not as it was."""
        operands = [view() for view in self.operands]
        if None in operands or self.choose() is not self.config:
            return None
        return self.kernel(*self.cuts, *operands, **self.constants)


def repeated(out: tw.Tensor, call: Hashable) -> tw.DeviceOp[Any] | None:
    """The operation of a call that was made before and writes this output."""
    found = kept(out, calls_of).get(call)
    return None if found is None else found.build()


def remember(
    out: tw.Tensor, call: Hashable, launch: Launch, config: Config, choose: Callable[[], Config]
) -> None:
    """Keep a launch for the next call like this one; `choose` gives the configuration to take."""
    calls = kept(out, calls_of)
    if len(calls) >= MOST:
        calls.clear()
    operands = tuple(ref(operand) for operand in launch.operands)
    calls[call] = Repeat(launch.kernel, launch.cuts, operands, launch.constants, config, choose)


def calls_of(_: tw.Tensor) -> dict[Hashable, Repeat]:
    """Those of a handle, at first none."""
    return {}
