"""Completion of GPU work for asynchronous waits: one thread polls all their events.

The thread queries its events in turn, and sleeps between rounds; it starts with the first event and
ends after a while without one, or with the process. A driver error is passed to the waiting tasks.
Driver callbacks are no alternative: they need the GIL in the middle of a stream, and may not call
CUDA.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from tilewright.backends.cuda.driver import Driver
from tilewright.errors import DriverError
from tilewright.runtime.devices.backend import Tell

__all__ = ["Poller"]

_ROUND_SECONDS = 20e-6
_IDLE_SECONDS = 2.0


class Poller:
    """The events of one GPU that asynchronous tasks wait for."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._arrived = threading.Condition()
        self._waiting: list[tuple[Any, Tell]] = []
        self._free: list[Any] = []
        self._thread: threading.Thread | None = None
        self._is_ending = False

    def watch(self, stream: Any, tell: Tell) -> None:
        """Call `tell` when all work on a stream so far has completed."""
        with self._arrived:
            event = self._free.pop() if self._free else self._driver.create_event()
            self._driver.record_event(event, stream)
            self._waiting.append((event, tell))
            if self._thread is None:
                self._start()
            else:
                self._arrived.notify()

    def _start(self) -> None:
        """Start the thread, or fail the waiting tasks if none can be started. The lock is held."""
        self._thread = threading.Thread(target=self._poll, name="tilewright poller", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._thread = None
            waiting, self._waiting = self._waiting, []
            for event, tell in waiting:
                self._free.append(event)
                tell(DriverError(f"no thread can be started that waits for the GPU: {error}"))
        except BaseException:  # from a signal handler; a started thread then ends
            self._thread = None
            raise

    def _poll(self) -> None:
        with self._arrived:
            if self._thread is not threading.current_thread():
                return
        self._driver.disregard_captures()
        while self._has_work():
            passed = self._take_passed()
            for tell, error in passed:
                tell(error)
            if not passed:
                time.sleep(_ROUND_SECONDS)

    def _has_work(self) -> bool:
        with self._arrived:
            if not self._waiting and not self._is_ending:
                self._arrived.wait(_IDLE_SECONDS)
            if not self._waiting:
                self._thread = None
            return bool(self._waiting)

    def _take_passed(self) -> list[tuple[Tell, DriverError | None]]:
        found: list[tuple[Tell, DriverError | None]] = []
        left: list[tuple[Any, Tell]] = []
        with self._arrived:
            for event, tell in self._waiting:
                try:
                    if not self._driver.query_event(event):
                        left.append((event, tell))
                        continue
                except DriverError as error:
                    found.append((tell, error))
                else:
                    found.append((tell, None))
                self._free.append(event)
            self._waiting = left
        return found

    def end(self) -> None:
        """End the thread: all awaited work has completed."""
        with self._arrived:
            self._is_ending = True
            thread = self._thread
            self._arrived.notify()
        if thread is not None:
            thread.join()
