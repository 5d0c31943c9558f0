"""Appends ops to blocks. The front end and the passes build through this; it holds no state."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TypeVar

from tilewright.dtypes import DType, Element
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import TileType, scalar
from tilewright.source import Location

__all__ = ["Builder"]

_Op = TypeVar("_Op", bound=Op)


class _Inside(AbstractContextManager[Block]):
    """Redirects a builder to a block. A class costs less than a generator on this hot path."""

    __slots__ = ("_block", "_builder", "_outer")

    def __init__(self, builder: Builder, block: Block) -> None:
        self._builder, self._block = builder, block
        self._outer = builder.block

    def __enter__(self) -> Block:
        self._outer, self._builder.block = self._builder.block, self._block
        return self._block

    def __exit__(self, *_raised: object) -> None:
        self._builder.block = self._outer


class Builder:
    """Insertion point of the next op, and the source location it gets."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.loc: Location | None = None

    def add(self, op: _Op) -> _Op:
        """Append a newly built op and return it."""
        if op.loc is None:
            op.loc = self.loc
        self.block.ops.append(op)
        return op

    def inside(self, block: Block) -> AbstractContextManager[Block]:
        """Append to another block inside a `with` statement."""
        return _Inside(self, block)

    def constant(
        self,
        value: float,
        element: Element,
        shape: tuple[int, ...] = (),
        dtype: type[DType] | None = None,
    ) -> Value:
        """Return a tile with one number in every element."""
        return self.add(Constant(value=value, to=TileType(element, shape), dtype=dtype)).result

    def index(self, value: int) -> Value:
        """Return an i32 scalar, the type of indices."""
        return self.add(Constant(value=value, to=scalar(Element.I32))).result
