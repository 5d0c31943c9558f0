"""Waiting for a fence in asyncio: the loop goes on, and nobody polls with its timers.

Most operations are over within microseconds. So whoever waits lets the others have one turn, who
may have work to submit, and then asks the backend for a little while, without the interpreter's
lock, before the coroutine is suspended. Then the backend says, on a thread of its own, when the
fence has passed. A cancelled wait leaves the operation in its stream: buffers and
fences are the storage's, not the waiter's.
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
    # Whoever awaits has loaded asyncio; nobody else should pay for its import.
    loop = sys.modules["asyncio"].get_running_loop()
    passed = loop.create_future()
    with fence.stream.device.lock:
        queue.when_completed(fence.count, partial(_tell, loop, passed))
    await passed


@coroutine
def _one_turn() -> Generator[None, None, None]:
    """Let everything else run that can."""
    yield


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
