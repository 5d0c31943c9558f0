"""TILEWRIGHT_LOG: cache, compilations, launches and waits of a process, on stderr.

Launches and waits are logged by methods that replace those of the runtime when the process starts,
so a process without the variable pays nothing for them. Recorded operations are no launches.
"""

from __future__ import annotations

import logging
import sys
import time
from functools import wraps
from typing import Any

from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.graph import Replay
from tilewright.runtime.graphs.recording import Tape
from tilewright.runtime.ops.call_site import user_site
from tilewright.runtime.ops.launch import LaunchOp
from tilewright.settings import current_settings

__all__ = ["start_log"]

_launch_log = logging.getLogger("tilewright.launch")
_wait_log = logging.getLogger("tilewright.wait")


class _Stderr(logging.Handler):
    """Writes to the stream that is stderr at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:
            sys.stderr.write(f"{self.format(record)}\n")


def start_log() -> None:
    """Log the topics that TILEWRIGHT_LOG names."""
    topics = current_settings().log
    if not topics:
        return
    handler = _Stderr()
    for topic in topics:
        logger = logging.getLogger(f"tilewright.{topic}")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
    if "launch" in topics:
        _log_launches(LaunchOp, "put_once")
        _log_launches(Replay, "put")
    if "wait" in topics:
        _log_waits()


def _log_launches(kind: type[Any], name: str) -> None:
    put = getattr(kind, name)

    @wraps(put)
    def logged(self: Any, stream: Stream, *rest: Any) -> None:
        put(self, stream, *rest)
        if not isinstance(stream, Tape):
            _launch_log.debug(
                "tilewright: launch of %s, built at %s, on %s of %s",
                self.label, self.site, stream.label, stream.device.name,
            )  # fmt: skip

    setattr(kind, name, logged)


def _log_waits() -> None:
    wait = Stream.wait

    @wraps(wait)
    def logged(self: Stream, count: int) -> None:
        if self.has_passed(count):
            wait(self, count)
            return
        start = time.perf_counter()
        wait(self, count)
        took = 1e3 * (time.perf_counter() - start)
        _wait_log.debug(
            "tilewright: wait for %s of %s at %s: %.3f ms",
            self.label, self.device.name, user_site(), took,
        )  # fmt: skip

    Stream.wait = logged  # type: ignore[method-assign]
