"""The search for tileiras and its two companions, with diagnostics if they are missing.

tileiras fails without a reason when ptxas or libnvvm is missing or of another release, so all three
are checked before the first run. A toolkit is one folder with all of them; the places are, in
order, TILEWRIGHT_TOOLKIT (alone, if set), the installed `nvidia` packages, CUDA_HOME, CUDA_PATH and
the folder above the first tileiras on PATH.
"""

from __future__ import annotations

import mmap
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tilewright.backends.cuda.tool_runs import TookTooLong, run_tool
from tilewright.errors import ToolchainError
from tilewright.settings import Settings

__all__ = [
    "FIX",
    "Inspection",
    "Toolkit",
    "find_toolkit",
    "inspect_toolkits",
    "toolkit_signature",
]

_EXECUTABLES = ("tileiras", "ptxas")
_LIBNVVM = ("nvvm/lib64/libnvvm.so", "nvvm/lib64/libnvvm.so.4", "lib/libnvvm.so.4")
_RELEASE = re.compile(rb"Cuda compilation tools, release (\d+)\.(\d+), V([\d.]+)")
_OLDEST = (13, 4)
_PATIENCE = 60.0  # seconds for a tool to print its version
FIX = 'run: pip install "tilewright[cuda]"'  # the one command that installs it


@dataclass(frozen=True)
class Toolkit:
    """Three files of one release, and tileirdisasm where it is installed."""

    root: Path
    tileiras: Path
    ptxas: Path
    libnvvm: Path
    tileirdisasm: Path | None
    version: str  # full version of tileiras: "13.4.92"

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor release, which is also the newest bytecode version it reads."""
        major, minor, *_ = self.version.split(".")
        return int(major), int(minor)


@dataclass(frozen=True)
class Inspection:
    """Result of the search at one place."""

    place: str  # origin of the path: "CUDA_HOME"
    root: Path
    problems: tuple[str, ...]
    toolkit: Toolkit | None  # None if there are problems

    def __str__(self) -> str:
        return f"{self.place} ({self.root}): {'; '.join(self.problems) or 'complete'}"


def find_toolkit(settings: Settings) -> Toolkit:
    """Return the first complete toolkit, or raise a `ToolchainError` that lists the problems."""
    looked = []
    for inspection in inspect_toolkits(settings):
        if inspection.toolkit is not None:
            return inspection.toolkit
        looked.append(f"  {inspection}")
    if settings.toolkit is not None:
        way_out = f"correct TILEWRIGHT_TOOLKIT, or unset it and {FIX}"
    else:
        looked = looked or ["  no installed package, CUDA_HOME, CUDA_PATH or PATH has tileiras"]
        way_out = FIX
    raise ToolchainError("\n".join(["no usable Tile IR toolkit", *looked, f"  {way_out}"]))


def inspect_toolkits(settings: Settings) -> Iterator[Inspection]:
    """Inspect every place in order; places that do not exist are left out."""
    for place, root in _places(settings):
        yield _inspect(place, root)


def _places(settings: Settings) -> Iterator[tuple[str, Path]]:
    if settings.toolkit is not None:
        yield "TILEWRIGHT_TOOLKIT", settings.toolkit
        return
    spec = find_spec("nvidia")
    for base in (spec.submodule_search_locations or ()) if spec else ():
        if (root := Path(base) / "cu13").is_dir():
            yield "the installed nvidia packages", root
    for place, home in (("CUDA_HOME", settings.cuda_home), ("CUDA_PATH", settings.cuda_path)):
        if home is not None:
            yield place, home
    for folder in settings.path:
        if (folder / "tileiras").is_file():
            yield "PATH", (folder / "tileiras").resolve().parent.parent
            return


def toolkit_signature(settings: Settings) -> str:
    """Return a string that changes with the tools found, from the file system alone."""
    for _, root in _places(settings):
        files = _files(root)
        if all(path.is_file() for path in files.values()):
            found = ((path, path.stat()) for path in files.values())
            return repr([(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in found])
    return ""


def _files(root: Path) -> dict[str, Path]:
    files = {name: root / "bin" / name for name in _EXECUTABLES}
    libraries = [root / name for name in _LIBNVVM]
    files["libnvvm"] = next((path for path in libraries if path.is_file()), libraries[-1])
    return files


def _inspect(place: str, root: Path) -> Inspection:
    files = _files(root)
    missing = [path for path in files.values() if not path.is_file()]
    problems = [f"{path.relative_to(root)} is missing" for path in missing]
    versions = {
        name: _library_version(path) if name == "libnvvm" else _program_version(path)
        for name, path in files.items()
        if path not in missing
    }
    problems += [
        f"{name} does not run or tell its version" for name, v in versions.items() if not v
    ]
    problems += _release_problems({name: v for name, v in versions.items() if v})
    if problems:
        return Inspection(place, root, tuple(problems), None)
    reader = root / "bin" / "tileirdisasm"
    disassembler = reader if reader.is_file() else None
    toolkit = Toolkit(root, **files, tileirdisasm=disassembler, version=versions["tileiras"])
    return Inspection(place, root, (), toolkit)


def _release_problems(versions: dict[str, str]) -> list[str]:
    releases = {name: tuple(map(int, version.split(".")[:2])) for name, version in versions.items()}
    old = [name for name, release in releases.items() if release < _OLDEST]
    found = ", ".join(f"{name} {version}" for name, version in versions.items())
    if old:
        return [f"release 13.4 or newer is needed, but this is {found}"]
    return [f"the releases are mixed: {found}"] if len(set(releases.values())) > 1 else []


def _program_version(path: Path) -> str:
    """Return the version that `--version` prints, or an empty string."""
    with tempfile.TemporaryDirectory(prefix="tilewright-", ignore_cleanup_errors=True) as folder:
        try:
            run = run_tool([path, "--version"], Path(folder), _PATIENCE, {})
        except (OSError, TookTooLong):
            return ""
    return _version_in(run.output.encode())


def _library_version(path: Path) -> str:
    """Return the version that a library carries as text near its end."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return ""
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            start = data.rfind(b"Cuda compilation tools, release ")
            return _version_in(data[start : start + 100]) if start >= 0 else ""


def _version_in(text: bytes) -> str:
    found = _RELEASE.search(text)
    return found[3].decode() if found else ""
