"""Processes as a user starts them: with the compiled modules that an installation has.

A tree that cannot be written to, or a setting that forbids it, would have Python compile every
module again in every process, which is not what an import costs.
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
    """Runs this Python, again and again."""

    environment: dict[str, str]

    def run(self, arguments: Sequence[str], **variables: str) -> str:
        """What it prints."""
        done = subprocess.run(
            [sys.executable, *arguments], env={**self.environment, **variables},
            check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return done.stdout


@contextmanager
def fresh_processes() -> Iterator[FreshProcesses]:
    """Processes that share one folder of compiled modules, which the first one fills."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield FreshProcesses(environment)
