"""Loading of kernels: from `FILE::kernel` on the command line to the kernel object.

The file runs as if imported (its folder on the path, `__name__` not `__main__`). A failure is
reported without a traceback, at the line of the user's file. Output of the file goes to stderr, so
that answers on stdout stay clean.
"""

from __future__ import annotations

import difflib
import pkgutil
import stat
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from itertools import dropwhile
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright.cli.screen import BadInput, os_reason
from tilewright.errors import TilewrightError
from tilewright.external import ExternalKernel
from tilewright.kernel import Kernel
from tilewright.tune import Autotuned

__all__ = [
    "SEPARATOR",
    "FileDeclarations",
    "check_file",
    "load_autotuned",
    "load_declared",
    "load_kernel",
    "told",
]

SEPARATOR = "::"  # between a file and the name of a kernel in it


def load_kernel(address: str) -> Kernel:
    """The kernel at `FILE::name`; `FILE` alone suffices for a file with a single kernel."""
    found = _load_one(address)
    return found.kernel if isinstance(found, Autotuned) else found


def load_autotuned(address: str) -> Autotuned:
    """The kernel at `FILE::name`, which must have a search space."""
    found = _load_one(address)
    if isinstance(found, Autotuned):
        return found
    raise BadInput(
        f"{address} is a kernel without a search space: put `@tw.autotune(Space(…))` above its "
        "@tw.kernel"
    )


def _load_one(address: str) -> Kernel | Autotuned:
    file, _, name = address.partition(SEPARATOR)
    path = Path(file)
    check_file(path)
    names = vars(_load(path))
    kernels = [key for key, value in names.items() if isinstance(value, Kernel | Autotuned)]
    if not name:
        name = _only(path, kernels)
    found = names.get(name)
    if isinstance(found, Kernel | Autotuned):
        return found
    raise BadInput(_why_not(path, name, found, kernels))


@dataclass(frozen=True)
class FileDeclarations:
    """The objects that a file declares itself, in the order of its lines; imports are excluded."""

    kernels: tuple[Kernel, ...]
    externals: tuple[ExternalKernel, ...]


def load_declared(path: Path) -> FileDeclarations:
    """The kernels that a file defines, and the external kernels that it declares."""
    check_file(path)
    named = (v.kernel if isinstance(v, Autotuned) else v for v in vars(_load(path)).values())
    values, file = {id(v): v for v in named}.values(), str(path.resolve())
    kernels = [v for v in values if isinstance(v, Kernel) and v.source.file.path == file]
    externals = [
        v for v in values if isinstance(v, ExternalKernel) and v.site.code.co_filename == file
    ]
    by_line = {kernel.source.node.lineno: kernel for kernel in kernels}  # hints share a line
    return FileDeclarations(
        tuple(by_line[line] for line in sorted(by_line)),
        tuple(sorted(externals, key=lambda kernel: kernel.site.line)),
    )


def check_file(path: Path) -> None:
    """Refuse a path that is no Python file."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG  # refused below, with similar names
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read: {os_reason(error)}") from None
    if stat.S_ISDIR(mode):
        raise BadInput(f"{path} is a folder: say FILE{SEPARATOR}kernel")
    if not stat.S_ISREG(mode):
        raise BadInput(f"{path} is a pipe or a device, not a file with kernels")
    if not path.is_file():
        beside = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise BadInput(f"there is no file {path}{_meant(path.name, beside)}")
    if path.suffix != ".py":
        raise BadInput(f"{path} is no Python file: say FILE.py{SEPARATOR}kernel")


def _only(path: Path, kernels: list[str]) -> str:
    if len(kernels) == 1:
        return kernels[0]
    if not kernels:
        raise BadInput(f"{path} has no kernel: decorate a function with @tw.kernel")
    raise BadInput(f"say which kernel: {', '.join(f'{path}{SEPARATOR}{k}' for k in kernels)}")


def _why_not(path: Path, name: str, found: Any, kernels: list[str]) -> str:
    if found is not None:
        kind = "a function" if callable(found) else f"of type {type(found).__name__}"
        return f"`{name}` in {path} is {kind}, no kernel: decorate a function with @tw.kernel"
    has = f"; it has {', '.join(kernels)}" if kernels else ""
    return f"{path} has no kernel `{name}`{_meant(name, kernels) or has}"


def _meant(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _load(path: Path) -> ModuleType:
    try:
        with redirect_stdout(sys.stderr):
            return _imported(path.resolve())
    except TilewrightError:
        raise  # a refused kernel is the answer
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        raise BadInput(f"{path} ended itself while it was loaded ({error!r}): {_GUARD}") from None
    except BaseException as error:  # noqa: BLE001 (a user's file may raise anything)
        raise BadInput(told(path, error)) from None


_FRAMES = 10  # frames shown of a file that raises
_GUARD = 'put code that runs only as a program under `if __name__ == "__main__":`'


def told(path: Path, error: BaseException) -> str:
    """An exception of a user's file, at the innermost line of that file, with its frames."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{error.filename}:{error.lineno}: {error.msg}"
    names = (str(path), str(path.resolve()))  # as given, or as imported
    frames = list(dropwhile(lambda frame: frame.filename not in names, _frames(error)))
    own = [frame.lineno for frame in frames if frame.filename in names]
    place = f"{path}:{own[-1]}" if own else str(path)
    shown = frames[:1] + frames[1:][-_FRAMES:]
    lines = [f"  at {frame.filename}:{frame.lineno}, in {frame.name}" for frame in shown]
    told = f"{place}: {type(error).__name__}: {_words(error)}"
    return "\n".join([told, *(lines if len(lines) > 1 else [])])


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The innermost frames of a traceback, without those of Python's import system."""
    found = traceback.StackSummary.extract(
        traceback.walk_tb(error.__traceback__), lookup_lines=False
    )
    return [frame for frame in found if not frame.filename.startswith("<frozen ")]


def _words(error: BaseException) -> str:
    """The text of an exception, whose class may be the user's."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 (a faulty `__str__`)
        return "(it has no text that can be shown)"


def _imported(path: Path) -> ModuleType:
    root, name = _dotted(path)
    with _on_path(root):
        if "." in name:
            module = pkgutil.resolve_name(name)
            assert isinstance(module, ModuleType), "a dotted name without a colon names a module"
            return module
        # Under a name of our own: a file called `numpy.py` must not replace NumPy.
        spec = spec_from_file_location(f"__tilewright_{name}__", path)
        assert spec is not None, "a .py file has a loader"
        assert spec.loader is not None, "a .py file has a loader"
        module = module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look up their module
        spec.loader.exec_module(module)
        return module


def _dotted(path: Path) -> tuple[Path, str]:
    """The folder that imports start from, and the dotted name of a file below it."""
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


@contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
