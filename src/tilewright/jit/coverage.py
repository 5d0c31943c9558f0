"""Which outputs a kernel overwrites completely, so that their old contents do not matter.

A `Mut` is when its whole piece is stored at the top level of the kernel, a `Mapped` when its tile
is at the top level of its walk; a read of the output undoes it. Anything else counts as partial.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.frontend.signature import Signature
from tilewright.frontend.specialization import Specialization
from tilewright.ir.function import Function
from tilewright.ir.op import Op
from tilewright.ir.ops.internal import Walk
from tilewright.ir.ops.memory import LoadView, StoreView
from tilewright.ir.rewrite import definitions
from tilewright.ir.types import PartitionViewType
from tilewright.passes.memory_roots import MemoryRoots

__all__ = ["whole_outputs"]


def whole_outputs(
    function: Function, signature: Signature, specialization: Specialization
) -> frozenset[str]:
    """The outputs whose every element a launch writes before anybody could read it."""
    roots = MemoryRoots(definitions(function))
    tiles = {
        param.name: spec.tile
        for param, spec in zip(signature.tensors, specialization.tensors, strict=True)
        if spec.tile
    }
    read = {name for op in function.walk() if isinstance(op, LoadView) for name in roots.of(op)}
    exact = {param.name for param in signature.exact_outputs}
    written = _stored(function.body.ops, roots, tiles) & exact
    for op in function.body.ops:
        if isinstance(op, Walk):
            written |= _stored(op.body.ops, roots, tiles) & {op.output}
    return frozenset(written - read)


def _stored(ops: Iterable[Op], roots: MemoryRoots, tiles: dict[str, tuple[int, ...]]) -> set[str]:
    found: set[str] = set()
    for op in ops:
        if isinstance(op, StoreView):
            assert isinstance(op.view.type, PartitionViewType)
            found |= {name for name in roots.of(op) if tiles.get(name) == op.view.type.tile}
    return found
