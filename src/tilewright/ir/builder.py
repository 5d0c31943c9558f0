"""Appends ops to blocks. The front end and the passes build through this; it holds no facts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from tilewright.dtypes import DType, Element
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import TileType, scalar
from tilewright.source import Location

__all__ = ["Builder"]

_Op = TypeVar("_Op", bound=Op)


class Builder:
    """Where the next op goes, and the source location it gets."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.loc: Location | None = None

    def add(self, op: _Op) -> _Op:
        """Append an op that was just built and give it back."""
        if op.loc is None:
            op.loc = self.loc
        self.block.ops.append(op)
        return op

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Append to another block for a while."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    def constant(
        self,
        value: float,
        element: Element,
        shape: tuple[int, ...] = (),
        dtype: type[DType] | None = None,
    ) -> Value:
        """A tile with one number in every element."""
        return self.add(Constant(value=value, to=TileType(element, shape), dtype=dtype)).result

    def index(self, value: int) -> Value:
        """An i32 scalar, the type of indices."""
        return self.add(Constant(value=value, to=scalar(Element.I32))).result
