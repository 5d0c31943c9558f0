"""Dumps: the stages of a compilation as files, for readers (TILEWRIGHT_DUMP).

Every compilation of a kernel gets a folder of its own, named after the kernel and its
specialisation: the source, the IR behind each pass, Tile IR as text and as bytecode, the ledger and
the cubin. A dump never changes the result, and a file that cannot be written is one warning.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.frontend.signature.specialization import describe
from tilewright.ir.function import Function
from tilewright.jit.compile.compiled import CompiledKernel, Request
from tilewright.runtime.loading import LazyModule
from tilewright.settings import current_settings

if TYPE_CHECKING:
    from tilewright.ir import text
else:  # a compilation that is not dumped prints nothing
    text = LazyModule("tilewright.ir.text")

__all__ = ["Dump", "dump_cubin", "is_dumped", "open_dump"]

_log = logging.getLogger("tilewright")


class Dump:
    """The folder of one compilation; without a folder nothing is written."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def begin(self, request: Request) -> None:
        """Write the source and the specialisation."""
        if self._folder is not None:
            lines = "\n".join(source_lines(request))
            self._write("source.py", f"{textwrap.dedent(lines)}\n".encode())
            made_for = describe(request.signature, request.specialization)
            self._write("specialisation.txt", f"{made_for}\n{request.specialization}\n".encode())

    def after(self, stage: str, function: Function) -> Function:
        """Write a function behind a pass; gives the function."""
        if self._folder is not None:
            name = f"{stage}-{function.name}.tileir"
            self._write(name, f"{text.function_text(function)}\n".encode())
        return function

    def end(self, compiled: CompiledKernel) -> None:
        """Write the results of the front end."""
        if self._folder is not None:
            ledger = json.dumps(compiled.ledger.to_json(), indent=2)
            self._write("ledger.json", f"{ledger}\n".encode())
            self._write("module.tileir", f"{text.module_text(compiled.module)}\n".encode())
            if compiled.specialization.target.startswith("sm_"):
                self._write("module.tilebc", compiled.bytecode.data)

    def _write(self, name: str, data: bytes) -> None:
        assert self._folder is not None, "asked before"
        _write(self._folder / f"{next(self._numbers):02}-{name}", data)


def open_dump(request: Request) -> Dump:
    """The dump of a compilation."""
    return Dump(_folder_of(request))


def is_dumped(request: Request) -> bool:
    """Whether a kernel is dumped; then it is compiled, even if it is on disk."""
    return _folder_of(request) is not None


def dump_cubin(request: Request, cubin: bytes) -> None:
    """Write the assembled code of a kernel that is dumped."""
    folder = _folder_of(request)
    if folder is not None:
        _write(folder / "kernel.cubin", cubin)


def source_lines(request: Request) -> tuple[str, ...]:
    """The lines of a kernel, decorators included."""
    node, file = request.source.node, request.source.file
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    return file.lines[first - 1 : node.end_lineno]


def _folder_of(request: Request) -> Path | None:
    wanted, name = current_settings().dump, request.signature.kernel
    if wanted is None or wanted.kernel not in ("", name):
        return None
    described = f"{request.specialization!r} {request.placement.name}"
    key = hashlib.sha256(described.encode()).hexdigest()[:8]
    return wanted.folder / f"{name}-{request.specialization.target}-{key}"


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        _log.warning("tilewright: %s cannot be written: %s", path, error)
