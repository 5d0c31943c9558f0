"""Coverage analysis: outputs that a launch overwrites completely, so old contents are dead.

A `Mut` is covered if its whole piece is stored at the top level of the kernel, a `Mapped` if its
tile is stored at the top level of a walk over the whole output. The output is not covered if the
kernel reads it, or if control flow may bypass the store (`return`, `break`, `continue`). The
analysis is conservative: every other output counts as partially written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tilewright.analysis.control_flow import leaves_early
from tilewright.frontend.signature.signature import MutParam, Signature
from tilewright.frontend.signature.specialization import Specialization
from tilewright.ir.function import Function
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.control import Break, Continue, If, Return
from tilewright.ir.ops.elementwise import AddI
from tilewright.ir.ops.internal import PartIndex, Walk
from tilewright.ir.ops.memory import LoadView, StoreView
from tilewright.ir.rewrite import definitions, nested_ops
from tilewright.ir.types import PartitionViewType
from tilewright.passes.memory_roots import MemoryRoots

__all__ = ["whole_outputs"]


def whole_outputs(
    function: Function, signature: Signature, specialization: Specialization
) -> frozenset[str]:
    """The outputs whose every element a launch writes, and none of which it reads."""
    defined = definitions(function)
    roots = MemoryRoots(defined)
    pairs = tuple(zip(signature.tensors, specialization.tensors, strict=True))
    tiles = {param.name: spec.tile for param, spec in pairs if spec.tile}
    read = {name for op in function.walk() if isinstance(op, LoadView) for name in roots.of(op)}
    exact = {p.name for p, spec in pairs if isinstance(p, MutParam) and not spec.is_prefix}

    def is_moved(index: Value) -> bool:
        return index in defined and isinstance(defined[index].op, AddI | PartIndex)

    always = tuple(_until_left(function.body.ops))
    written = _stored(always, roots, tiles, is_moved) & exact
    for op in always:
        if isinstance(op, Walk) and not op.ranged and not leaves_early(op.body):
            written |= _stored(_until_left(op.body.ops), roots, tiles, is_moved) & set(op.outputs)
    return frozenset(written - read)


def _until_left(ops: Iterable[Op]) -> Iterator[Op]:
    """The ops of a block that always execute: those before the first op that may leave it."""
    for op in ops:
        if any(isinstance(inner, Break | Continue | Return) for inner in _ways_out(op)):
            return
        yield op


def _ways_out(op: Op) -> Iterator[Op]:
    """The ops nested in a branch or a loop that may leave the enclosing block."""
    for inner in nested_ops(op):
        if isinstance(op, If) or isinstance(inner, Return):
            yield inner


def _stored(
    ops: Iterable[Op],
    roots: MemoryRoots,
    tiles: dict[str, tuple[int | None, ...]],
    is_moved: Callable[[Value], bool],
) -> set[str]:
    """The outputs stored at the block's own index; an index with an addition may be another one."""
    found: set[str] = set()
    for op in ops:
        if isinstance(op, StoreView) and not any(map(is_moved, op.index)):
            assert isinstance(op.view.type, PartitionViewType)
            found |= {name for name in roots.of(op) if tiles.get(name) == op.view.type.tile}
    return found
