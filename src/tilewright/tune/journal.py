"""The journal of searches: a line of JSON for every step, so that no measurement is lost.

A line is on disk before the next step begins. A restarted search finds its earlier attempts and
continues after them. A candidate is recorded before it runs: one that began and never ended has
crashed its process, or hung until the process was ended, and is not tried again. One journal may
hold many searches; each line names its search. There is one writer at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilewright.errors import TuneError
from tilewright.tune.attempts import Attempt, Verdict
from tilewright.tune.config import Config

__all__ = ["Journal"]

_LOST = "the process ended while it ran"


class Journal:
    """The journal in one file; without a file it is in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._known: dict[str, dict[Config, Attempt]] = {}
        if path is not None and path.exists():
            for search, attempt in _read(path):
                self._learn(search, attempt)
            _end_last_line(path)

    def begin(self, search: str, config: Config) -> None:
        """Record that a candidate is about to run."""
        self._learn(search, _lost(config))
        self._write({"search": search, "begun": config.to_json()})

    def end(self, search: str, attempt: Attempt) -> None:
        """Record the outcome of a candidate."""
        self._learn(search, attempt)
        self._write({"search": search, "attempt": attempt.to_json()})

    def attempts(self, search: str) -> dict[Config, Attempt]:
        """Return the attempts of a search, by candidate."""
        return dict(self._known.get(search, {}))

    def _learn(self, search: str, attempt: Attempt) -> None:
        self._known.setdefault(search, {})[attempt.config] = attempt

    def _write(self, line: dict[str, Any]) -> None:
        if self.path is None:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _lost(config: Config) -> Attempt:
    """Return the provisional attempt of a candidate that has begun."""
    return Attempt(config, Verdict.LOST, reason=_LOST)


def _read(path: Path) -> Iterator[tuple[str, Attempt]]:
    """Iterate over the complete lines; the last one may have been cut off by a crash."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, text in enumerate(lines, start=1):
        if not text:
            continue
        try:
            yield _parsed(json.loads(text))
        except (ValueError, TypeError, KeyError, TuneError) as error:
            if number < len(lines):
                raise TuneError(
                    f"line {number} of {path} is no line of a tuning journal: give another file, "
                    "or remove this one to start anew"
                ) from error


def _parsed(line: Any) -> tuple[str, Attempt]:
    """Return the search and the attempt of a line."""
    search = line["search"]
    if not isinstance(search, str):
        raise TypeError(search)
    if "begun" in line:
        return search, _lost(Config.from_json(line["begun"]))
    return search, Attempt.from_json(line["attempt"])


def _end_last_line(path: Path) -> None:
    """Drop an incomplete last line, so that the next one begins on its own line."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
