"""Awaiting a fence in asyncio: the event loop continues, without timers that poll.

Most operations complete within microseconds. A wait therefore yields one turn to other tasks, which
may have work to submit, and then polls the backend for a short time without the GIL, before the
coroutine is suspended. The backend then resumes it, from a thread of its own, when the fence has
passed. A cancelled wait leaves the operation in its stream: buffers and fences belong to the
storage, not to the wait.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from functools import partial
from types import coroutine
from typing import Any

from tilewright.runtime.order.failure import Fence

__all__ = ["completed"]


async def completed(fence: Fence) -> None:
    """Return when the operation of a fence has completed, whether or not it failed."""
    if fence.has_passed:
        return
    await _one_turn()
    queue = fence.stream.queue
    if queue.passes_soon(fence.count):
        return
    # A coroutine that runs has loaded asyncio; other callers do not pay for its import.
    loop = sys.modules["asyncio"].get_running_loop()
    passed = loop.create_future()
    with fence.stream.device.lock:
        queue.when_completed(fence.count, partial(_tell, loop, passed))
    await passed


@coroutine
def _one_turn() -> Generator[None, None, None]:
    """Let all other ready tasks run once."""
    yield


def _tell(loop: Any, passed: Any, error: BaseException | None) -> None:
    try:
        loop.call_soon_threadsafe(_finish, passed, error)
    except RuntimeError:  # the loop is closed, and its tasks with it
        return


def _finish(passed: Any, error: BaseException | None) -> None:
    if passed.done():
        return
    if error is None:
        passed.set_result(None)
    else:
        passed.set_exception(error)
