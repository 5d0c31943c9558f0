"""Each rule of the verifier: a program that breaks it, the message, and NVIDIA's verdict on it."""

import numpy as np
import pytest
from refused_additions import REFUSED_ADDITIONS
from refused_programs import REFUSED, Refused
from tile_ir_programs import I32, TOKEN, Entry, at, gemm, tile

from tilewright.backends.cuda.explain import AssemblyError
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import encode
from tilewright.dtypes import Element
from tilewright.errors import InternalError
from tilewright.ir.attributes import Predicate
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.function import EntryHints, Function, Module
from tilewright.ir.op import Block, Op
from tilewright.ir.ops import control as c
from tilewright.ir.ops import elementwise as e
from tilewright.ir.ops import shape as s
from tilewright.ir.ops.internal import BoundsCheck
from tilewright.ir.types import (
    TileType,
    scalar,
)
from tilewright.ir.verify.verifier import VerificationError, verify, violations

E = Element
_ALL_REFUSED = (*REFUSED, *REFUSED_ADDITIONS)


def _floats(*shape: int) -> TileType:
    return TileType(E.F32, shape)


def _module(refused: Refused) -> Module:
    entry = Entry()
    entry.add(refused.build(entry))
    return entry.module()


@pytest.mark.parametrize("refused", _ALL_REFUSED, ids=lambda refused: refused.label)
def test_a_broken_rule_is_named(refused: Refused):
    first = next(violations(_module(refused), "sm_107"))
    assert first.message.startswith(refused.message)


@pytest.mark.parametrize("refused", _ALL_REFUSED, ids=lambda refused: refused.label)
def test_nvidia_says_the_same(refused: Refused):
    encoded = encode(_module(refused), (13, 4))
    if refused.ours_only:
        find_toolchain().disassemble(encoded)
    else:
        with pytest.raises(AssemblyError):
            find_toolchain().disassemble(encoded)


def test_a_constant_must_fill_its_tile():
    entry = Entry()
    entry.add(s.Constant(value=np.zeros(4, np.float32), to=_floats(8)))
    assert "does not fill" in next(violations(entry.module())).message


# --- where values can be seen --------------------------------------------------------------------


def _branch(n: Entry, *ops: Op) -> Block:
    return Block((), [*ops, c.Yield()])


def test_a_value_is_seen_below_its_definition_and_inside():
    n = Entry()
    x = n.add(s.Constant(value=1, to=I32))
    inside = e.AddI(lhs=x.result, rhs=x.result)
    n.add(c.If(condition=n.param(scalar(E.I1)), then_body=_branch(n, inside), else_body=_branch(n)))
    assert list(violations(n.module())) == []


def test_a_value_is_not_seen_above_its_definition():
    n = Entry()
    x = s.Constant(value=1, to=I32)
    n.add(e.AbsI(source=x.result))
    n.add(x)
    assert "used where it is not visible" in str(next(violations(n.module())))


def test_a_value_is_not_seen_outside_its_region():
    n = Entry()
    x = s.Constant(value=1, to=I32)
    n.add(c.If(condition=n.param(scalar(E.I1)), then_body=_branch(n, x), else_body=_branch(n)))
    n.add(e.AbsI(source=x.result))
    assert "used where it is not visible" in str(next(violations(n.module())))


def test_a_value_is_not_seen_in_the_other_branch():
    n = Entry()
    x = s.Constant(value=1, to=I32)
    other = e.AbsI(source=x.result)
    n.add(
        c.If(condition=n.param(scalar(E.I1)), then_body=_branch(n, x), else_body=_branch(n, other))
    )
    assert "used where it is not visible" in str(next(violations(n.module())))


def test_a_value_is_defined_once():
    n = Entry()
    x = n.add(s.Constant(value=1, to=I32))
    n.add(x)
    assert "is defined twice" in str(next(violations(n.module())))


def test_results_have_the_types_that_follow():
    n = Entry()
    n.add(e.AbsI(source=n.index())).result.type = scalar(E.I64)
    assert "do not follow from its operands" in str(next(violations(n.module())))


# --- blocks, functions, targets ------------------------------------------------------------------


def test_a_block_ends_once():
    n = Entry()
    n.add(c.Return())
    n.add(s.Constant(value=1, to=I32))
    n.add(c.Return())
    assert "an op stands behind the end" in str(next(violations(n.module())))


def test_a_function_ends():
    module = Module((Function("f", Block()),))
    assert str(next(violations(module))) == "f: a block must end in `return`"


def test_parameters_are_scalars():
    n = Entry()
    n.param(_floats(8))
    n.param(TOKEN)
    assert [v.message for v in violations(n.module())] == [
        "a parameter must be a scalar, but one is tile<8xf32>",
        "a parameter must be a scalar, but one is token",
    ]


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        (EntryHints(num_ctas=3), "`num_cta_in_cga` must be a power of two up to 16, but is 3"),
        (EntryHints(occupancy=33), "`occupancy` must be 1 to 32, but is 33"),
        (EntryHints(num_worker_warps=6), "`num_worker_warps_per_cta` must be 4 or 8, but is 6"),
    ],
)
def test_hints_that_would_be_ignored(hints: EntryHints, message: str):
    module = Module((Entry().function(hints),))
    assert [violation.message for violation in violations(module)] == [message]


def test_an_internal_op_is_left():
    n = Entry()
    n.add(BoundsCheck(index=n.index(), count=n.index(), site=CheckSite("x", 0, 8)))
    assert "internal" in str(next(violations(n.module())))


def test_a_version_that_lacks_something():
    n = Entry()
    n.add(e.FToI(source=n.given(_floats(8)), to=tile(E.I32, 8), saturating=True))
    assert list(violations(n.module(), version=(13, 4))) == []
    (found,) = violations(n.module(), version=(13, 3))
    assert found.message == "`saturating` of `ftoi` needs bytecode 13.4"


def test_the_error_lists_everything_with_its_line():
    n = Entry("kernel")
    n.add(e.NegF(source=n.index(), loc=at(7)))
    n.add(e.NegF(source=n.index(), loc=at(9)))
    with pytest.raises(VerificationError) as caught:
        verify(n.module())
    assert isinstance(caught.value, InternalError)
    assert [violation.op.loc for violation in caught.value.violations] == [at(7), at(9)]
    assert "  /kernels/sample.py:7:5: `negf` in kernel: `source` must be" in str(caught.value)


def test_long_lists_are_cut():
    n = Entry()
    for _ in range(25):
        n.add(e.NegF(source=n.index()))
    with pytest.raises(VerificationError, match="and 5 more"):
        verify(n.module())


def test_a_good_module_passes():
    verify(Module((gemm(),)))


def test_comparisons_need_one_type():
    n = Entry()
    n.add(
        e.CmpI(
            lhs=n.index(), rhs=n.param(scalar(E.I64)), comparison_predicate=Predicate.EQUAL
        )
    )  # fmt: skip
    assert "`lhs` and `rhs` must have one type" in str(next(violations(n.module())))
