"""The tour's kernels through the real tools: every target, both readers, and what tileiras chose.

All entries go into one module, so that a target takes one run.
"""

import functools

import pytest

from tilewright.backends.cuda.cubin import cubin_resources
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode.encode import encode
from tilewright.cli import tour_kernels
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.ir.function import Module
from tilewright.ir.text import module_text
from tilewright.ir.verify.verifier import verify
from tilewright.ir.versions import required_version
from tilewright.kernel import Kernel

CHOSEN = {"softmax": {"B": 1, "D": 1024}, "permute_heads": {"BM": 32, "D": 64}}
WRONG = "permute_heads_racing"
KERNELS = {
    name: found
    for name in tour_kernels.__all__
    if isinstance(found := getattr(tour_kernels, name), Kernel) and name != WRONG
}
GEMMS = ("gemm", "gemm_persistent")
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


@functools.cache
def compiled(name: str, target: str):
    kernel = KERNELS[name]
    return kernel.specialized(
        sample_specialization(kernel.signature, target, CHOSEN.get(name), kernel.hints.of(target))
    )


def together(names, target):
    functions = [f for name in names for f in compiled(name, target).module.functions]
    module = Module(tuple(functions))
    verify(module, target)
    return encode(module, required_version(module))


def test_all_kernels_of_the_tour_are_here():
    assert len(KERNELS) == 7


@pytest.mark.parametrize("target", TARGETS)
def test_every_kernel_assembles(target):
    cubin = find_toolchain().assemble(together(KERNELS, target), target)
    assert cubin_resources(cubin).keys() >= KERNELS.keys()


def test_nvidias_reader_accepts_every_kernel_and_prints_what_we_print():
    text = find_toolchain().disassemble(together(KERNELS, "sm_90"))
    for name in KERNELS:
        assert f"entry @{name}(" in text
        assert module_text(compiled(name, "sm_90").module).strip() in text


def test_the_products_use_tma_and_tensor_cores():
    cubin, remarks = find_toolchain().assemble_with_remarks(together(GEMMS, "sm_90"), "sm_90")
    for name in GEMMS:
        said = [remark for remark in remarks if remark.function == name]
        assert [remark.message for remark in said if not remark.passed] == []
        messages = [remark.message for remark in said]
        assert any("TMA Load" in message for message in messages)
        assert any("TMA Store" in message for message in messages)
        assert any("Tensor-core SM90" in message for message in messages)
        assert cubin_resources(cubin)[name].stack_bytes == 0


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_where_the_checks_went(name):
    """Only the row numbers that lie in memory leave a check in a kernel."""
    left = [entry.subject for entry in compiled(name, "sm_90").ledger.in_kernel]
    assert left == (["x"] if name == "pick_rows" else [])
