"""Settings: every environment variable that tilewright reads, each once.

A field declares its variable and its parser, from which `doctor` and the documentation list them.
Not for options of a kernel or a launch: those are arguments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError

__all__ = [
    "LOG_TOPICS",
    "LONGEST",
    "DumpSetting",
    "EnvironmentVariable",
    "Settings",
    "current_settings",
]


LONGEST = 10_000_000  # seconds: timeouts far beyond overflow in the operating system


@dataclass(frozen=True)
class EnvironmentVariable:
    """An environment variable: its name, its parser, and its purpose."""

    name: str
    read: Callable[[str], Any]
    doc: str


@dataclass(frozen=True)
class DumpSetting:
    """A folder for the stages of compilations, and the only kernel to dump, if one is named."""

    folder: Path
    kernel: str = ""

    def __str__(self) -> str:
        return f"{self.folder}:{self.kernel}" if self.kernel else str(self.folder)


# Topics of the log.
LOG_TOPICS = ("cache", "compile", "launch", "wait")


def _by(name: str, read: Callable[[str], Any], doc: str) -> dict[str, EnvironmentVariable]:
    return {"variable": EnvironmentVariable(name, read, doc)}


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= LONGEST:
        raise ValueError(f"it must be above zero and at most {LONGEST:,}")
    return value


def _bytes(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError("it is a number of bytes")
    return value


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("it is 0 or 1")
    return text == "1"


def _folder(text: str) -> Path:
    return Path(text).expanduser()  # files of variables keep `~` unexpanded


def _folder_or_off(text: str) -> str:
    return "off" if text.lower() == "off" else str(_folder(text))


def _dump(text: str) -> DumpSetting:
    folder, colon, kernel = text.rpartition(":")
    if colon and folder and kernel.isidentifier():
        return DumpSetting(_folder(folder), kernel)
    return DumpSetting(_folder(text))


def _topics(text: str) -> tuple[str, ...]:
    wanted = {part.strip().lower() for part in text.split(",")}
    unknown = sorted(wanted - {"all", *LOG_TOPICS})
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no topic; there are all, {', '.join(LOG_TOPICS)}")
    return tuple(topic for topic in LOG_TOPICS if "all" in wanted or topic in wanted)


def _folders(text: str) -> tuple[Path, ...]:
    return tuple(Path(part) for part in text.split(os.pathsep) if part)


@dataclass(frozen=True)
class Settings:
    """The settings of a process. Built by `from_environment`; tests build their own."""

    toolkit: Path | None = field(
        default=None,
        metadata=_by(
            "TILEWRIGHT_TOOLKIT",
            _folder,
            "Folder with bin/tileiras, bin/ptxas and libnvvm; nothing else is searched.",
        ),
    )
    tileiras_timeout: float = field(
        default=600.0,
        metadata=_by(
            "TILEWRIGHT_TILEIRAS_TIMEOUT",
            _seconds,
            "Seconds after which one run of tileiras is given up.",
        ),
    )
    cache: str = field(
        default="",
        metadata=_by(
            "TILEWRIGHT_CACHE",
            _folder_or_off,
            "Folder for compiled kernels, or `off`; by default the user's cache folder.",
        ),
    )
    cache_limit: int = field(
        default=2 << 30,
        metadata=_by(
            "TILEWRIGHT_CACHE_LIMIT",
            _bytes,
            "Bytes of that folder beyond which the least recently used kernels go.",
        ),
    )
    tuned: str = field(
        default="",
        metadata=_by(
            "TILEWRIGHT_TUNED",
            _folder_or_off,
            "Folder for configurations tuned here, or `off`; by default one beside the kernels.",
        ),
    )
    dump: DumpSetting | None = field(
        default=None,
        metadata=_by(
            "TILEWRIGHT_DUMP",
            _dump,
            "FOLDER or FOLDER:KERNEL: the stages of every compilation are written there.",
        ),
    )
    log: tuple[str, ...] = field(
        default=(),
        metadata=_by(
            "TILEWRIGHT_LOG",
            _topics,
            "Topics that are logged to stderr: cache, compile, launch, wait, or all.",
        ),
    )
    bundles: str = field(
        default="",
        metadata=_by(
            "TILEWRIGHT_BUNDLES",
            _folder_or_off,
            "Folder for bundles of failed compilations, or `off`; by default one beside the"
            " kernels.",
        ),
    )
    native: bool = field(
        default=True,
        metadata=_by(
            "TILEWRIGHT_NATIVE",
            _switch,
            "0 has launches run in Python where the part in C has been built.",
        ),
    )
    cuda_home: Path | None = field(
        default=None,
        metadata=_by("CUDA_HOME", _folder, "A CUDA toolkit, used if the packages have none."),
    )
    cuda_path: Path | None = field(
        default=None, metadata=_by("CUDA_PATH", _folder, "The same, by its other name.")
    )
    path: tuple[Path, ...] = field(
        default=(), metadata=_by("PATH", _folders, "Folders searched last for tileiras.")
    )

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> Settings:
        """Read the variables; an unreadable one is an error that names it."""
        given: dict[str, Any] = {}
        for setting in fields(Settings):
            variable: EnvironmentVariable = setting.metadata["variable"]
            text = environment.get(variable.name)
            if not text:  # an empty variable counts as absent
                continue
            try:
                given[setting.name] = variable.read(text)
            except (ValueError, RuntimeError) as error:  # the latter: no home folder for `~`
                raise TilewrightError(f"{variable.name}={text!r}: {error}") from error
        return Settings(**given)


@cache
def current_settings() -> Settings:
    """The settings of this process, read at the first call."""
    return Settings.from_environment(os.environ)
