"""What a clamped index costs a product, as tileiras sees it: no pipeline stage, no TMA, no spill.

The kernels are those that the benchmarks measure. All entries go into one module, so that one run
of tileiras serves every test.
"""

import functools

import pytest
from kernels import gemm, gemm_listed, walked, walked_listed

import tilewright as tw
from tilewright import ReportForm
from tilewright.backends.cuda.cubin import cubin_resources
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode.encode import encode
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.ir.function import Module
from tilewright.ir.versions import required_version

TARGET = "sm_90"
SMALL = 2048  # bytes of shared memory; one stage of the product takes 32 KiB


plain = tw.kernel(deny_checks=True)(gemm)
plain_clamped = tw.kernel(report=ReportForm.AUDIT)(gemm_listed)
persistent = tw.kernel(deny_checks=True, num_worker_warps=4)(walked)
persistent_clamped = tw.kernel(report=ReportForm.AUDIT, num_worker_warps=4)(walked_listed)

PAIRS = {plain: plain_clamped, persistent: persistent_clamped}
KERNELS = (*PAIRS, *PAIRS.values())


def compiled(kernel):
    return kernel.specialized(
        sample_specialization(kernel.signature, TARGET, None, kernel.hints.of(TARGET))
    )


@functools.cache
def assembled():
    """The resources of every entry, and what tileiras said about it."""
    module = Module(tuple(f for kernel in KERNELS for f in compiled(kernel).module.functions))
    bytecode = encode(module, required_version(module))
    cubin, remarks = find_toolchain().assemble_with_remarks(bytecode, TARGET)
    return cubin_resources(cubin), remarks


@pytest.mark.parametrize("kernel", PAIRS.values())
def test_the_checks_stay_in_the_kernel(kernel):
    assert [entry.subject for entry in compiled(kernel).ledger.in_kernel] == ["x", "y"]
    assert len(compiled(kernel).module.functions) == 2  # the product and its audit


@pytest.mark.parametrize("kernel", PAIRS)
def test_a_clamped_index_takes_no_stage_of_the_pipeline(kernel):
    resources, _ = assembled()
    free, clamped = resources[kernel.__name__], resources[PAIRS[kernel].__name__]
    assert clamped.shared_memory == free.shared_memory
    assert clamped.shared_memory > 6 * 32 * 1024  # six stages of a 128x64 and a 64x128 tile
    assert clamped.stack_bytes == free.stack_bytes == 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_products_keep_tma_and_tensor_cores(kernel):
    _, remarks = assembled()
    said = [remark.message for remark in remarks if remark.function == kernel.__name__]
    assert any("TMA Load" in message for message in said)
    assert any("TMA Store" in message for message in said)
    assert any("Tensor-core SM90" in message for message in said)


@pytest.mark.parametrize("kernel", PAIRS.values())
def test_the_audit_is_small(kernel):
    resources, _ = assembled()
    audit = resources[f"{kernel.__name__}_audit"]
    assert audit.shared_memory <= SMALL
    assert audit.stack_bytes == 0
