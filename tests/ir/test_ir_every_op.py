"""Every op is verified, printed and encoded; NVIDIA's disassembler reads it and prints the same."""

import re
from functools import cache

import pytest
from tile_ir_cases import CASES
from tile_ir_programs import Case

from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import encode, required_version
from tilewright.ir.function import Module
from tilewright.ir.ops import TILE_IR_OPS
from tilewright.ir.text import function_text
from tilewright.ir.verify import RULES, violations

_VERSIONS = [(13, 3), (13, 4)]


@cache
def _disassembled(version: tuple[int, int]) -> dict[str, str]:
    """The vendor's text of every case that the version holds, from one run."""
    module = Module(tuple(case.function() for case in CASES if case.version <= version))
    text = find_toolchain().disassemble(encode(module, version))
    entries = re.findall(r"^entry @(\w+)(.*?^}\n)", text, re.MULTILINE | re.DOTALL)
    return {name: f"entry @{name}{rest}" for name, rest in entries}


def test_every_op_has_a_case():
    assert set(TILE_IR_OPS) == {case.op for case in CASES}


def test_every_op_has_a_rule_and_a_form():
    assert not [op for op in TILE_IR_OPS if op not in RULES]
    assert not [op for op in TILE_IR_OPS if not op.assembly]


def test_cases_are_named_once():
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_holds_its_op(case: Case):
    assert any(type(op) is case.op for op in case.function().walk())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_valid_from_its_first_target_on(case: Case):
    module = Module((case.function(),))
    assert list(violations(module, f"sm_{case.oldest}", case.version)) == []
    assert required_version(module) == case.version
    if case.oldest > 80:
        assert list(violations(module, "sm_80"))


@pytest.mark.parametrize(
    ("case", "version"),
    [(case, version) for case in CASES for version in _VERSIONS if case.version <= version],
    ids=lambda part: part.name if isinstance(part, Case) else ".".join(map(str, part)),
)
def test_the_text_is_what_the_disassembler_says(case: Case, version: tuple[int, int]):
    assert function_text(case.function()) == _disassembled(version)[case.name]
