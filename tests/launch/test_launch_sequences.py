"""Many launches: in order, compiled once for what they share, and none for an empty grid."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, f16, f32, i32
from tilewright.dims import B, N, T


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


def fresh():
    """A kernel that nobody has launched yet."""

    @tw.kernel
    def scale(z: Mut[T, B], x: Ref[T, N], n: i32 = 2, *, SHIFT: Const[int] = 0) -> None:
        z.store(x.load_like(z) * n.astype(z.dtype) + SHIFT)

    return scale


def test_a_thousand_submissions_alternate_writer_and_reader():
    x, y, one = tw.zeros((64,), f32), tw.zeros((64,), f32), tw.ones((64,), f32)
    for _ in range(500):
        add(y.partition(16), x, one).submit()
        add(x.partition(16), y, one).submit()
    assert (x.numpy() == 1000).all()
    assert (y.numpy() == 999).all()


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0)], ids=str)
def test_an_empty_grid_launches_nothing_and_succeeds(shape):
    class C(tw.Dim): ...

    @tw.kernel
    def one(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.load_like(z) + x.partition(B)[7])

    @tw.kernel
    def two(z: Mut[f32, B, C], x: Ref[f32, N, T_COLUMNS]) -> None:
        z.store(x.load_like(z))

    z, x = tw.zeros(shape, f32), tw.zeros(shape, f32)
    (one if len(shape) == 1 else two)(z.partition(*(2,) * len(shape)), x).sync()
    assert z.numpy().shape == shape


class T_COLUMNS(tw.Dim): ...


def test_an_empty_walk_launches_nothing():
    @tw.kernel
    def walk(z: Mapped[f32, B], x: Ref[f32, N]) -> None:
        for at in z.indices():
            z.store(x.partition(B)[at], at)

    z = tw.zeros((0,), f32)
    walk(z.partition(4).persistent(), tw.zeros((0,), f32)).sync()
    assert z.numpy().size == 0


# --- specialisation -------------------------------------------------------------------------------


def launched(kernel, size: int, dtype=f32, **constants) -> None:
    x = tw.ones((size,), dtype)
    z = tw.zeros((size,), dtype)
    kernel(z.partition(16), x, **constants).sync()
    assert (z.numpy() == 2 + constants.get("SHIFT", 0)).all()


def test_sizes_of_one_divisibility_share_a_kernel():
    kernel = fresh()
    for size in (64, 1024, 16, 160):
        launched(kernel, size)
    assert len(kernel._compiled) == 1
    for size in (8, 24, 40):
        launched(kernel, size)
    assert len(kernel._compiled) == 2
    for size in (1, 7, 33):
        launched(kernel, size)
    assert len(kernel._compiled) == 3


def test_what_a_kernel_is_compiled_for():
    kernel = fresh()
    launched(kernel, 64)
    launched(kernel, 64, f16)
    assert len(kernel._compiled) == 2
    launched(kernel, 64, SHIFT=1)
    assert len(kernel._compiled) == 3
    x, z = tw.ones((64,), f32), tw.zeros((64,), f32)
    kernel(z.partition(32), x, 2).sync()  # another tile
    assert len(kernel._compiled) == 4
    kernel(z.partition(16), x, 5).sync()  # another scalar
    assert len(kernel._compiled) == 4


def test_slices_are_aligned_as_far_as_they_are():
    kernel = fresh()
    x, z = tw.from_numpy(np.arange(80, dtype=np.float32)), tw.zeros((64,), f32)
    for start, count in ((16, 1), (4, 1), (1, 2), (3, 2)):
        kernel(z.partition(16), x[start : start + 64]).sync()
        np.testing.assert_array_equal(z.numpy(), 2 * np.arange(start, start + 64))
        assert len(kernel._compiled) == count


def test_a_failed_compilation_is_tried_again():
    @tw.kernel
    def strange(z: Mut[f32, B]) -> None:
        z.store(tw.full((B,), UNKNOWN, f32))  # noqa: F821

    z = tw.zeros((16,), f32)
    for _ in range(2):
        with pytest.raises(tw.CompileError, match="`UNKNOWN` is not defined"):
            strange(z.partition(16))
    globals()["UNKNOWN"] = 3.0
    try:
        strange(z.partition(16)).sync()
    finally:
        del globals()["UNKNOWN"]
    assert (z.numpy() == 3).all()


def test_threads_that_launch_at_once_compile_once(monkeypatch):
    kernel = fresh()
    compilations = []
    compile_now = kernel._compiled._make

    def counted(key, entry, make):
        compilations.append(key)
        return compile_now(key, entry, make)

    monkeypatch.setattr(kernel._compiled, "_make", counted)
    barrier = threading.Barrier(4)

    tensors = [(tw.zeros((64,), f32), tw.full((64,), seed, f32)) for seed in range(4)]

    def launch(seed: int) -> bool:
        z, x = tensors[seed]
        barrier.wait()
        kernel(z.partition(16), x).sync()
        return bool((z.numpy() == 2 * seed).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(launch, range(4)))
    assert len(compilations) == 1


def test_compile_does_everything_but_the_launch():
    z, x = tw.full((64,), 9.0, f32), tw.ones((64,), f32)
    operation = fresh()(z.partition(16), x)
    operation.compile()
    operation.close()
    assert (z.numpy() == 9).all()


def test_without_memory_what_is_compiled_has_done_all_it_can():
    kernel = fresh()
    z, x = tw.meta((64,), f32, target="cpu"), tw.meta((64,), f32, target="cpu")
    kernel(z.partition(16), x).compile()
    kernel(z.partition(16), x).then(lambda _: kernel(z.partition(16), x)).compile()
    with pytest.warns(RuntimeWarning, match="was never run"):
        kernel(z.partition(16), x)
    with pytest.warns(RuntimeWarning, match="was never run"):
        kernel(tw.zeros((64,), f32).partition(16), tw.ones((64,), f32)).compile()
    # It holds nothing either, so that a list of them is made with the same tensors.
    ready = [kernel(z.partition(tile), x).compile() for tile in (8, 16)]
    with pytest.raises(tw.LaunchError, match=r"nothing runs on it: `\.compile\(\)` works"):
        ready[0].submit()
    assert tw.move(z).shape == (64,)


def test_what_was_compiled_without_memory_is_launched_without_compiling(caplog):
    kernel = fresh()
    z, x = tw.zeros((64,), f32), tw.ones((64,), f32)
    meta = [tw.meta((64,), f32, target=z.device.target) for _ in range(2)]
    kernel(meta[0].partition(16), meta[1]).compile()
    with caplog.at_level("DEBUG", "tilewright"):
        kernel(z.partition(16), x).sync()
        assert "compiled in" not in caplog.text
        kernel(z.partition(32), x).sync()  # which nobody has warmed up
        assert caplog.text.count("`scale` specialised for z: f32[32]") >= 1
    assert (z.numpy() == 2).all()


@pytest.mark.parametrize("target", ["sm_9000", "sm_90a", "90", "gfx90a", 90])
def test_targets_have_names(target):
    with pytest.raises(tw.LaunchError, match="is no target: say 'cpu' or an architecture, 'sm_90'"):
        tw.meta((64,), f32, target=target)
    assert tw.meta((64,), f32, target="sm_120").device.target == "sm_120"
