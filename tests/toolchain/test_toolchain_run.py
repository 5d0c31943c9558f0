"""Running the tools: environment, time limit, failures and their explanation."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fake_toolkits import program, toolkit
from tile_ir_programs import Entry, at, gemm, tile

import tilewright as tw
from tilewright import Cut, Mut, Ref, f64
from tilewright.backends.cuda.explain import AssemblyError, explain
from tilewright.backends.cuda.toolchain import Toolchain, find_toolchain
from tilewright.backends.cuda.toolkits import find_toolkit
from tilewright.bytecode import encode
from tilewright.dims import BM, BN, M, N
from tilewright.dtypes import Element
from tilewright.errors import ToolchainError
from tilewright.ir.function import Module
from tilewright.ir.ops.elementwise import FToF
from tilewright.ir.ops.shape import Constant
from tilewright.settings import Settings

# What a tool that succeeds does: the argument behind `-o` is the file to write.
_WRITE = 'while [ "$1" != -o ]; do shift; done; out=$2'


def _fake(root, tileiras: str, timeout: float = 30.0) -> Toolchain:
    return Toolchain(find_toolkit(Settings(toolkit=toolkit(root, tileiras=tileiras))), timeout)


def test_the_cubin_is_given(tmp_path):
    assert _fake(tmp_path / "kit", f"{_WRITE}; echo cubin > $out").assemble(b"", "sm_90") == (
        b"cubin\n"
    )


def test_options(tmp_path):
    toolchain = _fake(tmp_path / "kit", f'all="$*"; {_WRITE}; echo "$all" > $out')
    plain = toolchain.assemble(b"", "sm_120").decode().split()
    assert plain[:3] == ["--gpu-name=sm_120", "--opt-level=3", "-o"]
    other = toolchain.assemble(b"", "sm_90", lineinfo=True, opt_level=0).decode().split()
    assert other[:4] == ["--gpu-name=sm_90", "--opt-level=0", "--lineinfo", "-o"]


def test_the_environment_is_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", "/stale")
    monkeypatch.setenv("SECRET", "x")
    toolchain = _fake(tmp_path / "kit", f"{_WRITE}; /usr/bin/env > $out")
    lines = toolchain.assemble(b"", "sm_90").decode().splitlines()
    seen = dict(line.split("=", 1) for line in lines)
    assert seen["CUDA_HOME"] == str(tmp_path / "kit")
    assert seen["PATH"] == str(tmp_path / "kit/bin")
    assert "SECRET" not in seen
    assert seen["TMPDIR"] != os.environ.get("TMPDIR", "/tmp")
    assert not Path(seen["TMPDIR"]).exists()


def test_two_runs_have_two_folders(tmp_path):
    toolchain = _fake(tmp_path / "kit", f"{_WRITE}; echo $TMPDIR > $out")
    assert toolchain.assemble(b"", "sm_90") != toolchain.assemble(b"", "sm_90")


def test_the_time_limit_ends_the_tool_and_its_children(tmp_path):
    note = tmp_path / "late"
    slow = f"(/bin/sleep 2; /bin/touch {note}) & /bin/sleep 60"
    toolchain = _fake(tmp_path / "kit", slow, timeout=0.3)
    start = time.monotonic()
    with pytest.raises(ToolchainError) as caught:
        toolchain.assemble(b"", "sm_90")
    assert time.monotonic() - start < 10
    assert str(caught.value) == (
        "tileiras for sm_90 took longer than 0.3 s and was stopped; smaller tiles compile faster, "
        "and TILEWRIGHT_TILEIRAS_TIMEOUT (seconds) allows more time"
    )
    time.sleep(2.2)
    assert not note.exists()


def test_a_silent_failure(tmp_path):
    with pytest.raises(AssemblyError) as caught:
        _fake(tmp_path / "kit", "exit 5").assemble(b"", "sm_90")
    assert str(caught.value) == (
        "tileiras did not compile the module for sm_90 (exit status 5)\n"
        "  it gave no reason\n"
        "  please report this with the kernel: tilewright should not have let it pass"
    )


_SAYS_NOTHING = "echo 'error: failed to compile Tile IR program' >&2; exit 5"


def _module_with(*shape: int) -> Module:
    n = Entry("kernel")
    half = n.add(Constant(value=0.5, to=tile(Element.F16, *shape))).result
    n.add(FToF(source=half, to=tile(Element.F32, *shape), loc=at(42)))
    return n.module()


@pytest.mark.parametrize(
    ("target", "shared"),
    [("sm_80", " and 167,936 bytes of shared memory"),
     ("sm_90", " and 233,472 bytes of shared memory"), ("sm_107", "")],
)  # fmt: skip
def test_a_failure_with_no_reason_names_the_largest_tile(tmp_path, target, shared):
    with pytest.raises(AssemblyError) as caught:
        _fake(tmp_path / "kit", _SAYS_NOTHING).assemble(encode(_module_with(512, 512)), target)
    assert str(caught.value) == (
        f"tileiras did not compile the module for {target} (exit status 5)\n"
        "  failed to compile Tile IR program\n"
        "  /kernels/sample.py:42:5: the largest tile, f32 of shape (512, 512), takes 1,048,576 "
        f"bytes; a multiprocessor of {target} has 262,144 bytes of registers{shared}\n"
        "  choose smaller tiles, or work on this one in parts, in a loop"
    )


def test_a_failure_with_no_large_tile_is_to_be_reported(tmp_path):
    small = encode(_module_with(128, 128))  # 64 KiB: an operand and a result fit
    with pytest.raises(AssemblyError) as caught:
        _fake(tmp_path / "kit", _SAYS_NOTHING).assemble(small, "sm_90")
    assert str(caught.value) == (
        "tileiras did not compile the module for sm_90 (exit status 5)\n"
        "  failed to compile Tile IR program\n"
        "  please report this with the kernel: tilewright should not have let it pass"
    )


def test_a_reason_comes_before_the_largest_tile(tmp_path):
    toolchain = _fake(tmp_path / "kit", "echo 'error: no such element' >&2; exit 5")
    with pytest.raises(AssemblyError, match="please report") as caught:
        toolchain.assemble(encode(_module_with(512, 512)), "sm_90")
    assert "largest" not in str(caught.value)


def test_a_crash_is_told_by_its_signal(tmp_path):
    with pytest.raises(AssemblyError, match="it ended with SIGABRT"):
        _fake(tmp_path / "kit", "kill -ABRT $$").assemble(b"", "sm_90")


def test_a_success_without_a_file_is_a_failure(tmp_path):
    with pytest.raises(AssemblyError):
        _fake(tmp_path / "kit", "exit 0").assemble(b"", "sm_90")


def test_the_tools_reason_is_told_where_there_is_no_disassembler(tmp_path):
    toolchain = _fake(tmp_path / "kit", "echo 'error: no such element' >&2; exit 5")
    with pytest.raises(AssemblyError, match="  no such element"):
        toolchain.assemble(b"", "sm_90")


def test_the_disassembler_knows_better(tmp_path):
    toolchain = _fake(tmp_path / "kit", "echo 'error: vague' >&2; exit 3")
    reader = toolchain.toolkit.root / "bin/tileirdisasm"
    program(reader, "13.4.92", "echo 'error: exact' >&2; exit 3")
    toolchain = Toolchain(find_toolkit(Settings(toolkit=toolchain.toolkit.root)), 30.0)
    with pytest.raises(AssemblyError) as caught:
        toolchain.assemble(b"", "sm_90")
    assert [reason.text for reason in caught.value.reasons] == ["exact"]


def test_bytecode_that_is_too_new(tmp_path):
    root = toolkit(tmp_path / "kit")
    found = find_toolkit(Settings(toolkit=root))
    toolchain = Toolchain(replace(found, version="13.3.5"), 30.0)  # older than any that is found
    with pytest.raises(ToolchainError) as caught:
        toolchain.assemble(encode(Module((gemm(),)), (13, 4)), "sm_90")
    assert str(caught.value) == (
        f"this kernel needs bytecode 13.4, but tileiras 13.3.5 in {root} reads up to 13.3; "
        'run: pip install "tilewright[cuda]"'
    )


def test_no_disassembler(tmp_path):
    toolchain = _fake(tmp_path / "kit", "exit 0")
    with pytest.raises(ToolchainError, match="bin has no tileirdisasm"):
        toolchain.disassemble(b"")


# --- the real tools ------------------------------------------------------------------------------


def _wrong_module() -> Module:
    n = Entry("kernel")
    n.add(FToF(source=n.given(tile(Element.F32, 8)), to=tile(Element.F16, 4), loc=at(42)))
    return n.module()


def test_a_refused_op_is_told_by_its_line():
    with pytest.raises(AssemblyError) as caught:
        find_toolchain().assemble(encode(_wrong_module()), "sm_90")
    (reason,) = caught.value.reasons
    assert reason.place == "/kernels/sample.py:42:5"
    assert "'cuda_tile.ftof' op" in reason.text
    assert "exit status 3" in str(caught.value)


def test_unreadable_bytes_are_told_by_the_op():
    """An enum number that does not exist, in the middle of a body."""
    n = Entry("kernel")
    op = n.add(FToF(source=n.given(tile(Element.F32, 8)), to=tile(Element.F16, 8), loc=at(42)))
    encoded = encode(n.module())
    (start,) = [start for start, found in encoded.places if found is op]
    data = bytearray(encoded.data)
    data[start + 2] = 99  # opcode, type, rounding mode
    broken = type(encoded)(bytes(data), encoded.version, encoded.places, encoded.bodies)
    with pytest.raises(AssemblyError) as caught:
        find_toolchain().disassemble(broken)
    assert {reason.place for reason in caught.value.reasons} == {"/kernels/sample.py:42:5"}
    assert all(reason.text.startswith("`ftof`: ") for reason in caught.value.reasons)


def test_an_element_the_target_lacks():
    n = Entry()
    n.keep(n.given(tile(Element.F8E4M3FN, 8)))
    with pytest.raises(AssemblyError, match=r"architecture 'sm_80'.*f8E4M3FN"):
        find_toolchain().assemble(encode(n.module()), "sm_80")


@tw.kernel
def _running_sums(z: Mut[f64, Cut[M, BM], Cut[N, BN]], x: Ref[f64, M, N]) -> None:
    z.store(tw.cumsum(x.load_like(z), axis=0))


def test_a_tile_that_the_target_cannot_hold():
    z, x = (tw.meta((1024, 1024), f64, target="sm_80") for _ in "zx")
    with pytest.raises(tw.CompileErrors) as caught:
        tw.compile_all([lambda: _running_sums(z.partition(512, 512), x)])
    (refused,) = caught.value.exceptions
    assert isinstance(refused, tw.CompileError)
    first, *_, note, way_out, _ = str(refused).splitlines()
    assert first == (
        "error[target]: the largest tile, f64 of shape (512, 512), does not fit sm_80: "
        "it takes 2,097,152 bytes"
    )
    assert "262,144 bytes of registers and 167,936 bytes of shared memory" in note
    assert "choose smaller tiles, or work on this one in parts, in a loop" in way_out


def test_not_bytecode_at_all():
    with pytest.raises(AssemblyError, match="unreadable module"):
        find_toolchain().disassemble(b"not bytecode")


def test_disassembly():
    assert "entry @gemm(" in find_toolchain().disassemble(encode(Module((gemm(),))))


# --- sorting what was said -----------------------------------------------------------------------


def test_reasons_are_given_once_and_without_what_follows_from_them():
    said = "error: first\nerror: first\nerror: verification failed for deserialized module\n"
    assert [reason.text for reason in explain(b"", said).reasons] == ["first"]


def test_what_follows_is_better_than_nothing():
    said = "error: failed to read provided Tile IR bytecode\n"
    assert len(explain(b"", said).reasons) == 1


def test_nothing_was_said():
    assert explain(b"", "").reasons == ()
