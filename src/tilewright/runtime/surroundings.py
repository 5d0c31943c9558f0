"""Whether anything around a call makes it different from the same call elsewhere.

Contexts that change how launches are made (`race_check`, a graph that is recorded) say so here as
well as in a variable of their own, so that the usual case is one look.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["UNUSUAL", "unusual"]

# Whether somebody has to look around. It may stay so longer than it has to.
UNUSUAL: ContextVar[bool] = ContextVar("unusual", default=False)


@contextmanager
def unusual() -> Iterator[None]:
    """Inside, launches are not to be made as they were before."""
    token = UNUSUAL.set(True)
    try:
        yield
    finally:
        UNUSUAL.reset(token)
