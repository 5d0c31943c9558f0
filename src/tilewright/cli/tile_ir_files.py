"""Files of Tile IR, as text or bytecode, for the commands that read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tilewright.bytecode import Decoded, decode
from tilewright.cli.screen import BadInput, os_reason
from tilewright.errors import MalformedBytecodeError, MalformedTextError
from tilewright.ir.function import Module
from tilewright.ir.op import Version
from tilewright.ir.text import least_length, module_text, parse_module
from tilewright.ir.verify.verifier import violations
from tilewright.runtime.memory.pool import in_units

__all__ = ["check_rules", "read_bytecode", "read_bytes", "read_text", "text_of", "write_bytes"]

_ELF = b"\x7fELF"
_NEWEST_TARGET = "sm_121"  # a file names no target; it must be valid for at least one
_SHOWN = 10
_LARGEST = 1 << 30  # bytes; an endless file such as /dev/zero is not read to its end
_CHUNK = 1 << 20
_LONGEST = 1 << 28  # characters of a text


def read_bytes(path: Path) -> bytes:
    """The contents of a file, unless it is machine code."""
    try:
        with path.open("rb") as file:
            data = b"".join(_chunks(file))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read: {os_reason(error)}") from None
    if len(data) > _LARGEST:
        raise BadInput(f"{path} is larger than {in_units(_LARGEST)}, and no file of this kind is")
    if data.startswith(_ELF):
        raise BadInput(f"{path} is machine code, not Tile IR: nvdisasm or cuobjdump print it")
    return data


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """The contents of a file, up to slightly more than the limit."""
    left = _LARGEST
    while left >= 0 and (chunk := file.read(_CHUNK)):
        yield chunk
        left -= len(chunk)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file."""
    try:
        path.write_bytes(data)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be written: {os_reason(error)}") from None


def read_bytecode(path: Path) -> Decoded:
    """The module of a bytecode file, of any producer."""
    try:
        return decode(read_bytes(path))
    except MalformedBytecodeError as error:
        raise BadInput(f"{path} is no Tile IR bytecode that can be read: {error}") from None


def read_text(path: Path) -> Module:
    """The module of a text file."""
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


def text_of(path: Path, module: Module) -> str:
    """The text of a module; one that exceeds the limit is refused before it is made."""
    length = least_length(module)
    if length > _LONGEST:
        raise BadInput(
            f"{path}: its constants alone would be {in_units(length)} of text, more than "
            f"{in_units(_LONGEST)}; `tilewright run-bytecode` runs it all the same"
        )
    return module_text(module)


def check_rules(path: Path, module: Module, version: Version | None = None) -> None:
    """Refuse a module that breaks the rules of Tile IR, with each invalid op."""
    found = list(violations(module, _NEWEST_TARGET, version, advice=False))
    if found:
        lines = [f"  {violation}" for violation in found[:_SHOWN]]
        rest = [f"  and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        raise BadInput("\n".join([f"{path} breaks the rules of Tile IR:", *lines, *rest]))
