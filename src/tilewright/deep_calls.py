"""Room for functions that call themselves as deep as a program is nested.

Python's own limit of 1,000 calls inside each other is less than a sum of 900 terms or 400 `elif`s
take to be compiled. A function that meets it is called again on a thread of its own, with a large
stack and a higher limit: what goes through C needs the stack, what does not needs only the limit.
The function must be one that can be called twice.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import TypeVar

__all__ = ["MOST_CALLS", "with_room"]

T = TypeVar("T")

# Calls inside each other, and bytes for those of them that go through C.
MOST_CALLS = 100_000
_STACK = 512 << 20


class _Limit:
    """Python's limit, which all threads share: raised while some thread needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Inside, the limit is high."""
        with self._lock:
            if not self._users:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._before, MOST_CALLS))
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    sys.setrecursionlimit(self._before)


_LIMIT = _Limit()
_starting = threading.Lock()  # the size of new stacks is the process's


def with_room(function: Callable[[], T]) -> T:
    """What the function gives; `RecursionError` if there is not enough room for it anywhere."""
    try:
        return function()
    except RecursionError:
        pass  # and its traceback, which holds a thousand frames
    return _on_a_large_stack(function)


def _on_a_large_stack(function: Callable[[], T]) -> T:
    results: list[T] = []
    failures: list[BaseException] = []

    def call() -> None:
        try:
            with _LIMIT.raised():
                results.append(function())
        except BaseException as error:  # noqa: BLE001 it is raised where the caller waits
            failures.append(error)

    _start(partial(copy_context().run, call)).join()
    for error in failures:
        raise error
    return results[0]


def _start(call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call, name="tilewright deep calls", daemon=True)
    with _starting:
        before = threading.stack_size(_STACK)
        try:
            thread.start()
        except RuntimeError as error:  # no memory for a stack of that size
            raise RecursionError(str(error)) from None
        finally:
            threading.stack_size(before)
    return thread
