"""Programs that are run to see what the runtime says about them."""

import sys
import traceback
import warnings
from pathlib import Path

import tilewright as tw

PATH = Path(__file__).with_name("program.py")
PRELUDE = """import asyncio
import tilewright as tw
from lint_kernels import add, count, doubled, scale, walk
from tilewright import f32, i32, kernels
x, y, z, w = tw.ones((64,), f32), tw.ones((64,), f32), tw.zeros((64,), f32), tw.zeros((64,), f32)
"""
KINDS = {tw.BorrowError: "borrow", tw.MovedError: "moved"}  # any other exception is "other"


def run(text, **given):
    """The kinds and lines of the exception, or else of the warnings; line 0 is in another file."""
    names, raised = {"__name__": "program", **given}, []
    with warnings.catch_warnings(record=True) as told, tw.device("cpu"):
        warnings.simplefilter("always")
        try:
            exec(compile(text, str(PATH), "exec"), names)
        except (tw.TilewrightError, NameError) as error:
            own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(PATH)]
            raised = [(KINDS.get(type(error), "other"), own[-1].lineno)]
        names.clear()
    warned = [one for one in told if "never run" in str(one.message)]
    return raised or [("never-run", one.lineno * (one.filename == str(PATH))) for one in warned]


def run_tracing(text, **given):
    """The same, and the lines that were reached."""
    reached = set()

    def trace(frame, event, _):
        if frame.f_code.co_filename != str(PATH):
            return None
        if event == "line":
            reached.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return run(text, **given), reached
    finally:
        sys.settrace(before)
