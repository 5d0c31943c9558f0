"""What an architecture lacks is refused here first, and by tileiras when it is asked after all."""

import pytest
from tile_ir_cases import CASES
from tile_ir_programs import Case, Entry, gemm

from tilewright.backends.cuda.explain import AssemblyError
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import encode
from tilewright.dtypes import Element
from tilewright.ir.function import Function, Module
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.types import Padding
from tilewright.ir.verify.verifier import violations

E = Element
_BY_NAME = {case.name: case for case in CASES}
_NEWEST = (13, 4)

# A case, the targets that lack it, and how ours and theirs say so.
_LACKING: tuple[tuple[str, tuple[int, ...], str, str], ...] = (
    ("FToF_F8E4M3FN", (80, 89), "has no f8E4M3FN; the first that has it is sm_90", "f8E4M3FN"),
    ("FToF_F8E5M2", (80, 89), "has no f8E5M2; the first that has it is sm_90", "f8E5M2"),
    ("FToF_scale", (80, 90), "has no f8E8M0FNU; the first that has it is sm_100", "f8E8M0FNU"),
    ("FToF_f4", (80, 90), "has no f4E2M1FN; the first that has it is sm_100", "f4E2M1FN"),
    ("Pack_F4E2M1FN", (90,), "has no f4E2M1FN; the first that has it is sm_100", "f4E2M1FN"),
    ("FToF_unsigned", (90, 100, 103), "has no fnv8E5M3FNU; the first that has it is sm_107",
     "fnv8E5M3FNU"),
    ("FToF_unsigned", (110, 120, 121), "has no fnv8E5M3FNU; the last that has it is sm_107",
     "fnv8E5M3FNU"),
    ("MmaF_F8E4M3FN", (80,), "has no f8E4M3FN; the first that has it is sm_90", "f8E4M3FN"),
    ("MmaFScaled_F8E4M3FN_F8E8M0FNU_32", (90,), "has no f8E8M0FNU; the first", "f8E8M0FNU"),
    ("MmaFScaled_F4E2M1FN_F8E8M0FNU_32", (90,), "has no f8E8M0FNU; the first", "unsupported type"),
    ("MmaFScaled_F4E2M1FN_F8E4M3FN_16", (90,), "has no f4E2M1FN; the first", "f4E2M1FN"),
    ("AtomicRedView_ADDF_BF16", (80, 86), "has no atomic sum of bf16; the first that has it is",
     "bf16 is not supported"),
    ("AtomicRmw_ADDF_BF16", (80, 86), "has no atomic sum of bf16; the first that has it is",
     "bf16 is not supported"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("case", "target", "ours", "theirs"),
    [
        (_BY_NAME[name], target, ours, theirs)
        for name, targets, ours, theirs in _LACKING
        for target in targets
    ],
    ids=lambda part: part.name if isinstance(part, Case) else str(part)[:12],
)
def test_what_a_target_lacks(case: Case, target: int, ours: str, theirs: str):
    assert not case.fits(target)
    found = next(violations(case.module(), f"sm_{target}"))
    assert found.message.startswith(f"sm_{target} {ours}")
    with pytest.raises(AssemblyError, match=theirs):
        find_toolchain().assemble(encode(case.module(), _NEWEST), f"sm_{target}")


def test_the_table_covers_every_case_that_some_target_lacks():
    """Each element, each op and each reason has a row."""
    covered = {_BY_NAME[name].op for name, *_ in _LACKING}
    lacking = {case.op for case in CASES if case.oldest > 80}
    assert lacking - covered <= {_BY_NAME["Unpack_F4E2M1FN"].op}


def _tf32_product() -> Function:
    """The product of `gemm`, loaded as tf32."""
    function = gemm(element=E.TF32)
    function.name = "tf32"
    return function


@pytest.mark.parametrize("target", [80, 89])
def test_older_targets_cannot_load_tf32(target: int):
    module = Module((_tf32_product(),))
    found = next(violations(module, f"sm_{target}"))
    assert found.message == f"sm_{target} cannot load tf32: load f32 and convert"
    with pytest.raises(AssemblyError):
        find_toolchain().assemble(encode(module), f"sm_{target}")


def test_newer_targets_can_load_tf32():
    module = Module((_tf32_product(),))
    assert list(violations(module, "sm_90")) == []
    find_toolchain().assemble(encode(module), "sm_90")


@pytest.mark.parametrize("target", [80, 90, 100, 120])
def test_no_target_takes_inbounds_with_padding(target: int):
    n = Entry()
    view = n.view(E.F32, 8, padding=Padding.ZERO)
    loaded = n.add(LoadView(view=view, index=(n.index(),), inbounds=(True,)))
    n.keep(loaded.tile)
    assert "tileiras fails on it" in str(next(violations(n.module(), f"sm_{target}")))
    with pytest.raises(AssemblyError, match="exit status 5"):
        find_toolchain().assemble(encode(n.module(), _NEWEST), f"sm_{target}")


def test_i4_is_everywhere():
    four = _BY_NAME["Pack_I4"]
    for target in (80, 89, 90, 100, 120):
        assert list(violations(four.module(), f"sm_{target}")) == []
