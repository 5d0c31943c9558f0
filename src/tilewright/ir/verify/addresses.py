"""Rules of pointer conversions, block-local memory and globals: one row for each op class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilewright.dtypes import Element
from tilewright.ir.function import Function, Global, Module
from tilewright.ir.op import Op
from tilewright.ir.ops.addresses import Alloca, GetGlobal, IntToPtr, PtrToInt, PtrToPtr
from tilewright.ir.types import PtrType, TileType
from tilewright.ir.verify.rules import (
    POINTER,
    POINTERS,
    Rule,
    TileClass,
    bit_width,
    tiles,
)
from tilewright.ir.verify.types import type_problems

__all__ = ["ADDRESS_RULES", "MODULE_RULES", "global_problems", "name_problems"]

_MOST_BYTES = (1 << 47) - 1  # size of a process's address space
_ADDRESSES = TileClass(frozenset({Element.I64}))


def _alignment(op: Alloca) -> Iterator[str]:
    assert isinstance(op.to.element, PtrType)
    natural = max(bit_width(op.to.element.pointee) // 8, 1)
    if op.alignment <= 0 or op.alignment & (op.alignment - 1) or op.alignment < natural:
        yield (
            f"`alignment` must be a power of two, at least {natural} for "
            f"{op.to.element.pointee}, but is {op.alignment}"
        )


def _size(op: Alloca) -> Iterator[str]:
    """The size in bytes fits the address space."""
    assert isinstance(op.to.element, PtrType)
    most = _MOST_BYTES // max(bit_width(op.to.element.pointee) // 8, 1)
    if not 0 <= op.num_elem <= most:
        yield f"`num_elem` must be 0 to {most}, but is {op.num_elem}"


# By op class.
ADDRESS_RULES: dict[type[Op], tuple[Rule, ...]] = {
    IntToPtr: (tiles(_ADDRESSES, "source"), tiles(POINTERS, "result")),
    PtrToInt: (tiles(POINTERS, "source"), tiles(_ADDRESSES, "result")),
    PtrToPtr: (tiles(POINTERS, "source", "result"),),
    Alloca: (tiles(POINTER, "result"), _size, _alignment),
    GetGlobal: (tiles(POINTER, "result"),),
}


def _refers(op: GetGlobal, module: Module) -> Iterator[str]:
    found = next((held for held in module.globals if held.name == op.name), None)
    if found is None:
        yield f"the module has no global {op.name}"
        return
    pointer = op.to.element
    if isinstance(pointer, PtrType) and pointer.pointee != found.type.element:
        yield f"the global {op.name} is {found.type}, but the result points to {pointer.pointee}"


# Rules that relate an op to its module, by op class.
MODULE_RULES: dict[type[Op], Callable[[Any, Module], Iterator[str]]] = {GetGlobal: _refers}


def name_problems(module: Module) -> Iterator[tuple[str, str]]:
    """Functions and globals without a unique name; each with its problem."""
    seen: set[str] = set()
    parts: tuple[Global | Function, ...] = (*module.globals, *module.functions)
    for part in parts:
        if not part.name:
            yield "the module", "a global and a function must have a name"
        elif part.name in seen:
            yield part.name, "there are two of that name"
        seen.add(part.name)


def global_problems(held: Global) -> Iterator[str]:
    """Problems of a global itself."""
    yield from type_problems(held.type)
    if not isinstance(held.type, TileType) or held.type.rank != 1:
        yield f"a global must have one axis, but is {held.type}"
    elif isinstance(held.type.element, PtrType):
        yield "a global cannot hold pointers"
    elif np.shape(held.value) not in ((), held.type.shape):
        yield f"a value of shape {np.shape(held.value)} does not fill {held.type}"
    if held.alignment < 0 or held.alignment & (held.alignment - 1):
        yield f"`alignment` must be 0 or a power of two, but is {held.alignment}"
