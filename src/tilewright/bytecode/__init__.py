"""Tile IR bytecode, the input of tileiras. `encode` writes it, `decode` reads that of any producer.

This package depends on no device.
"""

from __future__ import annotations

from tilewright.bytecode.decode import Decoded, decode
from tilewright.bytecode.encode import Encoded, encode, encode_in_oldest
from tilewright.ir.versions import VERSIONS, required_version

__all__ = [
    "VERSIONS",
    "Decoded",
    "Encoded",
    "decode",
    "encode",
    "encode_in_oldest",
    "required_version",
]
