"""Scalars, tuples and dataclasses of them, constants of every type, type parameters."""

import importlib.util
import sys
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import pytest
from running import assert_same, numpy_of, run

import tilewright as tw
from tilewright import (
    Const,
    DType,
    Mut,
    Ref,
    bf16,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from tilewright.dims import B, M, N, T


class Range(NamedTuple):
    start: i32
    stop: i32


@dataclass(frozen=True)
class Config:
    scale: f32
    flip: bool
    rows: Range
    far: i64 = 2**40  # type: ignore[assignment]


@dataclass
class Weights:
    pair: "tuple[T, float]"
    count: int


def numbers(dtype) -> list:
    if dtype is bool_:
        return [True, False]
    if dtype.element.is_float:
        return [0.0, -1.5, 2, float("inf")]
    limits = np.iinfo(numpy_of(dtype))
    return [int(limits.min), int(limits.max), 5]


@pytest.mark.parametrize(
    "dtype",
    [bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64],
    ids=lambda dtype: dtype.label,
)
def test_scalars_of_every_dtype(dtype):
    @tw.kernel
    def filled(z: Mut[T, B], number: T, pair: tuple[T, T]) -> None:
        t = tw.full((B,), number, z.dtype)
        z.store(tw.where(tw.arange(B, i32) < 2, t, pair[1]))

    for number in numbers(dtype):
        got = run(filled, ((4,), dtype), 4, number, (number, numbers(dtype)[0]))
        wanted = np.array([number] * 2 + [numbers(dtype)[0]] * 2, numpy_of(dtype))
        assert_same(got, wanted)


def test_a_tuple_of_scalars():
    @tw.kernel
    def between(
        z: Mut[f32, B], x: Ref[f32, N], window: tuple[i32, i32], scale: tuple[f32] = (2.0,)
    ) -> None:
        low, high = window
        at = z.index[0] * B + tw.arange(B, i32)
        inside = (at >= low) & (at < high)
        z.store(tw.where(inside, x.load_like(z) * scale[0], 0))

    x = np.arange(10, dtype=np.float32) + 1
    wanted = np.where((np.arange(10) >= 2) & (np.arange(10) < 7), x * 2, 0).astype(np.float32)
    assert_same(run(between, ((10,), f32), 4, x, (2, 7)), wanted)
    assert_same(run(between, ((10,), f32), 4, x, (2, 7), (4.0,)), wanted * 2)


def test_a_dataclass_of_scalars():
    @tw.kernel
    def scaled(z: Mut[f32, B], x: Ref[f32, N], config: Config) -> None:
        at = z.index[0] * B + tw.arange(B, i32)
        t = x.load_like(z) * config.scale
        if config.flip:
            t = -t
        big = (config.far >> 38).astype(f32)
        z.store(tw.where((at >= config.rows.start) & (at < config.rows[1]), t, big))

    x = np.arange(8, dtype=np.float32)
    inside = (np.arange(8) >= 1) & (np.arange(8) < 5)
    config = Config(0.5, True, Range(1, 5))
    assert_same(run(scaled, ((8,), f32), 4, x, config), np.where(inside, x * -0.5, 4).astype("f4"))


def test_groups_prove_and_check_like_scalars():
    @tw.kernel(deny_checks=True)
    def row(z: Mut[f32, B], x: Ref[f32, M, N], at: Range) -> None:
        tw.require(at.start >= 0 and at.stop <= x.shape[0])
        total = tw.zeros((1, B), f32)
        for i in range(at.start, at.stop):
            total += x.partition(1, B)[i, z.index[0]]
        z.store(total.reshape(B))

    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    assert_same(run(row, ((8,), f32), 4, x, Range(1, 4)), x[1:4].sum(axis=0))
    with pytest.raises(tw.LaunchError, match=r"at\.stop = 6"):
        run(row, ((8,), f32), 4, x, Range(1, 6))


def test_placeholders_inside_a_group():
    @tw.kernel
    def weighted(z: Mut[T, B], x: Ref[T, N], weights: Weights) -> None:
        t = x.load_like(z) * weights.pair[0]
        for _ in range(weights.count):
            t = t + weights.pair[1].astype(z.dtype)
        z.store(t)

    for dtype in (f16, f64):
        x = np.arange(8).astype(numpy_of(dtype))
        got = run(weighted, ((8,), dtype), 8, x, Weights((3, 0.5), 2))
        assert_same(got, x * 3 + 1)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        (0.5, "`config` of kernel `scaled` is Config, not 0.5"),
        (
            Config(0.5, 1, Range(0, 1)),
            "`config.flip` of kernel `scaled` is a scalar of bool, not 1",
        ),
        (Config(0.5, True, (0, 1)), "`config.rows` .* is Range, not an object of type tuple"),
        (Config(0.5, True, Range(0, 2**31)), r"`config.rows.stop` .* is outside"),
    ],
    ids=["kind", "member", "group", "range"],
)
def test_groups_of_something_else_are_refused(argument, said):
    @tw.kernel
    def scaled(z: Mut[f32, B], config: Config) -> None:
        z.store(tw.full((B,), config.scale, f32))

    with pytest.raises(tw.LaunchError, match=said):
        run(scaled, ((8,), f32), 8, argument)


def test_tuples_of_another_length_are_refused():
    @tw.kernel
    def filled(z: Mut[f32, B], pair: tuple[f32, f32]) -> None:
        z.store(tw.full((B,), pair[0], f32))

    with pytest.raises(tw.LaunchError, match="is a tuple of 2, but 3 are given"):
        run(filled, ((8,), f32), 8, (1, 2, 3))
    with pytest.raises(tw.LaunchError, match="is a tuple of 2, not 1"):
        run(filled, ((8,), f32), 8, 1)


# --- constants and fixed extents ------------------------------------------------------------------


def test_constants_of_every_type():
    @tw.kernel
    def chosen(
        z: Mut[T, B],
        x: Ref[f32, Literal[8]],
        *,
        TO: Const[type[DType]],
        SCALE: Const[float] = 0.5,
        TIMES: Const[int] = 2,
        FLIP: Const[bool] = False,
    ) -> None:
        t = x.load_like(z) * SCALE
        for _ in range(TIMES):
            t = t + 1
        if FLIP:
            t = -t
        if z.dtype == TO:
            z.store(t.astype(TO))
        else:
            z.store(t.astype(TO).astype(z.dtype))

    x = np.arange(8, dtype=np.float32)
    assert_same(run(chosen, ((8,), f32), 4, x, TO=f32), x / 2 + 2)
    assert_same(run(chosen, ((8,), f32), 4, x, TO=i32, TIMES=0), (x / 2).astype("i4").astype("f4"))
    got = run(chosen, ((8,), f16), 4, x, TO=f16, SCALE=-0.0, FLIP=True)
    assert_same(got, np.full(8, -2, np.float16))
    with pytest.raises(tw.LaunchError, match="the signature fixes it at 8"):
        run(chosen, ((9,), f32), 4, np.arange(9, dtype=np.float32), TO=f32)


# --- type parameters ------------------------------------------------------------------------------

ROWS = TypeVar("ROWS", bound=tw.Dim)
COLUMNS = TypeVar("COLUMNS", bound=tw.Dim)
E = TypeVar("E", bound=tw.AnyDType)


def transpose(z: "Mut[E, ROWS, COLUMNS]", x: "Ref[E, M, N]", scale: "E") -> None:
    p = x.partition(COLUMNS, ROWS)
    t = tw.full((COLUMNS, ROWS), 1, E) * scale
    z.store((p[z.index[1], z.index[0]] * t).T)


def test_type_parameters_are_dims_and_placeholders():
    transpose.__type_params__ = (E, ROWS, COLUMNS)  # as Python 3.12 does for `def transpose[E, …]`
    kernel = tw.kernel(transpose)
    for dtype in (f32, i32):
        x = np.arange(6 * 10).reshape(6, 10).astype(numpy_of(dtype))
        assert_same(run(kernel, ((10, 6), dtype), (4, 2), x, 3), x.T * 3)


def test_type_variables_work_without_a_declaration():
    @tw.kernel
    def copy(z: Mut[E, ROWS], x: Ref[E, N]) -> None:
        z.store(x.load_like(z) + tw.zeros((z.tile[0],), z.dtype))

    x = np.arange(10, dtype=np.float16)
    assert_same(run(copy, ((10,), f16), 4, x), x)


def test_a_type_parameter_without_a_bound_is_refused():
    free = TypeVar("free")
    with pytest.raises(tw.CompileError, match=r"`free: tw\.Dim` makes it an extent"):

        @tw.kernel
        def copy(z: Mut[f32, free], x: Ref[f32, N]) -> None:
            z.store(x.load_like(z))


PEP_695 = """
import tilewright as tw
from tilewright import Mut, Ref
from tilewright.dims import M, N

@tw.kernel(deny_checks=True)
def scaled[ROWS: tw.Dim, COLUMNS: tw.Dim, E: tw.AnyDType](
    z: Mut[E, ROWS, COLUMNS], x: Ref[E, M, N], factor: E
) -> None:
    p = x.partition(COLUMNS, ROWS)
    z.store((p[z.index[1], z.index[0]] * tw.full((COLUMNS, ROWS), 1, E) * factor).T)
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax came with Python 3.12")
@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
def test_type_parameters_in_their_own_syntax(tmp_path, future):
    path = tmp_path / "kernels_with_type_parameters.py"
    path.write_text(future + PEP_695)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = np.arange(60, dtype=np.float32).reshape(6, 10)
    assert_same(run(module.scaled, ((10, 6), f32), (4, 2), x, 3), x.T * 3)
