"""Runs something wherever the collector may run a finaliser in a stretch of our own code.

The collector runs where something is allocated that it looks after, and from Python 3.12 on where a
function is entered, behind a call and at the end of a turn of a loop. All of these are taken,
whichever version runs: what each does is the same. Where a user has stopped the collector it does
not run; a signal handler does.
"""

from __future__ import annotations

import dis
import functools
import gc
import itertools
import sys
from pathlib import Path

from tilewright import runtime

_OURS = str(Path(runtime.__file__).parent)
_GENERATED = ("<how addresses are filled in>",)
# Instructions in which something is allocated, those behind which 3.12 looks, and those at whose
# end it does.
_ALLOCATE = ("BUILD_", "FOR_ITER", "GET_ITER", "LIST_", "DICT_", "MAKE_", "UNPACK_", "BEFORE_WITH")
_LOOK = ("CALL", "RESUME")
_LOOK_THERE = ("JUMP_BACKWARD", "POP_JUMP_BACKWARD")


@functools.cache
def _points(code, *, also_made=True):
    """The instructions of a function before which the collector may run, or a handler."""
    found, is_behind = set(), False
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if is_behind or (also_made and name.startswith(_ALLOCATE)):
            found.add(instruction.offset)
        if name.startswith(_LOOK_THERE):
            found.add(instruction.argval)
        is_behind = name.startswith(_LOOK)
    return found


@functools.cache
def _raising_points(code):
    """Those where what a handler raises is caught by whoever catches it behind the call itself.

    That is where it is raised; here it can only be raised before the next instruction.
    """

    def catcher(offset):
        entries = dis._parse_exception_table(code)
        return next((one.target for one in entries if one.start <= offset < one.end), None)

    offsets = [instruction.offset for instruction in dis.get_instructions(code)]
    pairs = itertools.pairwise(offsets)
    same = {later for first, later in pairs if catcher(first) == catcher(later)}
    return same & _points(code, also_made=False)


class Points:
    """Counts the points that are come by, and acts at one of them."""

    def __init__(self, at=None, act=None, *, of_signals=False, raising=False):
        self.seen = 0
        self._of_signals = of_signals or raising
        self._find = _raising_points if raising else _points
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
        frame.f_trace = self._pass  # or 3.13 would not trace this call
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._pass

    def _pass(self, frame, event, arg):
        if event == "opcode" and self._may_act(frame):
            if self.seen == self._at:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                self._act()
            self.seen += 1
        return self._pass

    def _may_act(self, frame):
        return (self._of_signals or gc.isenabled()) and frame.f_lasti in self._find(frame.f_code)
