"""What the safety of kernels rests on, in machine code: waits and barriers where they must be."""

import pytest
from gpu_kernels import add_to_rows
from kernels import gemm
from machine_code import before_the_wait, disassembled, stores_without_barrier

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.backends.cuda.program import assemble
from tilewright.dims import B, M, N
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.passes import order_tokens

TARGET = "sm_90"


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def add_up(z: Mut[f32, B], x: Ref[f32, M, N]) -> None:
    """A loop that the tensor memory accelerator reads for, in warps of their own."""
    tiles = x.partition(64, B)
    kept = tw.zeros((64, B), f32)
    for i in range(tiles.num_tiles(0)):
        kept = kept + tiles[i, z.index[0]]
    z.store(tw.sum(kept, axis=0))


@tw.kernel(report=tw.ReportForm.AT_END)
def pick(z: Mut[f32, B], x: Ref[f32, M], ids: Ref[i32, N]) -> None:
    """An index that is checked in the kernel, and reported from it."""
    z.store(x.partition(B)[ids.partition(1)[z.index[0]].item()])


multiply = tw.kernel(gemm)
KERNELS = {"add": add, "add_up": add_up, "pick": pick, "multiply": multiply}


def machine_code(kernel, folder):
    hints = kernel.hints.of(TARGET)
    compiled = kernel.specialized(sample_specialization(kernel.signature, TARGET, None, hints))
    return disassembled(assemble(compiled.module, TARGET, None), folder)


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_accessed_before_the_grids_before_have_ended(name, tmp_path):
    code = machine_code(KERNELS[name].with_hints(starts_early=True), tmp_path)
    assert any("ACQBULK" in line for line in code)
    assert before_the_wait(code) == []


def test_a_kernel_that_does_not_wait_is_seen(tmp_path):
    assert before_the_wait(machine_code(add.with_hints(starts_early=False), tmp_path))


def test_all_threads_have_read_a_small_tile_before_one_writes_it(tmp_path):
    assert stores_without_barrier(machine_code(add_to_rows, tmp_path)) == 0


def test_that_needs_order_between_the_steps(tmp_path, monkeypatch):
    """As if every tile were large: should this fail, the assembler has learnt to do without."""
    monkeypatch.setattr(order_tokens, "_MOST_THREADS", 0)
    other = tw.kernel(deny_checks=True)(add_to_rows.source.plain())
    assert stores_without_barrier(machine_code(other, tmp_path)) > 0
