"""Many cases as entries of one module: a run of NVIDIA's tools costs more than an entry of it.

Optimisation is off: it changes the code and the time, not what the assembler accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from tile_ir_cases import CASES
from tile_ir_programs import Case

from tilewright.backends.cuda.explain import AssemblyError
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import encode
from tilewright.ir.function import Module
from tilewright.ir.op import Op

Version = tuple[int, int]


def module_of(cases: Iterable[Case]) -> Module:
    """The programs of some cases, with the globals that any of them needs."""
    held = tuple(cases)
    needed = {part.name: part for case in held for part in case.globals}
    return Module(tuple(case.function() for case in held), globals=tuple(needed.values()))


def cases_of(version: Version, target: int) -> list[Case]:
    """The cases that a version and a target can hold."""
    return [case for case in CASES if case.version <= version and case.fits(target)]


def one_for_each_op(cases: Iterable[Case]) -> list[Case]:
    """The first case of every op."""
    first: dict[type[Op], Case] = {}
    for case in cases:
        first.setdefault(case.op, case)
    return list(first.values())


@cache
def disassembled(version: Version) -> dict[str, str]:
    """The vendor's text of every case that the version holds, from one run."""
    module = module_of(case for case in CASES if case.version <= version)
    text = find_toolchain().disassemble(encode(module, version))
    entries = re.findall(r"^entry @(\w+)(.*?^}\n)", text, re.MULTILINE | re.DOTALL)
    return {name: f"entry @{name}{rest}" for name, rest in entries}


def refused(cases: list[Case], version: Version, target: int) -> list[str]:
    """The cases that tileiras refuses: one run if there are none, else one for each case."""
    if _assembles(module_of(cases), version, target):
        return []
    return [case.name for case in cases if not _assembles(case.module(), version, target)]


def _assembles(module: Module, version: Version, target: int) -> bool:
    try:
        find_toolchain().assemble(encode(module, version), f"sm_{target}", opt_level=0)
    except AssemblyError:
        return False
    return True
