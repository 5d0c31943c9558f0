"""Fresh processes with the compiled modules of an installation.

In a read-only tree, or where a setting forbids bytecode files, Python would compile every module
again in every process, which would distort the time of an import.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["FreshProcesses", "fresh_processes"]


@dataclass(frozen=True)
class FreshProcesses:
    """Runs this Python repeatedly."""

    environment: dict[str, str]

    def run(self, arguments: Sequence[str], **variables: str) -> str:
        """The output of a program."""
        done = subprocess.run(
            [sys.executable, *arguments], env={**self.environment, **variables},
            check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return done.stdout


@contextmanager
def fresh_processes() -> Iterator[FreshProcesses]:
    """Processes that share one folder of compiled modules, filled by the first one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield FreshProcesses(environment)
