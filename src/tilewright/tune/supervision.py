"""A search in a child process, so that a hang or a crash costs one candidate.

The child writes a journal. If the journal has not grown for too long, the child is ended from
outside; if the child ends before it is done, it is restarted, and continues after the candidate
that was running. A child that ends twice without a new line in the journal has another problem,
which is reported.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.errors import TuneError

__all__ = ["supervise"]

_LOOK = 0.05  # seconds between two checks of the journal
_LAST_WORDS = 2000  # characters of a child's output that are reported

Look = Callable[[], None]


def supervise(
    command: Sequence[str], journal: Path, patience: float, look: Look = lambda: None
) -> int:
    """Run a command until it succeeds; return the number of restarts.

    `patience` is the time in seconds that the journal may stay unchanged. `look` is called
    periodically, for a progress bar that reads the journal.
    """
    restarts = 0
    while True:
        before = _size(journal)
        status, said = _watch(command, journal, patience, look)
        if status == 0:
            return restarts
        if _size(journal) == before:
            how = "was ended" if status is None else f"ended with status {status}"
            raise TuneError(f"the search {how} before it had tried anything:\n{said}")
        restarts += 1


def _watch(
    command: Sequence[str], journal: Path, patience: float, look: Look
) -> tuple[int | None, str]:
    """Run the child once; return its status, None if it was ended, and the end of its output."""
    with tempfile.TemporaryFile() as words:  # an unread pipe would block the child
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            start_new_session=True,  # so that its assemblers end with it
        )
        try:
            in_time = _wait(process, journal, patience, look)
        finally:
            _end(process)
        words.seek(0)
        said = words.read().decode(errors="replace").strip()[-_LAST_WORDS:]
    if not in_time:
        return None, f"{said}\nnothing happened for {patience:g} s".strip()
    return process.returncode, said


def _wait(process: subprocess.Popen[bytes], journal: Path, patience: float, look: Look) -> bool:
    """Wait for the child's end; return False if its journal was unchanged for too long."""
    size, changed = _size(journal), time.monotonic()
    while process.poll() is None:
        look()
        now = _size(journal)
        if now != size:
            size, changed = now, time.monotonic()
        elif time.monotonic() - changed > patience:
            return False
        time.sleep(_LOOK)
    look()
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the child, if it has not ended, with all its descendants."""
    if process.poll() is None:
        if sys.platform == "win32":
            process.kill()  # assemblers run on Linux alone
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _size(journal: Path) -> int:
    return journal.stat().st_size if journal.exists() else 0
