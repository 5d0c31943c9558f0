"""Runs something in the middle of our own code, where a finaliser or a signal handler may run.

The collector runs where something is allocated that it looks after, and from Python 3.12 on where a
function is entered, behind a call and at the end of a turn of a loop; handlers run at the latter.
`Points` takes all of these, whichever version runs, and acts at one of them. `EveryPoint` acts
before each instruction, of which they are a part.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable
from pathlib import Path

import tilewright
from tilewright import runtime

_GENERATED = ("<how addresses are filled in>",)
# Instructions in which something is allocated, those behind which 3.12 looks, and those at whose
# end it does.
_ALLOCATE = ("BUILD_", "FOR_ITER", "GET_ITER", "LIST_", "DICT_", "MAKE_", "UNPACK_", "BEFORE_WITH")
_LOOK = ("CALL", "RESUME")
_LOOK_THERE = ("JUMP_BACKWARD", "POP_JUMP_BACKWARD")


@functools.cache
def _points(code):
    """The instructions of a function before which the collector may run, or a handler."""
    found, is_behind = set(), False
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if is_behind or name.startswith(_ALLOCATE):
            found.add(instruction.offset)
        if name.startswith(_LOOK_THERE):
            found.add(instruction.argval)
        is_behind = name.startswith(_LOOK)
    return found


class _Traced:
    """Traces each instruction of a package inside a block."""

    package = runtime

    def __init__(self, act):
        self.seen = 0
        self.where = None
        self._act = act
        self._ours = str(Path(self.package.__file__).parent)

    def __enter__(self):
        self._before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # or 3.12 would not begin with the first call
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _enter(self, frame, event, arg):
        file = frame.f_code.co_filename
        if not file.startswith(self._ours) and file not in _GENERATED:
            return None
        frame.f_trace = self._pass  # or 3.13 would not trace this call
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._pass

    def _pass(self, frame, event, arg):
        if event == "opcode":
            self._come_by(frame)
        return self._pass

    def _run(self, frame):
        self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        self._act()


class Points(_Traced):
    """Counts the points that are come by, and acts at one of them."""

    def __init__(self, at=None, act=None):
        super().__init__(act)
        self._at = at

    def _come_by(self, frame):
        if frame.f_lasti in _points(frame.f_code):
            if self.seen == self._at:
                self._run(frame)
            self.seen += 1


class EveryPoint(_Traced):
    """Acts before every instruction of the whole package."""

    package = tilewright

    def _come_by(self, frame):
        self.seen += 1
        self._run(frame)


class Ended:
    """Does something when it ends."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def __del__(self) -> None:
        self.act()
