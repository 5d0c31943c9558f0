"""Every op, in each version that has it, is what NVIDIA's tools say it is.

A case is verified, printed and encoded; the disassembler reads it and prints the same text, and
tileiras assembles it on every architecture that has it. An op without a case fails.
"""

import pytest
from tile_ir_cases import CASES
from tile_ir_modules import cases_of, disassembled, one_for_each_op, refused
from tile_ir_programs import Case

from tilewright.errors import CompileError
from tilewright.ir.ops import TILE_IR_OPS
from tilewright.ir.text import function_text
from tilewright.ir.verify.verifier import RULES, violations
from tilewright.ir.versions import VERSIONS, check_version, required_version

_NEWEST = VERSIONS[-1]
_TARGETS = (80, 90, 100, 120)
_ALONE = 107  # has cases that none of them has


def _name(part: object) -> str:
    if isinstance(part, Case):
        return part.name
    return ".".join(map(str, part)) if isinstance(part, tuple) else str(part)


def test_every_op_has_a_case():
    assert set(TILE_IR_OPS) == {case.op for case in CASES}


def test_every_op_has_a_case_in_its_first_version():
    assert not [
        op.mnemonic
        for op in TILE_IR_OPS
        if min(case.version for case in CASES if case.op is op) != op.since
    ]


def test_every_op_has_a_rule_and_a_form():
    assert not [op for op in TILE_IR_OPS if op not in RULES]
    assert not [op for op in TILE_IR_OPS if not op.assembly]


def test_cases_are_named_once():
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_a_case_holds_its_op(case: Case):
    assert any(type(op) is case.op for op in case.function().walk())


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_a_case_is_valid_on_its_targets(case: Case):
    for target in (case.oldest, *_TARGETS):
        found = list(violations(case.module(), f"sm_{target}", case.version))
        assert bool(found) is not case.fits(target), (target, found)


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_a_case_needs_its_version(case: Case):
    module = case.module()
    check_version(module, case.version)
    assert required_version(module) == max(case.version, (13, 3))
    if case.version > VERSIONS[0]:
        before = VERSIONS[VERSIONS.index(case.version) - 1]
        with pytest.raises(CompileError, match=r"needs 13\."):
            check_version(module, before)
        assert list(violations(module, f"sm_{case.oldest}", before))


@pytest.mark.parametrize(
    ("case", "version"),
    [(case, version) for version in VERSIONS for case in CASES if case.version <= version],
    ids=_name,
)
def test_the_text_is_what_the_disassembler_says(case: Case, version: tuple[int, int]):
    assert function_text(case.function()) == disassembled(version)[case.name]


@pytest.mark.parametrize("target", _TARGETS)
def test_tileiras_assembles_every_case(target: int):
    assert refused(cases_of(_NEWEST, target), _NEWEST, target) == []


@pytest.mark.parametrize("target", [_TARGETS[0], _TARGETS[-1]])
@pytest.mark.parametrize("version", VERSIONS[:-1], ids=_name)
def test_tileiras_assembles_every_op_of_a_version(version: tuple[int, int], target: int):
    """A version is a matter of the reader, which all targets share; the newest has every op."""
    have = {case.op for case in CASES if case.version <= version and case.oldest != _ALONE}
    assert target != _TARGETS[-1] or have == {case.op for case in cases_of(version, target)}
    assert refused(one_for_each_op(cases_of(version, target)), version, target) == []


def test_tileiras_assembles_what_one_target_only_has():
    alone = [case for case in CASES if not any(map(case.fits, _TARGETS))]
    assert {case.oldest for case in alone} == {_ALONE}
    assert refused(alone, _NEWEST, _ALONE) == []
