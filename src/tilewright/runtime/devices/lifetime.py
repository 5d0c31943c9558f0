"""Fork and exit of the process.

A forked child has none of our threads: the CPU device starts its workers anew, CUDA work is
refused. At exit the streams are waited for, the threads that watch them end, and failures that no
call has raised are reported. If Ctrl-C ends the process, kernels that can be stopped are stopped.
"""

from __future__ import annotations

import atexit
import os
import sys

from tilewright.errors import DriverError
from tilewright.runtime.devices.device import Device, open_devices, start_child
from tilewright.runtime.interop.foreign import RANGES
from tilewright.runtime.order.failure import report_unseen

__all__ = ["guard_process"]


def guard_process() -> None:
    """Register the handlers of fork and exit."""
    atexit.register(_finish)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=start_child)
        os.register_at_fork(after_in_child=RANGES.reset)


def _finish() -> None:
    for one in open_devices():
        if not one.forked:
            _finish_device(one)


def _ends_by_interrupt() -> bool:
    """Whether Ctrl-C ends a script: then an endless kernel is not waited for."""
    last = getattr(sys, "last_type", None)
    return last is KeyboardInterrupt and not hasattr(sys, "ps1")


def _finish_device(device: Device) -> None:
    try:
        is_interrupted = _ends_by_interrupt()
        for stream in device.streams:
            if is_interrupted:
                stream.queue.stop_all()
            stream.queue.end_holds()
        for stream in device.streams:
            stream.wait(stream.issued)
        device.backend.end()
    except DriverError:
        return  # the context is lost, and the call that found out has raised
    with device.lock:
        report_unseen(device.unseen)
        device.unseen.clear()
