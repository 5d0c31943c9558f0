"""Changes that are brought to their end though a signal raises in the middle of them.

What has been begun and cannot be undone is done again from the start, as often as it takes: each of
its steps does nothing where it has been done before. A change is called plainly, in a `try`, and
insisted on where that has raised: `except BaseException: insist(change); raise`.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["insist"]

_TRIES = 16


def insist(change: Callable[[], object]) -> None:
    """Call something until it comes to its end, whatever signals raise in it meanwhile."""
    for left in reversed(range(_TRIES)):
        try:
            change()
        except BaseException:
            if not left:
                raise  # no signal comes that often
        else:
            return
