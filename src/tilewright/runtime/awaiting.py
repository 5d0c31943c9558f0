"""Waiting for a fence in asyncio: the loop goes on, and nobody polls with its timers.

Most operations are over within microseconds, so the backend is asked once more, without the
interpreter's lock, before the coroutine is suspended. Then the backend says, on a thread of its
own, when the fence has passed. A cancelled wait leaves the operation in its stream: buffers and
fences are the storage's, not the waiter's.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from tilewright.runtime.failures import Fence

__all__ = ["completed"]


async def completed(fence: Fence) -> None:
    """Return when the operation of a fence has completed, whether or not it failed."""
    queue = fence.stream.queue
    if queue.passes_soon(fence.count):
        return
    # Whoever awaits has loaded asyncio; nobody else should pay for its import.
    loop = sys.modules["asyncio"].get_running_loop()
    passed = loop.create_future()
    with fence.stream.device.lock:
        queue.when_completed(fence.count, partial(_tell, loop, passed))
    await passed


def _tell(loop: Any, passed: Any, error: BaseException | None) -> None:
    try:
        loop.call_soon_threadsafe(_finish, passed, error)
    except RuntimeError:  # the loop is closed, and with it whoever waited
        return


def _finish(passed: Any, error: BaseException | None) -> None:
    if passed.done():
        return
    if error is None:
        passed.set_result(None)
    else:
        passed.set_exception(error)
