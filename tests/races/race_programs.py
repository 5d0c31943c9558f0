"""Kernels with and without races, built by hand, at known lines of a file that does not exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.backends.cpu.executor import CpuKernel, compile_function
from tilewright.backends.cpu.memory import KernelMemory
from tilewright.dtypes import Element
from tilewright.ir.builder import Builder
from tilewright.ir.function import Function, Module
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import GetTileBlockId, Return
from tilewright.ir.ops.memory import LoadView, MakePartitionView, MakeTensorView, StoreView
from tilewright.ir.types import PartitionViewType, PtrType, TensorViewType, scalar
from tilewright.ir.verify.verifier import verify
from tilewright.source import Location, SourceFile, Span

FILE = SourceFile("racy.py", ("z.store(x.load())",) * 90)


class Racy:
    """A kernel under construction; `line` is where in the file the next op stands."""

    def __init__(self, name: str) -> None:
        self.params: list[Value] = []
        self.function = Function(name, Block())
        self.b = Builder(self.function.body)

    def line(self, number: int) -> None:
        self.b.loc = Location(Span(FILE, number, 0, number, 5))

    def add(self, op: Op) -> Value:
        self.b.add(op)
        return op.results[0]

    def pointer(self, element: Element = Element.F32, name: str = "") -> Value:
        self.params.append(Value(scalar(PtrType(element)), hint=name))
        return self.params[-1]

    def number(self) -> Value:
        self.params.append(Value(scalar(Element.I32)))
        return self.params[-1]

    def tensor(self, name: str, rank: int, element: Element = Element.F32) -> Value:
        base = self.pointer(element, name)
        extents = tuple(self.number() for _ in range(rank))
        strides = tuple(self.number() for _ in range(rank))
        to = TensorViewType(element, (None,) * rank, (None,) * rank)
        return self.add(
            MakeTensorView(base=base, dynamic_shape=extents, dynamic_strides=strides, to=to)
        )

    def cut(self, tensor: Value, *tile: int) -> Value:
        assert isinstance(tensor.type, TensorViewType)
        to = PartitionViewType(tile, tensor.type, tuple(range(len(tile))))
        return self.add(MakePartitionView(tensor_view=tensor, to=to))

    def load(self, view: Value, *index: Value, token: Value | None = None) -> LoadView:
        return self.b.add(LoadView(view=view, index=index, token=token))

    def store(
        self, tile: Value, view: Value, *index: Value, token: Value | None = None
    ) -> StoreView:
        return self.b.add(StoreView(tile=tile, view=view, index=index, token=token))

    def ones(self, *shape: int) -> Value:
        return self.b.constant(1.0, Element.F32, shape)

    def block(self) -> tuple[Value, Value, Value]:
        op = self.b.add(GetTileBlockId())
        return op.x, op.y, op.z

    def index(self, number: int) -> Value:
        return self.b.index(number)

    def finish(self) -> CpuKernel:
        self.b.loc = None
        self.b.add(Return())
        self.function.body.args = tuple(self.params)
        verify(Module((self.function,)), "sm_100")
        return compile_function(self.function)


def watch(kernel: CpuKernel, grid: tuple[int, int, int], *arguments: Any, threads: int = 1) -> None:
    """Run with the watch on; an array is passed as a tensor, a `KernelMemory` as its address."""
    flat: list[Any] = []
    memories = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            strides = [stride // argument.itemsize for stride in argument.strides]
            flat += [argument.ctypes.data, *argument.shape, *strides]
            memories.append(KernelMemory.of(argument))
        elif isinstance(argument, KernelMemory):
            flat.append(argument.address)
            memories.append(argument)
        else:
            flat.append(argument)
    kernel.run(grid, flat, memories, threads=threads, race_check=True)


def permute_heads(place: Callable[[Value, Value, Value], tuple[Value, ...]]) -> CpuKernel:
    """Copies tile (b, h, m) of x; `place` says where in z."""
    k = Racy("permute_heads")
    z, x = k.tensor("z", 4), k.tensor("x", 4)
    b, h, m = k.block()
    zero = k.index(0)
    k.line(41)
    tile = k.load(k.cut(x, 1, 1, 4, 8), b, h, m, zero).tile
    k.line(42)
    k.store(tile, k.cut(z, 1, 1, 4, 8), *place(b, h, m), zero)
    return k.finish()
