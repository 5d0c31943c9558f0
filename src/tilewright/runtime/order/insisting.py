"""Changes that are completed even if a signal handler raises in the middle of them.

A change that cannot be undone is repeated from the start until it completes; each of its steps is
idempotent. The change is called plainly, in a `try`, and insisted on after an exception: `except
BaseException: insist(change); raise`.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["insist"]

_TRIES = 16


def insist(change: Callable[[], object]) -> None:
    """Call a change until it completes, in spite of exceptions of signal handlers."""
    for left in reversed(range(_TRIES)):
        try:
            change()
        except BaseException:
            if not left:
                raise  # not a signal: the change itself fails
        else:
            return
