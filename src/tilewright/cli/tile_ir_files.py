"""Files that hold Tile IR, as text or as bytecode, for the commands that take them."""

from __future__ import annotations

from pathlib import Path

from tilewright.bytecode import Decoded, decode
from tilewright.cli.screen import BadInput
from tilewright.errors import MalformedBytecodeError, MalformedTextError
from tilewright.ir.function import Module
from tilewright.ir.op import Version
from tilewright.ir.text import parse_module
from tilewright.ir.verify import violations

__all__ = ["check_rules", "read_bytecode", "read_bytes", "read_text", "write_bytes"]

_ELF = b"\x7fELF"
_NEWEST_TARGET = "sm_121"  # a file is not for one target; what none of them has is refused
_SHOWN = 10


def read_bytes(path: Path) -> bytes:
    """What a file holds, unless that is machine code."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    if data.startswith(_ELF):
        raise BadInput(f"{path} is machine code, not Tile IR: nvdisasm or cuobjdump print it")
    return data


def write_bytes(path: Path, data: bytes) -> None:
    """Make a file."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None


def read_bytecode(path: Path) -> Decoded:
    """The module of a file with bytecode, of any producer."""
    try:
        return decode(read_bytes(path))
    except MalformedBytecodeError as error:
        raise BadInput(f"{path} is no Tile IR bytecode that can be read: {error}") from None


def read_text(path: Path) -> Module:
    """The module of a file with text."""
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError:
        raise BadInput(f"{path} is no text; `tilewright disasm` reads bytecode") from None
    try:
        return parse_module(text, str(path))
    except MalformedTextError as error:
        line = text.split("\n")[error.line - 1]
        excerpt = f"\n  {line}\n  {' ' * (error.column - 1)}^"
        raise BadInput(f"{path}:{error.line}:{error.column}: {error.reason}{excerpt}") from None


def check_rules(path: Path, module: Module, version: Version | None = None) -> None:
    """Refuse a module that breaks the rules of Tile IR, with each op that does."""
    found = list(violations(module, _NEWEST_TARGET, version))
    if found:
        lines = [f"  {violation}" for violation in found[:_SHOWN]]
        rest = [f"  and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        raise BadInput("\n".join([f"{path} breaks the rules of Tile IR:", *lines, *rest]))
