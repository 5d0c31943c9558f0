"""A search in a child process: what hangs or takes its process down costs one candidate.

The child writes a journal. While it grows, all is well; when it has not grown for too long, the
child is ended from outside, and when the child has ended before it was done, it is started again:
it goes on behind the candidate that was running. A child that ends twice without a new line in the
journal has some other trouble, which is told.
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

_LOOK = 0.05  # seconds between two looks at the journal
_LAST_WORDS = 2000  # characters of what a child said that are told

Look = Callable[[], None]


def supervise(
    command: Sequence[str], journal: Path, patience: float, look: Look = lambda: None
) -> int:
    """Run a command until it succeeds; how many times it had to be started again.

    `patience` is the number of seconds that the journal may stay as it is. `look` is called now and
    then, for a progress bar that reads the journal.
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
    """One life of the child: its status, None if it had to be ended, and its last words."""
    with tempfile.TemporaryFile() as words:  # a pipe that nobody reads would stop it
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
    """Wait for the child's end; False if its journal stood still for too long."""
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
    """End the child, if it has not ended, with everything it started."""
    if process.poll() is None:
        if sys.platform == "win32":
            process.kill()  # assemblers run on Linux alone
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _size(journal: Path) -> int:
    return journal.stat().st_size if journal.exists() else 0
