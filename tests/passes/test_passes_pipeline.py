"""All passes together: valid Tile IR, run by the CPU backend and taken by NVIDIA's reader."""

import numpy as np
import pytest
from ir_samples import Sample, mnemonics

from tilewright.backends.cpu.executor import compile_function
from tilewright.backends.cpu.memory import KernelMemory
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode.encode import encode
from tilewright.errors import ToolchainError
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.launch_terms import BaseAddress, Extent, RecordAddress, ScalarArgument, Stride
from tilewright.ir.ops import INTERNAL_OPS
from tilewright.ir.ops.internal import BlockIndex, DivisorCheck, FloorDiv, FloorMod
from tilewright.ir.verify.verifier import verify
from tilewright.ir.versions import required_version
from tilewright.passes.pipeline import lower_to_tile_ir
from tilewright.passes.report_form import ReportForm

REPORTING = [ReportForm.IN_PLACE, ReportForm.AT_END, ReportForm.AUDIT]


def gather_rows():
    """z[i, j] = x[ids[i], j], by a grouped walk over the tiles of z."""
    s = Sample()
    ids, x, z = s.view("ids", tile=1), s.view("x", 2), s.view("z", 2)
    with s.walk(s.count("z", 0), s.count("z", 1), group=(2, 1)) as (i, j):
        row = s.check(s.item(s.load(ids, i)), s.count("x", 0))
        s.store(s.load(x, row, j), z, i, j)
    return s


def scatter_rows():
    """z[ids[i]] = x[i], one block a tile of x; and z[0] is read back and written in between."""
    s = Sample()
    ids, x, z = s.view("ids", tile=1), s.view("x"), s.view("z")
    (i,) = s.add(BlockIndex(counts=(s.count("x"),))).indices
    place = s.check(s.item(s.load(ids, i)), s.count("z"), is_store=True)
    s.store(s.load(x, i), z, place)
    s.store(s.sum(s.load(z, s.index(0)), s.tile(0)), z, s.index(0))
    return s


def divide():
    """z = (a // b) * 1000 + a % b in every element of one tile."""
    s = Sample()
    a, b, z, at = s.view("a"), s.view("b"), s.view("z"), s.index(0)
    dividend = s.load(a, at)
    divisor = s.add(DivisorCheck(divisor=s.load(b, at))).result
    quotient = s.add(FloorDiv(lhs=dividend, rhs=divisor)).result
    remainder = s.add(FloorMod(lhs=dividend, rhs=divisor)).result
    s.store(quotient, z, at)
    s.store(remainder, z, s.index(1))
    return s


SAMPLES = {"gather": gather_rows, "scatter": scatter_rows, "divide": divide}


def lowered(sample, form):
    return lower_to_tile_ir(sample.done(), sample.arguments(), form)


@pytest.mark.parametrize("form", ReportForm)
@pytest.mark.parametrize("name", SAMPLES)
def test_the_result_is_valid_tile_ir(name, form):
    module = lowered(SAMPLES[name](), form).module
    verify(module)
    internal = {op.mnemonic for op in INTERNAL_OPS}
    for function in module.functions:
        assert not internal & set(mnemonics(function))


def test_what_no_entry_uses_of_a_tensor_is_not_passed():
    sample = gather_rows()
    result = lowered(sample, ReportForm.AUDIT)
    assert len(result.module.functions) == 2
    left = [argument.term for argument in result.arguments]
    for entry in result.module.functions:
        assert [param.type for param in entry.params] == [one.type for one in result.arguments]
    dropped = [one.term for one in sample.arguments() if one.term not in left]
    assert Stride("ids", 0) in dropped, "it is one"
    assert BaseAddress("x") in left, "the kernel reads it, and the audit does not"
    assert all(isinstance(term, Extent | Stride) for term in dropped)
    assert left == [one.term for one in sample.arguments() if one.term in left], "in their order"


@pytest.fixture(scope="module")
def toolchain():
    try:
        return find_toolchain()
    except ToolchainError as missing:
        pytest.skip(f"no toolchain: {missing}")


@pytest.mark.parametrize("form", REPORTING)
@pytest.mark.parametrize("name", SAMPLES)
def test_the_reader_takes_it(name, form, toolchain):
    module = lowered(SAMPLES[name](), form).module
    text = toolchain.disassemble(encode(module, required_version(module)))
    for function in module.functions:
        assert f"@{function.name}" in text


class Launch:
    """Runs the entries of a module on the CPU, the audit first, over NumPy arrays."""

    def __init__(self, sample, form):
        result = lowered(sample, form)
        self.kernels = [compile_function(function) for function in result.module.functions]
        self.arguments = result.arguments
        self.sites = result.sites

    def run(self, blocks, scalars=(), **arrays):
        record = np.zeros(16, dtype=np.int32)
        given = dict(arrays, record=record)
        values = [self.value(a.term, given, dict(scalars)) for a in self.arguments]
        memories = [KernelMemory.of(array) for array in given.values()]
        for kernel in reversed(self.kernels):
            kernel.run((blocks, 1, 1), values, memories)
        return record.tolist()

    def value(self, term, arrays, scalars):
        if isinstance(term, BaseAddress):
            return arrays[term.param].ctypes.data
        if isinstance(term, Extent):
            return arrays[term.param].shape[term.axis]
        if isinstance(term, Stride):
            return arrays[term.param].strides[term.axis] // 4
        if isinstance(term, ScalarArgument):
            return scalars[term.param]
        assert isinstance(term, RecordAddress)
        return arrays["record"].ctypes.data


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


@pytest.mark.parametrize("form", REPORTING)
@pytest.mark.parametrize("wanted", [(0, 1, 2), (2, 2, 1), (0, 3, 1), (-1, 0, 9)])
def test_rows_are_gathered_and_a_wrong_one_is_reported(form, wanted):
    launch = Launch(gather_rows(), form)
    ids, x = np.array(wanted, dtype=np.int32), numbers(11, 8)  # 3 tiles of rows, the last cut off
    z = np.full((12, 8), -1, dtype=np.int32)
    record = launch.run(2, ids=ids, x=x, z=z)
    padded = np.zeros((12, 8), dtype=np.int32)
    padded[:11] = x
    for tile, row in enumerate(wanted):
        nearest = min(max(row, 0), 2)
        assert (z[4 * tile :][:4] == padded[4 * nearest :][:4]).all()
    wrong = [row for row in wanted if not 0 <= row < 3]
    assert record[0] == bool(wrong)
    if wrong:
        site, index, count, block = record[1:5]
        assert launch.sites[site - 1] == (None, CheckSite("x", 0, 4))
        assert index in wrong
        assert (count, block in (0, 1)) == (3, True)


@pytest.mark.parametrize("form", REPORTING)
def test_a_wrong_store_is_skipped_and_its_neighbours_are_not(form):
    launch = Launch(scatter_rows(), form)
    x, z = numbers(8), np.full(12, -1, dtype=np.int32)
    record = launch.run(2, ids=np.array([2, 3], dtype=np.int32), x=x, z=z)
    assert z.tolist() == [-1] * 8 + [0, 1, 2, 3]
    assert record[:5] == [1, 1, 3, 3, 1]
    z[:] = -1
    record = launch.run(2, ids=np.array([2, 1], dtype=np.int32), x=x, z=z)
    assert z.tolist() == [-1] * 4 + [4, 5, 6, 7, 0, 1, 2, 3]
    assert record == [0] * 16


@pytest.mark.parametrize("form", REPORTING)
def test_division_by_anything_is_defined(form):
    launch = Launch(divide(), form)
    least = -(2**31)
    a, z = np.array([least, least, -7, 7], dtype=np.int32), np.zeros(8, dtype=np.int32)
    record = launch.run(1, a=a, b=np.array([-1, 3, 2, -2], dtype=np.int32), z=z)
    assert z.tolist() == [least, least // 3, -4, -4, 0, least % 3, 1, -1]
    assert record[0] == 0
    record = launch.run(1, a=a, b=np.array([-1, 0, 2, 0], dtype=np.int32), z=z)
    assert z.tolist() == [least, least, -4, 7, 0, 0, 1, 0]
    assert record[:2] == [1, 1]


def test_a_kernel_without_checks_has_one_entry_and_no_sites():
    s = Sample()
    (i,) = s.add(BlockIndex(counts=(s.count("z"),))).indices
    s.store(s.load(s.view("x"), i), s.view("z"), i)
    result = lowered(s, ReportForm.AUDIT)
    assert [function.name for function in result.module.functions] == ["sample"]
    assert result.sites == ()
    assert not {"if", "make_token", "select"} & set(mnemonics(result.module.functions[0]))


def test_an_audit_kernel_comes_second():
    result = lowered(gather_rows(), ReportForm.AUDIT)
    names = [function.name for function in result.module.functions]
    assert names == ["sample", "sample_audit"]
    kernel, audit = result.module.functions
    assert [p.type for p in kernel.params] == [p.type for p in audit.params]
    assert "atomic_cas_tko" not in mnemonics(kernel)
    assert mnemonics(audit).count("atomic_cas_tko") == 1
    assert "store_view_tko" not in mnemonics(audit)
