"""Which version of the bytecode a module needs."""

import pytest
from tile_ir_programs import Entry, gemm, tile

from tilewright.dtypes import Element
from tilewright.errors import CompileError
from tilewright.ir.attributes import Rounding, TargetHints
from tilewright.ir.function import EntryHints, Module
from tilewright.ir.ops.elementwise import Atan2, Exp, ExtI, FToI
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.ops.reduction import MmaF
from tilewright.ir.versions import check_version, required_version

E = Element


def _saturating() -> Module:
    n = Entry()
    n.add(FToI(source=n.given(tile(E.F32, 8)), to=tile(E.I32, 8), saturating=True))
    return n.module()


def test_the_oldest_in_use_is_enough_for_most():
    assert required_version(Module((gemm(),))) == (13, 3)


def test_a_newer_flag_needs_a_newer_version():
    assert required_version(_saturating()) == (13, 4)


def test_a_version_that_lacks_something_says_what():
    check_version(_saturating(), (13, 4))
    with pytest.raises(CompileError) as caught:
        check_version(_saturating(), (13, 3))
    assert str(caught.value) == (
        "bytecode 13.3 cannot hold this module:\n  `saturating` of `ftoi` needs 13.4"
    )
    assert len(caught.value.problems) == 1


def test_an_unknown_version():
    with pytest.raises(CompileError, match=r"bytecode 13\.9 is not known; there are 13\.1, 13\.2"):
        check_version(Module((gemm(),)), (13, 9))


def _cases() -> dict[str, Module]:
    n = {name: Entry() for name in ("op", "element", "attribute", "flag", "hint", "old")}
    half, single = tile(E.F16, 16, 16), tile(E.F32, 8)
    n["op"].add(Atan2(x=n["op"].given(single), y=n["op"].given(single)))
    n["element"].add(ExtI(source=n["element"].given(tile(E.I4, 8)), to=tile(E.I8, 8)))
    approx = Rounding.APPROX
    n["attribute"].add(Exp(source=n["attribute"].given(single), rounding_mode=approx))
    lhs, rhs = (n["flag"].given(half) for _ in range(2))
    n["flag"].add(MmaF(lhs=lhs, rhs=rhs, acc=n["flag"].given(half), fast_acc=True))
    view = n["hint"].view(E.F32, 8)
    n["hint"].add(LoadView(view=view, index=(n["hint"].index(),), hints=TargetHints.of(latency=2)))
    n["old"].add(Exp(source=n["old"].given(single)))
    modules = {name: entry.module() for name, entry in n.items()}
    modules["entry hint"] = Module((Entry().function(EntryHints(occupancy=2)),))
    return modules


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("op", (13, 2)), ("element", (13, 3)), ("attribute", (13, 3)), ("flag", (13, 3)),
        ("hint", (13, 3)), ("entry hint", (13, 3)), ("old", (13, 1)),
    ],
)  # fmt: skip
def test_each_kind_of_part_has_its_first_version(name: str, first: tuple[int, int]):
    module = _cases()[name]
    check_version(module, first)
    if first > (13, 1):
        with pytest.raises(CompileError, match="needs 13"):
            check_version(module, (13, first[1] - 1))
