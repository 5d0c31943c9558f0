"""Builds entries by hand: values from memory in, results to memory out.

What a case computes is loaded and stored, so that tileiras cannot drop it. Addresses are
irrelevant: nothing here is ever run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tilewright.dtypes import Element
from tilewright.ir.attributes import DivBy, Predicate
from tilewright.ir.builder import Builder
from tilewright.ir.function import EntryHints, Function, Global, Module
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import (
    Assume,
    Continue,
    For,
    GetTileBlockId,
    Return,
)
from tilewright.ir.ops.elementwise import Bitcast, CmpI, ExtI, FToF, TruncI
from tilewright.ir.ops.memory import (
    GetIndexSpaceShape,
    LoadPtr,
    LoadView,
    MakePartitionView,
    MakeTensorView,
    StorePtr,
    StoreView,
)
from tilewright.ir.ops.reduction import MmaF
from tilewright.ir.ops.shape import Broadcast, Reshape
from tilewright.ir.types import (
    TOKEN,
    Padding,
    PartitionViewType,
    PtrType,
    TensorViewType,
    TileType,
    Type,
    scalar,
)
from tilewright.source import Location, SourceFile, Span

E = Element
I32 = scalar(E.I32)
SOURCE = SourceFile("/kernels/sample.py", tuple(f"line {n}" for n in range(1, 200)))

_Op = TypeVar("_Op", bound=Op)


def tile(element: E, *shape: int) -> TileType:
    """A tile type, shortly."""
    return TileType(element, shape)


def at(line: int, *calls: int) -> Location:
    """A place in the sample source."""
    spans = [Span(SOURCE, number, 4, number, 9) for number in (line, *calls)]
    return Location(spans[0], tuple(spans[1:]))


class Entry:
    """One function under construction."""

    def __init__(self, name: str = "entry") -> None:
        self.name = name
        self.block = Block()
        self.build = Builder(self.block)

    def add(self, op: _Op) -> _Op:
        """Append an op."""
        return self.build.add(op)

    def param(self, type_: Type) -> Value:
        """One more parameter."""
        value = Value(type_)
        self.block.args += (value,)
        return value

    def index(self) -> Value:
        """An i32 that nobody knows."""
        return self.param(I32)

    def pointers(self, element: E, shape: tuple[int, ...] = ()) -> Value:
        """A tile of pointers."""
        base = self.param(scalar(PtrType(element)))
        if not shape:
            return base
        ones = TileType(PtrType(element), (1,) * len(shape))
        flat = self.add(Reshape(source=base, to=ones)).result
        return self.add(Broadcast(source=flat, to=TileType(PtrType(element), shape))).result

    def given(self, type_: TileType) -> Value:
        """A tile with numbers from memory."""
        element, shape = type_.element, type_.shape
        if isinstance(element, PtrType):
            return self.pointers(element.pointee, shape)
        if element is E.FNV8E5M3FNU:
            return self.add(Bitcast(source=self.given(TileType(E.I8, shape)), to=type_)).result
        if element in _CARRIERS:
            carried = self.given(TileType(_CARRIERS[element], shape))
            return self._converted(carried, type_)
        if element is E.I1:
            bytes_ = self.given(TileType(E.I8, shape))
            zero = self.build.constant(0, E.I8, shape)
            compared = CmpI(lhs=bytes_, rhs=zero, comparison_predicate=Predicate.NOT_EQUAL)
            return self.add(compared).result
        return self.add(LoadPtr(source=self.pointers(element, shape))).result

    def _converted(self, value: Value, type_: TileType) -> Value:
        assert isinstance(type_.element, E)
        conversion = FToF if type_.element.is_float else TruncI
        return self.add(conversion(source=value, to=type_)).result

    def tensor(self, element: E, rank: int) -> Value:
        """A tensor with dynamic extents, contiguous along its last axis."""
        type_ = TensorViewType(element, (None,) * rank, (None,) * (rank - 1) + (1,))
        base = self.param(scalar(PtrType(element)))
        extents = tuple(self.index() for _ in range(rank))
        strides = tuple(self.index() for _ in range(rank - 1))
        made = MakeTensorView(base=base, dynamic_shape=extents, dynamic_strides=strides, to=type_)
        return self.add(made).result

    def view(self, element: E, *block: int, padding: Padding | None = None) -> Value:
        """A partition view of such a tensor."""
        tensor = self.tensor(element, len(block))
        assert isinstance(tensor.type, TensorViewType)
        to = PartitionViewType(block, tensor.type, tuple(range(len(block))), padding)
        return self.add(MakePartitionView(tensor_view=tensor, to=to)).result

    def keep(self, *values: Value) -> None:
        """Store tiles; other values need no keeping."""
        for value in values:
            if isinstance(value.type, TileType) and not isinstance(value.type.element, PtrType):
                self._store(value)

    def _store(self, value: Value) -> None:
        type_ = value.type
        assert isinstance(type_, TileType)
        assert isinstance(type_.element, E)
        if type_.element in (E.I4, E.I1):
            wide = type_.with_element(E.I8)
            value = self.add(ExtI(source=value, to=wide)).result
        elif type_.element is E.FNV8E5M3FNU:
            value = self.add(Bitcast(source=value, to=type_.with_element(E.I8))).result
        elif type_.element in _CARRIERS:
            value = self.add(FToF(source=value, to=type_.with_element(E.F32))).result
        held = value.type
        assert isinstance(held, TileType)
        assert isinstance(held.element, E)
        self.add(StorePtr(destination=self.pointers(held.element, held.shape), value=value))

    def function(self, hints: EntryHints | None = None) -> Function:
        """The finished function."""
        if not self.block.ops or self.block.ops[-1].mnemonic != "return":
            self.add(Return())
        return Function(self.name, self.block, hints and hints.hints())

    def module(self) -> Module:
        """A module with this function only."""
        return Module((self.function(),))


@dataclass(frozen=True)
class Case:
    """A program around one op."""

    op: type[Op]
    label: str
    build: Callable[[Entry], Op]
    oldest: int = 80  # the first target that can hold it
    version: tuple[int, int] = (13, 1)  # the first bytecode that can
    globals: tuple[Global, ...] = ()  # what its module must have
    newest: int = 999  # the last target that can hold it

    @property
    def name(self) -> str:
        return f"{self.op.__name__}_{self.label}" if self.label else self.op.__name__

    def function(self) -> Function:
        """The program, its op's results stored."""
        entry = Entry(self.name)
        op = self.build(entry)
        entry.keep(*op.results)
        return entry.function()

    def module(self) -> Module:
        """The program alone."""
        return Module((self.function(),), globals=self.globals)

    def fits(self, target: int) -> bool:
        """Whether a target can hold it."""
        return self.oldest <= target <= self.newest


# Elements that are not loaded as they are but converted from others.
_CARRIERS = {E.I4: E.I8, E.TF32: E.F32, E.F4E2M1FN: E.F32}


def gemm(base_divisor: int = 16, element: E = E.F16) -> Function:
    """128 x 128 x 64, by default in f16, with the facts that TMA and tensor cores ask for."""
    entry = Entry("gemm")
    views = [_gemm_tensor(entry, element, base_divisor, 20 + number) for number in range(3)]
    blocks = ((128, 64, Padding.ZERO), (64, 128, Padding.ZERO), (128, 128, None))
    a, b, c = (
        entry.add(MakePartitionView(tensor_view=view, to=_partition(view, m, n, padding))).result
        for view, (m, n, padding) in zip(views, blocks, strict=True)
    )
    at_block = entry.add(GetTileBlockId())
    steps = entry.add(GetIndexSpaceShape(src=a)).extents[1]
    start = entry.build.constant(0.0, E.F32, (128, 128))
    body = Block((Value(I32), Value(start.type)))
    zero, one = entry.build.index(0), entry.build.index(1)
    with entry.build.inside(body):
        k, total = body.args
        x = entry.add(LoadView(view=a, index=(at_block.x, k), loc=at(31)))
        y = entry.add(LoadView(view=b, index=(k, at_block.y), loc=at(32)))
        entry.add(MmaF(lhs=x.tile, rhs=y.tile, acc=total, loc=at(33)))
        entry.add(Continue(values=body.ops[-1].results))
    loop = For(lower_bound=zero, upper_bound=steps, step=one, init_values=(start,), body=body)
    total = entry.add(loop).results[0]
    half = entry.add(FToF(source=total, to=tile(element, 128, 128))).result
    entry.add(StoreView(tile=half, view=c, index=(at_block.x, at_block.y), loc=at(35)))
    function = entry.function()
    function.loc = at(20)
    return function


def _gemm_tensor(entry: Entry, element: E, base_divisor: int, line: int) -> Value:
    base = entry.param(scalar(PtrType(element)))
    numbers = [entry.index() for _ in range(3)]
    known = [entry.add(Assume(value=base, predicate=DivBy(base_divisor))).result]
    known += [entry.add(Assume(value=number, predicate=DivBy(8))).result for number in numbers]
    view = MakeTensorView(
        base=known[0],
        dynamic_shape=tuple(known[1:3]),
        dynamic_strides=(known[3],),
        to=TensorViewType(element, (None, None), (None, 1)),
        loc=at(line),
    )
    return entry.add(view).result


def _partition(view: Value, m: int, n: int, padding: Padding | None) -> PartitionViewType:
    assert isinstance(view.type, TensorViewType)
    return PartitionViewType((m, n), view.type, (0, 1), padding)


__all__ = ["I32", "SOURCE", "TOKEN", "Case", "Entry", "at", "gemm", "tile"]
