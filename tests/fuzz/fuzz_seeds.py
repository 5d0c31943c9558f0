"""Files of bytecode to start from: ours of every op, and cuTile Python's, in every version."""

from __future__ import annotations

import functools
import random

from cutile_kernels import PROGRAMS
from tile_ir_cases import CASES
from tile_ir_programs import gemm
from tile_ir_random import RandomProgram

from tilewright.bytecode import VERSIONS, encode
from tilewright.errors import CompileError
from tilewright.ir.function import Module


@functools.cache
def seed_files() -> tuple[bytes, ...]:
    """A few hundred small files that can be read."""
    modules = [case.module() for case in CASES]
    modules += [RandomProgram(random.Random(seed)).module() for seed in range(30)]
    modules.append(Module((gemm(),)))
    ours = [data for module in modules for data in _in_all_versions(module)]
    return (*ours, *(program.export(v) for program in PROGRAMS.values() for v in VERSIONS))


def _in_all_versions(module: Module) -> list[bytes]:
    found = []
    for version in VERSIONS:
        try:
            found.append(encode(module, version).data)
        except CompileError:
            continue
    return found


__all__ = ["seed_files"]
