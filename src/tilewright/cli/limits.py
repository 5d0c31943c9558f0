"""Limits of time and memory for a command that executes a file, and a prompt end at Ctrl-C.

The time limit and Ctrl-C both raise in the main thread; if other threads do not end soon after, the
process does. The memory limit is the operating system's (`RLIMIT_AS`), where there is one: beyond
it Python raises `MemoryError`. A process without such a limit (macOS, Windows) relies on the CPU
backend, which counts bytes before it allocates.
"""

from __future__ import annotations

import _thread
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.cli.screen import BadInput, visible
from tilewright.errors import OutOfMemoryError
from tilewright.runtime.memory.pool import in_units

if sys.platform == "win32":
    resource = None
else:
    import resource

__all__ = ["half_of_memory", "limited"]

_GRACE = 2.0  # seconds that threads have to end
_SPARE = 1 << 30  # bytes of address space that threads and libraries reserve and never touch
_WITHOUT_NUMBER = 4 << 30  # default where the system does not report its memory
_INTERRUPTED, _OVERDUE = 130, 2  # exit codes


def half_of_memory() -> int:
    """Half of the memory of this machine, in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return _WITHOUT_NUMBER


@contextmanager
def limited(what: str, seconds: float, nbytes: int) -> Iterator[None]:
    """Limit the body to so many seconds, and so many bytes beyond those already in use."""
    overdue = (
        f"{what}: not done within {seconds:g} s, and ended; --time-limit SECONDS allows it more"
    )
    try:
        with _Watch(seconds, overdue).watching(), _addresses_limited(nbytes):
            yield
    except OutOfMemoryError as error:
        raise BadInput(f"{what}: {error}; --memory-limit BYTES allows it more") from None
    except MemoryError:
        raise BadInput(
            f"{what}: needs more than {in_units(nbytes)} of memory; --memory-limit BYTES allows "
            "it more"
        ) from None


class _Watch:
    """Ends the work of the main thread: when time is up, or at Ctrl-C."""

    def __init__(self, seconds: float, overdue: str) -> None:
        self._seconds = seconds
        self._overdue = overdue
        self._lock = threading.Lock()
        self._is_over = self._is_overdue = False
        self._timers: list[threading.Timer] = []
        self._before: Any = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch a part of the main thread; other threads are not watched."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._before = signal.signal(signal.SIGINT, self._interrupted)
        try:
            if math.isfinite(self._seconds):
                self._start(self._seconds, self._expire)
            yield
            self._end()
        except KeyboardInterrupt:
            self._is_over = True
            if not self._is_overdue:
                raise
            raise BadInput(self._overdue) from None
        except BaseException:
            self._end()
            raise
        finally:
            signal.signal(signal.SIGINT, self._before or signal.SIG_DFL)

    def _start(self, seconds: float, action: Callable[..., None], *arguments: Any) -> None:
        timer = threading.Timer(seconds, action, arguments)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _end(self) -> None:
        with self._lock:
            self._is_over = True
        for timer in self._timers:
            timer.cancel()

    def _expire(self) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_overdue = True
            _thread.interrupt_main()
        self._start(_GRACE, self._leave, f"Error: {self._overdue}", _OVERDUE)

    def _interrupted(self, _signal: int, _frame: Any) -> None:
        if not self._is_overdue:
            if self._before is signal.SIG_IGN:
                return
            self._start(_GRACE, self._leave, "Aborted!", _INTERRUPTED)
        raise KeyboardInterrupt

    def _leave(self, message: str, code: int) -> None:
        """End the process, if one of its threads ignores the request to stop.

        A main thread that has reported the end and joins such threads no longer counts as alive.
        """
        with self._lock:
            if not self._is_over:
                os.write(2, f"{visible(message)}\n".encode())
                os._exit(code)
        threading.main_thread().join(_GRACE)
        if not threading.main_thread().is_alive():
            os._exit(code)


@contextmanager
def _addresses_limited(nbytes: int) -> Iterator[None]:
    """Allow the process so many more bytes of address space, where the system counts them."""
    used = _addresses()
    if resource is None or used is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = used + nbytes + _SPARE
    for known in (soft, hard):
        most = most if known == resource.RLIM_INFINITY else min(most, known)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _addresses() -> int | None:
    """Bytes of address space in use by this process, if the system reports them."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
