"""What cuTile Python exports, in every version: read, printed, written again, read as text."""

import re

import pytest
from cutile_kernels import PROGRAMS, VERSIONS, Program
from tile_ir_equality import assert_same

from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import decode, encode
from tilewright.ir.text import module_text, parse_module
from tilewright.ir.verify.verifier import violations

EXPORTS = [
    pytest.param(program, version, id=f"{program.name}-{'.'.join(map(str, version))}")
    for program in PROGRAMS.values()
    for version in VERSIONS
]
_PLACE = re.compile(r'loc\("[^"]*":\d+:\d+')


def _target(version: tuple[int, int]) -> str:
    return "sm_90" if version >= (13, 3) else "sm_100"


@pytest.mark.parametrize(("program", "version"), EXPORTS)
def test_it_is_read_and_printed_as_the_disassembler_prints_it(
    program: Program, version: tuple[int, int]
):
    data = program.export(version)
    read = decode(data)
    assert read.version == version
    assert module_text(read.module) == find_toolchain().disassemble(data).rstrip("\n") + "\n"


@pytest.mark.parametrize(("program", "version"), EXPORTS)
def test_it_obeys_the_rules(program: Program, version: tuple[int, int]):
    module = decode(program.export(version)).module
    assert list(violations(module, _target(version), version)) == []


@pytest.mark.parametrize(("program", "version"), EXPORTS)
def test_it_is_written_again(program: Program, version: tuple[int, int]):
    """Not byte for byte, because tables are ordered otherwise; but so that it says the same."""
    data = program.export(version)
    read = decode(data).module
    written = encode(read, version).data
    assert_same(read, decode(written).module, locations=True)
    toolchain = find_toolchain()
    ours, theirs = (toolchain.disassemble(one, debug_info=True) for one in (written, data))
    assert set(_PLACE.findall(ours)) == set(_PLACE.findall(theirs))
    plain = [toolchain.disassemble(one).splitlines() for one in (written, data)]
    without_producer = [
        [line for line in lines if not line.startswith("// Producer: ")] for lines in plain
    ]
    assert without_producer[0] == without_producer[1]


@pytest.mark.parametrize(("program", "version"), EXPORTS)
def test_its_text_is_read(program: Program, version: tuple[int, int]):
    data = program.export(version)
    parsed = parse_module(find_toolchain().disassemble(data))
    assert_same(parsed, decode(data).module)


def test_locations_lead_to_the_kernel():
    module = decode(PROGRAMS["gemm"].export((13, 4))).module
    (function,) = module.functions
    files = {op.loc.span.file.path for op in function.walk() if op.loc is not None}
    assert all(path.endswith("cutile_sources.py") for path in files)
    (product,) = [op for op in function.walk() if op.mnemonic == "mmaf"]
    line = product.loc.span.line
    with open(next(iter(files)), encoding="utf-8") as file:  # noqa: PTH123
        assert "ct.mma(" in file.read().splitlines()[line - 1]


def test_the_kernels_exercise_many_ops():
    modules = [decode(program.export((13, 4))).module for program in PROGRAMS.values()]
    seen = {op.mnemonic for module in modules for f in module.functions for op in f.walk()}
    assert len(seen) > 50
    assert {"atomic_cas_tko", "scan", "reduce", "print_tko", "loop", "if", "load_ptr_tko"} <= seen
