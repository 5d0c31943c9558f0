"""Stretches of code in which Python's collector runs no finaliser.

It is stopped for the whole process, so they are short; whoever stops it starts it again.
"""

from __future__ import annotations

import gc

__all__ = ["stop_collecting"]


def stop_collecting() -> bool:
    """Have no finaliser run but those of what is dropped here; whether they ran before."""
    was_enabled = is_enabled = gc.isenabled()
    gc.disable()
    while is_enabled:
        _look_up()  # and a finaliser that runs now may start it again
        is_enabled = gc.isenabled()
        gc.disable()
    return was_enabled


def _look_up() -> None:
    """From Python 3.12 on, a collection that was put off before comes at the next call."""
