"""Tile IR bytecode: what tileiras reads. `encode` writes it; nothing here knows a machine."""

from __future__ import annotations

from tilewright.bytecode.encode import Encoded, encode
from tilewright.ir.versions import VERSIONS, required_version

__all__ = ["VERSIONS", "Encoded", "encode", "required_version"]
