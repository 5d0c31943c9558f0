"""Raises at the points of our own code where CPython runs the handlers of signals.

Those are the entry of a function and a generator that goes on, the end of a call of something that
is written in C, and the end of a turn of a loop. An exception at the end of a call is raised by the
call: so a profile function raises it there, which sees both entries and ends of calls. Behind the
call of a class, which it does not see, the end of its `__init__` stands for it. Turns of a loop
hardly ever go by without a call.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import tilewright

_OURS = str(Path(tilewright.__file__).parent)
_ALSO = (contextlib.__file__,)


class Interrupt(KeyboardInterrupt):
    """The exception of a handler; asyncio hands on this one, and logs others."""


class InterruptPoints:
    """Counts the points that are passed inside a block, and raises at one of them."""

    def __init__(self, at=None):
        self.at = at
        self.seen = 0
        self.where = None

    def __enter__(self):
        sys.setprofile(self._pass)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _pass(self, frame, event, arg):
        code = frame.f_code
        if not code.co_filename.startswith(_OURS) and code.co_filename not in _ALSO:
            return
        if event == "return" and code.co_name == "__init__":
            event = "made"
        if event not in ("call", "c_return", "made"):
            return
        self.seen += 1
        if self.seen - 1 == self.at:
            sys.setprofile(None)
            behind = f" behind {arg.__name__}" if event == "c_return" else ""
            name = Path(code.co_filename).name
            self.where = f"{name}:{frame.f_lineno} {code.co_name} ({event}{behind})"
            raise Interrupt(self.where)
