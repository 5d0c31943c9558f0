"""Runs of a tool that always end: by themselves, by a time limit, or with their caller.

A tool writes to files, so that no child which keeps a pipe open delays the call. It is the leader
of a process group, which is killed as a whole when the call ends: by a result, the time limit, an
interrupt, or the end of the process, which ends the tools of all threads. Children that have left
the group are found by the token in their environment (`tool_keeper`).
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.backends.cuda import tool_keeper
from tilewright.backends.cuda.tool_keeper import BEGIN, END, TOKEN, end_by_token
from tilewright.runtime.devices.process import ForkedLock, in_children

__all__ = ["TookTooLong", "ToolOutcome", "run_tool"]

_CAN_END_TOOLS = hasattr(os, "killpg") and hasattr(os, "waitid") and hasattr(select, "poll")
_ROUND_SECONDS = 0.005  # polling interval, where the system does not signal the end
_PATIENCE = 5.0  # seconds for a thread to notice that its tool was ended


class TookTooLong(Exception):
    """A tool exceeded its time limit and was ended."""


@dataclass(frozen=True)
class ToolOutcome:
    """Result of a tool."""

    status: int
    output: str
    errors: str


def run_tool(
    command: Sequence[str | Path], folder: Path, seconds: float, environment: Mapping[str, str]
) -> ToolOutcome:
    """Run a tool in a folder of its own; raise `TookTooLong`, or `OSError` if it does not start.

    No process that the tool has started is left when this returns or raises.
    """
    if not _CAN_END_TOOLS:
        raise OSError(errno.ENOTSUP, "NVIDIA's tools are run on Linux alone")
    run = _Run(folder)
    try:
        _running[run] = None
        _keeper.tell(BEGIN, run)
        run.start(command, environment)
        in_time = run.wait(seconds)
    finally:
        run.end()
        _keeper.tell(END, run)
        _running.pop(run, None)
        run.over.set()
    if not in_time:
        raise TookTooLong
    return run.finished()


class _Run:
    """One run of a tool."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = secrets.token_hex(16)
        self.over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._leash: int | None = None  # a pipe that reaches its end when no child holds it
        self._output, self._errors = (folder / f"tool.{name}" for name in ("output", "errors"))

    def start(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        """Start the tool as the leader of a process group."""
        self._leash, held = os.pipe()
        try:
            with self._output.open("wb") as output, self._errors.open("wb") as errors:
                self._process = subprocess.Popen(
                    command,
                    cwd=self.folder,
                    env={**environment, TOKEN: self.token},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    start_new_session=True,
                    pass_fds=(held,),
                )
        finally:
            os.close(held)

    def wait(self, seconds: float) -> bool:
        """Wait for the tool itself, which stays a zombie; return False after the time limit."""
        assert self._process is not None, "it was started"
        pid, deadline = self._process.pid, time.monotonic() + seconds
        with _end_of(pid) as told:
            while not _has_ended(pid):
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                told(min(left, 3600.0))
        return True

    def end(self) -> None:
        """End the tool and all its descendants."""
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(OSError):  # while the leader is a zombie its id is not reused
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process is None or self._is_held():
            end_by_token(self.token)
        if self._leash is not None:
            leash, self._leash = self._leash, None
            os.close(leash)

    def stop(self) -> None:
        """End the tool from another thread; the waiting thread does the cleanup."""
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)

    def _is_held(self) -> bool:
        """Whether a child may be left; a process forked in the meantime looks like one."""
        if self._leash is None:
            return True
        poll = select.poll()
        poll.register(self._leash, select.POLLIN)
        return not poll.poll(0)

    def finished(self) -> ToolOutcome:
        """Return the result."""
        assert self._process is not None, "it was started"
        output, errors = (
            path.read_bytes().decode(errors="replace") for path in (self._output, self._errors)
        )
        return ToolOutcome(self._process.returncode, output, errors)


def _has_ended(pid: int) -> bool:
    """Whether a child is a zombie; it is not reaped."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        return os.waitid(os.P_PID, pid, flags) is not None
    except ChildProcessError:  # the program has reaped all of its children
        return True


@contextlib.contextmanager
def _end_of(pid: int) -> Iterator[Callable[[float], object]]:
    """Yield a function that waits, up to a number of seconds, for the end of a child."""
    try:
        told = os.pidfd_open(pid)
    except (AttributeError, OSError):  # Linux before 5.3
        yield lambda left: time.sleep(min(left, _ROUND_SECONDS))
        return
    try:
        poll = select.poll()
        poll.register(told, select.POLLIN)
        yield lambda left: poll.poll(left * 1e3 + 1)
    finally:
        os.close(told)


class _Keeper:
    """A small process that ends the tools of this one after its death."""

    def __init__(self) -> None:
        self._lock = ForkedLock()
        self._process: subprocess.Popen[bytes] | None = None

    def tell(self, word: str, run: _Run) -> None:
        """Report that a run has begun or ended. Without a keeper process orphaned tools survive."""
        line = json.dumps((word, run.token, str(run.folder))).encode() + b"\n"
        with self._lock:
            try:
                if self._process is None:
                    self._process = self._started()
                assert self._process.stdin is not None, "it is a pipe"
                os.write(self._process.stdin.fileno(), line)
            except OSError:
                self._leave()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", tool_keeper.__file__],
            cwd="/",
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C does not reach it
        )

    def close(self) -> None:
        """Close the input of the keeper, which then ends the tools that still run."""
        with self._lock:
            process = self._process
            self._leave()
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)

    def forget(self) -> None:
        """Forget the keeper in a forked child, since it belongs to the parent."""
        process = self._process
        self._leave()
        if process is not None:
            process.returncode = 0  # the process is not a child of this one

    def _leave(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()


_running: dict[_Run, None] = {}
_keeper = _Keeper()


def _end_all() -> None:
    """End all tools at exit, without waiting for the threads that wait for them."""
    runs = list(_running)
    for run in runs:
        run.stop()
    for run in runs:
        run.over.wait(_PATIENCE)
    _keeper.close()


def _forget_all() -> None:
    _running.clear()
    _keeper.forget()


atexit.register(_end_all)
in_children(_forget_all)
