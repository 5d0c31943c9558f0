"""Stretches of code in which Python's collector runs no finaliser.

It is stopped for the whole process, so they are short.
"""

from __future__ import annotations

import gc

__all__ = ["Uncollected"]


class Uncollected:
    """Has no finaliser run in a `with` but those of what is dropped there."""

    __slots__ = ("_was_enabled",)

    def __enter__(self) -> None:
        self._was_enabled = is_enabled = gc.isenabled()
        gc.disable()
        while is_enabled:
            _look_up()  # and a finaliser that runs now may start it again
            is_enabled = gc.isenabled()
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()


def _look_up() -> None:
    """From Python 3.12 on, a collection that was put off before comes at the next call."""
