"""Ends tools that are left over: by this process, or by a small one that outlives it.

A tool and everything that it starts carry a token in their environment, whichever group or session
they move to. Run as a program, this module reads which runs have begun and ended; when its input
ends, the process that started it is gone, by SIGTERM or SIGKILL perhaps, and the tools of runs that
have not ended go with it, and so do their folders. Nothing but Python's library is imported here,
so that it starts at once.
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

# The variable of the environment that marks a tool and its children.
TOKEN = "TILEWRIGHT_RUN"
# The words of the messages: a run with this token and folder has begun, or has ended.
BEGIN, END = "begin", "end"

_ROUNDS = 200  # in which children that are started meanwhile are found, too
_ROUND_SECONDS = 0.005


def tools_with(token: str) -> Iterator[int]:
    """The processes that carry a token, where the system shows environments."""
    wanted = f"{TOKEN}={token}".encode()
    with contextlib.suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with contextlib.suppress(OSError):  # of another user, or gone
                    if wanted in Path(entry.path, "environ").read_bytes().split(b"\0"):
                        yield int(entry.name)


def end_by_token(token: str) -> None:
    """End every process that carries a token; they are gone when this returns."""
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
