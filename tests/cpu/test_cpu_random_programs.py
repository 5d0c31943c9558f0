"""Random programs of elementwise, shape and reduction ops: the CPU's result is NumPy's, bit by bit.

A program grows by ops on tiles it has already. Every op comes with what NumPy says of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cpu_programs import Program, fold, run
from hypothesis import given
from hypothesis import strategies as st

from tilewright.dtypes import Element
from tilewright.ir.attributes import (
    FloatIdentity,
    IntIdentity,
    Predicate,
    Signedness,
)
from tilewright.ir.op import Block, Value
from tilewright.ir.ops import elementwise as ew
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.reduction import Scan
from tilewright.ir.ops.shape import Broadcast, Cat, Extract, Permute, Reshape
from tilewright.ir.types import TileType, scalar

I32, F32, I1 = Element.I32, Element.F32, Element.I1
Array = np.ndarray[Any, Any]


@dataclass
class Growing:
    """A program and, for each tile of it, the array that NumPy has."""

    program: Program
    draw: Callable[[Any], Any]
    tiles: list[tuple[Value, Array]] = field(default_factory=list)

    def pick(self, *kinds: np.dtype[Any], shape: tuple[int, ...] | None = None) -> Any:
        """A tile of one of the dtypes, and of a shape if there is one to match."""
        fitting = [
            (value, array)
            for value, array in self.tiles
            if array.dtype in kinds and shape in (None, array.shape)
        ]
        return self.draw(st.sampled_from(fitting))

    def keep(self, op: Any, array: Array) -> None:
        value = self.program.add(op)
        assert isinstance(value.type, TileType)
        self.tiles.append((value, array.reshape(value.type.shape)))


NUMBERS = (np.dtype(np.int32), np.dtype(np.float32))

INTEGER = [
    (ew.AddI, np.add, {}),
    (ew.SubI, np.subtract, {}),
    (ew.MulI, np.multiply, {}),
    (ew.AndI, np.bitwise_and, {}),
    (ew.OrI, np.bitwise_or, {}),
    (ew.XOrI, np.bitwise_xor, {}),
    (ew.MaxI, np.maximum, {}),
    (ew.MinI, np.minimum, {}),
    (
        ew.MaxI,
        lambda x, y: np.maximum(x.view(np.uint32), y.view(np.uint32)).view(np.int32),
        {"signedness": Signedness.UNSIGNED},
    ),
]
FLOAT = [
    (ew.AddF, np.add),
    (ew.SubF, np.subtract),
    (ew.MulF, np.multiply),
    (ew.DivF, np.divide),
]
UNARY_FLOAT = [
    (ew.NegF, np.negative),
    (ew.AbsF, np.abs),
    (ew.Floor, np.floor),
    (ew.Ceil, np.ceil),
    (ew.Sqrt, np.sqrt),
]


def integers(g: Growing) -> None:
    op, meaning, more = g.draw(st.sampled_from(INTEGER))
    x, a = g.pick(np.dtype(np.int32))
    y, b = g.pick(np.dtype(np.int32), shape=a.shape)
    g.keep(op(lhs=x, rhs=y, **more), meaning(a, b))


def floats(g: Growing) -> None:
    op, meaning = g.draw(st.sampled_from(FLOAT))
    x, a = g.pick(np.dtype(np.float32))
    y, b = g.pick(np.dtype(np.float32), shape=a.shape)
    g.keep(op(lhs=x, rhs=y), meaning(a, b))


def one_float(g: Growing) -> None:
    op, meaning = g.draw(st.sampled_from(UNARY_FLOAT))
    x, a = g.pick(np.dtype(np.float32))
    g.keep(op(source=x), meaning(a))


def convert(g: Growing) -> None:
    x, a = g.pick(np.dtype(np.int32))
    g.keep(ew.IToF(source=x, to=TileType(F32, a.shape)), a.astype(np.float32))


def reinterpret(g: Growing) -> None:
    x, a = g.pick(*NUMBERS)
    other = (F32, np.float32) if a.dtype == np.int32 else (I32, np.int32)
    g.keep(ew.Bitcast(source=x, to=TileType(other[0], a.shape)), a.view(other[1]))


def choose(g: Growing) -> None:
    x, a = g.pick(np.dtype(np.int32))
    y, b = g.pick(np.dtype(np.int32), shape=a.shape)
    compared = ew.CmpI(lhs=x, rhs=y, comparison_predicate=Predicate.LESS_THAN)
    truth = g.program.add(compared)
    u, c = g.pick(*NUMBERS, shape=a.shape)
    v, d = g.pick(c.dtype, shape=a.shape)
    g.keep(ew.Select(cond=truth, val_if_true=u, val_if_false=v), np.where(a < b, c, d))


def reshape(g: Growing) -> None:
    x, a = g.pick(*NUMBERS)
    shapes = [(a.size,), (1, a.size), (a.size, 1)]
    shapes += [(a.size // 2, 2)] if a.size > 1 else []
    shape = g.draw(st.sampled_from(shapes))
    g.keep(Reshape(source=x, to=x.type.with_shape(shape)), a.reshape(shape))


def permute(g: Growing) -> None:
    x, a = g.pick(*NUMBERS)
    if a.ndim > 1:
        order = tuple(g.draw(st.permutations(range(a.ndim))))
        g.keep(Permute(source=x, permutation=order), a.transpose(order))


def broadcast(g: Growing) -> None:
    x, a = g.pick(*NUMBERS)
    shape = tuple(4 if extent == 1 else extent for extent in a.shape)
    if shape != a.shape and np.prod(shape) <= 256:
        g.keep(Broadcast(source=x, to=x.type.with_shape(shape)), np.broadcast_to(a, shape).copy())


def concatenate(g: Growing) -> None:
    x, a = g.pick(*NUMBERS)
    y, b = g.pick(a.dtype, shape=a.shape)
    if a.ndim and a.size <= 128:
        dim = g.draw(st.integers(0, a.ndim - 1))
        g.keep(Cat(lhs=x, rhs=y, dim=dim), np.concatenate((a, b), dim))


def extract(g: Growing) -> None:
    x, a = g.pick(*NUMBERS)
    if a.ndim == 0:
        return
    part = tuple(g.draw(st.sampled_from([e, max(e // 2, 1)])) for e in a.shape)
    at = [g.draw(st.integers(0, e // p - 1)) for e, p in zip(a.shape, part, strict=True)]
    sides = tuple(slice(i * p, i * p + p) for i, p in zip(at, part, strict=True))
    indices = tuple(g.program.b.index(i) for i in at)
    g.keep(Extract(source=x, indices=indices, to=x.type.with_shape(part)), a[sides].copy())


REDUCTIONS = [
    (ew.AddI, I32, np.add, IntIdentity(I32, 0)),
    (ew.MulI, I32, np.multiply, IntIdentity(I32, 1)),
    (ew.MaxI, I32, np.maximum, IntIdentity(I32, 0x80000000)),
    (ew.XOrI, I32, np.bitwise_xor, IntIdentity(I32, 0)),
    (ew.MaxF, F32, np.fmax, FloatIdentity(F32, float("-inf"))),
    (ew.MinF, F32, np.fmin, FloatIdentity(F32, float("inf"))),
]


def reduce(g: Growing) -> None:
    op, element, ufunc, identity = g.draw(st.sampled_from(REDUCTIONS))
    x, a = g.pick(element.numpy)
    if a.ndim:
        dim = g.draw(st.integers(0, a.ndim - 1))
        total = fold(g.program, x, dim, op, identity)
        assert isinstance(total.type, TileType)
        array = np.asarray(ufunc.reduce(a, dim, dtype=a.dtype)).reshape(total.type.shape)
        g.tiles.append((total, array))


def scan(g: Growing) -> None:
    op, element, ufunc, identity = g.draw(st.sampled_from(REDUCTIONS[:4]))
    x, a = g.pick(element.numpy)
    if a.ndim == 0:
        return
    dim, reverse = g.draw(st.integers(0, a.ndim - 1)), g.draw(st.booleans())
    body = Block((Value(scalar(element)), Value(scalar(element))))
    with g.program.b.inside(body):
        total = g.program.add(op(lhs=body.args[0], rhs=body.args[1]))
        g.program.b.add(Yield(values=(total,)))
    array = np.flip(a, dim) if reverse else a
    array = ufunc.accumulate(array, dim, dtype=a.dtype)
    g.keep(
        Scan(sources=(x,), dim=dim, reverse=reverse, identities=(identity,), body=body),
        (np.flip(array, dim) if reverse else array).copy(),
    )


STEPS = [
    integers, floats, one_float, convert, reinterpret, choose, reshape, permute, broadcast,
    concatenate, extract, reduce, scan,
]  # fmt: skip


@given(st.data())
def test_the_result_is_numpys(data):
    draw = data.draw
    program = Program("random")
    shape = draw(st.sampled_from([(4,), (2, 4), (8, 1), (2, 2, 2)]))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-(2**31), 2**31, shape).astype(np.int32) for _ in range(2)]
    inputs += [rng.uniform(-9, 9, shape).astype(np.float32) for _ in range(2)]
    grown = Growing(program, draw)
    zeros = [program.b.index(0) for _ in shape]
    for array in inputs:
        element = I32 if array.dtype == np.int32 else F32
        view = program.partition(program.tensor(element, len(shape)), shape)
        grown.tiles.append((program.load(view, *zeros), array))
    with np.errstate(all="ignore"):
        for _ in range(draw(st.integers(1, 12))):
            draw(st.sampled_from(STEPS))(grown)
    found = []
    for value, array in grown.tiles[4:]:
        assert isinstance(value.type, TileType)
        flat = program.add(Reshape(source=value, to=value.type.with_shape((array.size,))))
        element = I32 if array.dtype == np.int32 else F32
        out = program.partition(program.tensor(element, 1), (array.size,))
        program.store(flat, out, program.b.index(0))
        found.append(np.zeros(array.size, array.dtype))
    run(program.finish(), (1, 1, 1), *inputs, *found)
    for (_, wanted), got in zip(grown.tiles[4:], found, strict=True):
        np.testing.assert_array_equal(got, wanted.reshape(-1))
