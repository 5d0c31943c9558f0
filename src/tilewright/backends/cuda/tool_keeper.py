"""Termination of orphaned tools: by this process, or by a small one that outlives it.

A tool and all its descendants carry a token in their environment, in whatever group or session they
are. Run as a program, this module reads the beginnings and ends of runs; the end of its input means
that its parent is gone, perhaps by SIGTERM or SIGKILL, and it then ends the tools of unfinished
runs and removes their folders. It imports only Python's library, so that it starts at once.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["BEGIN", "END", "TOKEN", "end_by_token", "tools_with"]

# Environment variable that marks a tool and its descendants.
TOKEN = "TILEWRIGHT_RUN"
# Message keywords: a run with this token and folder has begun, or has ended.
BEGIN, END = "begin", "end"

_ROUNDS = 200  # of a search that also finds children started meanwhile
_ROUND_SECONDS = 0.005


def tools_with(token: str) -> Iterator[int]:
    """Iterate over the processes that carry a token, where the system shows environments."""
    wanted = f"{TOKEN}={token}".encode()
    with contextlib.suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with contextlib.suppress(OSError):  # owned by another user, or gone
                    if wanted in Path(entry.path, "environ").read_bytes().split(b"\0"):
                        yield int(entry.name)


def end_by_token(token: str) -> None:
    """End every process that carries a token, and wait until all are gone."""
    for _ in range(_ROUNDS):
        found = list(tools_with(token))
        if not found:
            return
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_ROUND_SECONDS)


def _main() -> None:
    folders: dict[str, str] = {}
    for line in sys.stdin:
        word, token, folder = json.loads(line)
        if word == BEGIN:
            folders[token] = folder
        else:
            folders.pop(token, None)
    for token, folder in folders.items():
        end_by_token(token)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main()
