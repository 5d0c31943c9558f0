"""Globals, names and hints: what stands around the functions of a module."""

import numpy as np
import pytest
from tile_ir_addresses import GLOBALS
from tile_ir_programs import Entry, tile

from tilewright.backends.cuda.explain import AssemblyError
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import encode
from tilewright.dtypes import Element
from tilewright.ir.attributes import Dictionary, IntIdentity, TargetHints
from tilewright.ir.function import EntryHints, Global, Module
from tilewright.ir.op import Version
from tilewright.ir.ops.addresses import GetGlobal
from tilewright.ir.text import module_text
from tilewright.ir.types import FunctionType, PtrType, TileType, scalar
from tilewright.ir.verify.verifier import violations

E = Element
_POINTER = scalar(PtrType(E.F32))


def _module(*globals_: Global, name: str = "kernel") -> Module:
    return Module((Entry(name).function(),), globals=globals_)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (_module(Global("g", tile(E.F32), 0.0)),
         "the global g: a global must have one axis, but is tile<f32>"),
        (_module(Global("g", tile(E.F32, 2, 2), 0.0)), "the global g: a global must have one axis"),
        (_module(Global("g", tile(E.F32, 3), 0.0)), "the global g: every extent of a tile"),
        (_module(*GLOBALS[:1], *GLOBALS[:1]), "table: there are two of that name"),
        (_module(Global("kernel", tile(E.F32, 4), 0.0)), "kernel: there are two of that name"),
        (_module(Global("", tile(E.F32, 4), 0.0)), "the module: a global and a function must have"),
    ],
)  # fmt: skip
def test_a_global_that_cannot_be(module: Module, message: str):
    assert str(next(violations(module))).startswith(message)
    with pytest.raises(AssemblyError):
        find_toolchain().disassemble(encode(module))


def test_rules_of_globals_that_only_we_have():
    """An alignment that is no power of two is let pass; the others could not be written."""
    for held, message in (
        (Global("g", tile(E.F32, 4), 0.0, alignment=3), "`alignment` must be 0 or a power of two"),
        (Global("g", tile(E.F32, 4), np.zeros(2)), "a value of shape (2,) does not fill"),
        (Global("g", TileType(PtrType(E.F32), (4,)), 0), "a global cannot hold pointers"),
    ):
        assert message in str(next(violations(_module(held))))


def test_a_global_has_its_element():
    n = Entry()
    n.add(GetGlobal(name="table", to=scalar(PtrType(E.I32))))
    module = Module((n.function(),), globals=GLOBALS)
    (found,) = violations(module)
    assert found.message == "the global table is tile<4xf32>, but the result points to i32"
    with pytest.raises(AssemblyError):
        find_toolchain().disassemble(encode(module))


@pytest.mark.parametrize("version", [(13, 1), (13, 2), (13, 3), (13, 4)], ids=str)
def test_several_entries_and_globals(version: Version):
    first, second = Entry("first"), Entry("second")
    held = GLOBALS if version >= (13, 3) else GLOBALS[:2]
    for entry in (first, second):
        entry.add(GetGlobal(name="table", to=_POINTER))
    module = Module((first.function(), second.function()), globals=held)
    assert list(violations(module)) == []
    text = find_toolchain().disassemble(encode(module, version))
    assert text.removeprefix("// Producer: tilewright 0.1.0\n") == module_text(module)


def test_the_text_of_a_module_names_its_producer():
    module = _module()
    assert module_text(module) == "entry @kernel() {\n  return\n}\n"
    module.producer = "somebody"
    assert module_text(module).startswith("// Producer: somebody\nentry @kernel")
    assert find_toolchain().disassemble(encode(module)) == module_text(module)


def test_an_empty_module():
    assert module_text(Module(())) == "\n"
    assert find_toolchain().disassemble(encode(Module((), producer="x"))) == "// Producer: x\n\n"


def test_a_function_has_a_type():
    n = Entry()
    n.index()
    assert n.function().type == FunctionType((scalar(E.I32),))
    assert str(n.function().type) == "(tile<i32>) -> ()"
    assert str(FunctionType((), (scalar(E.I32),))) == "() -> tile<i32>"


# --- hints ---------------------------------------------------------------------------------------


def test_hints_are_found_by_name_for_any_target():
    hints = TargetHints(
        (
            ("sm_90", Dictionary((("occupancy", 2),))),
            ("default", Dictionary((("occupancy", IntIdentity(E.I64, 1)), ("other", "x")))),
        )
    )
    assert hints.named("occupancy") == (2, 1)
    assert hints.named("other") == ("x",)
    assert hints.named("latency") == ()


def test_hints_for_one_target():
    assert TargetHints.of("sm_90", latency=3, allow_tma=None).targets == (
        ("sm_90", Dictionary((("latency", 3),))),
    )


def test_no_advice_is_no_hint():
    assert EntryHints().hints() is None
    assert EntryHints(occupancy=2).hints() == TargetHints.of(occupancy=2)


def test_a_bad_hint_for_one_target_is_found():
    n = Entry()
    module = n.module()
    module.functions[0].hints = TargetHints.of("sm_90", occupancy=99)
    assert [str(found) for found in violations(module)] == [
        "entry: `occupancy` must be 1 to 32, but is 99"
    ]


def test_hints_that_say_nothing_are_not_shown():
    module = _module()
    module.functions[0].hints = TargetHints()
    assert module_text(module) == "entry @kernel() {\n  return\n}\n"
    module.producer = "x"
    assert find_toolchain().disassemble(encode(module)) == module_text(module)
