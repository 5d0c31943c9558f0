"""The warning of outputs whose extents tie to nothing: where it comes, and what it says."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Literal

import numpy as np
import pytest

import tilewright as tw
from tilewright import All, Const, Cut, ExtentWarning, Mapped, Mut, Ref, f16, f32, i32
from tilewright.backends.cuda import program as assembler
from tilewright.dims import BM, BN, B, D, K, M, N, T, V
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.jit.cache import disk as disk_cache
from tilewright.settings import current_settings

pytestmark = pytest.mark.filterwarnings("error::tilewright.ExtentWarning")


def told(kernel, **chosen):
    """What the warning advises to write, for each output; nothing if there is none."""
    fresh = tw.kernel(kernel)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fresh.specialized(sample_specialization(fresh.signature, "cpu", chosen))
    assert all(one.category is ExtentWarning for one in caught)
    return [str(one.message).rpartition("; write ")[2] for one in caught]


def product(z: Mapped[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


def piece(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.partition(B)[z.index[0]])


def block(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.partition(B)[tw.block_id(0)])


def fixed_input(z: Mut[f32, B], x: Ref[f32, Literal[100]]) -> None:
    z.store(x.partition(B)[z.index[0]])


def transposed(z: Mut[f32, BN, BM], x: Ref[f32, M, N]) -> None:
    j, i = z.index
    z.store(x.partition(BM, BN)[i, j].T)


def half_tied(z: Mut[f32, Cut[M, BM], BN], x: Ref[f32, M, N]) -> None:
    z.store(x.partition(BM, BN)[z.index[0], z.index[1]])


def whole(z: Mut[f32, Literal[1], All], x: Ref[f32, M, N]) -> None:
    xs, parts = x.partition(1, 16), z.partition(1, 16)
    for j in range(parts.num_tiles(1)):
        parts.store(xs[z.index[0], j], 0, j)


def gathered(z: Mut[f32, Literal[1], B], x: Ref[f32, M], w: Ref[f32, N]) -> None:
    i, j = z.index
    z.store((w.gather(j * B + tw.arange(B)) * x.gather(i))[None, :])


def rows_of(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.gather(z.rows[0] + tw.arange(B)))


def several(z: Mut[f32, B], w: Mut[i32, B], x: Ref[f32, N]) -> None:
    z.store(x.partition(B)[z.index[0]])
    w.store(tw.zeros((B,), i32))


def totals(z: Mut[f32, Literal[1]], x: Ref[f32, N], *, BK: Const[int] = 8) -> None:
    z.store(tw.sum(x.partition(BK)[z.index[0]], axis=0, keepdims=True))


def picked(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, K]) -> None:
    z.store(x.partition(B)[ids.partition(1)[z.index[0]].item()])


def stencil(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(tw.max(x.windows(2 * B, step=B)[z.index[0]].reshape(B, 2), axis=1))


def only_compared_with_each_other(z: Mut[f32, B], w: Mut[f32, B], x: Ref[f32, N]) -> None:
    tw.require(z.shape[0] == w.shape[0])
    tw.require(z.shape[0] > 0)
    z.store(x.partition(B)[z.index[0]])
    w.store(x.partition(B)[z.index[0]])


@pytest.mark.parametrize(
    ("kernel", "advice"),
    [
        (product, "`z: Mapped[T, Cut[M, BM], Cut[N, BN]]`"),
        (piece, "`z: Mut[f32, Cut[N, B]]`"),
        (block, "`z: Mut[f32, Cut[N, B]]`"),
        (fixed_input, "`z: Mut[f32, Cut[Literal[100], B]]`"),
        (transposed, "`z: Mut[f32, Cut[N, BN], Cut[M, BM]]`"),
        (half_tied, "`z: Mut[f32, Cut[M, BM], Cut[N, BN]]`"),
        (whole, "`z: Mut[f32, Cut[M, Literal[1]], Cut[N, All]]`"),
        (gathered, "`z: Mut[f32, Cut[M, Literal[1]], Cut[N, B]]`"),
        (rows_of, "`z: Mut[f32, Cut[N, B]]`"),
        (several, "`z: Mut[f32, Cut[N, B]]`; `w: Mut[i32, Cut[N, B]]`"),
        (totals, "`tw.require(z.shape[0] == tw.cdiv(x.shape[0], 8))`"),
        (picked, "`tw.require(ids.shape[0] == tw.cdiv(z.shape[0], 1024))`"),
        (stencil, "a `tw.require` that says how `z.shape[0]` follows from `x.shape[0]`"),
        (only_compared_with_each_other, "`z: Mut[f32, Cut[N, B]]`; `w: Mut[f32, Cut[N, B]]`"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_to_write(kernel, advice):
    assert told(kernel) == [advice]


# --- inputs beside an output that is tied ---------------------------------------------------------


def beside(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], y: Ref[f32, K]) -> None:
    i = z.index[0]
    z.store(x.partition(B)[i] + y.partition(B)[i])


def gathered_beside(z: Mut[f32, Cut[M, Literal[1]], Cut[N, B]], x: Ref[f32, M, N], y: Ref[f32, K]):
    i, j = z.index
    z.store(x.partition(1, B)[i, j] * y.gather(i) + y.gather(j * B + tw.arange(B))[None, :])


def fixed_beside(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], y: Ref[f32, Literal[100]]) -> None:
    i = z.index[0]
    z.store(x.partition(B)[i] + y.partition(B)[i])


def walked_beside(z: Mapped[f32, Cut[M, BM], Cut[N, BN]], x: Ref[f32, M, N], y: Ref[f32, M, K]):
    for at in z.indices():
        i, j = at
        z.store(x.partition(BM, BN)[i, j] + y.partition(BM, BN)[i, j], at)


def cut_otherwise(z: Mut[f32, Cut[N, Literal[1]]], x: Ref[f32, N], y: Ref[f32, K]) -> None:
    i = z.index[0]
    z.store(x.partition(1)[i] + tw.sum(y.partition(8)[i], axis=0, keepdims=True))


@pytest.mark.parametrize(
    ("kernel", "advice"),
    [
        (beside, "`y: Ref[f32, N]`"),
        (gathered_beside, "`y: Ref[f32, M]`"),
        (fixed_beside, "`y: Ref[f32, N]`"),
        (walked_beside, "`y: Ref[f32, M, N]`"),
        (cut_otherwise, "`tw.require(z.shape[0] == tw.cdiv(y.shape[0], 8))`"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_to_write_of_an_input(kernel, advice):
    assert told(kernel) == [advice]


def test_a_short_input_is_read_as_padding_and_the_warning_says_so():
    """Every launch check holds: both axes have as many tiles."""
    kernel = tw.kernel(beside)
    z, x, y = tw.zeros((16,), f32), tw.ones((16,), f32), tw.ones((13,), f32)
    with pytest.warns(ExtentWarning) as caught:
        kernel(z.partition(8), x, y).sync()
    assert z.numpy().tolist() == [2] * 13 + [1] * 3
    assert str(caught[0].message) == (
        "kernel `beside`: nothing ties the extents of `y` to those of its outputs, so a launch may "
        "leave out the end of an input, or read padding behind it, and nothing tells; write "
        "`y: Ref[f32, N]`"
    )


def required_beside(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], y: Ref[f32, K]) -> None:
    tw.require(K == N)
    i = z.index[0]
    z.store(x.partition(B)[i] + y.partition(B)[i])


def longer_beside(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], y: Ref[f32, K]) -> None:
    tw.require(y.shape[0] >= N)
    z.store(x.load_like(z) + y.gather(z.rows[0] + tw.arange(B)))


def alike_beside(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], y: Ref[f32, K]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


def group_for_each_piece(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], y: Ref[f32, K]) -> None:
    """A single element is checked: there is no padding to read."""
    z.store(x.load_like(z) * y.partition(1)[z.index[0]])


def tied_by_another_output(
    z: Mut[f32, Cut[N, B]], w: Mut[f32, Cut[K, B]], x: Ref[f32, N], y: Ref[f32, K]
) -> None:
    i = z.index[0]
    z.store(x.partition(B)[i])
    w.store(y.partition(B)[i])


@pytest.mark.parametrize(
    "kernel",
    [required_beside, longer_beside, alike_beside, group_for_each_piece, tied_by_another_output],
    ids=lambda kernel: kernel.__name__,
)
def test_inputs_that_need_no_word(kernel):
    assert told(kernel) == []


# --- outputs that need no word --------------------------------------------------------------------


def filled(z: Mut[f32, B]) -> None:
    z.store(tw.full((B,), 1.0, f32))


def counted(z: Mut[i32, B]) -> None:
    z.store(z.index[0] * B + tw.arange(B))


def scaled_in_place(z: Mapped[f32, B]) -> None:
    for at in z.indices():
        z.store(z.load(at) * 2, at)


def alike(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))


def required(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    tw.require(z.shape[0] == N)
    z.store(x.partition(B)[z.index[0]])


def required_to_be_a_number(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    tw.require(z.shape[0] == 64)
    z.store(x.partition(B)[z.index[0]])


def prefix_of_the_input(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    tw.require(z.shape[0] <= N)
    z.store(x.partition(B)[z.index[0]])


def totals_of_all(z: Mut[f32, Literal[1]], w: Mut[f32, Literal[1]], x: Ref[f32, N]) -> None:
    """One of them is settled, and so is the other: each has an element for each block."""
    tw.require(z.shape[0] == tw.cdiv(N, 8))
    z.store(tw.sum(x.partition(8)[z.index[0]], axis=0, keepdims=True))
    w.store(tw.max(x.partition(8)[z.index[0]], axis=0, keepdims=True))


def id_for_each_piece(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, K]) -> None:
    tw.require(tw.cdiv(z.shape[0], B) == K)
    z.store(x.partition(B)[ids.partition(1)[z.index[0]].item()])


def from_a_table(z: Mut[f32, BN], table: Ref[f32, V, D]) -> None:
    """What is read depends on the place, and is not at it."""
    z.store(table.gather(z.index[0] // 4, tw.arange(BN)))


@pytest.mark.parametrize(
    "kernel",
    [
        filled, counted, scaled_in_place, alike, required, required_to_be_a_number,
        prefix_of_the_input, totals_of_all, id_for_each_piece, from_a_table,
    ],
    ids=lambda kernel: kernel.__name__,
)  # fmt: skip
def test_what_needs_no_word(kernel):
    assert told(kernel) == []


@pytest.mark.parametrize("kernel", [piece, half_tied, whole, gathered])
def test_the_advice_is_enough(kernel, tmp_path):
    """The kernel as the warning would have it compiles without one."""
    (advice,) = told(kernel)
    annotation = re.search(r"`(z: .*)`$", advice)
    text = inspect.getsource(kernel)
    own = re.search(r"z: Mut\[.*?\](?=, [a-z]+: )", text)
    assert annotation is not None
    assert own is not None
    text = "\n".join(
        (
            "from typing import Literal",
            "import tilewright as tw",
            "from tilewright import All, Cut, Mut, Ref, f32",
            "from tilewright.dims import BM, BN, B, M, N",
            text.replace(own[0], annotation[1]),
        )
    )
    file = tmp_path / "tied.py"
    file.write_text(text)
    names = {}
    exec(compile(text, str(file), "exec"), names)
    assert told(names[kernel.__name__]) == []


def test_it_points_at_the_parameter_and_comes_once():
    kernel = tw.kernel(product)
    line = inspect.getsourcelines(product)[1]
    x, y = tw.ones((8, 8), f16), tw.ones((8, 8), f16)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rows in (8, 16, 8):  # specialised anew for other tiles, found again for the first
            z = tw.zeros((8, 8), f16)
            kernel(z.partition(rows, 8).persistent(), x, y, BK=8).sync()
            kernel.with_hints(occupancy=2)(z.partition(rows, 8).persistent(), x, y, BK=8).sync()
    (one,) = caught
    assert (one.filename, one.lineno) == (__file__, line)
    assert str(one.message) == (
        "kernel `product`: nothing ties the extents of `z` to those of its inputs, so a launch may "
        "leave out the end of an input, or write more elements than it gives, and nothing tells; "
        "write `z: Mapped[T, Cut[M, BM], Cut[N, BN]]`"
    )


def test_where_it_is_an_error_every_launch_raises_it():
    kernel = tw.kernel(piece)
    z, x = tw.zeros((8,), f32), tw.ones((8,), f32)
    for _ in range(2):
        with pytest.raises(ExtentWarning):
            kernel(z.partition(4), x)
    with pytest.warns(ExtentWarning):
        kernel(z.partition(4), x).sync()
    assert z.numpy().tolist() == [1] * 8


def test_only_a_prefix_of_the_output_is_said_at_the_launch():
    kernel = tw.kernel(piece)
    z = tw.zeros((16,), f32)
    kernel.grid(2)(z.partition(4, prefix=True), tw.from_numpy(np.ones(8, np.float32))).sync()
    assert z.numpy().tolist() == [1] * 8 + [0] * 8


def test_segments_are_no_places_of_rows():
    @tw.kernel
    def of_segments(z: Mut[f32, B], w: Ref[f32, N]) -> None:
        z.store(tw.full((B,), w.gather(z.index[0]), f32))

    offsets = tw.from_numpy(np.array([0, 3, 5], np.int32))
    z = tw.zeros((5,), f32)
    of_segments(
        z.partition(4, segments=offsets), tw.from_numpy(np.array([1, 2], np.float32))
    ).sync()
    assert z.numpy().tolist() == [1, 1, 1, 2, 2]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A cache on disk of this test's own, with a double in place of tileiras; the runs of it."""
    assembled = []

    def assemble(module, target, opt_level):
        assembled.append(module.functions[0].name)
        return b"cubin"

    def forget():
        current_settings.cache_clear()
        disk_cache.open_cache.cache_clear()

    monkeypatch.setattr(assembler, "assemble", assemble)
    monkeypatch.setattr(assembler, "tools_version", lambda: "13.4.92")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    forget()
    yield assembled
    monkeypatch.undo()
    forget()


def test_a_kernel_that_is_found_on_disk_tells_it_too(kept):
    for _ in range(2):  # each time a kernel of its own, as in another process
        kernel = tw.kernel(piece)
        z, x = (tw.meta((64,), f32, target="sm_90") for _ in "zx")
        with pytest.warns(ExtentWarning, match=r"write `z: Mut\[f32, Cut\[N, B\]\]`"):
            operation = kernel(z.partition(16), x)
        operation.compile()
        operation.close()
    assert kept == ["piece"]
