"""Kernels built by hand for the tests of the CPU backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.backends.cpu.executor import CpuKernel, compile_function
from tilewright.backends.cpu.memory import KernelMemory, storage_dtype
from tilewright.dtypes import Element
from tilewright.ir.attributes import FloatIdentity, Rounding
from tilewright.ir.builder import Builder
from tilewright.ir.function import Function, Module
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Continue, For, GetTileBlockId, Return, Yield
from tilewright.ir.ops.elementwise import AddF, DivF, DivI, Exp, MaxF, RemI, SubF
from tilewright.ir.ops.memory import LoadView, MakePartitionView, MakeTensorView, StoreView
from tilewright.ir.ops.reduction import MmaF, Reduce
from tilewright.ir.ops.shape import Broadcast, Reshape
from tilewright.ir.types import (
    Padding,
    PartitionViewType,
    PtrType,
    TensorViewType,
    TileType,
    scalar,
)
from tilewright.ir.verify.verifier import verify

I32 = scalar(Element.I32)


class Program:
    """A function under construction: parameters first, then ops through `b`."""

    def __init__(self, name: str = "kernel") -> None:
        self.params: list[Value] = []
        self.function = Function(name, Block())
        self.b = Builder(self.function.body)

    def param(self, element: Element | PtrType) -> Value:
        value = Value(scalar(element))
        self.params.append(value)
        return value

    def add(self, op: Op) -> Value:
        self.b.add(op)
        return op.results[0]

    def tensor(self, element: Element, rank: int) -> Value:
        """A contiguous-innermost tensor: address, extents, strides as parameters."""
        base = self.param(PtrType(element))
        extents = tuple(self.param(Element.I32) for _ in range(rank))
        strides = tuple(self.param(Element.I32) for _ in range(rank))
        to = TensorViewType(element, (None,) * rank, (None,) * rank)
        return self.add(
            MakeTensorView(base=base, dynamic_shape=extents, dynamic_strides=strides, to=to)
        )

    def partition(
        self,
        view: Value,
        tile: tuple[int, ...],
        padding: Padding | None = None,
        dim_map: tuple[int, ...] | None = None,
    ) -> Value:
        assert isinstance(view.type, TensorViewType)
        to = PartitionViewType(tile, view.type, dim_map or tuple(range(len(tile))), padding)
        return self.add(MakePartitionView(tensor_view=view, to=to))

    def load(self, view: Value, *index: Value) -> Value:
        return self.add(LoadView(view=view, index=index))

    def store(self, tile: Value, view: Value, *index: Value) -> None:
        self.add(StoreView(tile=tile, view=view, index=index))

    def block_id(self) -> tuple[Value, Value, Value]:
        op = self.b.add(GetTileBlockId())
        return op.x, op.y, op.z

    def spread(self, value: Value, shape: tuple[int, ...], ones: tuple[int, ...]) -> Value:
        """Reshape to `ones`, then broadcast."""
        assert isinstance(value.type, TileType)
        thin = self.add(Reshape(source=value, to=value.type.with_shape(ones)))
        return self.add(Broadcast(source=thin, to=value.type.with_shape(shape)))

    def finish(self) -> CpuKernel:
        self.b.add(Return())
        self.function.body.args = tuple(self.params)
        verify(Module((self.function,)), "sm_100")
        return compile_function(self.function)


def tensor_arguments(array: np.ndarray[Any, Any]) -> list[int]:
    """The arguments that stand for one tensor."""
    strides = [stride // array.itemsize for stride in array.strides]
    return [array.ctypes.data, *array.shape, *strides]


def run(
    kernel: CpuKernel,
    grid: tuple[int, int, int],
    *arguments: Any,
    threads: int | None = None,
) -> None:
    """Run over arrays and scalars; every array is one memory."""
    flat: list[Any] = []
    memories = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            flat += tensor_arguments(argument)
            memories.append(KernelMemory.of(argument))
        else:
            flat.append(argument)
    kernel.run(grid, flat, memories, threads=threads)


def fold(
    program: Program, source: Value, dim: int, op: type[Op], identity: Any, **more: Any
) -> Value:
    """Reduce with a body of one op."""
    assert isinstance(source.type, TileType)
    element = Value(scalar(source.type.element))
    acc = Value(scalar(source.type.element))
    body = Block((element, acc))
    with program.b.inside(body):
        total = program.add(op(lhs=element, rhs=acc, **more))
        program.b.add(Yield(values=(total,)))
    return program.add(Reduce(sources=(source,), dim=dim, identities=(identity,), body=body))


def apply(
    op: Callable[..., Op],
    elements: Sequence[Element],
    to: Element,
    shape: tuple[int, ...] = (16,),
) -> CpuKernel:
    """A kernel of one elementwise op over whole tensors, one tile of `shape` a block."""
    program = Program("apply")
    tensors = [program.tensor(element, len(shape)) for element in (*elements, to)]
    zero = [program.b.index(0) for _ in shape]
    tiles = [program.load(program.partition(t, shape), *zero) for t in tensors[:-1]]
    result = program.add(op(*tiles))
    program.store(result, program.partition(tensors[-1], shape), *zero)
    return program.finish()


def apply_to_scalars(op: Callable[..., Op], elements: Sequence[Element], to: Element) -> CpuKernel:
    """A kernel of one elementwise op over vectors, one scalar a block."""
    program = Program("apply_to_scalars")
    tensors = [program.tensor(element, 1) for element in (*elements, to)]
    i, _, _ = program.block_id()
    scalars = []
    for tensor in tensors[:-1]:
        tile = program.load(program.partition(tensor, (1,)), i)
        assert isinstance(tile.type, TileType)
        scalars.append(program.add(Reshape(source=tile, to=tile.type.with_shape(()))))
    result = program.add(Reshape(source=program.add(op(*scalars)), to=TileType(to, (1,))))
    program.store(result, program.partition(tensors[-1], (1,)), i)
    return program.finish()


def evaluate(
    op: Callable[..., Op], to: Element, *operands: tuple[Element, np.ndarray[Any, Any]]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """What an op gives for vectors: as one tile, and element by element as scalars."""
    elements = [element for element, _ in operands]
    arrays = [np.ascontiguousarray(array) for _, array in operands]
    size = arrays[0].size
    results = []
    for kernel, grid in (
        (apply(op, elements, to, (size,)), 1),
        (apply_to_scalars(op, elements, to), size),
    ):
        out = np.zeros(size, storage_dtype(to))
        run(kernel, (grid, 1, 1), *arrays, out)
        results.append(out)
    return results[0], results[1]


# --- whole kernels ---------------------------------------------------------------------------


def vector_add(tile: int = 1024) -> CpuKernel:
    program = Program("add")
    z, x, y = (program.tensor(Element.F32, 1) for _ in range(3))
    i, _, _ = program.block_id()
    tiles = [program.load(program.partition(t, (tile,)), i) for t in (x, y)]
    program.store(program.add(AddF(lhs=tiles[0], rhs=tiles[1])), program.partition(z, (tile,)), i)
    return program.finish()


def softmax(columns: int = 1024) -> CpuKernel:
    program = Program("softmax")
    z, x = (program.tensor(Element.F32, 2) for _ in range(2))
    i, _, _ = program.block_id()
    shape, zero = (1, columns), program.b.index(0)
    row = program.load(program.partition(x, shape, Padding.NEG_INF), i, zero)
    top = fold(program, row, 1, MaxF, FloatIdentity(Element.F32, float("-inf")))
    shifted = program.add(SubF(lhs=row, rhs=program.spread(top, shape, (1, 1))))
    weights = program.add(Exp(source=shifted))
    total = fold(program, weights, 1, AddF, FloatIdentity(Element.F32, 0.0))
    result = program.add(DivF(lhs=weights, rhs=program.spread(total, shape, (1, 1))))
    program.store(result, program.partition(z, shape), i, zero)
    return program.finish()


def gemm(
    element: Element = Element.F32,
    tile: tuple[int, int, int] = (128, 128, 64),
    out: Element = Element.F32,
) -> CpuKernel:
    """One output tile a block, blocks laid out linearly."""
    bm, bn, bk = tile
    program = Program("gemm")
    z, x, y = program.tensor(out, 2), program.tensor(element, 2), program.tensor(element, 2)
    columns, steps = program.param(Element.I32), program.param(Element.I32)
    block, _, _ = program.block_id()
    i = program.add(DivI(lhs=block, rhs=columns, rounding=Rounding.NEGATIVE_INF))
    j = program.add(RemI(lhs=block, rhs=columns))
    xs, ys = program.partition(x, (bm, bk)), program.partition(y, (bk, bn))
    zeros = program.b.constant(0.0, out, (bm, bn))
    k, acc = Value(I32), Value(zeros.type)
    body = Block((k, acc))
    with program.b.inside(body):
        product = program.add(MmaF(lhs=program.load(xs, i, k), rhs=program.load(ys, k, j), acc=acc))
        program.b.add(Continue(values=(product,)))
    total = program.add(
        For(
            lower_bound=program.b.index(0),
            upper_bound=steps,
            step=program.b.index(1),
            init_values=(zeros,),
            body=body,
        )
    )
    program.store(total, program.partition(z, (bm, bn)), i, j)
    return program.finish()
