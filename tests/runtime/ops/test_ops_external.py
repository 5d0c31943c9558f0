"""Kernels of other compilers, on a GPU that is on paper: borrows, graphs, refusals."""

from __future__ import annotations

import gc
import re
import struct
import warnings

import pytest
from foreign_doubles import Library
from paper_launches import floats
from refusing import refuse

import tilewright as tw
from tilewright import f16, f32, i32, u8
from tilewright.external import ExternalKernel, In, InOut, Out

PTX = b"""
// saxpy: z[i] = a * x[i] + z[i] for i < n
.version 8.0
.target sm_90
.address_size 64

.visible .entry saxpy(.param .u64 z, .param .u64 x, .param .f32 a, .param .u32 n) { ret; }
.visible .entry nothing() { ret; }
.visible .entry mark (.param .u64 z) { ret; }
"""


def saxpy_on_paper(driver, _shape, z, x, a, n):
    count = int.from_bytes(n, "little")
    floats(driver, z, count)[:] += struct.unpack("<f", a)[0] * floats(driver, x, count)


@pytest.fixture
def paper(driver, cuda):
    driver.kernels |= {
        "saxpy": ((8, 8, 4, 4), saxpy_on_paper),
        "nothing": ((), lambda *_: None),
        "mark": ((8,), lambda driver, shape, z: floats(driver, z, 1).fill(shape.block[0])),
    }
    return driver


def declare() -> ExternalKernel:
    module = tw.external.load(PTX)
    return module.kernel(
        "saxpy", "writes z below n, reads x below n", z=InOut(f32), x=In(f32), a=f32, n=i32
    )


def tensors(n: int = 64) -> tuple[tw.Tensor, tw.Tensor]:
    return tw.ones((n,), f32), tw.full((n,), 2, f32)


# --- running --------------------------------------------------------------------------------------


def test_a_launch_has_its_shape_and_gives_its_arguments(paper):
    z, x = tensors()
    result = declare().grid(2, 1, block=(16, 2), shared_bytes=128).unsafe(z, x, 3.0, n=64).sync()
    assert result == (z, x, 3.0, 64)
    [(_, _, name, grid, block, shared)] = paper.calls("launch_shape")
    assert (name, grid, block, shared) == ("saxpy", (2, 1, 1), (16, 2, 1), 128)
    assert (z.numpy() == 7).all()


def test_code_is_loaded_once_and_late(paper):
    saxpy = declare()
    assert paper.calls("load_external") == []
    z, x = tensors()
    for _ in range(3):
        saxpy.grid(1, block=64).unsafe(z, x, 1.0, 64).submit()
    assert len(paper.calls("load_external")) == 1
    assert (z.numpy() == 7).all()


def test_an_empty_grid_launches_nothing(paper):
    z, x = tensors()
    declare().grid(0, block=64).unsafe(z, x, 1.0, 64).sync()
    assert paper.calls("launch_shape") == []


def test_a_kernel_without_tensors_runs_on_the_current_device(paper):
    tw.external.load(PTX).kernel("nothing", "does nothing").grid(1, block=1).unsafe().sync()
    assert len(paper.calls("launch_shape")) == 1


def test_more_shared_memory_is_asked_for_once(paper):
    saxpy, (z, x) = declare(), tensors()
    for nbytes in (16, 50_000, 49_152, 60_000):
        saxpy.grid(1, block=64, shared_bytes=nbytes).unsafe(z, x, 1.0, 64).sync()
    assert [n for *_, n in paper.calls("allow_shared_memory")] == [50_000, 60_000]


# --- borrows and order ----------------------------------------------------------------------------


def test_borrows_are_those_of_the_declaration(paper):
    z, x = tensors()
    operation = declare().grid(1, block=64).unsafe(z, x, 1.0, 64)
    with pytest.raises(tw.BorrowError, match=r"saxpy, built at .*, holds z for writing"):
        z.numpy()
    x.numpy()  # it is only read
    with pytest.raises(tw.BorrowError, match="holds x for reading"):
        tw.fill(x, 1)
    operation.close()
    assert (z.numpy() == 1).all()


def test_what_is_written_may_not_be_read_by_the_same_launch(paper):
    z, _ = tensors()
    with pytest.raises(tw.BorrowError, match="z is written by this launch and also read by it"):
        declare().grid(1, block=64).unsafe(z, z, 1.0, 64)
    halves = declare().grid(1, block=64).unsafe(z[:32], z[32:], 1.0, 32)
    halves.sync()
    assert z.numpy().tolist() == [2.0] * 32 + [1.0] * 32


def test_streams_wait_for_each_other(paper, cuda):
    z, x = tensors()
    other = cuda.new_stream()
    launch = declare().grid(1, block=64)
    launch.unsafe(z, x, 1.0, 64).submit()
    launch.unsafe(z, x, 1.0, 64).submit(other)
    assert len(paper.calls("wait")) >= 1
    assert (z.numpy() == 5).all()


def test_out_does_not_look_at_what_was_there():
    assert Out(f32).mode.reads is False
    assert InOut(f32).mode.reads is True
    assert In(f32).mode.writes is False


def test_dropping_one_warns(paper):
    z, x = tensors()
    operation = declare().grid(1, block=64).unsafe(z, x, 1.0, 64)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del operation
        gc.collect()
    assert [str(one.message).split(",")[0] for one in told] == ["operation saxpy"]
    z.numpy()


# --- with other operations ------------------------------------------------------------------------


def test_in_chains_and_with_operations_as_arguments(paper):
    z, x = tensors()
    launch = declare().grid(1, block=64)
    chain = tw.fill(x, 4).then(lambda got: launch.unsafe(z, got, 1.0, 64))
    chain.then(lambda got: launch.unsafe(got[0], got[1], 2.0, 64)).sync()
    assert (z.numpy() == 13).all()
    launch.unsafe(tw.fill(z, 0), tw.fill(x, 5), tw.value(2.0), 64).sync()
    assert (z.numpy() == 10).all()
    pair = launch.unsafe(z, x, 1.0, 64)
    with refuse("given for `x` of saxpy, has 4 results: choose one"):
        launch.unsafe(tw.zeros((64,), f32), pair, 1.0, 64)
    pair.close()


def test_in_a_graph_whose_nodes_can_be_changed(paper):
    z, x = tensors()
    y = tw.full((64,), 10, f32)
    saxpy = declare()
    with tw.graph() as graph:
        graph.record(saxpy.grid(1, block=64).unsafe(z, x, 1.0, 64))
    graph.launch().sync()
    graph.launch().sync()
    assert (z.numpy() == 5).all()
    graph.update(saxpy.grid(2, block=32).unsafe(z, y, 1.0, 64))
    graph.launch().sync()
    assert (z.numpy() == 15).all()
    assert paper.calls("launch_shape") == []


def test_a_graph_of_an_external_and_a_fill_has_the_edge_between_them(paper):
    z, x = tensors()
    with tw.graph() as graph:
        graph.record(tw.fill(z, 1))
        graph.record(declare().grid(1, block=64).unsafe(z, x, 1.0, 64))
    for _ in range(2):
        graph.launch().sync()
        assert (z.numpy() == 3).all()


def test_arrays_of_other_libraries_run_on_their_stream(paper):
    library = Library(paper)
    z, x = library.array(1.0, at=1), library.array(2.0)
    declare().grid(1, block=8).unsafe(z, x, 3.0, 8).submit()
    [(_, stream, *_)] = paper.calls("launch_shape")
    assert stream is library.stream
    paper.synchronize_stream(stream)
    assert (z.values == 7).all()
    with pytest.raises(tw.BorrowError, match="z is written by saxpy, but"):
        declare().grid(1, block=8).unsafe(library.array(at=2, read_only=True), x, 3.0, 8)


# --- what is refused ------------------------------------------------------------------------------


def test_only_unsafe_runs_it(paper):
    saxpy, (z, x) = declare(), tensors()
    for call in (saxpy, saxpy.grid(1, block=64)):
        with refuse(
            "external kernel `saxpy` is unsafe: its memory accesses are not checked. Launch"
        ):
            call(z, x, 1.0, 64)


@pytest.mark.parametrize(
    "make", [lambda: tw.ones((64,), f32, device="cpu"), lambda: tw.meta((64,), f32, target="sm_90")]
)
def test_only_on_a_gpu(make):
    x, saxpy = make(), declare()
    with refuse("external kernel `saxpy` is code for NVIDIA GPUs, and this launch would run on"):
        saxpy.grid(1, block=64).unsafe(x, x, 1.0, 64)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (lambda z, x: (z, x, 1.0), "saxpy(z, x, a, n): missing a required argument: 'n'"),
        (lambda z, x: (z, x, 1, 2.5), "`n` of kernel `saxpy` is a scalar of i32, not 2.5"),
        (lambda z, x: (z, x, 1.0, 2**31), "is i32: 2147483648 is outside"),
        (lambda z, x: (z, 3, 1.0, 64), "`x` of kernel `saxpy` is a pointer"),
        (lambda z, x: (z.partition(8), x, 1.0, 64), "pass the tensor, not a partition"),
        (lambda z, x: (z, tw.ones((64,), f16), 1.0, 64), "holds f32; the tensor holds f16"),
        (lambda z, x: (z[::2], x, 1.0, 32), "its elements do not lie in one piece (strides (2,))"),
        (lambda z, x: (z, tw.ones((64,), f32, device="cpu"), 1.0, 64), "lives on cpu"),
    ],
)
def test_arguments_are_checked_against_the_declaration(paper, arguments, text):
    launch = declare().grid(1, block=64)
    with refuse(text):
        launch.unsafe(*arguments(*tensors()))
    assert paper.calls("load_external", "launch_shape") == []


def test_views_with_strides_and_tensors_of_any_dtype_where_declared_so(paper):
    module = tw.external.load(PTX)
    mark = module.kernel("mark", "writes the first element", z=InOut(strided=True))
    z = tw.zeros((8,), f32)
    mark.grid(1, block=5).unsafe(z[::2]).sync()
    assert z.numpy()[0] == 5
    mark.grid(1, block=5).unsafe(tw.zeros((8, 4), u8)).sync()


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, "takes 4 parameters, of 8, 8, 4, 4 bytes, and is declared with 0: declare each"),
        (
            {"z": InOut(), "x": In(), "a": tw.f64, "n": i32},
            "`a` of external kernel `saxpy` is declared as a scalar of f64, which is passed in 8 "
            "bytes, and the code takes 4 there",
        ),
        (
            {"z": InOut(), "x": i32, "a": f32, "n": i32},
            "`x` of external kernel `saxpy` is declared as a scalar of i32",
        ),
        (
            {"z": InOut(), "x": In(), "a": f32, "n": In()},
            "`n` of external kernel `saxpy` is declared as a tensor",
        ),
    ],
)
def test_the_code_knows_its_parameters(paper, parameters, text):
    kernel = tw.external.load(PTX).kernel("saxpy", "nothing", **parameters)
    values = {
        name: tw.ones((64,), f32) if isinstance(said, (In, Out, InOut)) else 1
        for name, said in parameters.items()
    }
    with refuse(text):
        kernel.grid(1, block=64).unsafe(**values)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (((), {"block": 1}), "grid is 1 to 3 integers, along x, y and z, from 0 to 2147483647"),
        (((1, 1, 1, 1), {"block": 1}), "not (1, 1, 1, 1)"),
        (((1, 70_000), {"block": 1}), "not (1, 70000)"),
        (((-1,), {"block": 1}), "not (-1)"),
        (((True,), {"block": 1}), "not (True)"),
        (((1,), {"block": 0}), "block is 1 to 3 integers, along x, y and z, from 1 to 1024 and 64"),
        (((1,), {"block": (64, 32)}), "block=(64, 32) has 2048 threads, and a block has at most"),
        (((1,), {"block": 1.5}), "not (1.5)"),
        (((1,), {"block": 1, "shared_bytes": -1}), "shared_bytes is a number of bytes, not -1"),
    ],
)
def test_blocks_and_threads_are_checked(arguments, text):
    extents, options = arguments
    with refuse(text):
        declare().grid(*extents, **options)


def test_a_kernel_has_limits_of_its_own(paper):
    saxpy, (z, x) = declare(), tensors()
    with refuse("can have 512 threads in a block here, and block=(1024, 1, 1) has 1024"):
        saxpy.grid(1, block=1024).unsafe(z, x, 1.0, 64)
    with refuse("can have 101376 bytes of shared memory here beside its declared ones, and"):
        saxpy.grid(1, block=64, shared_bytes=200_000).unsafe(z, x, 1.0, 64)
    z.numpy()  # nothing holds it


def test_declarations_are_checked(tmp_path):
    module = tw.external.load(PTX)
    with refuse("there is no kernel `sax` in this code, which has `saxpy`, `nothing`, `mark`: C++"):
        module.kernel("sax", "reads")
    with refuse("external kernel `saxpy` is declared with a reason"):
        module.kernel("saxpy", " ")
    with refuse("`z` of external kernel `saxpy`: 4 is no dtype"):
        module.kernel("saxpy", "reads", z=4)
    with refuse("`z` of external kernel `saxpy`: i4 lives in tiles only"):
        module.kernel("saxpy", "reads", z=In(tw.i4))
    with refuse("there is no kernel"):
        tw.external.load(PTX).kernel("", "reads")


def test_code_comes_from_files_and_bytes(tmp_path):
    path = tmp_path / "saxpy.ptx"
    path.write_bytes(PTX)
    assert "saxpy.ptx" in repr(tw.external.load(path))
    nothing = tw.external.load(str(path)).kernel("nothing", "does nothing")
    assert re.fullmatch(r"<external kernel nothing from .*saxpy\.ptx>", repr(nothing))
    with refuse("No such file or directory; a path is expected, or the code itself as bytes"):
        tw.external.load(tmp_path / "missing.ptx")
    with refuse("tw.external.load takes a path or bytes, not int"):
        tw.external.load(3)
    with refuse("this is neither PTX, which has a `.version` line, nor a cubin"):
        tw.external.load(b"int main() {}")
    with refuse("this is neither PTX"):
        tw.external.load(b"")


def test_race_check_watches_the_cpu_only(paper):
    z, x = tensors()
    with tw.race_check(), refuse("race_check watches launches on the CPU"):
        declare().grid(1, block=64).unsafe(z, x, 1.0, 64)
