"""Whether anybody else has an object, which Python's count of references says.

Whoever nobody has thought of counts as well. What it is asked of may be handed out again.
"""

from __future__ import annotations

import sys
from sys import getrefcount

__all__ = ["ALONE", "COUNTS"]


def _count_alone() -> int:
    holder = [object()]
    held = holder[0]
    return getrefcount(held)


# What is counted for an object that one variable and one other object have.
ALONE = _count_alone()
_is_gil_enabled = getattr(sys, "_is_gil_enabled", None)  # from Python 3.13 on
# Without the interpreter's lock a count says nothing: others may be about to take what it counts.
COUNTS = _is_gil_enabled is None or _is_gil_enabled()
