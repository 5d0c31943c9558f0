"""Stack space for functions that recurse as deep as a program is nested.

Python's recursion limit of 1,000 is too low to compile a sum of 900 terms or 400 `elif`s. A
function that reaches it is called again on a thread of its own, with a large stack and a higher
limit: calls through C need the stack, Python calls only the limit. The function must be safe to
call twice. Python 3.12 has a fixed limit for calls through C, so the recursion itself must not pass
through them: `"".join([f(x) for x in xs])` calls `f` from Python, a generator calls it from `join`.
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

# Nested calls, and the stack in bytes for those that go through C.
MOST_CALLS = 100_000
_STACK = 512 << 20


class _Limit:
    """Python's recursion limit, which all threads share: raised while some thread needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0

    @contextmanager
    def raised(self) -> Iterator[None]:
        """A context in which the limit is high."""
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
_starting = threading.Lock()  # the stack size of new threads is a setting of the process


def with_room(function: Callable[[], T]) -> T:
    """The function's result; `RecursionError` if even the large stack is too small."""
    try:
        return function()
    except RecursionError:
        pass  # drops the traceback, which holds a thousand frames
    return _on_a_large_stack(function)


def _on_a_large_stack(function: Callable[[], T]) -> T:
    results: list[T] = []
    failures: list[BaseException] = []

    def call() -> None:
        try:
            with _LIMIT.raised():
                results.append(function())
        except BaseException as error:  # noqa: BLE001 raised again in the calling thread
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
