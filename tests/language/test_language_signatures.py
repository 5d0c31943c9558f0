"""What a kernel's signature can say: strings, local names, constants, extents, placeholders."""

import linecache
import pickle
from typing import Literal

import numpy as np
import pytest
from annotated_by_strings import shifted
from running import LENGTH, assert_same, floats, run

import tilewright as tw
from tilewright import Const, DType, Mapped, Mut, Ref, bf16, bool_, f16, f32, i32
from tilewright.dims import BM, BN, B, K, M, N, T


def test_annotations_may_be_strings():
    got = run(shifted, ((LENGTH,), f32), 32, floats(f32), 2, FACTOR=3)
    np.testing.assert_allclose(got, floats(f32) * 3 + 2, rtol=1e-6)


def test_annotations_may_name_what_is_local():
    class ROWS(tw.Dim): ...

    class WIDTH(tw.Dim): ...

    class Element(tw.AnyDType): ...

    @tw.kernel
    def local(z: "Mut[Element, 1, WIDTH]", x: "Ref[Element, ROWS, K]") -> None:
        i = z.index[0]
        z.store(x.partition(1, WIDTH)[i, 0] + ROWS.astype(z.dtype))

    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    assert_same(run(local, (x.shape, f32), (1, 8), x), x + 3)


def test_a_placeholder_is_a_dtype_of_the_body():
    @tw.kernel
    def converted(z: Mut[T, B], x: Ref[f32, N], alpha: T) -> None:
        total = tw.zeros((B,), T)
        if z.dtype == f16 and x.dtype != T:
            total = total + 1
        z.store(x.load_like(z).astype(T) * alpha + total)

    x = floats(f32)
    assert_same(run(converted, ((LENGTH,), f32), 32, x, 2), x * 2)
    assert_same(
        run(converted, ((LENGTH,), f16), 32, x, 2), x.astype(np.float16) * np.float16(2) + 1
    )


def test_one_placeholder_for_each_dtype():
    class TA(tw.AnyDType): ...

    class TB(tw.AnyDType): ...

    @tw.kernel
    def joined(z: Mut[TA, B], x: Ref[TB, N]) -> None:
        z.store(x.load_like(z).astype(TA) + TA(1))

    x = floats(f32)
    for dtype in (f16, f32, i32):
        wanted = np.trunc(x).astype(np.int32) if dtype is i32 else x.astype(dtype.element.numpy)
        assert_same(run(joined, ((LENGTH,), dtype), 32, x), wanted + wanted.dtype.type(1))


@tw.kernel
def constants(
    z: Mut[f32, B],
    x: Ref[f32, N],
    *,
    WHOLE: Const[int] = 2,
    SCALE: Const[float] = 0.5,
    NEGATE: Const[bool] = False,
    VIA: Const[DType] = f32,
) -> None:
    t = x.load_like(z).astype(VIA).astype(f32) * WHOLE * SCALE
    z.store(-t if NEGATE else t)


@pytest.mark.parametrize(
    ("given", "factor"),
    [
        ({}, 1),
        ({"WHOLE": 6}, 3),
        ({"WHOLE": np.int64(4)}, 2),
        ({"SCALE": 4.0}, 8),
        ({"SCALE": 3}, 6),
        ({"SCALE": np.float32(0.25)}, 0.5),
        ({"NEGATE": True}, -1),
        ({"NEGATE": np.True_, "WHOLE": 4}, -2),
    ],
    ids=str,
)
def test_constants_of_every_kind(given, factor):
    got = run(constants, ((LENGTH,), f32), 32, floats(f32), **given)
    assert_same(got, floats(f32) * np.float32(factor))


def test_a_dtype_as_a_constant():
    got = run(constants, ((LENGTH,), f32), 32, floats(f32), VIA=bf16)
    assert_same(got, floats(f32).astype(bf16.element.numpy).astype(np.float32))


def test_zeros_of_both_signs_are_two_constants():
    @tw.kernel
    def signed(z: Mut[f32, B], *, ZERO: Const[float]) -> None:
        z.store(tw.full((B,), ZERO, f32))

    assert not np.signbit(run(signed, ((4,), f32), 4, ZERO=0.0)).any()
    assert np.signbit(run(signed, ((4,), f32), 4, ZERO=-0.0)).all()


def test_fixed_extents():
    @tw.kernel(deny_checks=True)
    def fixed(z: Mut[f32, 1, Literal[8]], x: Ref[f32, M, Literal[8]], y: Ref[f32, 16]) -> None:
        i = z.index[0]
        row = x.partition(1, 8)[i, 0]
        z.store(row + y.partition(8)[1] * x.shape[1])

    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    y = np.arange(16, dtype=np.float32)
    assert_same(run(fixed, (x.shape, f32), (1, 8), x, y), x + y[8:] * 8)


def test_a_constant_and_a_dim_of_one_name_are_one_value():
    @tw.kernel
    def tied(z: Mut[f32, B], x: Ref[f32, N, K], *, K: Const[int]) -> None:
        t = x.partition(B, K)[z.index[0], 0]
        z.store(tw.sum(t, axis=1) + K)

    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    assert_same(run(tied, ((8,), f32), 4, x, K=4), x.sum(1) + 4)


def test_scalars_of_every_dtype():
    @tw.kernel
    def scalars(z: Mut[f32, B], a: f16, b: bf16, c: i32, d: bool_) -> None:
        total = a.astype(f32) + b.astype(f32) + c.astype(f32)
        z.store(tw.full((B,), total if d else -total, f32))

    assert (run(scalars, ((4,), f32), 4, 0.5, 1.5, -3, True) == -1).all()
    assert (run(scalars, ((4,), f32), 4, np.float16(2), 1, np.int8(3), np.False_) == -6).all()


def test_parameters_by_name_and_outputs_anywhere():
    @tw.kernel
    def ordered(alpha: f32, x: Ref[f32, M, N], z: Mut[f32, BM, BN]) -> None:
        z.store(x.load_like(z) * alpha)

    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    z = tw.zeros((4, 4), f32)
    ordered(x=tw.from_numpy(x), z=z.partition(2, 2), alpha=3).sync()
    assert_same(z.numpy(), x * 3)


@tw.kernel
def walked(z: Mapped[f32, B], x: Ref[f32, N]) -> None:
    for at in z.indices():
        z.store(x.partition(B)[at], at)


def test_kernels_have_the_names_of_their_functions_and_pickle_by_them():
    assert walked.__name__ == "walked"
    assert repr(walked) == "<kernel walked>"
    assert pickle.loads(pickle.dumps(walked)) is walked


def test_options_of_a_decorator_serve_every_function():
    strict = tw.kernel(deny_checks=True, num_ctas=2)

    @strict
    def one(z: Mut[f32, B]) -> None:
        z.store(tw.zeros((B,), f32))

    @strict
    def two(z: Mut[f32, B]) -> None:
        z.store(tw.ones((B,), f32))

    for kernel in (one, two):
        assert kernel.options.deny_checks
        assert kernel.hints.general.num_ctas == 2


def test_a_kernel_needs_source():
    space = {"tw": tw, "Mut": Mut, "f32": f32, "B": B}
    with pytest.raises(tw.CompileError, match="source of `made` is not available"):
        exec("@tw.kernel\ndef made(z: Mut[f32, B]) -> None:\n    pass\n", space)


def test_text_that_is_kept_for_another_program_is_no_source(monkeypatch):
    """Python 3.13 keeps the text of `python -c` by the name that `exec` gives to every text."""
    text = "@tw.kernel\ndef made(z: Mut[f32, B]) -> None:\n    z.store(tw.zeros((B,), f32))\n"
    lines = text.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, "<string>", (len(text), None, lines, "<string>"))
    space = {"tw": tw, "Mut": Mut, "f32": f32, "B": B}
    exec(text, space)
    assert space["made"].source.name == "made"
    with pytest.raises(tw.CompileError, match="source of `made` is not available"):
        exec(text.replace("zeros", "ones"), space)


def test_only_functions_are_kernels():
    with pytest.raises(tw.CompileError, match="takes a plain function"):
        tw.kernel(print)
    with pytest.raises(
        tw.CompileError, match="parameter `z` of kernel `<lambda>` has no annotation"
    ):
        tw.kernel(lambda z: None)
