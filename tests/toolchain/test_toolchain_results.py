"""What comes out: cubins for four targets, remarks, resources, and settings."""

from dataclasses import fields
from pathlib import Path

import pytest
from tile_ir_cases import CASES
from tile_ir_programs import gemm

from tilewright.backends.cuda.cubin import cubin_resources
from tilewright.backends.cuda.remarks import Remark, parse_remarks
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import encode
from tilewright.errors import TilewrightError, ToolchainError
from tilewright.ir.function import EntryHints, Module
from tilewright.settings import Settings


@pytest.mark.parametrize("target", [80, 90, 100, 120])
def test_a_cubin_names_its_entries(target: int):
    functions = tuple(case.function() for case in CASES[:5])
    cubin = find_toolchain().assemble(encode(Module(functions), (13, 4)), f"sm_{target}")
    assert set(cubin_resources(cubin)) == {function.name for function in functions}


# --- remarks -------------------------------------------------------------------------------------


def test_a_matrix_product_gets_tma_and_tensor_cores():
    cubin, remarks = find_toolchain().assemble_with_remarks(encode(Module((gemm(),))), "sm_90")
    assert [(remark.line, remark.message) for remark in sorted(remarks, key=lambda r: r.line)] == [
        (31, "Load instruction selected: TMA Load instruction"),
        (32, "Load instruction selected: TMA Load instruction"),
        (33, "MMA operation successfully optimized to use Tensor Cores: Tensor-core SM90"),
        (35, "Store instruction selected: TMA Store instruction"),
    ]
    assert all(remark.passed and remark.function == "gemm" for remark in remarks)
    assert {remark.file for remark in remarks} == {"/kernels/sample.py"}
    resources = cubin_resources(cubin)["gemm"]
    assert resources.shared_memory > 150_000
    assert resources.stack_bytes == 0
    assert 128 <= resources.registers <= 255


def test_an_unaligned_base_costs_tma():
    _, remarks = find_toolchain().assemble_with_remarks(encode(Module((gemm(4),))), "sm_90")
    failed = [remark for remark in remarks if not remark.passed]
    assert {remark.line for remark in failed} >= {31, 32}
    assert failed[0].message.startswith("Failed to select TMA")
    assert all(remark.message.endswith("base pointer not 16-byte aligned") for remark in failed)
    assert len(failed) < 10


_REPORT = """--- !Failure
Pass:            Memory
Name:            RemarkMemoryTmaLoadFailed
DebugLoc:        { File: '/a b.py', Line: 12, Column: 5 }
Function:        'it''s'
Args:
  - RemarkId:    1
  - Remark:      Failed to select TMA load instruction
  - Reason:      'loc("/a b.py":12:5): too narrow'
  - Reason:      'loc("/a b.py":12:5): too narrow'
...
--- !Passed
Pass:            Tensor-core
Name:            RemarkTensorCoreMMA
DebugLoc:        { File: '<unknown file>', Line: 0, Column: 0 }
Function:        f
Args:
  - Remark:      done
  - Instruction: Tensor-core SM90
  - Shape:       '[64, 128, 16]'
...
"""


def test_remarks_are_read_and_given_once():
    assert parse_remarks(_REPORT + _REPORT) == (
        Remark(
            line=12,
            message="Failed to select TMA load instruction: too narrow",
            passed=False,
            function="it's",
            file="/a b.py",
            category="Memory",
        ),
        Remark(0, "done: Tensor-core SM90", True, "f", "", "Tensor-core"),
    )


def test_no_remarks():
    assert parse_remarks("") == ()


# --- resources -----------------------------------------------------------------------------------


def test_occupancy_halves_the_shared_memory():
    twice = gemm()
    twice.hints = EntryHints(occupancy=2).hints()
    twice.name = "twice"
    cubin = find_toolchain().assemble(encode(Module((gemm(), twice))), "sm_90", lineinfo=True)
    found = cubin_resources(cubin)
    assert found["twice"].shared_memory < 0.6 * found["gemm"].shared_memory
    assert found["twice"].registers <= 128


def test_only_cubins_have_resources():
    with pytest.raises(ToolchainError, match="this is no cubin"):
        cubin_resources(b"MZ")


# --- settings ------------------------------------------------------------------------------------


def test_settings_are_read_from_the_environment():
    environment = {
        "TILEWRIGHT_TOOLKIT": "/kit",
        "TILEWRIGHT_TILEIRAS_TIMEOUT": "2.5",
        "CUDA_HOME": "",
        "PATH": "/a:/b",
    }
    settings = Settings.from_environment(environment)
    assert settings.toolkit == Path("/kit")
    assert settings.tileiras_timeout == 2.5
    assert settings.cuda_home is None
    assert settings.path == (Path("/a"), Path("/b"))


def test_folders_may_be_at_home_and_off_is_a_word():
    home = Path("~").expanduser()
    settings = Settings.from_environment(
        {"TILEWRIGHT_TOOLKIT": "~/kit", "TILEWRIGHT_CACHE": "~/kept", "TILEWRIGHT_TUNED": "OFF"}
    )
    assert settings.toolkit == home / "kit"
    assert (settings.cache, settings.tuned) == (str(home / "kept"), "off")
    with pytest.raises(TilewrightError, match="TILEWRIGHT_CACHE='~nobody_at_all/kept'"):
        Settings.from_environment({"TILEWRIGHT_CACHE": "~nobody_at_all/kept"})


def test_an_empty_environment_gives_the_defaults():
    assert Settings.from_environment({}) == Settings()


@pytest.mark.parametrize("text", ["soon", "0", "-1"])
def test_a_setting_that_cannot_be_read_is_named(text: str):
    with pytest.raises(TilewrightError, match=f"TILEWRIGHT_TILEIRAS_TIMEOUT='{text}'"):
        Settings.from_environment({"TILEWRIGHT_TILEIRAS_TIMEOUT": text})


def test_every_setting_is_explained():
    for setting in fields(Settings):
        assert setting.metadata["variable"].doc.endswith(".")
