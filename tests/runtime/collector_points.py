"""Runs something wherever the collector may run a finaliser in a stretch of our own code.

The collector runs where something is allocated that it looks after, and from Python 3.12 on where a
function is entered, behind a call and at the end of a turn of a loop. All of these are taken,
whichever version runs: what each does is the same.
"""

from __future__ import annotations

import dis
import functools
import sys
from pathlib import Path

from tilewright import runtime

_OURS = str(Path(runtime.__file__).parent)
_GENERATED = ("<how addresses are filled in>", "<each tensor>")
# Instructions in which something is allocated, and those behind which 3.12 looks.
_ALLOCATE = ("BUILD_", "FOR_ITER", "GET_ITER", "LIST_", "DICT_", "MAKE_", "UNPACK_", "BEFORE_WITH")
_LOOK = ("CALL", "JUMP_BACKWARD", "POP_JUMP_BACKWARD", "RESUME")


@functools.cache
def _points(code):
    """The instructions of a function before which the collector may run."""
    found, is_behind = set(), False
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if is_behind or name.startswith(_ALLOCATE):
            found.add(instruction.offset)
        is_behind = name.startswith(_LOOK)
    return found


class Points:
    """Counts the points that are come by, and acts at one of them."""

    def __init__(self, at=None, act=None):
        self.seen = 0
        self.where = None
        self._at, self._act = at, act

    def __enter__(self):
        self._before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # or 3.12 would not begin with the first call
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _enter(self, frame, event, arg):
        file = frame.f_code.co_filename
        if not file.startswith(_OURS) and file not in _GENERATED:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._pass

    def _pass(self, frame, event, arg):
        if event == "opcode" and frame.f_lasti in _points(frame.f_code):
            if self.seen == self._at:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                self._act()
            self.seen += 1
        return self._pass
