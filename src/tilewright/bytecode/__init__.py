"""Tile IR bytecode: what tileiras reads. `encode` writes it, `decode` reads anybody's.

Nothing here knows a machine.
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
